//! Checks of a profile's login and account. Pure.

use super::finding::{Finding, Rule};
use super::machine::of_error;
use super::profile::{CredentialFile, ProfileFacts};
use super::storage::Entry;
use crate::identity::expiry::{Forecast, forecast};
use crate::provider::{LoginKind, conveyance};
use crate::quota::headroom::age_seconds;
use crate::quota::poll::{NOT_ALLOWED, UNMEASURABLE, is_ahead};
use crate::reason::OVERAGE_USED;
use crate::registry::schema::{Credential, Unmeasured};
use crate::sys::shell;

/// The checks of a login and of the account behind it.
pub(super) const RULES: &[Rule<ProfileFacts>] = &[
    Rule {
        id: "record",
        looks_at: "whether what must survive of the profile (its account, blocks, drain) can be read",
        cure: "what the sentence ends with; the record is never overwritten",
        decide: record,
    },
    Rule {
        id: "credential",
        looks_at: "the credential file: there, this user's alone, and no link or second name that another home may share",
        cure: "`agent-fleet profile enroll ID`; `chmod 600 FILE`; for a link, `ls -li FILE` and a login of its own",
        decide: credential,
    },
    Rule {
        id: "login",
        looks_at: "what the credential file says: a subscription that can be refreshed, not a blank stub or an API key",
        cure: "`agent-fleet profile enroll ID`",
        decide: login,
    },
    Rule {
        id: "login_expiry",
        looks_at: "when the login itself ends, about a month after it was made; a refresh does not extend it",
        cure: "`agent-fleet profile enroll ID`, while no worker runs on the profile",
        decide: login_expiry,
    },
    Rule {
        id: "auth",
        looks_at: "whether the server turned the login away since it was last proved",
        cure: "`agent-fleet profile enroll ID`",
        decide: auth,
    },
    Rule {
        id: "identity",
        looks_at: "whether the server named the account for the login that is there now, and whether it is the same as before",
        cure: "`agent-fleet profile verify ID`, or the line that the sentence ends with",
        decide: identity,
    },
    Rule {
        id: "conflict",
        looks_at: "whether another profile, the everyday login or the Desktop app holds the same account",
        cure: "`agent-fleet profile enroll ID`, with another account",
        decide: conflict,
    },
    Rule {
        id: "quota",
        looks_at: "the last reading and its age, and whether the server could be asked since",
        cure: "`agent-fleet quota refresh ID`",
        decide: quota,
    },
    Rule {
        id: "cooldown",
        looks_at: "whether the account rests after a limit, since when and until when",
        cure: "wait, or `agent-fleet profile cooldown-clear ID`",
        decide: cooldown,
    },
    Rule {
        id: "drain",
        looks_at: "whether a person lets the profile run empty, since when and why",
        cure: "`agent-fleet profile undrain ID`",
        decide: drain,
    },
    Rule {
        id: "billing",
        looks_at: "whether the provider turned a worker away over billing, or one was paid for beyond the subscription, and whether paid overage is on at the provider",
        cure: "`agent-fleet profile cooldown-clear ID` once it is paid; switch overage off at the provider",
        decide: billing,
    },
];

fn record(facts: &ProfileFacts) -> Finding {
    match &facts.record {
        None => Finding::ok("the profile's record can be read"),
        Some(error) => of_error(error, "agent-fleet profile list"),
    }
}

fn credential(facts: &ProfileFacts) -> Finding {
    let path = &facts.credential.path;
    let quoted = shell::quote(path.as_str());
    match &facts.credential.file {
        CredentialFile::Missing if conveyance::is_ours(&facts.profile) => {
            let said = format!("there is no `{path}`: no token or key was enrolled");
            Finding::fail(said, facts.login_command.clone())
        }
        CredentialFile::Missing if facts.home.entry == Entry::Missing => {
            Finding::ok("there is no home to look into")
        }
        CredentialFile::Missing => {
            let said = format!("there is no `{path}`: nobody has logged in to this home");
            Finding::fail(said, facts.login_command.clone())
        }
        CredentialFile::Linked(how) => Finding::fail(
            format!("`{path}` is {how}: whoever shares it loses the login at the next refresh"),
            format!("ls -li {quoted}"),
        ),
        CredentialFile::Unreadable(why) => Finding::fail(
            format!("`{path}` cannot be read: {why}"),
            format!("ls -li {quoted}"),
        ),
        CredentialFile::File { ours: false, .. } => Finding::fail(
            format!("`{path}` belongs to another user"),
            format!("ls -li {quoted}"),
        ),
        CredentialFile::File { mode, age, .. } if mode & 0o077 != 0 => Finding::warn(
            format!("others may read `{path}` ({mode:o})"),
            format!("chmod 600 {quoted}"),
        )
        .aged(*age),
        CredentialFile::File { age, .. } => {
            let whose = if conveyance::is_ours(&facts.profile) {
                "profile"
            } else {
                "home"
            };
            Finding::ok(format!("`{path}` is this {whose}'s alone")).aged(*age)
        }
    }
}

fn login(facts: &ProfileFacts) -> Finding {
    let again = facts.login_command.clone();
    let Some(login) = facts.login else {
        return match facts.credential.file {
            CredentialFile::File { .. } => Finding::fail(
                "the credential file is not in the provider's format",
                format!("ls -li {}", shell::quote(facts.credential.path.as_str())),
            ),
            CredentialFile::Missing | CredentialFile::Linked(_) | CredentialFile::Unreadable(_) => {
                Finding::ok("there is nothing to read")
            }
        };
    };
    match login.kind {
        LoginKind::Blank => Finding::fail(
            "the login is an empty stub: it was logged out or refused",
            again,
        ),
        LoginKind::ApiKey if facts.profile.credential != Credential::ApiKey => {
            Finding::fail("the home holds an API key, which is paid per token", again)
        }
        LoginKind::ApiKey => Finding::ok("an API key, as the registry says"),
        LoginKind::Subscription => match login.access_expires_at.filter(|at| *at <= facts.now) {
            None => Finding::ok("logged in"),
            Some(at) if login.refreshable => Finding::ok(
                "refreshable: the access token ran out, and the CLI renews it at its next start",
            )
            .aged(age_seconds(at, facts.now)),
            Some(at) => Finding::fail("the access token ran out and cannot be refreshed", again)
                .aged(age_seconds(at, facts.now)),
        },
    }
}

fn login_expiry(facts: &ProfileFacts) -> Finding {
    let said = facts.login.and_then(|login| login.login_expires_at);
    let again = facts.login_command.clone();
    match forecast(said.or(facts.state.login_expires_at), facts.now) {
        Forecast::Unknown => Finding::ok("the provider does not say when the login ends"),
        Forecast::Far(at) => Finding::ok(format!("the login lasts until {at}")),
        Forecast::Near(at) => Finding::warn(
            format!("the login ends at {at}, and nothing extends it"),
            again,
        ),
        Forecast::Past(at) => Finding::fail(format!("the login ended at {at}"), again)
            .aged(age_seconds(at, facts.now)),
    }
}

fn auth(facts: &ProfileFacts) -> Finding {
    match &facts.state.auth_broken {
        None => Finding::ok("the server takes the login, as far as is known"),
        Some(note) => Finding::fail(
            format!("the server turned the login away ({})", note.reason),
            facts.login_command.clone(),
        )
        .aged(age_seconds(note.at, facts.now)),
    }
}

/// The standing of a profile without its token or key, which `credential` tells when there is none.
const NOT_ENROLLED: &str = "not_enrolled";

/// Standings that `credential` and `login` tell.
const NAMED_BY_THE_FILE: [&str; 6] = [
    "no_login",
    "logged_out",
    "credential_link",
    "credential_unreadable",
    "credential_unparsable",
    "api_key",
];

fn is_named_by_the_file(facts: &ProfileFacts) -> bool {
    let (word, _) = &facts.standing;
    let missing = facts.credential.file == CredentialFile::Missing;
    NAMED_BY_THE_FILE.contains(&word.as_str()) || word == NOT_ENROLLED && missing
}

fn identity(facts: &ProfileFacts) -> Finding {
    let verify = format!("agent-fleet profile verify {}", facts.profile.id);
    let (word, refusal) = &facts.standing;
    let age = |at| Some(age_seconds(at, facts.now));
    if let Some(note) = &facts.state.durable.quarantine {
        let said = "quarantined: the home held another account than the one that the profile is";
        return Finding::fail(said, verify).aged(age(note.at));
    }
    match (refusal, &facts.state.proof) {
        // One that only changed is asked about by whoever wants it next.
        (Some(_), Some(proof)) if word == "unproven" => {
            Finding::warn("the login changed since its account was proved", verify)
                .aged(age(proof.at))
        }
        // The file itself says it all, and two other checks say it.
        (Some(_), _) if is_named_by_the_file(facts) => {
            Finding::ok(format!("there is no login to ask about ({word})"))
        }
        (Some(error), _) => of_error(error, &verify),
        (None, Some(proof)) => {
            let short: String = proof.fingerprint.whole.chars().take(8).collect();
            Finding::ok(format!("account {short}, named by `{}`", proof.source)).aged(age(proof.at))
        }
        (None, None) => Finding::fail("no server has named the account yet", verify),
    }
}

fn conflict(facts: &ProfileFacts) -> Finding {
    match &facts.conflict {
        None => Finding::ok("nobody else here is known to hold the account"),
        Some(error) => of_error(error, "agent-fleet profile status"),
    }
}

fn quota(facts: &ProfileFacts) -> Finding {
    let refresh = format!("agent-fleet quota refresh {}", facts.profile.id);
    let row = match &facts.quota {
        Ok(row) => row,
        Err(error) => return of_error(error, &refresh),
    };
    let poll = &facts.state.poll;
    if poll.last_at.is_some_and(|at| is_ahead(at, facts.now)) {
        return Finding::warn(
            "the last reading is from the future: the clock was set back since",
            refresh,
        );
    }
    if facts.profile.credential == Credential::ApiKey {
        return Finding::ok("paid as it is used: there is nothing to read");
    }
    let word = poll.reason.as_deref().unwrap_or_default();
    if facts.profile.credential == Credential::SetupToken
        && [UNMEASURABLE, NOT_ALLOWED].contains(&word)
        && row.headroom_percent.is_none()
    {
        return match facts.unmeasured {
            Unmeasured::Allow => Finding::ok(
                "its token may not read what is left; the registry lets it be chosen all the same",
            ),
            Unmeasured::Refuse => Finding::warn(
                "its token may not read what is left, and no worker has shown it yet",
                "agent-fleet config set settings.unmeasured allow",
            ),
        };
    }
    if poll.failures > 0 {
        let reason = poll.reason.as_deref().unwrap_or("unknown");
        let times = poll.failures;
        let again = match row.next_poll_at {
            Some(at) => format!("asked again from {at}"),
            None => "asked again when it is wanted".to_owned(),
        };
        let said = format!("the server did not answer {times} times in a row ({reason}), {again}");
        return Finding::warn(said, refresh).aged(row.age_seconds);
    }
    match (row.headroom_percent, facts.unmeasured) {
        (Some(left), _) => {
            Finding::ok(format!("{left:.0} % left, {}", row.status)).aged(row.age_seconds)
        }
        (None, Unmeasured::Allow) => {
            Finding::ok("never read; the registry lets it be chosen all the same")
        }
        (None, Unmeasured::Refuse) if facts.state.proof.is_none() => {
            Finding::ok("never read, since the account is not known")
        }
        (None, Unmeasured::Refuse) => Finding::warn("what is left was never read", refresh),
    }
}

fn cooldown(facts: &ProfileFacts) -> Finding {
    match facts.state.rest(facts.now) {
        None => Finding::ok("no limit holds it back"),
        Some(cooldown) => Finding::warn(
            format!(
                "rests until {}{} after a limit ({})",
                cooldown.until,
                if cooldown.guessed { ", a guess," } else { "" },
                cooldown.reason
            ),
            format!("agent-fleet profile cooldown-clear {}", facts.profile.id),
        )
        .aged(age_seconds(cooldown.since, facts.now)),
    }
}

fn drain(facts: &ProfileFacts) -> Finding {
    match &facts.state.durable.drain {
        None => Finding::ok("it takes leases"),
        Some(note) => Finding::warn(
            format!("takes no new leases: {}", note.reason),
            format!("agent-fleet profile undrain {}", facts.profile.id),
        )
        .aged(age_seconds(note.at, facts.now)),
    }
}

fn billing(facts: &ProfileFacts) -> Finding {
    if let Some(note) = &facts.state.durable.billing_block {
        let fix = format!("agent-fleet profile cooldown-clear {}", facts.profile.id);
        let seen = if note.reason == OVERAGE_USED {
            "a worker's usage beyond the subscription was being paid for: switch that off at the provider"
        } else {
            "its provider turned a worker away over billing"
        };
        return Finding::fail(seen, fix).aged(age_seconds(note.at, facts.now));
    }
    let overage = facts
        .state
        .reading
        .as_ref()
        .and_then(|reading| reading.overage_enabled);
    if overage == Some(true) && !facts.profile.allow_overage {
        return Finding::warn(
            "paid overage is switched on at the provider, which the registry does not allow",
            format!("agent-fleet profile status {}", facts.profile.id),
        );
    }
    Finding::ok("nothing is known to be paid beyond the subscription")
}
