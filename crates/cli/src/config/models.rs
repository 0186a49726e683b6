//! `jobs/models.toml`: which models serve which use case, and in which order they are asked. `jobs/providers.toml`: their
//! providers.

use std::collections::BTreeMap;
use std::fmt;

use houston_domain::ensure;
use houston_domain::setting::WrongSetting;
use houston_llm::profile::{self, Changes};
use houston_llm::{Need, Secret, Strategy, Wire, parse_choice, redacted_address};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The name that stands for all detected models.
pub(crate) const AUTO: &str = "auto";

/// The use cases a model can be set for.
pub(crate) const USE_CASES: [&str; 7] =
    ["agent", "summaries", "titles", "planner", "routing", "tools", "vision"];

/// `jobs/models.toml`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Models {
    /// Drives runs; also used for every use case that is not set.
    pub(crate) agent: ModelSelection,
    pub(crate) summaries: Option<ModelSelection>,
    pub(crate) titles: Option<ModelSelection>,
    pub(crate) planner: Option<ModelSelection>,
    pub(crate) routing: Option<ModelSelection>,
    pub(crate) tools: Option<ModelSelection>,
    pub(crate) vision: Option<ModelSelection>,
    /// A quality from 1 to 100 by the beginning of a model's name; strategies compare it.
    #[serde(default)]
    pub(crate) quality: BTreeMap<String, u8>,
    /// Changes of the profiles of models, by pattern of provider and model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) profiles: BTreeMap<String, Changes>,
}

impl Models {
    /// Checks the names of models, and their qualities.
    ///
    /// # Errors
    /// [`WrongSetting`] at the first that is wrong.
    pub(super) fn check(&self) -> Result<(), WrongSetting> {
        for (use_case, selection) in self.set() {
            selection.check().map_err(|reason| WrongSetting::new(format!("/{use_case}"), reason))?;
        }
        if let Some(pattern) = self.profiles.keys().find(|pattern| !profile::is_pattern(pattern)) {
            let pointer = format!("/profiles/{}", pattern.replace('/', "~1"));
            return Err(WrongSetting::new(pointer, "is not `provider/model`, with * for any characters"));
        }
        if let Some((name, _)) = self.quality.iter().find(|(_, rank)| !(1..=100).contains(*rank)) {
            let pointer = format!("/quality/{}", name.replace('/', "~1"));
            return Err(WrongSetting::new(pointer, "must be from 1 to 100"));
        }
        Ok(())
    }

    /// The use cases that are set, and their models.
    pub(crate) fn set(&self) -> impl Iterator<Item = (&'static str, &ModelSelection)> {
        let selection = [
            Some(&self.agent),
            self.summaries.as_ref(),
            self.titles.as_ref(),
            self.planner.as_ref(),
            self.routing.as_ref(),
            self.tools.as_ref(),
            self.vision.as_ref(),
        ];
        USE_CASES.into_iter().zip(selection).filter_map(|(name, selection)| Some((name, selection?)))
    }

    /// The models of a use case, or of `agent` if it is not set.
    pub(crate) fn serving(&self, use_case: &str) -> &ModelSelection {
        self.set().find(|(name, _)| *name == use_case).map_or(&self.agent, |(_, selection)| selection)
    }
}

/// The models of one use case, in one of the forms that `models.toml` allows:
///
/// ```toml
/// agent = "anthropic, openai/gpt-5-mini"
/// titles = ["groq", "openai"]
/// planner = { strategy = "cheapest", models = ["auto"], needs = ["tools"] }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(crate) enum ModelSelection {
    /// `provider/model`, or several with commas between them.
    One(String),
    /// Tried in this order.
    Several(Vec<String>),
    /// Tried in the order of a strategy.
    Routed(Routed),
}

/// Models and the strategy that orders them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Routed {
    #[serde(default)]
    pub(crate) strategy: Strategy,
    #[serde(default = "Routed::all", skip_serializing_if = "Vec::is_empty")]
    pub(crate) models: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) needs: Vec<Need>,
}

impl Routed {
    fn all() -> Vec<String> {
        vec![AUTO.to_owned()]
    }
}

impl ModelSelection {
    /// The same selection as a list with a strategy.
    pub(crate) fn routed(&self) -> Routed {
        let listed = |models| Routed { strategy: Strategy::Fallback, models, needs: Vec::new() };
        match self {
            Self::One(text) => listed(text.split(',').map(|model| model.trim().to_owned()).collect()),
            Self::Several(models) => listed(models.clone()),
            Self::Routed(routed) => routed.clone(),
        }
    }

    /// Checks the names of the models.
    ///
    /// # Errors
    /// A text for a person: which name is unknown, and what is allowed.
    pub(crate) fn check(&self) -> Result<(), String> {
        let models = self.routed().models;
        ensure!(!models.is_empty(), "must name a model, or \"auto\"");
        for model in &models {
            if model == AUTO && models.len() > 1 {
                return Err(
                    "\"auto\" cannot be combined with other models: name the models, or leave them out"
                        .to_owned(),
                );
            }
            if model != AUTO {
                parse_choice(model).map_err(|error| error.message)?;
            }
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for ModelSelection {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = ModelSelection;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "\"auto\", \"provider/model\", a list of these, or a table with `strategy`, `models` and `needs`",
        )
    }

    fn visit_str<E>(self, text: &str) -> Result<ModelSelection, E> {
        Ok(ModelSelection::One(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<ModelSelection, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(ModelSelection::Several)
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<ModelSelection, A::Error> {
        Routed::deserialize(MapAccessDeserializer::new(table)).map(ModelSelection::Routed)
    }
}

/// The settings of one provider:
///
/// ```toml
/// [custom]
/// base_url = "http://127.0.0.1:1234/v1"
/// key_variable = "MY_KEY"
/// ```
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ProviderSettings {
    /// The address including the API version, e.g. `https://api.openai.com/v1`. Credentials in it are never printed.
    #[serde(serialize_with = "redacted")]
    pub(crate) base_url: Option<String>,
    /// The format of requests and responses.
    pub(crate) wire: Option<Wire>,
    /// The API key.
    #[serde(skip_serializing)]
    pub(crate) key: Option<Secret>,
    /// The environment variable with the API key.
    pub(crate) key_variable: Option<String>,
    /// Whether its models can call tools.
    pub(crate) tools: Option<bool>,
}

/// Redacts credentials. Settings are serialised only for `houston config show`.
#[expect(clippy::ref_option, reason = "the shape `serialize_with` takes")]
fn redacted<S: Serializer>(base_url: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    base_url.as_deref().map(redacted_address).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use houston_llm::Wire;

    use super::*;
    use crate::config::load;
    use crate::config::tests::tools;

    /// The models of a use case with this `models.toml`, or the error.
    fn read(text: &str, use_case: &str) -> Result<Routed, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("models.toml"), text).unwrap();
        let loaded = load(Some(folder.path()), &tools()).map_err(|error| error.to_string())?;
        Ok(loaded.settings.models.serving(use_case).routed())
    }

    fn routed(strategy: Strategy, models: &[&str], needs: &[Need]) -> Routed {
        Routed {
            strategy,
            models: models.iter().map(|&model| model.to_owned()).collect(),
            needs: needs.to_vec(),
        }
    }

    #[test]
    fn use_cases_take_models_or_a_strategy_or_those_of_agent() {
        let two = routed(Strategy::Fallback, &["openai/gpt-5-mini", "groq"], &[]);
        for (text, use_case, selection) in [
            ("", "agent", routed(Strategy::Fallback, &["auto"], &[])),
            ("", "titles", routed(Strategy::Fallback, &["auto"], &[])),
            ("agent = 'groq'", "planner", routed(Strategy::Fallback, &["groq"], &[])),
            ("titles = 'groq'", "agent", routed(Strategy::Fallback, &["auto"], &[])),
            ("agent = 'openai/gpt-5-mini, groq'", "agent", two.clone()),
            ("summaries = ['openai/gpt-5-mini', 'groq']", "summaries", two),
            (
                "titles = { strategy = 'cheapest', models = ['groq'], needs = ['tools', 'json_schema'] }",
                "titles",
                routed(Strategy::Cheapest, &["groq"], &[Need::Tools, Need::JsonSchema]),
            ),
            ("agent = { strategy = 'fastest' }", "agent", routed(Strategy::Fastest, &["auto"], &[])),
        ] {
            assert_eq!(read(text, use_case), Ok(selection), "{text}");
        }
    }

    #[test]
    fn errors_name_the_key_the_allowed_names_and_the_nearest() {
        for (text, parts) in [
            ("agnet = 'groq'", ["models.toml", "agnet", "did you mean `agent`?", "summaries"]),
            ("agent = 'opnai/gpt-5'", ["models.agent", "models.toml", "did you mean openai?", "anthropic"]),
            ("titles = ['groq', 'grqo/x']", ["models.titles", "models.toml", "`grqo`", "did you mean groq?"]),
            ("agent = ['auto', 'groq']", ["models.agent", "models.toml", "auto", "leave them out"]),
            ("agent = []", ["models.agent", "models.toml", "must name a model", "auto"]),
            (
                "agent = { strategy = 'cheap' }",
                ["models.agent", "models.toml", "did you mean `cheapest`?", "balanced"],
            ),
            (
                "agent = { needs = ['tool'] }",
                ["models.agent", "models.toml", "did you mean `tools`?", "vision"],
            ),
            (
                "agent = { model = ['groq'] }",
                ["models.agent", "models.toml", "did you mean `models`?", "needs"],
            ),
            ("agent = 3", ["models.agent", "models.toml", "3", "provider/model"]),
            (
                "[profiles.qwen3]\nvision = true",
                ["models.profiles.qwen3", "models.toml", "provider/model", "*"],
            ),
            ("[profiles.'local/qwen3*']\nvison = true", ["profiles", "models.toml", "vison", "vision"]),
            ("[quality]\nclaude = 101", ["models.quality.claude", "models.toml", "1", "100"]),
        ] {
            let error = read(text, "agent").unwrap_err();
            for part in parts {
                assert!(error.contains(part), "{text}: `{part}` is not in: {error}");
            }
        }
    }

    #[test]
    fn agent_type_names_a_use_case_or_models() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("agents")).unwrap();
        let file = folder.path().join("agents/goal.toml");
        let goal = include_str!("../../../../jobs/agents/goal.toml");
        let load = |use_case: &str| {
            std::fs::write(
                &file,
                goal.replace("use_case = \"agent\"", &format!("use_case = \"{use_case}\"")),
            )
            .unwrap();
            load(Some(folder.path()), &tools()).map(|_| ()).map_err(|error| error.to_string())
        };
        for right in ["agent", "planner", "openai/gpt-5", "openai, groq/x"] {
            assert_eq!(load(right), Ok(()), "{right}");
        }
        let error = load("planer").unwrap_err();
        for part in ["goal.toml", "`planer`", "did you mean `planner`?", "provider/model"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn providers_are_set_by_name_and_keys_are_never_printed() {
        let folder = tempfile::tempdir().unwrap();
        let write = |text: &str| std::fs::write(folder.path().join("providers.toml"), text).unwrap();
        write("[custom]\nbase_url = \"http://127.0.0.1:1/v1\"\nwire = \"anthropic\"\nkey = \"sk-secret\"");
        let loaded = load(Some(folder.path()), &tools()).unwrap();
        assert_eq!(loaded.settings.providers["custom"].wire, Some(Wire::Anthropic));
        assert!(loaded.entries().iter().any(|entry| entry.key == "providers.custom.base_url"));
        assert!(!format!("{:?} {:?}", loaded.settings, loaded.entries()).contains("sk-secret"));

        // No error of this file contains a value.
        for text in [
            "[groq]\nkey = 918273645546372819",
            "[groq]\nkey = 918273645546372819918273645546372819",
            "[groq]\nkey = sk-918273645546372819",
            "groq = \"sk-918273645546372819\"",
            "[groq]\nwire = \"sk-918273645546372819\"",
            "[groq]\ntools = \"sk-918273645546372819\"",
        ] {
            write(text);
            let error = load(Some(folder.path()), &tools()).unwrap_err().to_string();
            assert!(error.contains("providers") && !error.contains("918273"), "{error}");
        }
        write("[groq]\nbase_url = \"http://luser:CANARY@host/v1?key=CANARY\"");
        let loaded = load(Some(folder.path()), &tools()).unwrap();
        let shown = format!("{:?}", loaded.entries());
        assert!(shown.contains("[redacted]@host/v1") && !shown.contains("CANARY"), "{shown}");

        write("[costum]\nbase_url = \"x\"");
        let error = load(Some(folder.path()), &tools()).unwrap_err().to_string();
        assert!(error.contains("providers.costum") && error.contains("did you mean custom?"), "{error}");
    }
}
