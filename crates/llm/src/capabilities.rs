//! Limits and features of models, from vendored data: for routing, context budgets, and suggestions for mistyped
//! names.
//!
//! The table is litellm's (see [`source`]), reduced to the fields used here; missing context windows are filled in
//! from the price table. `cargo xtask prices` updates both. A feature that the table does not mention is unknown, not
//! absent.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use chrono::NaiveDate;
use serde::Deserialize;

use crate::price::{self, Source};

/// Publisher names as OpenRouter and GitHub write them before a model's name, with the table's provider ids.
const PUBLISHERS: [(&str, &str); 4] =
    [("mistralai", "mistral"), ("z-ai", "zai"), ("xai", "x-ai"), ("mistral-ai", "mistral")];

/// What the tables say about a model; `None` means unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// Most input tokens.
    pub context_window: Option<u64>,
    /// Most output tokens in one answer.
    pub max_output_tokens: Option<u64>,
    /// Whether it supports tool calls.
    pub tools: Option<bool>,
    /// Whether it supports several tool calls in one answer.
    pub parallel_tools: Option<bool>,
    /// Whether it accepts images as input.
    pub vision: Option<bool>,
    /// Whether answers can be constrained to a JSON schema.
    pub json_schema: Option<bool>,
    /// Whether it reasons before it answers.
    pub reasoning: Option<bool>,
    /// Whether the provider caches a stable prefix of the prompt.
    pub prompt_caching: Option<bool>,
    /// Whether it finds deferred tools itself ([`Request::deferred`](crate::Request)).
    pub tool_search: Option<bool>,
    /// The day its provider stops offering it.
    pub retires: Option<NaiveDate>,
}

#[derive(Deserialize)]
struct File {
    source: Source,
    providers: Vec<Provider>,
}

#[derive(Deserialize)]
struct Provider {
    id: String,
    models: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    id: String,
    input: Option<u64>,
    output: Option<u64>,
    #[serde(default)]
    supports: Vec<Feature>,
    #[serde(default)]
    lacks: Vec<Feature>,
    retires: Option<NaiveDate>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Feature {
    Tools,
    ParallelTools,
    Vision,
    JsonSchema,
    Reasoning,
    PromptCaching,
    ToolSearch,
}

struct Table {
    source: Source,
    /// By provider, then by the model's name.
    models: BTreeMap<String, BTreeMap<String, Capabilities>>,
}

static TABLE: LazyLock<Table> = LazyLock::new(read);

fn read() -> Table {
    let file: File = crate::of_data(include_str!("../data/models.json"));
    let of = |model: Model| (model.id.to_lowercase(), model.into());
    let models = file.providers.into_iter().map(|one| (one.id, one.models.into_iter().map(of).collect()));
    Table { source: file.source, models: models.collect() }
}

impl From<Model> for Capabilities {
    fn from(model: Model) -> Self {
        let says = |feature| {
            let yes = model.supports.contains(&feature).then_some(true);
            yes.or_else(|| model.lacks.contains(&feature).then_some(false))
        };
        Self {
            context_window: model.input,
            max_output_tokens: model.output,
            tools: says(Feature::Tools),
            parallel_tools: says(Feature::ParallelTools),
            vision: says(Feature::Vision),
            json_schema: says(Feature::JsonSchema),
            reasoning: says(Feature::Reasoning),
            prompt_caching: says(Feature::PromptCaching),
            tool_search: says(Feature::ToolSearch),
            retires: model.retires,
        }
    }
}

/// Package, version, date and licence of the table.
pub fn source() -> &'static Source {
    &TABLE.source
}

impl Capabilities {
    /// What the tables say about a model, e.g. `find("openai", "gpt-5-mini")`; `None` when none lists it. Not cheap.
    /// [`Profile`](crate::Profile) has it with the changes of the operator.
    pub(crate) fn find(provider: &str, model: &str) -> Option<Self> {
        let model = model.to_lowercase();
        let listed = price::listed(provider, &model);
        let found = price::provider_id(provider).and_then(|id| {
            // For a dated or aliased name, the entry of the model it is priced as.
            let names = [Some(&*model), listed.map(|(name, _)| name)];
            names.into_iter().flatten().find_map(|name| TABLE.models.get(id)?.get(name).copied())
        });
        let own = listed.and_then(|(_, context)| context);
        if let Some(known) = found {
            return Some(Self { context_window: known.context_window.or(own), ..known });
        }
        match published(&model) {
            // A host may allow less input than the publisher: the host's own limit takes precedence.
            Some(known) => {
                // The search is one of the publisher's own API.
                let context_window = own.or(known.context_window);
                Some(Self { context_window, tool_search: None, ..known })
            }
            None => listed.map(|_| Self { context_window: own, ..Self::default() }),
        }
    }
}

/// Looks up `publisher/model` at its publisher. Gateways write `4.5` where Anthropic writes `4-5`, and append
/// suffixes such as `:free`.
fn published(name: &str) -> Option<Capabilities> {
    let (publisher, model) = name.split_once('/')?;
    let publisher =
        PUBLISHERS.iter().find(|(theirs, _)| *theirs == publisher).map_or(publisher, |(_, ours)| ours);
    let models = TABLE.models.get(publisher)?;
    let model = model.split(':').next().unwrap_or(model);
    models.get(model).or_else(|| models.get(&model.replace('.', "-"))).copied()
}

/// How similar a name must be to be suggested (Jaro-Winkler, 0 to 1).
const MIN_SIMILARITY: f64 = 0.8;

/// The models of `provider` in the price and limit tables; may contain duplicates.
pub(crate) fn names(provider: &str) -> impl Iterator<Item = &'static str> {
    let limited = price::provider_id(provider).and_then(|id| TABLE.models.get(id));
    let limited = limited.into_iter().flat_map(|models| models.keys().map(String::as_str));
    price::names(provider).into_iter().chain(limited)
}

/// The listed model of `provider` with the name most similar to `model`; `None` when `model` itself is listed, or no
/// name is similar enough.
pub fn nearest(provider: &str, model: &str) -> Option<&'static str> {
    if Capabilities::find(provider, model).is_some() {
        return None;
    }
    crate::provider::nearest(names(provider), &model.to_lowercase(), MIN_SIMILARITY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::price::Price;
    use crate::provider::PROVIDERS;

    /// Run by users on their own hardware, or sold at prices that no table lists.
    const UNPRICED: [&str; 3] = ["ollama", "local", "github"];

    #[test]
    fn default_models_are_in_the_tables() {
        // Where a model name is the name of a deployment, there is no default.
        for row in PROVIDERS.iter().filter(|row| row.wire.is_some() && !row.default_model.is_empty()) {
            let (provider, model) = (row.name, row.default_model);
            let is_unpriced = UNPRICED.contains(&provider);
            assert_eq!(
                Price::find(provider, model).is_none(),
                is_unpriced,
                "the price of {provider}/{model}"
            );
            // Some are only in the table of limits.
            assert!(is_unpriced || Capabilities::find(provider, model).is_some(), "{provider}/{model}");
        }
    }

    #[test]
    fn model_names_are_in_a_table_or_in_the_row_not_both() {
        // Models on self-hosted servers have the names their owners chose.
        for row in PROVIDERS
            .iter()
            .filter(|row| row.wire.is_some() && row.needs_key && !row.default_model.is_empty())
        {
            let in_table = names(row.name).next().is_some();
            assert_ne!(in_table, !row.models.is_empty(), "{}", row.name);
        }
    }

    #[test]
    fn capabilities_combine_both_tables() {
        let gpt = Capabilities::find("openai", "gpt-5-mini").unwrap();
        assert_eq!((gpt.context_window, gpt.max_output_tokens), (Some(272_000), Some(128_000)));
        assert_eq!((gpt.tools, gpt.vision, gpt.json_schema), (Some(true), Some(true), Some(true)));
        assert!(gpt.retires.is_some());
        // An alias, a gateway's name, and a model that only the price table lists.
        assert_eq!(Capabilities::find("azure", "GPT-5-mini").map(|known| known.tools), Some(Some(true)));
        let routed = Capabilities::find("openrouter", "anthropic/claude-sonnet-4.5").unwrap();
        assert_eq!((routed.tools, routed.prompt_caching), (Some(true), Some(true)));
        let searches =
            |provider, model| Capabilities::find(provider, model).and_then(|known| known.tool_search);
        assert_eq!(searches("anthropic", "claude-sonnet-4-5"), Some(true));
        assert_eq!((searches("openai", "gpt-5.4"), searches("openai", "gpt-5-mini")), (Some(true), None));
        assert_eq!(searches("openrouter", "anthropic/claude-sonnet-4.5"), None);
        assert!(Capabilities::find("openai", "gpt-of-my-own").is_none());
        assert!(Capabilities::find("local", "default").is_none());
    }

    #[test]
    fn mistyped_model_gets_a_suggestion() {
        assert_eq!(nearest("openai", "gpt-5-mni"), Some("gpt-5-mini"));
        assert_eq!(nearest("anthropic", "claude-sonet-5-5"), Some("claude-sonnet-5-5"));
        assert_eq!(nearest("openai", "gpt-5-mini"), None);
        assert_eq!(nearest("local", "whatever"), None);
        assert_eq!(nearest("groq", "x"), None);
    }

    #[test]
    fn source_has_package_and_licence() {
        assert_eq!((&*source().package, &*source().licence), ("litellm", "MIT"));
    }
}
