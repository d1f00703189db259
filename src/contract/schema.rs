//! The contract as one JSON Schema document, generated from the types that are serialised.

use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use super::audit::AuditList;
use super::doctor::Doctor;
use super::document::{Contract, Version};
use super::enrollment::{Enrolled, EnrollmentList};
use super::failure::Failure;
use super::fleet::RunStatus;
use super::fleet::lead::{
    FleetDoctor, FleetSettings, HoldChanged, LaunchRows, PlanForecast, PreparedPrompt,
    SkillsInstalled, StepDiff, StepMerged, TreeCheck,
};
use super::fleet::steering::{FleetStopped, RunSetAside, Sent};
use super::fleet::watch::{History, LogLine, Notice, Peek, RunList, Waited};
use super::identity::{AuthStatus, AuthStatusList, ProfileIdentity, VerificationList};
use super::import::{Imported, Surveyed};
use super::launch::Validated;
use super::lease::{LeaseList, LeaseReleased};
use super::pool::PoolStatus;
use super::profile::{
    CooldownCleared, CooldownSet, Drained, Profile, ProfileList, ProfileStatus, Provisioned,
    ProvisionedList, Removed,
};
use super::provider::ProviderList;
use super::quota::QuotaList;
use super::reason::ReasonList;
use super::registry::{Initialised, PoolList, ProjectList, Setting, SettingList};
use super::selection::Selection;
use super::session::{Session, SessionList, SessionRemoved};
use super::status::Status;
use super::transaction::{Transaction, TransactionList, TransactionsRecovered};
use super::watch::Change;
use super::worker::Which;

type Define = fn(&mut SchemaGenerator) -> Schema;

fn define<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// The answer of each command.
const ANSWERS: &[(&str, Define)] = &[
    ("audit", define::<AuditList>),
    ("choose", define::<Selection>),
    ("config get", define::<Setting>),
    ("config list", define::<SettingList>),
    ("config set", define::<Setting>),
    ("contract", define::<Contract>),
    ("doctor", define::<Doctor>),
    ("exec --validate-only", define::<Validated>),
    ("fleet recover", define::<RunStatus>),
    ("fleet recover --set-aside", define::<RunSetAside>),
    ("fleet resume", define::<RunStatus>),
    ("fleet run", define::<RunStatus>),
    ("fleet send", define::<Sent>),
    ("fleet status", define::<RunStatus>),
    ("fleet stop", define::<FleetStopped>),
    ("fleet take", define::<RunStatus>),
    ("fleet attach", define::<LogLine>),
    ("fleet history", define::<History>),
    ("fleet list", define::<RunList>),
    ("fleet logs", define::<LogLine>),
    ("fleet peek", define::<Peek>),
    ("fleet run, last line", define::<RunStatus>),
    ("fleet run, lines before", define::<Change>),
    ("fleet status", define::<RunStatus>),
    ("fleet wait", define::<Waited>),
    ("on_event, standard input", define::<Notice>),
    ("fleet add", define::<RunStatus>),
    ("fleet check", define::<TreeCheck>),
    ("fleet diff", define::<StepDiff>),
    ("fleet doctor", define::<FleetDoctor>),
    ("fleet drop", define::<RunStatus>),
    ("fleet hold", define::<HoldChanged>),
    ("fleet init", define::<RunStatus>),
    ("fleet launch", define::<LaunchRows>),
    ("fleet merge", define::<StepMerged>),
    ("fleet plan", define::<RunStatus>),
    ("fleet plan --dry-run", define::<PlanForecast>),
    ("fleet prompt", define::<PreparedPrompt>),
    ("fleet providers", define::<FleetSettings>),
    ("fleet release", define::<HoldChanged>),
    ("fleet run", define::<RunStatus>),
    ("fleet skill install", define::<SkillsInstalled>),
    ("fleet status", define::<RunStatus>),
    ("fleet steer", define::<RunStatus>),
    ("fleet verify", define::<RunStatus>),
    ("init", define::<Initialised>),
    ("init --import", define::<Surveyed>),
    ("lease acquire", define::<Selection>),
    ("lease choose", define::<Selection>),
    ("lease list", define::<LeaseList>),
    ("lease recover", define::<Selection>),
    ("lease release", define::<LeaseReleased>),
    ("lease watch", define::<LeaseList>),
    ("lease watch, later lines", define::<Change>),
    ("pool list", define::<PoolList>),
    ("pool status", define::<PoolStatus>),
    ("profile add", define::<Profile>),
    ("profile auth-status", define::<AuthStatus>),
    ("profile auth-status --all", define::<AuthStatusList>),
    ("profile cooldown", define::<CooldownSet>),
    ("profile cooldown-clear", define::<CooldownCleared>),
    ("profile disable", define::<Profile>),
    ("profile drain", define::<Drained>),
    ("profile enable", define::<Profile>),
    ("profile identity show", define::<ProfileIdentity>),
    ("profile enroll", define::<Enrolled>),
    ("profile enroll --all-missing", define::<EnrollmentList>),
    ("profile import", define::<Imported>),
    ("profile list", define::<ProfileList>),
    ("profile policy", define::<Profile>),
    ("profile provision", define::<Provisioned>),
    ("profile provision --all", define::<ProvisionedList>),
    ("profile remove", define::<Removed>),
    ("profile status", define::<ProfileStatus>),
    ("profile undrain", define::<Drained>),
    ("profile verify", define::<VerificationList>),
    ("project list", define::<ProjectList>),
    ("project register", define::<ProjectList>),
    ("project remove", define::<ProjectList>),
    ("providers", define::<ProviderList>),
    ("quota refresh", define::<QuotaList>),
    ("quota show", define::<QuotaList>),
    ("quota watch", define::<QuotaList>),
    ("quota watch, later lines", define::<Change>),
    ("reasons", define::<ReasonList>),
    ("session list", define::<SessionList>),
    ("session remove", define::<SessionRemoved>),
    ("session status", define::<Session>),
    ("status", define::<Status>),
    ("status --watch, later lines", define::<Change>),
    ("transaction list", define::<TransactionList>),
    ("transaction recover", define::<TransactionsRecovered>),
    ("transaction show", define::<Transaction>),
    ("version", define::<Version>),
    ("which", define::<Which>),
];

/// The whole document: every type in `$defs`, and which command answers with which.
pub fn document() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let answers: Map<String, Value> = ANSWERS
        .iter()
        .map(|(command, define)| ((*command).to_owned(), define(&mut generator).to_value()))
        .collect();
    let refusal = generator.subschema_for::<Failure>();
    let mut document = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format!("agent-fleet contract {}", super::VERSION),
        "description": "Answers of agent-fleet --format json. `x-answers` names the answer of each command, `x-refusal` what a refused one prints.",
        "x-answers": answers,
        "x-refusal": refusal,
        "$defs": generator.take_definitions(true),
    });
    document.sort_all_objects();
    document
}

/// Fields of a selection, sorted.
pub(super) fn selection_fields() -> Vec<String> {
    let schema = SchemaSettings::draft2020_12()
        .into_generator()
        .into_root_schema_for::<Selection>();
    let mut fields: Vec<String> = schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(Map::keys)
        .cloned()
        .collect();
    fields.sort_unstable();
    fields
}

#[cfg(test)]
mod tests {
    use super::{document, selection_fields};
    use serde_json::Value;

    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                if let Some(target) = map.get("$ref").and_then(Value::as_str) {
                    found.push(target.to_owned());
                }
                map.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn every_reference_of_the_document_resolves() {
        let document = document();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 10, "only {found:?}");
        for target in found {
            let pointer = target.trim_start_matches('#');
            assert!(document.pointer(pointer).is_some(), "{target} is missing");
        }
    }

    #[test]
    fn a_selection_keeps_the_fields_that_supervisors_read() {
        let fields = selection_fields();
        for field in [
            "profile",
            "provider",
            "pool",
            "workspace",
            "task",
            "decision_reason",
            "quota_fresh",
            "headroom_percent",
            "active_lease_count",
            "degraded",
            "dry_run",
            "lease",
            "schema",
        ] {
            assert!(fields.iter().any(|name| name == field), "{field} is gone");
        }
    }
}
