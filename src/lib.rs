//! The map of agent-fleet: which module does what, and which module owns each file on disk.
//!
//! A command travels down: [`cli`] parses it, a noun of the work layer ([`choose`], [`worker`], …) decides
//! with pure functions and acts through thin ones, [`store`] and [`sys`] touch the disk and the kernel, and
//! the answer comes back as a type of [`contract`] that [`render`] turns into text. Code uses its own layer
//! and those below; `docs/architecture.md` shows the layers and `tests/architecture` holds them.
//!
//! # Modules
//!
//! | module | what it does |
//! |---|---|
//! | [`audit`] | what happened and who did it, for whoever has to explain a fleet afterwards |
//! | [`choose`] | gives a task exactly one account: who could take it, who is best, and why not the others |
//! | [`cli`] | arguments, one call into the domain, a view; the only module that knows clap |
//! | [`clock`] | the only source of time and of waiting |
//! | [`contract`] | the versioned public JSON: types without behaviour, and their JSON Schema |
//! | [`demo`] | the whole path in a throw-away world, by running this program as a person would |
//! | [`enroll`] | giving a profile its login, token or key, so that none is lost on the way |
//! | [`env`] | everything the program takes from the world around it, captured once |
//! | [`error`] | the one error that leaves the program: code, class, sentence, next command |
//! | [`fleet`] | the supervisor: plans of work on leased workers, launched, watched, checked and reviewed |
//! | [`fuzz`] | what must hold whatever bytes somebody else wrote; for tests and `tests/fuzz` alone |
//! | [`home`] | making homes ready for workers; the stable path of this program |
//! | [`id`] | names that pass through every layer, checked once at the edge |
//! | [`identity`] | which account is behind a login, and which accounts may not be used |
//! | [`import`] | finding the accounts that a person has already, and making profiles of them |
//! | [`lease`] | who holds which slot: the table, the witness, grants and their end |
//! | [`provider`] | the services and their CLIs behind one trait |
//! | [`quota`] | windows, readings, headroom, cooldowns |
//! | [`reason`] | every reason word: its meaning and its cure |
//! | [`registry`] | `accounts.toml`: what people configure |
//! | [`render`] | turns an answer into JSON, TOON or a page for people |
//! | [`report`] | putting together what people and supervisors ask about |
//! | [`secret`] | values that must never be printed, and the few that we keep |
//! | [`snapshot`] | what choosing reads, compiled into few small files |
//! | [`store`] | durability: locks, whole-file replacement, appends |
//! | [`sys`] | what the operating system does for us; the only `unsafe` code |
//! | [`transaction`] | changes of a login that are whole or taken back, whatever ends the program |
//! | [`withheld`] | what was pasted in the wrong place, and is never repeated |
//! | [`worker`] | starting a provider's CLI on a lease, and continuing its session |
//!
//! # Files
//!
//! Who reads and writes each file on disk; `docs/state.md` says what a crash may do to it.
//!
//! | file | owner |
//! |---|---|
//! | `config/accounts.toml` | [`registry`] |
//! | `share/accounts/<provider>/<profile>/` | the provider's CLI; our entries in it: [`provider`] |
//! | `<home>/agent-fleet.json` | [`provider::home`] |
//! | `share/bin/agent-fleet` | [`home::program`] |
//! | `share/hooks/codex.json` | [`provider::codex`] |
//! | `share/scripted/` | [`provider::scripted`] |
//! | `share/worktrees/<checkout>-<run>/<step>/`, `<step>.json` | [`fleet::worktree`] |
//! | `state/fleet/damaged/` | [`fleet::set_aside`] |
//! | `state/fleet/holds.json` | [`fleet::hold`] |
//! | `state/fleet/runs/<checkout>-<run>/{run,plan,steps}.json`, `workers/` | [`fleet::board`] |
//! | `state/fleet/runs/<checkout>-<run>/baseline.json` | [`fleet::begin`] |
//! | `state/fleet/runs/<checkout>-<run>/launches/<worker>.<n>/` | [`fleet::launch`] |
//! | `<runtime>/agent-fleet/*.sock`, `<tmp>/agent-fleet-<user>/*.sock` | [`fleet::screen`] |
//! | `state/fleet/runs/<checkout>-<run>/ledger.jsonl` | [`fleet::ledger`] |
//! | `state/fleet/runs/<checkout>-<run>/consumers/` | [`fleet::cursor`] |
//! | `state/fleet/runs/<checkout>-<run>/on_event.log` | [`fleet::notify`] |
//! | `state/fleet/runs/<checkout>-<run>/receipts/` | [`fleet::verify`], [`fleet::review`] |
//! | `state/fleet/runs/<checkout>-<run>/prompts/` | [`fleet::compose`] |
//! | `state/fleet/runs/<checkout>-<run>/snapshots/<step>/` | [`fleet::scope::snapshot`] |
//! | `state/fleet/runs/<checkout>-<run>/result.json` | [`fleet::result`] |
//! | `<checkout>/.fleet/runs/` | [`fleet::exchange`] |
//! | `state/install.json` | [`registry::install`] |
//! | `state/credentials/` | [`secret::kept`] |
//! | `state/profiles/` | [`snapshot::durable`] |
//! | `state/snapshot/registry` | [`snapshot::registry`] |
//! | `state/snapshot/<provider>` | [`snapshot::provider`] |
//! | `state/leases/` | [`lease`] |
//! | `state/queue/<pool>/` | [`choose::queue`] |
//! | `state/sessions/<task-key>.json` | [`snapshot::session`] |
//! | `state/evidence/` | [`snapshot::evidence`] |
//! | `state/evidence/<profile>.windows` | [`worker::statusline`] |
//! | `state/readers/<profile>/` | [`quota`] |
//! | `state/starts/<profile>.json` | [`worker::gate`] |
//! | `state/transactions/` | [`transaction`] |
//! | `state/staging/` | [`enroll`] |
//! | `state/audit.jsonl`, `audit.<n>.jsonl` | [`audit`] |
//! | `state/locks/` | [`store::lock`] |
//!
//! [`env`]: mod@env

pub mod audit;
pub mod choose;
pub mod cli;
pub mod clock;
pub mod contract;
pub mod demo;
pub mod enroll;
pub mod env;
pub mod error;
pub mod fleet;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod home;
pub mod id;
pub mod identity;
pub mod import;
pub mod lease;
pub mod provider;
pub mod quota;
pub mod reason;
pub mod registry;
pub mod render;
pub mod report;
pub mod secret;
pub mod snapshot;
pub mod store;
pub mod sys;
pub mod transaction;
pub mod withheld;
pub mod worker;
