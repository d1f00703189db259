//! The provider's own login, with the person at its terminal.

use camino::Utf8Path;

use super::Work;
use super::refusal::Unfit;
use crate::error::{Error, Result, code};
use crate::provider::enrollment::Method;
use crate::provider::{self, environment};
use crate::registry::binary;
use crate::registry::schema::WorkerEnvironment;
use crate::sys::attend::{Attended, attend};
use crate::sys::spawn::Program;
use crate::sys::{shell, user};

/// Logs the person in to a home that nobody uses. What the CLI wrote there is not looked at.
pub(super) fn run(work: &Work<'_>, home: &Utf8Path, method: Method) -> Result<()> {
    let Work {
        context, profile, ..
    } = work;
    let provider = provider::of(profile.provider);
    let path = binary::resolve(context, work.settings)?;
    provider.stage(work.settings, home)?;
    // A login needs the person's browser and display, whatever workers get.
    let mut variables = environment::worker(
        &context.variables,
        WorkerEnvironment::Inherit,
        user::name().as_deref(),
    );
    variables.extend(provider.login_environment(home, &context.variables));
    #[cfg(feature = "test-fakes")]
    if let Some(now) = context.variables.text(crate::env::TEST_NOW) {
        variables.push((crate::env::TEST_NOW.into(), now.into()));
    }
    let program = Program {
        path: path.clone().into_std_path_buf(),
        arguments: provider.login_arguments(method),
        environment: variables,
        directory: Some(home.as_std_path().to_owned()),
        input: Vec::new(),
    };
    let ended = attend(&program, work.interrupts, context.clock).map_err(|error| {
        Error::new(
            code::PROVIDER_MISSING,
            format!("cannot start `{path}`: {error}"),
        )
        .hint(format!("ls -l {}", shell::quote(path.as_str())))
    })?;
    match ended {
        Attended::Ended(Some(0)) => Ok(()),
        Attended::Ended(status) => Err(Unfit::failed(profile, status).into()),
        Attended::Interrupted => Err(Unfit::interrupted(profile).into()),
    }
}
