//! Settings, projects, pools and a new registry on a page.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::page::{Page, Role, nothing, paint};
use super::{Human, words};
use crate::contract::profile::{CooldownCleared, CooldownSet, Drained};
use crate::contract::registry::{
    Initialised, PoolList, ProjectList, Projects, Setting, SettingList,
};
use crate::id::{PoolId, ProfileId, ProviderKind};

impl Human for Setting {
    fn page(&self, _: Timestamp) -> Page {
        Page::new().fields(&[
            (self.key.as_str(), value(&self.value)),
            ("default", value(&self.default)),
            ("meaning", self.meaning.clone()),
        ])
    }
}

impl Human for SettingList {
    fn page(&self, _: Timestamp) -> Page {
        let rows = self
            .settings
            .iter()
            .map(|setting| {
                let shown = value(&setting.value);
                let shown = if setting.value == setting.default {
                    paint(Role::Faint, &shown)
                } else {
                    shown
                };
                vec![
                    paint(Role::Literal, &setting.key),
                    shown,
                    setting.meaning.clone(),
                ]
            })
            .collect();
        let mut page = Page::new()
            .line(words::plain(self.registry.as_str()))
            .gap()
            .table(&["key", "value", "meaning"], rows, "no settings");
        for note in &self.notes {
            page = page.line(format!(
                "{} {}",
                paint(Role::Warning, "note:"),
                words::plain(note)
            ));
        }
        page
    }
}

fn value(value: &Value) -> String {
    match value {
        Value::Null => nothing(),
        Value::String(text) => words::plain(text),
        Value::Array(items) if items.is_empty() => nothing(),
        Value::Array(items) => {
            let items: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            words::plain(&items.join(","))
        }
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

impl Human for ProjectList {
    fn page(&self, _: Timestamp) -> Page {
        let providers = match self {
            Self::All { providers } => providers.as_slice(),
            Self::One(projects) => std::slice::from_ref(projects),
        };
        let mut hosts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for Projects {
            provider,
            trusted_projects,
        } in providers
        {
            for path in trusted_projects {
                hosts
                    .entry(path.as_str())
                    .or_default()
                    .push(provider.name());
            }
        }
        let empty = hosts.is_empty();
        let rows = hosts
            .into_iter()
            .map(|(path, providers)| vec![words::plain(path), providers.join(", ")])
            .collect();
        let page = Page::new().table(&["project", "providers"], rows, "no projects yet");
        if empty {
            page.next("agent-fleet project register /path/to/your/repository")
        } else {
            page
        }
    }
}

impl Human for PoolList {
    fn page(&self, _: Timestamp) -> Page {
        let rows = self
            .pools
            .iter()
            .map(|pool| {
                let profiles: Vec<&str> = pool.profiles.iter().map(ProfileId::as_str).collect();
                let providers: Vec<&str> = pool
                    .providers
                    .iter()
                    .map(|provider| ProviderKind::name(*provider))
                    .collect();
                vec![
                    paint(Role::Literal, PoolId::as_str(&pool.pool)),
                    providers.join(", "),
                    pool.enabled.to_string(),
                    pool.slots.to_string(),
                    profiles.join(", "),
                ]
            })
            .collect();
        let columns = ["pool", "providers", "enabled", "slots", "profiles"];
        let page = Page::new().table(&columns, rows, "no profile is in a pool");
        if self.pools.is_empty() {
            page.next("agent-fleet profile list")
        } else {
            page
        }
    }
}

impl Human for Drained {
    fn page(&self, _: Timestamp) -> Page {
        let profile = paint(Role::Literal, self.profile.as_str());
        match (&self.drain, self.changed) {
            (Some(drain), _) => Page::new().line(format!(
                "{profile} takes no new leases: {}",
                words::plain(&drain.reason)
            )),
            (None, true) => Page::new().line(format!("{profile} takes leases again")),
            (None, false) => Page::new().line(format!("{profile} was not drained")),
        }
    }
}

impl Human for CooldownSet {
    fn page(&self, now: Timestamp) -> Page {
        let profile = paint(Role::Literal, self.profile.as_str());
        let until = self.cooldown.as_ref().and_then(|rest| rest.until);
        let until = until.map_or_else(String::new, |until| {
            format!(" until {}", words::instant(now, until))
        });
        let already = if self.changed { "" } else { " already" };
        Page::new().line(format!("{profile} rests{already}{until}"))
    }
}

impl Human for CooldownCleared {
    fn page(&self, _: Timestamp) -> Page {
        let profile = paint(Role::Literal, self.profile.as_str());
        Page::new().line(if self.changed {
            format!("{profile} rests no more")
        } else {
            format!("{profile} was not resting")
        })
    }
}

impl Human for Initialised {
    fn page(&self, _: Timestamp) -> Page {
        let mut page = Page::new().line(format!("wrote {}", words::plain(self.registry.as_str())));
        let binaries: Vec<(&str, String)> = self
            .binaries
            .iter()
            .map(|(provider, binary)| {
                let binary = binary.as_ref().map(|path| words::plain(path.as_str()));
                (
                    provider.name(),
                    binary.unwrap_or_else(|| "built in".to_owned()),
                )
            })
            .collect();
        page = page.fields(&binaries);
        let profiles: Vec<(&str, String)> = self
            .profiles
            .iter()
            .map(|profile| (profile.id.as_str(), words::plain(profile.home.as_str())))
            .collect();
        page = page.fields(&profiles);
        for command in &self.next {
            page = page.next(command);
        }
        page
    }
}
