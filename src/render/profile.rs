//! Profiles on a page.

use jiff::{SignedDuration, Timestamp};

use super::page::{Page, Role, nothing, paint};
use super::{Human, quota, words};
use crate::contract::profile::{
    AuthOverride, Note, Overage, Profile, ProfileList, ProfileStatus, ProfileStatusList,
    Provisioned, ProvisionedList, Removed,
};
use crate::id::PoolId;
use crate::registry::schema::SafetyPolicy;

/// What to type where there is no profile yet.
const FIRST_PROFILE: &str = "agent-fleet profile add claude-1 --provider claude";

impl Human for Provisioned {
    fn page(&self, _: Timestamp) -> Page {
        let page = provisioned_page(Page::new(), self);
        match &self.hint {
            Some(hint) => page.next(hint),
            None => page,
        }
    }
}

impl Human for ProvisionedList {
    fn page(&self, _: Timestamp) -> Page {
        if self.profiles.is_empty() {
            return Page::new().line("no profiles yet").next(FIRST_PROFILE);
        }
        let enrolls = |hint: &&String| hint.starts_with("agent-fleet profile enroll ");
        let missing: Vec<&String> = self
            .profiles
            .iter()
            .filter_map(|profile| profile.hint.as_ref())
            .filter(enrolls)
            .collect();
        let next = match missing[..] {
            [] => "agent-fleet profile status",
            [only] => only,
            _ => "agent-fleet profile enroll --all-missing",
        };
        self.profiles
            .iter()
            .fold(Page::new(), provisioned_page)
            .next(next)
    }
}

fn provisioned_page(page: Page, provisioned: &Provisioned) -> Page {
    let id = paint(Role::Literal, provisioned.profile.as_str());
    if provisioned.changes.is_empty() {
        return page.line(format!("{id}: nothing had to be changed"));
    }
    provisioned
        .changes
        .iter()
        .fold(page.line(format!("{id}:")), |page, change| {
            page.line(format!("  {}", words::plain(change)))
        })
}

impl Human for ProfileList {
    fn page(&self, _: Timestamp) -> Page {
        let rows = self
            .profiles
            .iter()
            .map(|profile| {
                vec![
                    paint(Role::Literal, profile.id.as_str()),
                    profile.provider.to_string(),
                    state(profile),
                    pools(profile),
                    profile.max_concurrent.to_string(),
                    words::percent(profile.reserve_percent),
                    profile.weight.to_string(),
                    words::plain(profile.home.as_str()),
                ]
            })
            .collect();
        let columns = [
            "profile", "provider", "state", "pools", "slots", "reserve", "weight", "home",
        ];
        let page = Page::new().table(&columns, rows, "no profiles yet");
        if self.profiles.is_empty() {
            page.next(FIRST_PROFILE)
        } else {
            page
        }
    }
}

impl Human for Profile {
    fn page(&self, _: Timestamp) -> Page {
        Page::new().fields(&fields(self))
    }
}

impl Human for Removed {
    fn page(&self, _: Timestamp) -> Page {
        let page = Page::new()
            .line(format!(
                "removed the profile {}",
                paint(Role::Literal, self.profile.as_str())
            ))
            .line(format!(
                "its login was not touched: it is still in {}",
                words::plain(self.home.as_str())
            ));
        self.credentials.iter().fold(page, |page, path| {
            page.line(format!(
                "its token or key was not touched: it is still in {}",
                words::plain(path.as_str())
            ))
        })
    }
}

impl Human for ProfileStatus {
    fn page(&self, now: Timestamp) -> Page {
        let mut lines = fields(&self.profile);
        lines.push(("routing", routing(self, now)));
        lines.push((
            "leases",
            format!(
                "{} of {}",
                self.active_leases,
                words::count(self.profile.max_concurrent, "slot")
            ),
        ));
        lines.push(("login", login(self, now, Ends::Always)));
        lines.push(("provisioned", provisioned(self)));
        if let Some(cooldown) = &self.cooldown {
            lines.push(("cooldown", note(cooldown, now)));
        }
        if let Some(drain) = &self.drain {
            lines.push(("drain", note(drain, now)));
        }
        lines.push(("reading", quota::reading(&self.quota)));
        lines.push(("overage", overage(self.overage)));
        let page = self
            .auth_overrides
            .iter()
            .fold(Page::new().fields(&lines), overridden)
            .gap()
            .below(&quota::windows(&self.quota, now));
        hints(page, std::slice::from_ref(self))
    }
}

impl Human for ProfileStatusList {
    fn page(&self, now: Timestamp) -> Page {
        hints(table(&self.profiles, now), &self.profiles)
    }
}

/// What happens at 100 %.
fn overage(overage: Overage) -> String {
    match (overage.enabled, overage.allowed) {
        (Some(true), true) => paint(
            Role::Warning,
            "on: work beyond the subscription is paid for",
        ),
        (Some(true), false) => paint(
            Role::Warning,
            "on at the provider: no worker starts at 100 %, a running one is billed",
        ),
        (Some(false), _) => "off at the provider".to_owned(),
        (None, true) => "allowed; the provider has not said whether it is on".to_owned(),
        (None, false) => "not allowed".to_owned(),
    }
}

/// One thing that would replace the login.
fn overridden(page: Page, found: &AuthOverride) -> Page {
    let fate = if found.refuses {
        paint(Role::Bad, "refused")
    } else {
        paint(Role::Faint, "kept from workers")
    };
    let source = words::plain(&found.source);
    page.line(format!("{fate}: {source} {}", found.effect))
}

/// What to type for each profile that is enabled and cannot be used, or for any when none is enabled: one
/// that is disabled beside others is so on purpose.
pub(super) fn hints(page: Page, profiles: &[ProfileStatus]) -> Page {
    let none = !profiles.iter().any(|status| status.profile.enabled);
    profiles
        .iter()
        .filter(|status| none || status.profile.enabled)
        .filter_map(|status| status.routeability.hint.as_deref())
        .fold(page, Page::next)
}

/// One row per profile: what choosing would say of it.
pub(super) fn table(profiles: &[ProfileStatus], now: Timestamp) -> Page {
    let rows = profiles
        .iter()
        .map(|status| {
            vec![
                paint(Role::Literal, status.profile.id.as_str()),
                state(&status.profile),
                routing(status, now),
                format!(
                    "{} of {}",
                    status.active_leases, status.profile.max_concurrent
                ),
                status
                    .quota
                    .headroom_percent
                    .map_or_else(nothing, words::gauge),
                login(status, now, Ends::Soon),
                quota::short_reading(&status.quota),
            ]
        })
        .collect();
    let columns = [
        "profile", "state", "routing", "leases", "left", "login", "reading",
    ];
    Page::new().table(&columns, rows, "no profiles")
}

fn fields(profile: &Profile) -> Vec<(&'static str, String)> {
    vec![
        ("profile", paint(Role::Literal, profile.id.as_str())),
        ("provider", profile.provider.to_string()),
        ("state", state(profile)),
        ("pools", pools(profile)),
        ("slots", profile.max_concurrent.to_string()),
        ("reserve", words::percent(profile.reserve_percent)),
        ("weight", profile.weight.to_string()),
        ("credential", profile.credential.word().to_owned()),
        ("home", words::plain(profile.home.as_str())),
    ]
}

fn state(profile: &Profile) -> String {
    let enabled = if profile.enabled {
        paint(Role::Good, "enabled")
    } else {
        paint(Role::Faint, "disabled")
    };
    match profile.safety_policy {
        SafetyPolicy::Worker => enabled,
        SafetyPolicy::ManualOnly | SafetyPolicy::DesktopShared => {
            format!("{enabled}, {}", profile.safety_policy.word())
        }
    }
}

fn pools(profile: &Profile) -> String {
    if profile.pools.is_empty() {
        return nothing();
    }
    let names: Vec<_> = profile.pools.iter().map(PoolId::as_str).collect();
    names.join(", ")
}

fn routing(status: &ProfileStatus, now: Timestamp) -> String {
    let routeability = &status.routeability;
    let mut text = if routeability.eligible {
        format!(
            "{} ({})",
            paint(Role::Good, "eligible"),
            routeability.reason
        )
    } else {
        paint(Role::Bad, &routeability.reason)
    };
    if routeability.eligible && !status.profile.enabled {
        text.push_str(", once it is enabled");
    }
    match routeability.retry_at {
        Some(at) if at > now => format!("{text}, again {}", words::due(now, at)),
        Some(_) | None => text,
    }
}

/// When the end of a login is worth a mention.
#[derive(Clone, Copy)]
enum Ends {
    /// Whenever it is known.
    Always,
    /// When it is near enough to plan for.
    Soon,
}

/// How near that is.
const SOON: SignedDuration = SignedDuration::from_hours(7 * 24);

fn login(status: &ProfileStatus, now: Timestamp, ends: Ends) -> String {
    let role = match status.auth_status.as_str() {
        "logged_in" | "refreshable" | "api_key" => Role::Good,
        "logged_out" | "expired" => Role::Bad,
        _ => Role::Warning,
    };
    let text = paint(role, &status.auth_status.replace('_', " "));
    let told = |at: &Timestamp| match ends {
        Ends::Always => true,
        Ends::Soon => at.duration_since(now) < SOON,
    };
    match status.login_expires_at.filter(told) {
        Some(at) => format!("{text}, ends {}", words::due(now, at)),
        None => text,
    }
}

fn provisioned(status: &ProfileStatus) -> String {
    match (&status.provision_reason, status.provisioned) {
        (_, true) => paint(Role::Good, "yes"),
        (Some(reason), false) => format!("{}: {}", paint(Role::Bad, "no"), words::plain(reason)),
        (None, false) => paint(Role::Bad, "no"),
    }
}

fn note(note: &Note, now: Timestamp) -> String {
    let text = format!(
        "{}, set {}",
        paint(Role::Warning, &words::plain(&note.reason)),
        words::ago(now, note.at)
    );
    match note.until {
        Some(at) if note.guessed => format!("{text}, ends {} at the latest", words::due(now, at)),
        Some(at) => format!("{text}, ends {}", words::due(now, at)),
        None => text,
    }
}
