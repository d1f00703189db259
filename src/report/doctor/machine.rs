//! Checks of what all profiles share, and of each provider. Pure.

use camino::Utf8PathBuf;

use super::finding::{Finding, Rule};
use crate::contract::doctor::Level;
use crate::contract::lease::DamagedLease;
use crate::contract::transaction::{Transaction, TransactionState};
use crate::error::Error;
use crate::id::{ProfileId, ProviderKind};
use crate::identity::conflict::AnchorIdentity;
use crate::report::transaction;
use crate::sys::shell;

/// Where the stable path of this program leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// Here.
    Ours,
    /// To another build, which works.
    Other(Utf8PathBuf),
    /// To nothing, or there is no such path.
    Nowhere,
    /// There is none, and no home needs one yet.
    NotNeeded,
}

/// What was seen of the machine.
#[derive(Clone, Debug)]
pub(super) struct MachineFacts {
    pub(super) config: Utf8PathBuf,
    /// The keys of the registry without effect, each as a sentence; or why it cannot be used.
    pub(super) registry: Result<Vec<String>, Error>,
    /// The install's id, if there is one, or what is wrong with it.
    pub(super) install: Result<Option<String>, Error>,
    pub(super) program: (Utf8PathBuf, Program),
    /// Whether processes can be looked up.
    pub(super) processes: bool,
    /// Damaged records, and profiles with leases that the registry does not know; or why there is no table.
    pub(super) leases: Result<(Vec<DamagedLease>, Vec<ProfileId>), Error>,
    /// Changes of a login that were begun; or why they cannot be listed.
    pub(super) transactions: Result<Vec<Transaction>, Error>,
    /// Registered projects that are no git worktrees any more.
    pub(super) projects: Vec<Utf8PathBuf>,
    /// Variables of the caller that would move a login if workers saw them, with what they would do.
    pub(super) variables: Vec<(String, String)>,
    /// Temporary files of killed commands, with their age in seconds.
    pub(super) litter: Vec<(Utf8PathBuf, u64)>,
}

/// What was seen of one provider.
#[derive(Clone, Debug)]
pub(super) struct ProviderFacts {
    pub(super) kind: ProviderKind,
    /// Whether any enabled profile needs it.
    pub(super) needed: bool,
    pub(super) binary: Result<BinaryFacts, Error>,
    pub(super) base: AnchorIdentity,
    /// What a person types to renew the base login.
    pub(super) renew_base: String,
    pub(super) desktop: AnchorIdentity,
    /// Why the snapshot, or new evidence, cannot be taken in.
    pub(super) snapshot: Option<Error>,
}

/// What was seen of a provider's program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BinaryFacts {
    pub(super) path: Utf8PathBuf,
    /// Its version, where a file beside it tells.
    pub(super) version: Option<String>,
    /// Seconds since it was written.
    pub(super) age: Option<u64>,
    /// True when it is not the one that named the hashes by which it trusts our hooks.
    pub(super) hooks_of_another: bool,
}

/// The checks of the machine.
pub(super) const MACHINE: &[Rule<MachineFacts>] = &[
    Rule {
        id: "registry",
        looks_at: "whether `accounts.toml` can be used, and whether all its keys have an effect",
        cure: "`agent-fleet init`, or edit the line that is named",
        decide: registry,
    },
    Rule {
        id: "install",
        looks_at: "whether registry and state root belong together",
        cure: "`agent-fleet config set install_id adopt`, once the other state root is not in use",
        decide: install,
    },
    Rule {
        id: "program",
        looks_at: "whether `share/bin/agent-fleet`, which the hooks in the homes call, leads to this program",
        cure: "`agent-fleet doctor --fix`, or `agent-fleet profile provision --all`",
        decide: program,
    },
    Rule {
        id: "processes",
        looks_at: "whether `/proc` shows the processes of this pid namespace, without which nobody can be told dead",
        cure: "mount `/proc` in this container",
        decide: processes,
    },
    Rule {
        id: "lease_table",
        looks_at: "damaged lease records, and leases of profiles that the registry does not know",
        cure: "`agent-fleet lease release --record N --force` for the record that is named",
        decide: lease_table,
    },
    Rule {
        id: "transactions",
        looks_at: "changes of a login that were cut short: until one is settled, its provider's profiles get no work",
        cure: "`agent-fleet transaction show TRANSACTION`; what can be taken back is, also by `agent-fleet doctor --fix`",
        decide: transactions,
    },
    Rule {
        id: "projects",
        looks_at: "whether each registered project is still a git worktree",
        cure: "`agent-fleet project remove DIR`",
        decide: projects,
    },
    Rule {
        id: "environment",
        looks_at: "variables of this shell that would move a login: workers do not get them, a CLI started by hand does",
        cure: "`unset NAME`",
        decide: environment,
    },
    Rule {
        id: "litter",
        looks_at: "temporary files of ours that killed commands left, older than an hour; homes in which killed enrollments logged in",
        cure: "`agent-fleet doctor --fix`",
        decide: litter,
    },
];

/// The checks of each provider that is configured.
pub(super) const PROVIDER: &[Rule<ProviderFacts>] = &[
    Rule {
        id: "binary",
        looks_at: "whether the provider's program is there, native and executable; which one it is, and whether it changed",
        cure: "`agent-fleet config set providers.P.binary PATH`",
        decide: binary,
    },
    Rule {
        id: "base_login",
        looks_at: "whether the everyday login is known, which no worker may share",
        cure: "renew it with the provider's own command, or `agent-fleet config set providers.P.base_home false`",
        decide: base_login,
    },
    Rule {
        id: "desktop_login",
        looks_at: "whether the Desktop app's login is known, which no worker may share",
        cure: "`agent-fleet config set providers.P.desktop_identity_file false`",
        decide: desktop_login,
    },
    Rule {
        id: "snapshot",
        looks_at: "whether what is known of the provider's profiles can be read, and new evidence taken in",
        cure: "what the sentence ends with",
        decide: snapshot,
    },
];

/// A refusal as a finding; its own next command is the fix.
pub(super) fn of_error(error: &Error, otherwise: &str) -> Finding {
    let fix = error.hint.clone().unwrap_or_else(|| otherwise.to_owned());
    Finding::fail(error.message.clone(), fix)
}

fn registry(facts: &MachineFacts) -> Finding {
    match &facts.registry {
        Err(error) => of_error(error, "agent-fleet config list"),
        Ok(notes) => match notes.first() {
            None => Finding::ok(format!("`{}` can be used", facts.config)),
            Some(note) => Finding::warn(
                note.clone(),
                format!("${{EDITOR:-vi}} {}", shell::quote(facts.config.as_str())),
            ),
        },
    }
}

fn install(facts: &MachineFacts) -> Finding {
    match &facts.install {
        Err(error) => of_error(error, "agent-fleet init"),
        Ok(Some(id)) => Finding::ok(format!("registry and state are of install {id}")),
        Ok(None) => Finding::ok("the registry is tied to no install"),
    }
}

fn program(facts: &MachineFacts) -> Finding {
    const FIX: &str = "agent-fleet doctor --fix";
    let (path, target) = &facts.program;
    match target {
        Program::Ours => Finding::ok(format!("`{path}` leads to this program")),
        Program::NotNeeded => Finding::ok("no home needs it yet"),
        Program::Other(other) => {
            Finding::warn(format!("`{path}` leads to another program: `{other}`"), FIX)
        }
        Program::Nowhere => Finding::fail(
            format!("`{path}` leads nowhere, so no hook says what workers do"),
            FIX,
        ),
    }
}

fn processes(facts: &MachineFacts) -> Finding {
    if facts.processes {
        Finding::ok("processes can be looked up")
    } else {
        Finding::fail(
            "`/proc` does not show this pid namespace: every lease keeps its slot for as long as its witness is held",
            "ls -ld /proc/self",
        )
    }
}

fn lease_table(facts: &MachineFacts) -> Finding {
    let (damaged, strangers) = match &facts.leases {
        Ok(found) => found,
        Err(error) => return of_error(error, "agent-fleet lease list"),
    };
    if let Some(record) = damaged.first() {
        let said = format!(
            "{} of `{}` cannot be read and keep their slots; the first is record {}",
            damaged.len(),
            record.path,
            record.record
        );
        return Finding::fail(said, record.settle.clone());
    }
    match strangers.first() {
        None => Finding::ok("every lease record can be read"),
        Some(profile) => Finding::warn(
            format!("there is a lease of `{profile}`, which the registry does not know"),
            "agent-fleet lease list",
        ),
    }
}

fn transactions(facts: &MachineFacts) -> Finding {
    let begun = match &facts.transactions {
        Ok(begun) => begun,
        Err(error) => return of_error(error, "agent-fleet transaction list"),
    };
    let told = |one: &Transaction| Some((one.state, transaction::told(one)?, one.next.clone()));
    let mut open: Vec<_> = begun.iter().filter_map(told).collect();
    // One that nobody can take back keeps a provider from work; the others only wait for the next command.
    open.sort_by_key(|(state, _, _)| *state == TransactionState::Pending);
    match open.into_iter().next() {
        None => Finding::ok("no change of a login was cut short"),
        Some((TransactionState::Pending, said, next)) => Finding::warn(said, next),
        Some((_, said, next)) => Finding::fail(said, next),
    }
}

fn projects(facts: &MachineFacts) -> Finding {
    match facts.projects.first() {
        None => Finding::ok("every registered project is a git worktree"),
        Some(path) => Finding::warn(
            format!("the registered project `{path}` is no git worktree any more"),
            format!("agent-fleet project remove {}", shell::quote(path.as_str())),
        ),
    }
}

fn environment(facts: &MachineFacts) -> Finding {
    match facts.variables.first() {
        None => Finding::ok("no variable of this shell would move a login"),
        Some((name, effect)) => {
            let names: Vec<&str> = facts
                .variables
                .iter()
                .map(|(name, _)| name.as_str())
                .collect();
            let said = format!(
                "`{name}` is set here: it {effect}; workers do not get it, a CLI started by hand does"
            );
            Finding::warn(said, format!("unset {}", names.join(" ")))
        }
    }
}

fn litter(facts: &MachineFacts) -> Finding {
    match facts.litter.iter().max_by_key(|(_, age)| *age) {
        None => Finding::ok("no command left a temporary file behind"),
        Some((path, age)) => Finding::warn(
            format!(
                "{} temporary files of killed commands, the oldest `{path}`",
                facts.litter.len()
            ),
            "agent-fleet doctor --fix",
        )
        .aged(*age),
    }
}

/// A failure that keeps nobody from working is only worth a look.
fn unless_needed(finding: Finding, needed: bool) -> Finding {
    match finding.level {
        Level::Fail if !needed => Finding {
            level: Level::Warn,
            ..finding
        },
        Level::Fail | Level::Warn | Level::Ok => finding,
    }
}

fn binary(facts: &ProviderFacts) -> Finding {
    match &facts.binary {
        Err(error) => unless_needed(of_error(error, "agent-fleet providers"), facts.needed),
        Ok(found) => {
            let version = found.version.as_deref().unwrap_or("of unknown version");
            let said = format!("`{}`, {version}", found.path);
            if found.hooks_of_another {
                Finding::warn(
                    format!("{said}, changed since it was asked how it trusts our hooks: the next start asks it once"),
                    "agent-fleet profile provision --all",
                )
            } else {
                Finding::ok(said)
            }
            .aged(found.age)
        }
    }
}

fn base_login(facts: &ProviderFacts) -> Finding {
    let kind = facts.kind;
    match facts.base {
        AnchorIdentity::Account(_) => Finding::ok("the everyday login is known"),
        AnchorIdentity::Nobody => {
            Finding::ok("there is no everyday login that a worker could share")
        }
        AnchorIdentity::Unverified(reason) => {
            let fix = match reason {
                "token_expired" => facts.renew_base.clone(),
                "unproven" => "agent-fleet profile verify --all".to_owned(),
                _ => format!("agent-fleet config set providers.{kind}.base_home false"),
            };
            let said = format!("whose the everyday login is cannot be told ({reason})");
            unless_needed(Finding::fail(said, fix), facts.needed)
        }
    }
}

fn desktop_login(facts: &ProviderFacts) -> Finding {
    let kind = facts.kind;
    match facts.desktop {
        AnchorIdentity::Account(_) => Finding::ok("the Desktop app's login is known"),
        AnchorIdentity::Nobody => Finding::ok("the Desktop app is out of play"),
        AnchorIdentity::Unverified(reason) => {
            let said = format!("whose login the Desktop app has cannot be told ({reason})");
            let fix =
                format!("agent-fleet config set providers.{kind}.desktop_identity_file false");
            unless_needed(Finding::fail(said, fix), facts.needed)
        }
    }
}

fn snapshot(facts: &ProviderFacts) -> Finding {
    match &facts.snapshot {
        None => Finding::ok("what is known can be read and moved forward"),
        Some(error) => of_error(error, "agent-fleet quota show --all"),
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
