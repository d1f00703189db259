//! `agent-fleet exec`, `resume` and `run`: becoming a worker.

use std::ffi::OsString;
use std::path::PathBuf;

use super::{App, Outcome};
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::{PoolId, ProfileId, ProviderKind, Task};
use crate::quota::model::Model;
use crate::worker::here;
use crate::worker::launch::{self, Request, Start};

// What a launch may be given besides its terms. (A doc comment would become the help of each command.)
#[derive(Debug, clap::Args)]
pub(super) struct Extras {
    /// Model whose windows must have room; default the one that the provider's own arguments name
    #[arg(long)]
    model: Option<Model>,
    /// Label kept with the lease and given to the worker as `AGENT_FLEET_LABEL_KEY`
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<String>,
    /// File that gets {ok, code, profile, generation, pid, `retry_at`}
    #[arg(long, value_name = "FILE")]
    receipt: Option<PathBuf>,
    /// Exit status of a refusal, to tell it from the worker's own
    #[arg(long, value_name = "N")]
    pub(super) refusal_exit: Option<u8>,
    /// File that is touched at the end of each turn
    #[arg(long, value_name = "FILE")]
    turn_end: Option<PathBuf>,
    /// Maildir that gets a copy of each event of this lease
    #[arg(long, value_name = "DIR")]
    events: Option<PathBuf>,
    /// Allow this inside a worker, for another task
    #[arg(long)]
    nested: bool,
    /// Let a headless worker read the caller's standard input
    #[arg(long)]
    stdin: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct ExecArguments {
    /// Name of the piece of work
    #[arg(long)]
    task: Task,
    /// Pool to choose from
    #[arg(long)]
    pool: PoolId,
    /// Root of the git worktree to work in
    #[arg(long, value_name = "PATH")]
    workspace: PathBuf,
    /// Only this provider
    #[arg(long)]
    provider: Option<ProviderKind>,
    /// Only this profile
    #[arg(long)]
    profile: Option<ProfileId>,
    /// Check the provider's arguments and stop; needs no lease
    #[arg(long)]
    validate_only: bool,
    #[command(flatten)]
    extras: Extras,
    /// Arguments of the provider's CLI
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
pub(super) struct ResumeArguments {
    /// Name of the piece of work
    #[arg(long)]
    task: Task,
    /// Root of the git worktree it works in
    #[arg(long, value_name = "PATH")]
    workspace: PathBuf,
    /// Refuse unless the conversation belongs to this profile
    #[arg(long)]
    profile: Option<ProfileId>,
    #[command(flatten)]
    extras: Extras,
    /// Arguments of the provider's CLI
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
pub(super) struct RunArguments {
    /// Provider or pool; may be left out when there is only one pool
    target: Option<String>,
    #[command(flatten)]
    extras: Extras,
    /// Arguments of the provider's CLI
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

/// How a caller wants to be told of a refusal.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    /// Exit status of a refusal.
    refusal_exit: Option<u8>,
    /// Where its receipt goes.
    receipt: Option<PathBuf>,
}

impl Wishes {
    /// What a command line that could not be understood still says about them.
    pub(super) fn of(arguments: &[OsString]) -> Self {
        let mut wishes = Self::default();
        let ours = arguments.iter().take_while(|word| *word != "--");
        let mut words = ours.map(|word| word.to_string_lossy());
        while let Some(word) = words.next() {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (word.into_owned(), None),
            };
            let mut value = || value.clone().or_else(|| Some(words.next()?.into_owned()));
            match name.as_str() {
                "--refusal-exit" => {
                    wishes.refusal_exit = value().and_then(|value| value.parse().ok());
                }
                "--receipt" => wishes.receipt = value().map(PathBuf::from),
                _ => {}
            }
        }
        wishes
    }

    /// Tells a refusal as it was asked for.
    pub(super) fn tell(self, context: &Context, refusal: Error) -> Result<Outcome> {
        let refusal = launch::refused(context, self.receipt.as_deref(), refusal);
        self.exit(refusal)
    }

    /// Gives a refusal, whose receipt is written or cannot be, its exit status.
    pub(super) fn exit(self, refusal: Error) -> Result<Outcome> {
        match self.refusal_exit {
            Some(status) => Ok(Outcome::Refused(refusal, status)),
            None => Err(refusal),
        }
    }
}

impl Extras {
    fn wishes(&self) -> Wishes {
        Wishes {
            refusal_exit: self.refusal_exit,
            receipt: self.receipt.clone(),
        }
    }

    fn request(
        self,
        task: Task,
        workspace: PathBuf,
        start: Start,
        arguments: Vec<OsString>,
    ) -> Result<Request> {
        let labels = self
            .labels
            .iter()
            .map(|label| {
                let (key, value) = label.split_once('=').unwrap_or((label, ""));
                let named = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
                if named && label.contains('=') {
                    Ok((key.to_owned(), value.to_owned()))
                } else {
                    let message = format!("the label `{label}` is not of the form KEY=VALUE with letters, digits and `_` in its key");
                    Err(Error::new(code::USAGE, message).hint("agent-fleet exec --help"))
                }
            })
            .collect::<Result<_>>()?;
        Ok(Request {
            task,
            workspace,
            start,
            model: self.model,
            labels,
            receipt: self.receipt,
            turn_end: self.turn_end,
            events: self.events,
            nested: self.nested,
            stdin: self.stdin,
            arguments,
        })
    }
}

/// `exec`.
pub(super) fn exec(app: &App, arguments: ExecArguments) -> Result<Outcome> {
    let wishes = arguments.extras.wishes();
    let validate_only = arguments.validate_only;
    let start = Start::New {
        pool: arguments.pool,
        provider: arguments.provider,
        profile: arguments.profile,
    };
    let request = arguments.extras.request(
        arguments.task,
        arguments.workspace,
        start,
        arguments.arguments,
    );
    if validate_only {
        let answer = request.and_then(|request| launch::validate(&app.context, &request));
        return match answer {
            Ok(answer) => app.view(&answer),
            Err(error) => wishes.exit(error),
        };
    }
    finish(app, wishes, request)
}

/// `resume`.
pub(super) fn resume(app: &App, arguments: ResumeArguments) -> Result<Outcome> {
    let wishes = arguments.extras.wishes();
    let start = Start::Resume {
        profile: arguments.profile,
    };
    let request = arguments.extras.request(
        arguments.task,
        arguments.workspace,
        start,
        arguments.arguments,
    );
    finish(app, wishes, request)
}

/// `run`.
pub(super) fn run(app: &App, arguments: RunArguments) -> Result<Outcome> {
    let wishes = arguments.extras.wishes();
    let request = || {
        let registry = crate::snapshot::registry::load(&app.context)?;
        let here = here::here(&app.context, &registry, arguments.target.as_deref())?;
        let start = Start::New {
            pool: here.pool,
            provider: here.provider,
            profile: None,
        };
        arguments
            .extras
            .request(here.task, here.workspace, start, arguments.arguments)
    };
    finish(app, wishes, request())
}

/// A launch comes back only as a refusal.
fn finish(app: &App, wishes: Wishes, request: Result<Request>) -> Result<Outcome> {
    let (request, store) = match request.and_then(|request| Ok((request, app.store()?))) {
        Ok(both) => both,
        Err(error) => return wishes.tell(&app.context, error),
    };
    let error = launch::launch(&app.context, &request, &store, |text| app.note(text));
    wishes.exit(error)
}
