//! Becoming a worker: lease, check, gate, and execve of the provider's native binary.
//!
//! The calling process is the lease's holder and becomes the provider, so the lease lives exactly as long as
//! the worker. Everything that can be refused is refused before execve; what was bound is released before
//! the refusal is reported. After execve, signals, terminal and exit status are the provider's.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use camino::{Utf8Path, Utf8PathBuf};

use super::asked::{model, only_provider, parse, terms};
use super::checks::{self, Ready};
use super::receipt::Receipt;
use super::{conversation, gate};
use crate::audit;
use crate::choose::apply::{self, Purpose, Selected};
use crate::choose::candidate::{Asked, Reserve};
use crate::contract::launch::Validated;
use crate::contract::selection::DecisionReason;
use crate::crash_point;
use crate::env::{self, Context};
use crate::error::{Error, Result, code};
use crate::id::{PoolId, ProfileId, ProviderKind, Task};
use crate::lease::holder::Holder;
use crate::lease::{Granted, LeaseStore};
use crate::provider::{self, Conversation, LaunchFacts, Mode};
use crate::quota::model::Model;
use crate::registry::schema::Registry;
use crate::sys::{descriptor, exec, shell, user};

/// What a caller wants started.
#[derive(Clone, Debug)]
pub struct Request {
    /// The piece of work.
    pub task: Task,
    /// Where, as the caller wrote it.
    pub workspace: PathBuf,
    /// New work or old.
    pub start: Start,
    /// The model whose windows gate; `None` leaves it to the provider's arguments.
    pub model: Option<Model>,
    /// Kept with the lease and given to the worker.
    pub labels: BTreeMap<String, String>,
    /// Where the receipt goes.
    pub receipt: Option<PathBuf>,
    /// Touched at the end of each turn.
    pub turn_end: Option<PathBuf>,
    /// Maildir for this lease's events.
    pub events: Option<PathBuf>,
    /// Whether this may happen inside a worker.
    pub nested: bool,
    /// Whether a headless worker reads the caller's standard input.
    pub stdin: bool,
    /// The provider's arguments.
    pub arguments: Vec<OsString>,
}

/// New work or old.
#[derive(Clone, Debug)]
pub enum Start {
    /// A new conversation on whichever profile is best.
    New {
        /// The pool to choose from.
        pool: PoolId,
        /// Only this provider.
        provider: Option<ProviderKind>,
        /// Only this profile.
        profile: Option<ProfileId>,
    },
    /// The task's recorded conversation, where it belongs.
    Resume {
        /// Refused unless it belongs to this profile.
        profile: Option<ProfileId>,
    },
}

/// Starts the worker; comes back only with a refusal, after releasing what it bound.
pub fn launch(
    context: &Context,
    request: &Request,
    store: &dyn LeaseStore,
    note: impl FnMut(&str),
) -> Error {
    let refusal = match attempt(context, request, store, note) {
        Ok(never) => match never {},
        Err(error) => error,
    };
    refused(context, request.receipt.as_deref(), refusal)
}

/// A refusal whose receipt has been written, where one is wanted.
pub fn refused(context: &Context, receipt: Option<&Path>, refusal: Error) -> Error {
    let path = receipt.and_then(|path| absolute(context, "--receipt", path).ok());
    match path.map(|path| Receipt::refused(&refusal).write(&path)) {
        Some(Err(error)) => refusal.detail("receipt_error", error.message),
        Some(Ok(())) | None => refusal,
    }
}

/// Checks workspace and arguments without a lease.
pub fn validate(context: &Context, request: &Request) -> Result<Validated> {
    let registry = crate::snapshot::registry::load(context)?;
    let Start::New {
        pool,
        provider,
        profile,
    } = &request.start
    else {
        return Err(Error::internal("only a new start can be validated alone"));
    };
    let asked = Asked {
        pool: pool.clone(),
        provider: *provider,
        profile: profile.clone(),
        model: None,
        reserve: Reserve::Keep,
    };
    let kind = only_provider(&registry, &asked).ok_or_else(|| {
        Error::new(
            code::USAGE,
            format!("pool `{pool}` has no single provider, so the arguments cannot be checked"),
        )
        .hint("agent-fleet pool list")
    })?;
    crate::registry::project::workspace(context, &registry, kind, &request.workspace)?;
    let invocation = parse(&registry, kind, request)?;
    let mode = match invocation.mode {
        Mode::Headless => "headless",
        Mode::Terminal => "terminal",
    };
    let scrubbed = provider::environment::scrubbed_names(&context.variables);
    let scrubbed = scrubbed.into_iter().map(|(name, _)| name).collect();
    Ok(Validated {
        ok: true,
        provider: kind,
        mode: mode.to_owned(),
        scrubbed,
    })
}

fn attempt(
    context: &Context,
    request: &Request,
    store: &dyn LeaseStore,
    mut note: impl FnMut(&str),
) -> Result<Infallible> {
    refuse_nesting(context, request)?;
    let files = Files::resolve(context, request)?;
    let registry = crate::snapshot::registry::load(context)?;
    let (mut asked, recorded) = terms(context, &registry, request)?;
    asked.model = model(&registry, &asked, request);
    // Where only one provider can be meant, bad arguments are refused before anything is leased.
    if let Some(kind) = only_provider(&registry, &asked) {
        parse(&registry, kind, request)?;
    }
    let purpose = Purpose::Bind(Holder::current()?);
    let choice = apply::Request {
        task: request.task.clone(),
        workspace: request.workspace.clone(),
        asked,
        reason: if recorded.is_some() {
            DecisionReason::StickyResume
        } else {
            DecisionReason::Quota
        },
    };
    let selected = apply::select(context, store, &choice, purpose, &request.labels)?;
    let Selected {
        granted,
        selection,
        registry,
        profile,
        workspace,
    } = selected;
    let prepared = prepare(
        &Preparation {
            context,
            request,
            files: &files,
            registry: &registry,
            profile: &profile,
            workspace: &workspace,
            granted: &granted,
            recorded,
        },
        &mut note,
    );
    let (mut launch, ready) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return Err(give_back(context, store, granted, error)),
    };
    let headroom = selection.headroom_percent.map_or_else(
        || "quota unmeasured".to_owned(),
        |left| format!("{left:.0}% left"),
    );
    note(&format!(
        "agent-fleet: task {} on {} (account {}, {headroom}, lease {})",
        request.task,
        profile.id,
        ready.fingerprint,
        short(granted.lease.generation)
    ));
    let error = become_worker(context, &files, &profile.id, &granted, &ready, &mut launch);
    Err(give_back(context, store, granted, error))
}

/// A generation for people: which table, and which grant of it.
fn short(generation: u64) -> String {
    format!("{}.{}", generation >> 32, generation & u64::from(u32::MAX))
}

/// The last steps: the project may have changed since it was checked, then there is no way back.
fn become_worker(
    context: &Context,
    files: &Files,
    profile: &ProfileId,
    granted: &Granted,
    ready: &Ready<'_>,
    launch: &mut exec::Launch,
) -> Error {
    let mut last = || -> Result<()> {
        ready.recheck(context)?;
        if let Some((variable, secret)) = ready.to_hand_over(context)? {
            let given = descriptor::hand_over(secret.expose().as_bytes()).map_err(|error| {
                Error::io("hand a credential over from", &context.roots.state, &error)
            })?;
            let variable = (variable.into(), given.to_string().into());
            launch.environment.push(variable);
        }
        if let Some(path) = &files.receipt {
            Receipt::launched(profile, granted.lease.generation).write(path)?;
        }
        if let Some(witness) = &granted.witness
            && !context.faults.no_witness
        {
            witness.hand_over().map_err(|error| {
                let leases = context.roots.state.join("leases");
                Error::io("hand over the witness in", leases, &error)
            })?;
        }
        Ok(())
    };
    match last() {
        Ok(()) => {
            crash_point!("launch.checked");
            let error = exec::exec(launch);
            Error::new(
                code::PROVIDER_MISSING,
                format!("cannot start `{}`: {error}", launch.program.display()),
            )
            .hint(format!(
                "ls -l {}",
                shell::quote(&launch.program.display().to_string())
            ))
        }
        Err(error) => error,
    }
}

fn give_back(context: &Context, store: &dyn LeaseStore, granted: Granted, error: Error) -> Error {
    audit::of_lease_because(
        context,
        audit::lease::RELEASED,
        &granted.lease,
        error.code.name,
    );
    match store.abandon(granted) {
        Ok(()) => error,
        Err(second) => error.detail("release_error", second.message),
    }
}

struct Preparation<'a> {
    context: &'a Context,
    request: &'a Request,
    files: &'a Files,
    registry: &'a Registry,
    profile: &'a crate::registry::schema::Profile,
    workspace: &'a crate::registry::project::Workspace,
    granted: &'a Granted,
    recorded: Option<conversation::Recorded>,
}

fn prepare<'a>(
    preparation: &Preparation<'a>,
    note: &mut impl FnMut(&str),
) -> Result<(exec::Launch, Ready<'a>)> {
    let Preparation {
        context,
        request,
        files,
        registry,
        profile,
        workspace,
        granted,
        recorded,
    } = preparation;
    let kind = profile.provider;
    let provider = provider::of(kind);
    let settings = registry.provider(kind)?;
    let invocation = parse(registry, kind, request)?;
    let binary = crate::registry::binary::resolve(context, settings)?;
    // Hooks call this program by a path that follows upgrades.
    crate::home::program::ensure(context)?;
    let conversation = match recorded {
        Some(recorded) => Conversation::Resume {
            id: recorded.require(provider, profile, workspace)?,
        },
        None => Conversation::New {
            id: uuid::Uuid::new_v4().to_string(),
        },
    };
    let ready = checks::ready(context, registry, profile, &workspace.path)?;
    let waited = gate::pass(context, &profile.id, || Ok(ready.look(context)), &mut *note)?;
    let ready = if waited {
        checks::ready(context, registry, profile, &workspace.path)?
    } else {
        ready
    };
    let facts = LaunchFacts {
        home: profile.home.clone(),
        workspace: workspace.path.clone(),
        project: workspace.project.clone(),
        conversation,
        binary: binary.clone(),
        program: crate::home::program::path(context),
        may_spend: profile.allow_overage,
    };
    let mut environment = provider::environment::worker(
        &context.variables,
        registry.settings.worker_env,
        user::name().as_deref(),
    );
    environment.extend(provider.environment(&facts));
    environment.extend(ours(
        context,
        request,
        files,
        profile,
        granted,
        &workspace.path,
    ));
    let launch = exec::Launch {
        program: binary.into_std_path_buf(),
        arguments: provider.command_line(context, &invocation, &facts)?,
        environment,
        directory: workspace.path.clone().into_std_path_buf(),
        close_stdin: invocation.mode == Mode::Headless && !request.stdin,
    };
    Ok((launch, ready))
}

/// Our own variables: what hooks, `which` and the worker's scripts need to know.
fn ours(
    context: &Context,
    request: &Request,
    files: &Files,
    profile: &crate::registry::schema::Profile,
    granted: &Granted,
    workspace: &Utf8Path,
) -> Vec<(OsString, OsString)> {
    let roots = &context.roots;
    let pool = granted.lease.pool.clone().unwrap_or_default();
    let mut pairs = vec![
        (env::PROFILE.to_owned(), profile.id.to_string()),
        (env::PROVIDER.to_owned(), profile.provider.to_string()),
        (env::TASK_ID.to_owned(), request.task.to_string()),
        (env::POOL.to_owned(), pool),
        (env::WORKSPACE.to_owned(), workspace.to_string()),
        (
            env::GENERATION.to_owned(),
            granted.lease.generation.to_string(),
        ),
        ("PWD".to_owned(), workspace.to_string()),
        (env::CONFIG.to_owned(), roots.config.to_string()),
        (env::STATE_DIR.to_owned(), roots.state.to_string()),
        (env::SHARE_DIR.to_owned(), roots.share.to_string()),
    ];
    if let Some(path) = &files.turn_end {
        pairs.push((env::TURN_END.to_owned(), path.to_string()));
    }
    if let Some(path) = &files.events {
        pairs.push((env::EVENTS.to_owned(), path.to_string()));
    }
    let labels = request
        .labels
        .iter()
        .map(|(key, value)| (format!("{}{key}", env::LABEL_PREFIX), value.clone()));
    pairs.extend(labels);
    #[cfg(feature = "test-fakes")]
    for name in [env::TEST_NOW, env::TEST_FAULTS] {
        pairs.extend(
            context
                .variables
                .text(name)
                .map(|value| (name.to_owned(), value.to_owned())),
        );
    }
    pairs
        .into_iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

/// A worker that starts another one under its own lease would be two workers on one task.
fn refuse_nesting(context: &Context, request: &Request) -> Result<()> {
    let Some(outer) = context.variables.text(env::TASK_ID) else {
        return Ok(());
    };
    if request.nested && outer != request.task.as_str() {
        return Ok(());
    }
    let message = format!(
        "this is the worker of task `{outer}`; starting another one from inside needs `--nested` and another task"
    );
    Err(Error::new(code::NESTED, message).hint("agent-fleet exec --help"))
}

/// Files that the caller named, made absolute.
struct Files {
    receipt: Option<Utf8PathBuf>,
    turn_end: Option<Utf8PathBuf>,
    events: Option<Utf8PathBuf>,
}

impl Files {
    fn resolve(context: &Context, request: &Request) -> Result<Self> {
        let resolve = |name: &str, path: &Option<PathBuf>| {
            path.as_deref()
                .map(|path| absolute(context, name, path))
                .transpose()
        };
        let file = |name: &str, path: &Option<PathBuf>| -> Result<Option<Utf8PathBuf>> {
            let path = resolve(name, path)?;
            path.iter().try_for_each(|path| can_hold(name, path))?;
            Ok(path)
        };
        Ok(Self {
            receipt: file("--receipt", &request.receipt)?,
            turn_end: file("--turn-end", &request.turn_end)?,
            events: resolve("--events", &request.events)?,
        })
    }
}

/// Refuses a file that could never be written: hooks would fail at it without a word.
fn can_hold(name: &str, path: &Utf8Path) -> Result<()> {
    let directory = path.parent().unwrap_or(path);
    let (problem, hint) = if !directory.is_dir() {
        let made = shell::quote(directory.as_str());
        ("its directory does not exist", format!("mkdir -p {made}"))
    } else if path.is_dir() {
        let listed = shell::quote(path.as_str());
        ("it is a directory", format!("ls -ld {listed}"))
    } else {
        return Ok(());
    };
    let message = format!("{name} cannot be `{path}`: {problem}");
    Err(Error::new(code::USAGE, message).hint(hint))
}

fn absolute(context: &Context, name: &str, path: &Path) -> Result<Utf8PathBuf> {
    match &context.directory {
        Some(directory) if path.is_relative() && !path.starts_with("~") => {
            env::expand(name, &directory.join(path), &context.roots.home)
        }
        _ => env::expand(name, path, &context.roots.home),
    }
}
