//! Which model a worker's own arguments name. Pure.

use std::ffi::OsString;

use super::Invocation;
use crate::quota::model::Model;

impl Invocation {
    /// The model that the worker's arguments name: the last `--model` (`-m`), or else the last `-c model=…` of
    /// Codex, which the option outweighs there too. `None` where they name none that can be read.
    pub fn model(&self) -> Option<Model> {
        let option = self.last("--model", |value| Some(value.to_owned()));
        let configured = || self.last("--config", configured);
        option.or_else(configured)?.parse().ok()
    }

    fn last(&self, name: &str, read: impl Fn(&str) -> Option<String>) -> Option<String> {
        self.options
            .iter()
            .rev()
            .filter(|option| option.name == name)
            .filter_map(|option| option.values.last())
            .find_map(|value: &OsString| read(value.to_str()?))
    }
}

/// The model that one `key=value` of Codex sets: a TOML string, or bare text.
fn configured(pair: &str) -> Option<String> {
    let (key, value) = pair.split_once('=')?;
    let value = value.trim();
    let quoted = |mark: char| value.strip_prefix(mark)?.strip_suffix(mark);
    let name = quoted('"').or_else(|| quoted('\'')).unwrap_or(value);
    (key.trim() == "model").then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use crate::provider::{AllowedOption, Invocation, Mode};

    fn model(options: &[(&str, &str)]) -> Option<String> {
        let options = options.iter().map(|(name, value)| AllowedOption {
            name: (*name).to_owned(),
            values: vec![value.into()],
        });
        let invocation = Invocation {
            mode: Mode::Headless,
            options: options.collect(),
            prompt: None,
        };
        invocation.model().map(|model| model.to_string())
    }

    #[test]
    fn the_last_option_names_the_model_and_outweighs_codexs_configuration() {
        let named = |options: &[(&str, &str)]| model(options).unwrap_or_default();
        assert_eq!(
            named(&[("--model", "opus"), ("--model", "sonnet")]),
            "sonnet"
        );
        assert_eq!(named(&[("--config", "model=\"gpt-6-sol\"")]), "gpt-6-sol");
        assert_eq!(named(&[("--config", "model = gpt-6-sol")]), "gpt-6-sol");
        assert_eq!(
            named(&[("--model", "gpt-6-luna"), ("--config", "model='gpt-6-sol'")]),
            "gpt-6-luna"
        );
        for none in [
            &[("--config", "model_verbosity=\"low\"")][..],
            &[("--fallback-model", "opus")],
            &[("--model", "")],
            &[],
        ] {
            assert_eq!(model(none), None, "{none:?}");
        }
    }
}
