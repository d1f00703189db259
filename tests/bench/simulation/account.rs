//! A provider's account as its server keeps it, and what the broker knows of it.

use agent_fleet::choose::candidate::{Asked, Eligibility, Facts, Identity, eligibility};
use agent_fleet::choose::rank::Candidate;
use agent_fleet::id::ProviderKind;
use agent_fleet::identity::fingerprint::{Account as Person, Key};
use agent_fleet::quota::headroom::{Question, Status, Worth, worth};
use agent_fleet::quota::limit::{Limit, Reset};
use agent_fleet::quota::window::{Kind, Reading, Window};
use agent_fleet::registry::schema::{Credential, Profile, SafetyPolicy, Settings};
use agent_fleet::snapshot::limit::met;
use agent_fleet::snapshot::profile::{Binding, ProfileState, Proof};
use jiff::{SignedDuration, Timestamp};

use crate::demand::{HOUR, Random, WEEK};

/// Length of the short window.
const SESSION: u32 = 5 * HOUR;
/// Short windows that make a week's allowance.
const SESSIONS_IN_A_WEEK: u32 = 8;

/// A subscription: how much work its short window allows, in worker-minutes, and its slots.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Plan {
    /// An hour and a quarter of one worker.
    Small,
    /// Five times that.
    Medium,
    /// Twenty times that.
    Large,
}

impl Plan {
    fn session(self) -> u32 {
        match self {
            Self::Small => 75,
            Self::Medium => 375,
            Self::Large => 1500,
        }
    }

    /// What a week allows, in worker-minutes.
    pub(crate) fn week(self) -> u32 {
        self.session() * SESSIONS_IN_A_WEEK
    }

    fn slots(self) -> u32 {
        match self {
            Self::Small => 1,
            Self::Medium => 2,
            Self::Large => 6,
        }
    }
}

/// The moment of a minute.
pub(crate) fn moment(minute: u32) -> Timestamp {
    let start: Timestamp = "2030-01-07T00:00:00Z".parse().expect("a Monday");
    start + SignedDuration::from_mins(i64::from(minute))
}

/// One account.
#[derive(Debug)]
pub(crate) struct Account {
    plan: Plan,
    profile: Profile,
    state: ProfileState,
    /// Use of the short window and its end; it begins with the first use after the last one.
    session: Option<(u32, u32)>,
    /// Use of the week and its end.
    week: (u32, u32),
    /// Workers on it.
    pub(crate) live: u32,
    /// Number of its last pick.
    pub(crate) last_pick: u64,
    /// Shares of a week that expired unused.
    pub(crate) expired: Vec<f64>,
}

impl Account {
    pub(crate) fn new(place: usize, plan: Plan, reserve: f64, random: &mut Random) -> Self {
        let id = format!("account-{}", place + 1);
        let person = Person {
            account: Some(id.clone()),
            ..Person::default()
        };
        let mut state = ProfileState::named(&id);
        state.proof = Some(Proof {
            fingerprint: Key::new([7; 32]).fingerprint(ProviderKind::Claude, &person),
            source: "simulation".to_owned(),
            at: moment(0),
            binding: Binding::NoCredential,
            file: None,
            digested_at: 0,
        });
        Self {
            plan,
            profile: Profile {
                id: id.parse().expect("an id"),
                provider: ProviderKind::Claude,
                home: format!("/homes/{id}").into(),
                pools: vec!["crew".parse().expect("an id")],
                enabled: true,
                credential: Credential::Home,
                max_concurrent: plan.slots(),
                reserve_percent: reserve,
                weight: 1,
                safety_policy: SafetyPolicy::Worker,
                allow_overage: false,
            },
            state,
            session: None,
            week: (0, 1 + random.below(WEEK)),
            live: 0,
            last_pick: 0,
            expired: Vec::new(),
        }
    }

    /// The week's ends up to the horizon, with what it allows.
    pub(crate) fn weeks(&self, horizon: u32) -> impl Iterator<Item = (u32, f64)> {
        let allows = f64::from(self.plan.week());
        let step = usize::try_from(WEEK).expect("a week fits");
        (self.week.1..horizon + WEEK)
            .step_by(step)
            .map(move |end| (end, allows))
    }

    /// Lets time come to a minute: windows whose end has come are full again.
    pub(crate) fn tick(&mut self, minute: u32) {
        if self.session.is_some_and(|(_, end)| end <= minute) {
            self.session = None;
        }
        if self.week.1 <= minute {
            self.expired
                .push(1.0 - f64::from(self.week.0) / f64::from(self.plan.week()));
            self.week = (0, self.week.1 + WEEK);
        }
    }

    /// One minute of one worker. Returns when it can go on, if that was the last that a window allowed.
    pub(crate) fn work(&mut self, minute: u32) -> Option<u32> {
        let (used, end) = self.session.get_or_insert((0, minute + SESSION));
        *used += 1;
        self.week.0 += 1;
        let session = (*used >= self.plan.session()).then_some(*end);
        let week = (self.week.0 >= self.plan.week()).then_some(self.week.1);
        session.max(week)
    }

    /// A worker met the wall.
    pub(crate) fn wall(&mut self, minute: u32, resets_at: u32) {
        let now = moment(minute);
        let reset = Some(Reset {
            at: moment(resets_at),
            guessed: false,
        });
        met(&mut self.state, Limit::Quota, now, reset, now);
    }

    fn worth(&self, settings: &Settings, now: Timestamp) -> Worth {
        let question = Question {
            model: None,
            fresh_seconds: settings.quota_fresh_seconds,
            last_used: self.state.last_used,
            readable: true,
            now,
        };
        worth(&self.state, &question)
    }

    /// Asks the server, as a choice does for each reading that has aged.
    fn measure(&mut self, now: Timestamp) {
        let window = |id: &str, kind, used: u32, allows: u32, end: Option<u32>| Window {
            id: id.to_owned(),
            kind,
            scope: None,
            remaining_percent: (100.0 * (1.0 - f64::from(used) / f64::from(allows))).max(0.0),
            resets_at: end.map(moment),
        };
        let (used, end) = self
            .session
            .map_or((0, None), |(used, end)| (used, Some(end)));
        let (week, week_end) = self.week;
        let proof = self.state.proof.as_ref().expect("every account is proved");
        self.state.reading = Some(Reading {
            at: now,
            fingerprint: proof.fingerprint.whole.clone(),
            source: "simulation".to_owned(),
            windows: vec![
                window("five_hour", Kind::Session, used, self.plan.session(), end),
                window(
                    "seven_day",
                    Kind::Weekly,
                    week,
                    self.plan.week(),
                    Some(week_end),
                ),
            ],
            overage_enabled: None,
            spend: None,
        });
    }

    /// The candidate that the account makes now, if it is one.
    pub(crate) fn candidate(
        &mut self,
        order: usize,
        asked: &Asked,
        settings: &Settings,
        minute: u32,
    ) -> Option<Candidate> {
        let now = moment(minute);
        if self.worth(settings, now).status != Status::Fresh {
            self.measure(now);
        }
        let worth = self.worth(settings, now);
        let facts = Facts {
            profile: &self.profile,
            state: &self.state,
            identity: Identity::Proven,
            worth: &worth,
            trusted: true,
            rejected: None,
        };
        match eligibility(&facts, asked, settings, now) {
            Eligibility::Eligible { headroom, basis } => Some(Candidate {
                profile: self.profile.id.clone(),
                provider: self.profile.provider,
                slots: self.profile.max_concurrent,
                headroom,
                basis,
                weight: self.profile.weight,
                windows: worth.windows,
                live: self.live,
                ends_soon: false,
                last_pick: self.last_pick,
                order,
            }),
            Eligibility::Refused { .. } => None,
        }
    }
}
