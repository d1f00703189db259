//! Every reason word that an answer may carry: its meaning, what ends it, and the command that does.
//!
//! A word is part of the contract: new ones may be added, none is renamed. `docs/reasons.md` and the answer of
//! `agent-fleet reasons` are made from [`ALL`], and `tests/reasons.rs` walks the source for words that are not in
//! it. Words that decisions compare are constants; the same word may stand in several groups.

/// Where a word stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// `decision_reason` of a selection.
    Decision,
    /// `reason` of a profile that could take the task.
    Eligible,
    /// `reason` of a profile that could not.
    Refused,
    /// `degraded_reason` of a selection, `reason` and `reported_status` of a quota row: why a reading is not fresh.
    Reading,
    /// `reason` of a cooldown, a billing block or a quarantine.
    Limit,
    /// In a refusal's sentence and in quota rows: why the account is not proved.
    Proof,
    /// In a refusal's sentence: why an anchor cannot be told from a worker's account.
    Anchor,
    /// `auth_status` of a profile: what the credential file alone says.
    Login,
    /// `verdict` of a lease.
    Verdict,
    /// `reason` of a run, a step or a worker of the fleet; the code of a refusal may stand there too.
    Fleet,
}

impl Group {
    /// Every group, in the order of the page.
    pub const EVERY: [Self; 10] = [
        Self::Decision,
        Self::Eligible,
        Self::Refused,
        Self::Reading,
        Self::Limit,
        Self::Proof,
        Self::Anchor,
        Self::Login,
        Self::Verdict,
        Self::Fleet,
    ];

    /// The group as it is written in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Decision => "decision",
            Self::Eligible => "eligible",
            Self::Refused => "refused",
            Self::Reading => "reading",
            Self::Limit => "limit",
            Self::Proof => "proof",
            Self::Anchor => "anchor",
            Self::Login => "login",
            Self::Verdict => "verdict",
            Self::Fleet => "fleet",
        }
    }
}

/// What ends a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ends {
    /// Nothing has to: it is in nobody's way.
    Fine,
    /// Time alone, or the next command by the way.
    Time,
    /// A person, with the command that is named.
    Person,
}

impl Ends {
    /// The class as it is written in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Time => "time",
            Self::Person => "person",
        }
    }
}

/// One word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    /// Where it stands.
    pub group: Group,
    /// The word.
    pub word: &'static str,
    /// What ends it.
    pub ends: Ends,
    /// What it means, as one sentence without a period.
    pub meaning: &'static str,
    /// The command to type, with `ID` for the profile; empty where there is nothing to type.
    pub cure: &'static str,
}

/// A young reading.
pub const FRESH: &str = "fresh";
/// A reading that could not be renewed and cannot have become worse.
pub const PRESUMED: &str = "presumed";
/// No reading at all.
pub const UNMEASURED: &str = "unmeasured";
/// The subscription is used up, and the account and its profile say that more is paid for.
pub const OVERAGE: &str = "overage";
/// A worker's usage beyond the subscription was paid for, which its profile does not allow.
pub const OVERAGE_USED: &str = "overage_used";
/// A reading that the next choice renews.
pub const STALE: &str = "stale";
/// Nobody ever measured the account.
pub const NEVER_MEASURED: &str = "never_measured";
/// Older than `quota_fresh_seconds`.
pub const AGED: &str = "aged";
/// A window has reset since.
pub const RESET: &str = "reset";
/// Nothing reads this provider's quota.
pub const NO_READER: &str = "no_reader";
/// The access token ran out.
pub const TOKEN_EXPIRED: &str = "token_expired";
/// Asked a moment ago.
pub const RECENTLY_MEASURED: &str = "recently_measured";

/// Declares the words of one group after another.
macro_rules! reasons {
    ($($group:ident { $($word:tt $ends:ident $meaning:literal $cure:literal;)* })*) => {
        /// Every word, group by group.
        pub const ALL: &[Reason] = &[$($(Reason {
            group: Group::$group, word: $word, ends: Ends::$ends, meaning: $meaning, cure: $cure,
        }),*),*];
    };
}

reasons! {
    Decision {
        "quota" Fine "it ranked first" "";
        "sticky" Fine "the task had this lease already" "";
        "sticky-resume" Fine "it is the task's recorded profile, where its conversation is" "";
        "explicit" Fine "the caller named it" "";
    }
    Eligible {
        FRESH Fine "its reading is young" "";
        STALE Time "its reading has aged; the next choice renews it by the way" "agent-fleet quota refresh ID";
        PRESUMED Time "its reading could not be renewed and cannot have become worse; it ranks after every fresh one" "agent-fleet quota refresh ID";
        OVERAGE Fine "it is at its reserve, or has an API key, and more is paid for: the account has overage on and the profile allows it; it ranks last" "";
        UNMEASURED Person "it has no reading and `settings.unmeasured` lets it be chosen last" "agent-fleet quota refresh ID";
    }
    Refused {
        "profile_disabled" Person "it is disabled" "agent-fleet profile enable ID";
        "policy" Person "its safety policy keeps workers away" "agent-fleet profile policy ID --safety-policy worker";
        "workspace_untrusted" Person "the workspace is not a registered project of its provider" "agent-fleet project register PATH";
        "not_provisioned" Person "its home is not set up for workers" "agent-fleet profile provision ID";
        "record_damaged" Person "its record cannot be read and is left alone" "agent-fleet profile status ID";
        "newer_format" Person "its record was written by a newer agent-fleet" "agent-fleet version";
        "identity_changed" Person "its home holds another account than before" "agent-fleet profile verify ID";
        "identity_unproven" Person "the server has not named the account for the login that is there now" "agent-fleet profile verify ID";
        "duplicate_provider_identity" Person "another profile holds the same account" "agent-fleet profile enroll ID";
        "base_identity" Person "the base CLI login holds the same account" "agent-fleet profile enroll ID";
        "base_identity_unverified" Person "it cannot be told from the base CLI login" "agent-fleet profile verify ID";
        "desktop_identity" Person "the Desktop app holds the same account" "agent-fleet profile enroll ID";
        "desktop_identity_unverified" Person "it cannot be told from the Desktop login" "agent-fleet config set providers.claude.desktop_identity_file false";
        "auth_broken" Person "the server no longer takes its login" "agent-fleet profile enroll ID";
        "login_expired" Person "its login is past its life" "agent-fleet profile enroll ID";
        "auth_override" Person "settings would replace its login" "agent-fleet profile status ID";
        "exposed" Person "others could change its home, or a link stands for it" "agent-fleet profile status ID";
        "money_guard" Person "it would spend money outside its subscription, or did so already, or its provider turned a worker away over billing" "agent-fleet profile cooldown-clear ID";
        "draining" Person "somebody drained it" "agent-fleet profile undrain ID";
        "cooldown" Time "a worker met a limit of its account, or somebody let it rest" "agent-fleet profile cooldown-clear ID";
        "capacity" Time "every slot is taken" "agent-fleet lease list";
        "quota_reserve" Time "a window that gates has no more left than the reserve" "agent-fleet quota show ID";
        "quota_unavailable" Time "there is no reading to route by, and none could be had now" "agent-fleet quota refresh ID";
        "all_exhausted" Time "no profile can take the task, each for its own reason" "agent-fleet pool status --pool POOL";
        "provider_missing" Person "the provider's binary is not usable" "agent-fleet config get providers.claude.binary";
        "io" Person "one of its files could not be read" "agent-fleet profile status ID";
        "read_only" Person "one of its files may not be read or written" "agent-fleet profile status ID";
    }
    Reading {
        FRESH Fine "the last question was answered" "";
        STALE Time "it is too old to route by" "agent-fleet quota refresh ID";
        PRESUMED Time "it could not be renewed and cannot have become worse" "agent-fleet quota refresh ID";
        UNMEASURED Time "there is none for this account" "agent-fleet quota refresh ID";
        OVERAGE Fine "the subscription is used up, and what is used now is paid for" "";
        NEVER_MEASURED Time "nobody has measured the account yet" "agent-fleet quota refresh ID";
        AGED Time "it is older than `settings.quota_fresh_seconds`" "agent-fleet quota refresh ID";
        RESET Time "a window has reset since; it counts as full until it is measured once" "agent-fleet quota refresh ID";
        RECENTLY_MEASURED Time "the account was asked a moment ago and may not be asked again yet" "agent-fleet quota show ID";
        NO_READER Person "nothing reads the quota of this provider" "agent-fleet config set providers.PROVIDER.quota_reader builtin";
        TOKEN_EXPIRED Time "the access token ran out while nobody worked; the next worker's CLI renews it" "agent-fleet profile verify ID";
        "throttled" Time "the server asked for a pause" "agent-fleet quota show ID";
        "unavailable" Time "the server could not be reached" "agent-fleet quota refresh ID";
        "unauthorized" Person "the server does not take the login" "agent-fleet profile enroll ID";
        "unmeasurable" Person "the login may not ask for its quota; it is tried again once a day" "agent-fleet config set settings.unmeasured allow";
        "forbidden" Person "the login may not ask whose it is" "agent-fleet profile verify ID";
        "unknown_shape" Person "the answer could not be understood: it may need a newer agent-fleet" "agent-fleet version";
        "hint_disagrees" Person "a file in the home names another account than the server" "agent-fleet profile verify ID";
    }
    Limit {
        "quota" Time "a window is used up; it ends at the reset that the provider stated" "agent-fleet profile cooldown-clear ID";
        "rate" Time "too many requests in a short time" "agent-fleet profile cooldown-clear ID";
        "limit_suspected" Time "a worker ended as if by a limit that nobody can name" "agent-fleet profile cooldown-clear ID";
        "manual" Time "somebody let it rest" "agent-fleet profile cooldown-clear ID";
        "billing" Person "the provider turned a worker away over billing: time does not mend that" "agent-fleet profile cooldown-clear ID";
        OVERAGE_USED Person "a worker's usage beyond the subscription was being paid for, which the profile does not allow" "agent-fleet profile cooldown-clear ID";
        "auth" Person "a worker's login was refused" "agent-fleet profile enroll ID";
        "identity_changed" Person "its home held another account than before" "agent-fleet profile verify ID";
    }
    Proof {
        "proven" Fine "the server named the account of this very login" "";
        "unproven" Time "the login changed; the next choice that wants it asks the server" "agent-fleet profile verify ID";
        "no_login" Person "its home holds no login" "agent-fleet profile enroll ID";
        "logged_out" Person "the provider's CLI emptied the login after it was refused" "agent-fleet profile enroll ID";
        "credential_link" Person "the credential file is a link, so another home may share the login" "agent-fleet profile status ID";
        "credential_unreadable" Person "the credential file cannot be read" "agent-fleet profile status ID";
        "credential_unparsable" Person "the credential file is not in the provider's format" "agent-fleet profile status ID";
        TOKEN_EXPIRED Person "the access token ran out before the server was asked whose login it is" "agent-fleet profile verify ID";
        "api_key" Person "the home holds an API key, which is paid per token" "agent-fleet profile enroll ID";
        "not_enrolled" Person "no long-lived token or API key was enrolled, or not the one that is there" "agent-fleet profile enroll ID";
        "identity_changed" Person "its home holds another account than before" "agent-fleet profile verify ID";
    }
    Anchor {
        "no_login" Person "the anchor is configured, but holds no login" "agent-fleet config set providers.PROVIDER.base_home false";
        "credential_link" Person "its credential file is a link" "agent-fleet config get providers.PROVIDER.base_home";
        "credential_unreadable" Person "its credential file cannot be read" "agent-fleet config get providers.PROVIDER.base_home";
        "credential_unparsable" Person "its credential file is not in the provider's format" "agent-fleet config get providers.PROVIDER.base_home";
        "unproven" Time "nobody has asked the server yet whose login it is" "agent-fleet profile verify ID";
        TOKEN_EXPIRED Person "its access token ran out before it was asked" "agent-fleet profile verify ID";
        "missing" Person "the Desktop file that is configured is not there" "agent-fleet config set providers.claude.desktop_identity_file false";
        "unreadable" Person "the Desktop file cannot be read" "agent-fleet config get providers.claude.desktop_identity_file";
        "no_account" Person "the Desktop file names no account" "agent-fleet config get providers.claude.desktop_identity_file";
    }
    Login {
        "logged_in" Fine "there is a login whose access token has not run out" "";
        "refreshable" Fine "the access token ran out; the next worker's CLI renews it" "";
        "logged_out" Person "there is no login, or the provider's CLI emptied it" "agent-fleet profile enroll ID";
        "expired" Person "the login itself is over, not only its access token" "agent-fleet profile enroll ID";
        "api_key" Person "there is an API key, which is paid per token" "agent-fleet profile enroll ID";
        "unknown" Person "the credential file could not be read" "agent-fleet profile verify ID";
    }
    Verdict {
        "reserved" Time "no process took it yet; it ends by itself" "agent-fleet lease list";
        "alive" Fine "its process lives" "";
        "dead" Time "its process is gone; the next command that needs the slot takes it back" "agent-fleet lease list";
        "orphaned" Person "its process is gone but left its main process behind, which keeps the slot" "agent-fleet lease release --task TASK --force";
        "unknown" Person "it cannot be told whether its process lives, so it keeps the slot" "agent-fleet lease release --task TASK --force";
    }
    Fleet {
        "acceptance" Time "the program checks what the step was to bring" "agent-fleet fleet status";
        "acceptance_failed" Person "what the step was to bring is not there, and its attempts are used up" "agent-fleet fleet logs WORKER";
        "billing" Person "the account wants to be paid for before it goes on" "agent-fleet status";
        "changes_requested" Person "its reviewer wants something changed, and its attempts are used up" "agent-fleet fleet logs WORKER";
        "denied" Person "it came to its end without what a tool would have done that it may not use" "agent-fleet fleet logs WORKER";
        "exit_status" Time "its process ended with another status than 0 after all was said" "agent-fleet fleet logs WORKER";
        "given_back" Fine "a person took its conversation over and gave it back" "";
        "interrupted" Fine "it was interrupted, and its next turn follows" "";
        "killed" Time "a signal that nobody here sent ended its process" "agent-fleet fleet logs WORKER";
        "limit" Time "a usage limit ended its turn; it goes on on another account, or at the reset" "agent-fleet fleet status";
        "login_lost" Person "the server no longer takes the account's login" "agent-fleet doctor";
        "never_started" Time "nothing of its launch ever ran; it is launched again" "agent-fleet fleet status";
        "no_answer" Time "its turn ended with neither report nor answer" "agent-fleet fleet logs WORKER";
        "not_confirmed" Person "it was asked to end and nobody saw it end, so it keeps its place" "agent-fleet fleet stop WORKER --force";
        "not_seen" Person "it cannot be told whether its process lives, so it keeps its place" "agent-fleet fleet recover WORKER --evidence FILE";
        "permission_asked" Person "its CLI asks on its screen whether a tool may work, and goes on when somebody answers there" "agent-fleet fleet attach WORKER --type";
        "question_open" Person "nothing can go on before a person or a lead has answered" "agent-fleet fleet status";
        "recovered" Person "somebody attested that its process is gone" "agent-fleet fleet launch STEP";
        "reported_blocked" Person "its report asks for a decision" "agent-fleet fleet logs WORKER";
        "request_failed" Time "a request of its turn failed for good" "agent-fleet fleet logs WORKER";
        "review" Time "a worker of another model family judges the change" "agent-fleet fleet status";
        "reviewed" Person "its reviewer approves; it waits for the lead" "agent-fleet fleet verify STEP --evidence FILE";
        "session_lost" Time "the conversation that was to go on is not there any more" "agent-fleet fleet logs WORKER";
        "start_blocked" Person "its CLI has not begun: it may ask on its screen about trust, a login or an update" "agent-fleet fleet attach WORKER --type";
        "step_failed" Person "a step failed, and nothing else can go on" "agent-fleet fleet status";
        "stopped" Person "somebody stopped it" "agent-fleet fleet send WORKER TEXT";
        "stopping" Time "it is being stopped as a whole, and a worker may still run" "agent-fleet fleet stop --all";
        "tree_changed" Person "somebody committed or staged during the run" "agent-fleet fleet check";
        "turn_unfinished" Time "its output stops before the end of its turn" "agent-fleet fleet logs WORKER";
        "typed_at" Person "a person is at the keys of its screen, and its turn is not over before they are left" "agent-fleet fleet attach WORKER";
        "verdict_unclear" Person "its reviewer said neither `approve` nor `changes-requested`" "agent-fleet fleet logs WORKER";
        "work_not_read" Person "what it changed cannot be read, as when its worktree is gone" "agent-fleet fleet diff STEP";
    }
}

/// The rows of a word, in every group that has it.
pub fn of(word: &str) -> impl Iterator<Item = &'static Reason> + '_ {
    ALL.iter().filter(move |reason| reason.word == word)
}

#[cfg(test)]
mod tests {
    use super::{ALL, Ends, Group};
    use std::collections::BTreeSet;

    #[test]
    fn a_word_stands_once_in_its_group_and_the_groups_in_their_order() {
        let seen: BTreeSet<_> = ALL.iter().map(|one| (one.group, one.word)).collect();
        assert_eq!(seen.len(), ALL.len(), "a word stands twice in one group");
        assert!(ALL.is_sorted_by_key(|one| one.group));
        assert_eq!(
            Group::EVERY.len(),
            ALL.chunk_by(|a, b| a.group == b.group).count()
        );
    }

    #[test]
    fn what_a_person_must_end_names_the_command() {
        for reason in ALL {
            let typed = reason.cure.starts_with("agent-fleet ");
            match reason.ends {
                Ends::Fine => assert!(reason.cure.is_empty(), "{}", reason.word),
                Ends::Time | Ends::Person => assert!(typed, "{}", reason.word),
            }
            assert!(!reason.meaning.ends_with('.'), "{}", reason.word);
        }
    }
}
