//! `agent-fleet audit`.

use jiff::{SignedDuration, Timestamp};

use super::{App, Outcome};
use crate::audit::{self, Filter};
use crate::error::Result;
use crate::id::{ProfileId, Task};

#[derive(Debug, clap::Args)]
pub(super) struct AuditArguments {
    /// Only what happened to this task
    #[arg(long)]
    task: Option<Task>,
    /// Only what happened to this profile
    #[arg(long)]
    profile: Option<ProfileId>,
    /// Only the last so long, as in `90m` or `2h 30m`
    #[arg(long, value_name = "TIME")]
    since: Option<SignedDuration>,
    /// At most the newest so many
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
}

pub(super) fn run(app: &App, arguments: &AuditArguments) -> Result<Outcome> {
    let now = app.context.clock.now();
    let since = |span: SignedDuration| now.checked_sub(span.abs()).unwrap_or(Timestamp::MIN);
    let filter = Filter {
        task: arguments.task.as_ref().map(|task| task.as_str().to_owned()),
        profile: arguments.profile.as_ref().map(|id| id.as_str().to_owned()),
        since: arguments.since.map(since),
        limit: Some(arguments.limit),
    };
    app.view(&audit::read(&app.context, &filter)?)
}
