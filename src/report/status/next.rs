//! The one command to type next. Pure.

use crate::contract::status::{RowState, StatusRow, Warning};

/// What a person who looks at this wants to type: what lets work go on, before what wants a look, before work
/// itself.
pub(super) fn next(rows: &[StatusRow], warnings: &[Warning]) -> String {
    let hint = |state: RowState| {
        rows.iter()
            .filter(move |row| row.state == state)
            .find_map(|row| row.hint.clone())
    };
    let any = |state: RowState| rows.iter().any(|row| row.state == state);
    let warned = || warnings.iter().find_map(|warning| warning.hint.clone());
    if rows.is_empty() {
        let first = "agent-fleet profile add claude-1 --provider claude";
        return warned().unwrap_or_else(|| first.to_owned());
    }
    let routed = rows.iter().any(|row| row.state != RowState::Disabled);
    if !routed && let Some(enable) = hint(RowState::Disabled) {
        return enable;
    }
    if let Some(settle) = hint(RowState::Blocked).or_else(warned) {
        return settle;
    }
    if any(RowState::Free) {
        return "agent-fleet run".to_owned();
    }
    // Nothing but time helps.
    "agent-fleet status --watch".to_owned()
}

#[cfg(test)]
mod tests {
    use super::next;
    use crate::contract::status::{RowState, StatusRow, Warning};
    use crate::id::ProviderKind;

    fn row(state: RowState, hint: Option<&str>) -> StatusRow {
        StatusRow {
            profile: "claude-1".parse().unwrap(),
            provider: ProviderKind::Claude,
            pools: Vec::new(),
            state,
            reason: "fresh".to_owned(),
            why: None,
            since: None,
            until: None,
            headroom_percent: None,
            reading_age_seconds: None,
            active_leases: 0,
            max_concurrent: 2,
            login_expires_at: None,
            hint: hint.map(str::to_owned),
        }
    }

    #[test]
    fn what_lets_work_go_on_comes_before_work_and_work_before_waiting() {
        let warning = Warning {
            code: "daemons".to_owned(),
            profile: None,
            message: "a daemon lives".to_owned(),
            hint: Some("stop it".to_owned()),
        };
        let warned = std::slice::from_ref(&warning);
        let free = row(RowState::Free, None);
        let resting = row(RowState::Blocked, None);
        let broken = row(RowState::Blocked, Some("log in"));
        let disabled = row(RowState::Disabled, Some("enable"));
        for (rows, warnings, wanted) in [
            (vec![], warned, "stop it"),
            (
                vec![],
                &[][..],
                "agent-fleet profile add claude-1 --provider claude",
            ),
            (vec![disabled.clone()], warned, "enable"),
            (vec![free.clone(), broken], warned, "log in"),
            (vec![free.clone(), disabled.clone()], warned, "stop it"),
            (vec![free, disabled], &[], "agent-fleet run"),
            (vec![resting], &[], "agent-fleet status --watch"),
        ] {
            assert_eq!(next(&rows, warnings), wanted);
        }
    }
}
