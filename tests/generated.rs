//! Pages under `docs` that are made from the code.

use std::fmt::Write as _;

use agent_fleet::error::{Class, code};
use agent_fleet::fleet::settings::key;
use agent_fleet::reason::{self, Group};
use agent_fleet::report::doctor::{Told, machine_checks, profile_checks};
use agent_fleet::{cli, contract, env};

use crate::support::page::{check, check_block};

const MADE: &str = "<!-- Made from the code by tests/generated.rs; UPDATE_DOCS=1 cargo test --features test-fakes makes it again. -->\n\n";

fn take(page: &mut String, text: impl std::fmt::Display) {
    writeln!(page, "{text}").expect("a string takes all");
}

#[test]
fn the_page_of_errors_is_made_from_the_codes() {
    let mut page = format!("# Errors\n\n{MADE}");
    take(
        &mut page,
        "Every refusal has a stable code, a class, one sentence and, where there is a way out, the next command.\n\
         It exits 2, or with the number of its class under `--exit-codes class`. New codes may be added; none is\n\
         renamed while the contract's version stays.\n",
    );
    for class in [
        Class::Refused,
        Class::Capacity,
        Class::Identity,
        Class::Busy,
        Class::System,
        Class::Internal,
    ] {
        let meaning = match class {
            Class::Refused => "bad input or policy: trying again changes nothing",
            Class::Capacity => "nothing free now: `retry_at` says when it may be",
            Class::Identity => "the account is not proved: a person has to act",
            Class::Busy => "another command or worker holds it",
            Class::System => "the machine failed us",
            Class::Internal => "a bug in agent-fleet: please report it",
        };
        take(
            &mut page,
            format_args!(
                "## `{}` (exit {})\n\n{meaning}.\n\n| code | meaning |\n|---|---|",
                class.name(),
                class.status()
            ),
        );
        for (code, meaning) in code::ALL.iter().filter(|(code, _)| code.class == class) {
            take(&mut page, format_args!("| `{}` | {meaning} |", code.name));
        }
        take(&mut page, "");
    }
    check("docs/errors.md", &format!("{}\n", page.trim_end()));
}

#[test]
fn the_page_of_reasons_is_made_from_the_words() {
    let mut page = format!("# Reasons\n\n{MADE}");
    take(
        &mut page,
        "Every word that an answer gives as a reason. `agent-fleet reasons WORD` says the same. What ends it is `fine`\n\
         (nothing has to), `time` (it passes by itself, or the next command settles it by the way) or `person` (type the\n\
         command, with the profile for `ID`). New words may be added; none is renamed while the contract's version stays.\n\
         A profile may also be refused with any other code of [errors.md](errors.md).\n",
    );
    for group in Group::EVERY {
        take(
            &mut page,
            format_args!(
                "## {}\n\n| word | meaning | ends by | what to type |\n|---|---|---|---|",
                title(group)
            ),
        );
        for reason in reason::ALL.iter().filter(|reason| reason.group == group) {
            let cure = match reason.cure {
                "" => String::new(),
                cure => format!("`{cure}`"),
            };
            take(
                &mut page,
                format_args!(
                    "| `{}` | {} | {} | {cure} |",
                    reason.word,
                    reason.meaning,
                    reason.ends.name()
                ),
            );
        }
        take(&mut page, "");
    }
    check("docs/reasons.md", &format!("{}\n", page.trim_end()));
}

fn title(group: Group) -> &'static str {
    match group {
        Group::Decision => "Why this profile (`decision_reason`)",
        Group::Eligible => "A profile that could take the task (`reason`)",
        Group::Refused => "A profile that could not (`reason`)",
        Group::Reading => {
            "Why a reading is not fresh (`degraded_reason`; `reason`, `status` and `reported_status` of a quota row)"
        }
        Group::Limit => "Limits, blocks and quarantine (`reason` of a cooldown)",
        Group::Proof => "Why an account is not proved (in the sentence of a refusal)",
        Group::Anchor => {
            "Why a worker's account cannot be told from your own login (in the sentence of a refusal)"
        }
        Group::Login => "What the credential file says (`auth_status`)",
        Group::Verdict => "Whether a lease's holder lives (`verdict`)",
        Group::Fleet => {
            "A run, a step or a worker of the fleet (`reason`; the code of a refusal may stand there too)"
        }
    }
}

#[test]
fn the_schema_is_made_from_the_types_that_are_serialised() {
    let page = format!("{:#}\n", contract::schema::document());
    check(
        &format!("docs/schema/contract-{}.json", contract::VERSION),
        &page,
    );
}

#[test]
fn the_page_of_commands_is_made_from_the_command_line() {
    let root = cli::definition();
    let mut page = format!("# Commands\n\n{MADE}");
    take(
        &mut page,
        "Flags stand before or after the command. Results go to stdout, notes to stderr.\n",
    );
    take(&mut page, help_block(&root));
    take(
        &mut page,
        "## Variables\n\n| variable | meaning |\n|---|---|",
    );
    for (name, meaning) in env::VARIABLES {
        take(&mut page, format_args!("| `{name}` | {meaning} |"));
    }
    take(&mut page, "");
    commands(&root, &mut page);
    check("docs/cli.md", &format!("{}\n", page.trim_end()));
}

#[test]
fn the_page_of_checks_is_made_from_the_checks() {
    let mut page = format!("# What doctor checks\n\n{MADE}");
    take(
        &mut page,
        "`agent-fleet doctor` looks at everything that work depends on and says, for each check, `ok`, `warn` or `fail`,\n\
         what it saw, how old that is, and a command that can be typed. Without `--probe` it is offline: it reads local\n\
         files and `/proc`, starts no provider process and asks no server.\n\n\
         It is a report and no refusal: it exits 0 whatever it finds. `healthy` is false when a check of the machine or of\n\
         an enabled profile failed. Shell scripts ask `agent-fleet doctor --format json | jq -e .healthy`.\n\n\
         `--fix` mends only what is safe and ours, says what it did, and checks again: it removes an empty refresh lock\n\
         that is older than a minute while nobody lives in the home; makes our own entries good in homes without a live\n\
         lease or session, as `profile provision` does (which asks Codex about hooks in a throw-away home); ends\n\
         reservations whose time has passed; makes `share/bin/agent-fleet` lead to this program; removes temporary\n\
         files of killed commands from our own directories; takes back changes of a login that were cut short; and\n\
         removes what they left, if it holds what its name says and a login is in force. It never touches a login in\n\
         force, a process, or a lease whose process may live.\n\n\
         `--probe` asks first, as `profile verify --all --probe` does: one read-only request for each profile, and where a\n\
         login changed and its token ran out before anybody was asked, the provider's own CLI refreshes it, in a home\n\
         without a live lease. What could not be asked or refreshed is said on stderr, and the checks show the rest.\n",
    );
    let mut table = |heading: &str, checks: &[Told]| {
        take(
            &mut page,
            format_args!("## {heading}\n\n| check | looks at | what helps |\n|---|---|---|"),
        );
        for (id, looks_at, cure) in checks {
            take(&mut page, format_args!("| `{id}` | {looks_at} | {cure} |"));
        }
        take(&mut page, "");
    };
    table("The machine, and each provider", &machine_checks());
    table("Each profile", &profile_checks());
    check("docs/doctor.md", &format!("{}\n", page.trim_end()));
}

#[test]
fn the_table_of_settings_is_made_from_the_keys() {
    let mut table = "| key | meaning |\n|---|---|\n".to_owned();
    for (path, keys) in [
        ("", key::TOP),
        ("[defaults] ", key::DEFAULTS),
        ("[[tiers.TIER]] ", key::ENTRY),
        ("[providers.PROVIDER] ", key::PROVIDER),
        ("[permissions.ROLE] ", key::PERMISSIONS),
    ] {
        for key in keys {
            take(
                &mut table,
                format_args!("| `{path}{}` | {} |", key.name, key.meaning),
            );
        }
    }
    take(
        &mut table,
        format_args!(
            "| `[providers.PROVIDER.{}]` | who made which of its models |",
            key::MODEL_FAMILIES
        ),
    );
    check_block("docs/fleet.md", "settings", &table);
}

/// One heading for each command that does something, depth first.
fn commands(parent: &clap::Command, page: &mut String) {
    for command in parent.get_subcommands() {
        if command.is_hide_set() {
            continue;
        }
        if command.has_subcommands() {
            commands(command, page);
        } else {
            let name = command.get_bin_name().unwrap_or(command.get_name());
            take(page, format_args!("## {name}\n"));
            take(page, help_block(command));
        }
    }
}

/// The help of a command, 100 columns wide, without the flags that every command has.
fn help_block(command: &clap::Command) -> String {
    let is_root = command.get_name() == "agent-fleet";
    let help = command
        .clone()
        .term_width(100)
        .mut_args(|argument| {
            let everywhere = argument.get_help_heading() == Some("Global options")
                || matches!(argument.get_id().as_str(), "help" | "version");
            argument.hide(everywhere && !is_root)
        })
        .render_long_help();
    let help = help.to_string();
    let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    format!("```text\n{}\n```\n", lines.join("\n"))
}
