//! A panic is a bug of ours: it is reported like every other error, as `internal`, with exit status 1.
//!
//! The sentence is the whole report: version, system, command without its arguments, and the place in the source.
//! What the panic said is not shown, since it may quote data. It is written down for `audit` too.

use std::panic::{self, AssertUnwindSafe};
use std::sync::{Mutex, PoisonError};

use crate::audit;
use crate::contract::audit::AuditEvent;
use crate::env::Context;
use crate::error::{Error, Result};

static PLACE: Mutex<Option<String>> = Mutex::new(None);

/// Replaces the standard report of a panic by one that remembers where the first one was.
pub(super) fn install_hook() {
    panic::set_hook(Box::new(|panic| {
        let place = panic
            .location()
            .map(|at| format!("{}:{}", at.file(), at.line()));
        let mut first = PLACE.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_none() {
            *first = place;
        }
    }));
}

/// Runs a command; one that panics is unwound, so that its guards run, and becomes an error.
pub(super) fn guard<T>(context: &Context, command: impl FnOnce() -> Result<T>) -> Result<T> {
    panic::catch_unwind(AssertUnwindSafe(command)).unwrap_or_else(|_| {
        let place = PLACE
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
            .unwrap_or_else(|| "an unknown place".to_owned());
        audit::write(
            context,
            &AuditEvent {
                reason: Some(place.clone()),
                ..audit::event(context, "crashed")
            },
        );
        Err(Error::internal(format!(
            "this is a bug in agent-fleet {} on {} {}, in `{}`, at {place}: please report this sentence",
            env!("CARGO_PKG_VERSION"),
            std::env::consts::OS,
            std::env::consts::ARCH,
            context.command
        ))
        .detail("place", place))
    })
}

#[cfg(test)]
mod tests {
    use super::{guard, install_hook};
    use crate::audit::{self, Filter};
    use crate::error::{Result, code};
    use crate::snapshot::provider::tests::World;

    #[test]
    fn a_panic_is_an_internal_error_that_names_its_place_and_not_its_words() {
        install_hook();
        let world = World::new();
        std::fs::create_dir_all(&world.context.roots.state).unwrap();
        let caught: Result<()> = guard(&world.context, || panic!("token-in-a-message"));
        let error = caught.expect_err("a panic");
        assert_eq!(error.code, code::INTERNAL);
        assert!(error.message.contains("this is a bug"), "{error}");
        assert!(error.message.contains("bug.rs:"), "{error}");
        assert!(!format!("{error:?}").contains("token-in-a-message"));
        let told = audit::read(&world.context, &Filter::default()).unwrap();
        let told = &told.events[0];
        assert_eq!(told.event, "crashed");
        assert!(
            told.reason.as_ref().unwrap().contains("bug.rs:"),
            "{told:?}"
        );
    }
}
