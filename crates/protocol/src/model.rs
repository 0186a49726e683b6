//! Models: which are configured, what they can do and cost, and what a request would cost.

use houston_domain::id::AgentId;
pub use houston_domain::model_policy::{Need, Strategy};
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

/// The models of the installation, and which of them serve which use case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelsResponse {
    /// Each model once.
    pub data: Vec<ModelResponse>,
    /// The use cases, each with its models.
    pub routes: Vec<ModelRoute>,
}

/// A model.
///
/// ```json
/// {"id": "openai/gpt-5-mini", "provider": "openai", "model": "gpt-5-mini", "use_cases": ["agent"], "simulated": false,
///  "price": {"input": "0.25", "output": "2", "cache_read": "0.025", "cache_write": null},
///  "limits": {"context_window": 400000, "max_output_tokens": 128000}, "quality": 70, "retires_on": null,
///  "capabilities": {"tools": true, "parallel_tools": true, "vision": true, "json_schema": true, "reasoning": true,
///                   "prompt_caching": true}, "measured": {"calls": 812, "first_event_ms": 640.0, "tokens_per_s": 88.5}}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelResponse {
    /// Provider and model with a slash between them.
    pub id: String,
    pub provider: String,
    pub model: String,
    /// The use cases that it serves.
    pub use_cases: Vec<String>,
    /// Whether rules answer in place of a language model.
    pub simulated: bool,
    /// What it costs; null if that is unknown, which is not 0.
    pub price: Option<ModelPrice>,
    pub limits: ModelLimits,
    pub capabilities: ModelCapabilities,
    /// From 1 to 100, as the operator ranks it (`models.quality`).
    pub quality: u8,
    /// The day on which its provider stops offering it.
    pub retires_on: Option<String>,
    /// How fast it answered this tenant's runs in the last half hour; null if it answered none.
    pub measured: Option<MeasuredSpeed>,
}

/// US dollars per million tokens of a request of ordinary length, at present.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelPrice {
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Decimal))]
    pub input: Decimal,
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Decimal))]
    pub output: Decimal,
    /// Input that is read from the provider's cache; null if it has no price of its own.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Decimal>))]
    pub cache_read: Option<Decimal>,
    /// Input that is written to the provider's cache; null if it has no price of its own.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Decimal>))]
    pub cache_write: Option<Decimal>,
}

/// How much a model reads and writes; null: unknown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelLimits {
    pub context_window: Option<u64>,
    pub max_output_tokens: Option<u64>,
}

/// What a model can do; null: unknown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelCapabilities {
    pub tools: Option<bool>,
    pub parallel_tools: Option<bool>,
    /// Images as input.
    pub vision: Option<bool>,
    /// Answers that match a JSON schema.
    pub json_schema: Option<bool>,
    pub reasoning: Option<bool>,
    pub prompt_caching: Option<bool>,
}

/// How fast a model answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MeasuredSpeed {
    /// Number of calls.
    pub calls: i64,
    /// Milliseconds from a request to the first piece of its answer: the median.
    pub first_event_ms: f64,
    /// Tokens per second from then on: the median; null if answers came at once.
    pub tokens_per_s: Option<f64>,
}

/// The models of a use case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelRoute {
    /// `agent`, `titles`, … or what an agent type names.
    pub use_case: String,
    pub strategy: Strategy,
    /// What the models must be able to do.
    pub needs: Vec<Need>,
    /// In the order of the settings.
    pub models: Vec<String>,
}

/// Asks what a request would cost. Of `kind`, `use_case` and `agent_id` at most one; without: the use case `agent`. Of
/// `messages` and `input_tokens` exactly one.
///
/// ```json
/// {"kind": "goal", "messages": ["Plan a trip to Tokyo."], "output_tokens": 500, "strategy": "cheapest"}
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct EstimateModels {
    /// An agent type, as in `goal`.
    pub kind: Option<String>,
    /// A use case, as in `titles`.
    pub use_case: Option<String>,
    /// An agent: its own model, or that of its use case.
    pub agent_id: Option<AgentId>,
    /// Another strategy than that of the settings.
    pub strategy: Option<Strategy>,
    /// What the models must be able to do, besides what the settings say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<Need>,
    /// The texts that are sent; their tokens are estimated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<String>,
    /// The tokens that are sent, prompt and history included.
    pub input_tokens: Option<u64>,
    /// How many of them are read from the provider's cache.
    #[serde(default)]
    pub cached_tokens: u64,
    /// The tokens of the answer; without: the longest that agents may write.
    pub output_tokens: Option<u64>,
}

/// What a request would cost.
///
/// ```json
/// {"use_case": "agent", "strategy": "cheapest", "needs": [], "input_tokens": 12, "cached_tokens": 0, "output_tokens": 500,
///  "candidates": [{"id": "openai/gpt-5-mini", "cost": "0.001003", "position": 1, "skipped": null, "simulated": false}],
///  "strategies": [{"strategy": "cheapest", "models": ["openai/gpt-5-mini"], "cost": "0.001003"}]}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelEstimate {
    pub use_case: String,
    pub strategy: Strategy,
    pub needs: Vec<Need>,
    pub input_tokens: u64,
    pub cached_tokens: u64,
    pub output_tokens: u64,
    /// In the order in which they would be asked; then those that would be skipped.
    pub candidates: Vec<EstimatedModel>,
    /// What each strategy would do.
    pub strategies: Vec<EstimatedStrategy>,
}

/// What a request would cost with a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EstimatedModel {
    pub id: String,
    /// In US dollars; null if its price is unknown, which is not 0.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Decimal>))]
    pub cost: Option<Decimal>,
    /// When it would be asked, from 1; null: never.
    pub position: Option<u32>,
    /// Why it would be skipped.
    pub skipped: Option<String>,
    /// Whether rules answer in place of a language model.
    pub simulated: bool,
}

/// What a strategy would do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EstimatedStrategy {
    pub strategy: Strategy,
    /// In the order in which they would be asked.
    pub models: Vec<String>,
    /// In US dollars, of the first; null if its price is unknown, or there is none.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Decimal>))]
    pub cost: Option<Decimal>,
}
