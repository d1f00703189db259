//! `agent-fleet profile enroll PROFILE|--all-missing`.

use super::{App, Outcome};
use crate::enroll::given::{self, Wanted};
use crate::enroll::{How, Source, enroll, enroll_missing};
use crate::error::{Error, Result};
use crate::id::ProfileId;
use crate::provider::enrollment::Method;
use crate::registry::schema::Credential;
use crate::render::{Format, Human as _};

#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
#[derive(Debug, clap::Args)]
pub(super) struct EnrollArguments {
    /// Which profile
    #[arg(
        value_name = "PROFILE",
        required_unless_present = "all_missing",
        conflicts_with = "all_missing"
    )]
    id: Option<ProfileId>,
    /// Every profile that has no login, one after another
    #[arg(long, conflicts_with = "adopt")]
    all_missing: bool,
    /// Take the login that is in the profile's own home already; nothing is moved
    #[arg(long, conflicts_with = "browser")]
    adopt: bool,
    /// Log in with a browser on this machine instead of a code
    #[arg(long)]
    browser: bool,
    /// Take Claude's long-lived token, as `claude setup-token` shows it: pasted at a prompt that shows nothing, or
    /// from standard input
    #[arg(long, conflicts_with_all = ["all_missing", "adopt", "browser", "api_key_stdin"])]
    setup_token: bool,
    /// The profile of the same account, where the server does not let the token say whose it is
    #[arg(long, value_name = "PROFILE", requires = "setup_token")]
    same_account_as: Option<ProfileId>,
    /// Take an API key from standard input; what workers do with it is paid for
    #[arg(long, conflicts_with_all = ["all_missing", "adopt", "browser"])]
    api_key_stdin: bool,
    /// While other profiles of the provider are at work
    #[arg(long)]
    beside_live: bool,
}

pub(super) fn run(app: &App, arguments: &EnrollArguments) -> Result<Outcome> {
    let how = How {
        source: match (arguments.adopt, arguments.browser) {
            (true, _) => Source::Home,
            (false, true) => Source::Login(Method::Browser),
            (false, false) => Source::Login(Method::Anywhere),
        },
        beside_live: arguments.beside_live,
    };
    let tell = |text: &str| app.note(&format!("agent-fleet: {text}"));
    let given = match (arguments.setup_token, arguments.api_key_stdin) {
        (true, _) => Some(Credential::SetupToken),
        (false, true) => Some(Credential::ApiKey),
        (false, false) => None,
    };
    if let (Some(kind), Some(id)) = (given, &arguments.id) {
        let wanted = Wanted {
            kind,
            same_as: arguments.same_account_as.clone(),
            beside_live: arguments.beside_live,
        };
        return app.view(&given::enroll(&app.context, id, &wanted, &tell)?);
    }
    if let Some(id) = &arguments.id {
        return app.view(&enroll(&app.context, id, how, &tell)?);
    }
    let (list, refusal) = enroll_missing(&app.context, how, &tell)?;
    let Some(mut refusal) = refusal else {
        return app.view(&list);
    };
    // An error has no such table, and the person wants to see who is left.
    app.note(&list.page(app.context.clock.now()).text());
    let left = list.enrollments.iter().filter(|row| row.enrolled.is_none());
    let first = list.enrollments.iter().find(|row| row.enrolled.is_none());
    let again = first.map(|row| format!("agent-fleet profile enroll {}", row.profile));
    if left.count() > 1 && refusal.hint == again {
        refusal.hint = Some("agent-fleet profile enroll --all-missing".to_owned());
    }
    if app.format == Format::Human {
        return Err(refusal);
    }
    let rows = serde_json::to_value(&list.enrollments)
        .map_err(|error| Error::internal(format!("cannot serialise: {error}")))?;
    Err(refusal.detail("enrollments", rows))
}
