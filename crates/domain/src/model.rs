//! What a model answers, and how a call of it fails, independent of the provider.

use std::time::Duration;

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use crate::history::Block;
use crate::setting::is_default;

/// Tokens and cost of model calls.
///
/// ```json
/// {"input_tokens": 900, "output_tokens": 40, "cache_read_tokens": 700, "cache_write_tokens": 0, "reasoning_tokens": 0}
/// ```
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens sent, cached or not.
    pub input_tokens: u64,
    /// Tokens received, including reasoning.
    pub output_tokens: u64,
    /// Input tokens that were read from the provider's cache.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub cache_read_tokens: u64,
    /// Input tokens that were written to the provider's cache.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub cache_write_tokens: u64,
    /// Those of them that are kept for an hour, which costs more. 0 once the call is priced.
    #[serde(default, skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "openapi", schema(ignore))]
    pub long_cache_write_tokens: u64,
    /// Output tokens that were spent on reasoning.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub reasoning_tokens: u64,
    // As the provider reported it, otherwise computed from its price list. `None`: unknown; sums leave it out.
    /// Cost in US dollars; absent where another field contains it.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Decimal>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Decimal>,
    /// The billed tokens of a provider that does not bill every token (Cohere). `None` once the call is priced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(ignore))]
    pub billed: Option<BilledTokens>,
    /// The tier that served it, if its provider prices it otherwise. `None` once the call is priced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(ignore))]
    pub tier: Option<Tier>,
    /// What has a price of its own. Nothing once the call is priced.
    #[serde(default, skip_serializing_if = "PricedApart::is_nothing")]
    #[cfg_attr(feature = "openapi", schema(ignore))]
    pub apart: PricedApart,
}

/// Parts of a call that some providers price otherwise than text. Tokens are contained in those of the [`Usage`], cached ones in
/// those of their kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PricedApart {
    /// Tokens of audio that was sent.
    pub input_audio_tokens: u32,
    /// Those of them that were read from the provider's cache.
    pub cached_audio_tokens: u32,
    /// Tokens of audio that was received.
    pub output_audio_tokens: u32,
    /// Tokens of images and documents that were sent.
    pub input_image_tokens: u32,
    /// Those of them that were read from the provider's cache.
    pub cached_image_tokens: u32,
    /// Tokens of images that were received.
    pub output_image_tokens: u32,
    /// Searches in the web that the provider made.
    pub web_searches: u32,
}

impl PricedApart {
    /// Whether there is nothing of it.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl std::ops::AddAssign for PricedApart {
    fn add_assign(&mut self, other: Self) {
        let add = |sum: &mut u32, more: u32| *sum = sum.saturating_add(more);
        add(&mut self.input_audio_tokens, other.input_audio_tokens);
        add(&mut self.cached_audio_tokens, other.cached_audio_tokens);
        add(&mut self.output_audio_tokens, other.output_audio_tokens);
        add(&mut self.input_image_tokens, other.input_image_tokens);
        add(&mut self.cached_image_tokens, other.cached_image_tokens);
        add(&mut self.output_image_tokens, other.output_image_tokens);
        add(&mut self.web_searches, other.web_searches);
    }
}

/// A service tier with prices of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Cheap, slow and sometimes not available.
    Flex,
    /// Dear and fast.
    Priority,
    /// Many requests at once, answered within a day.
    Batch,
    /// Answered within two hours.
    TwoHours,
    /// Answered within eight hours.
    EightHours,
}

impl Tier {
    /// The tier with this name in a provider's answer; `None`: the usual one.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "flex" => Self::Flex,
            "priority" | "fast" => Self::Priority,
            "batch" => Self::Batch,
            _ => return None,
        })
    }
}

/// Tokens that a provider bills.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BilledTokens {
    /// Billed input tokens.
    pub input_tokens: u64,
    /// Billed output tokens.
    pub output_tokens: u64,
}

/// Maximum plausible cost of one call, in US dollars.
const LARGEST_COST: Decimal = Decimal::from_parts(100_000, 0, 0, false, 0);

impl Usage {
    /// Whether a reported cost can be that of one call: 0 to 100,000 US dollars. Any other value is an error, which
    /// would lower a sum or exhaust a budget.
    pub fn is_plausible_cost(cost: &Decimal) -> bool {
        (Decimal::ZERO..=LARGEST_COST).contains(cost)
    }

    /// The same without what only the computation of its cost needs: it has been priced.
    #[must_use]
    pub fn priced(self) -> Self {
        Self { long_cache_write_tokens: 0, billed: None, tier: None, apart: PricedApart::default(), ..self }
    }

    /// The tokens that the provider bills: all tokens unless [`billed`](Self::billed) is set.
    pub fn billed(&self) -> BilledTokens {
        let Self { input_tokens, output_tokens, .. } = *self;
        self.billed.unwrap_or(BilledTokens { input_tokens, output_tokens })
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        if self.billed.is_some() || other.billed.is_some() {
            let (one, two) = (self.billed(), other.billed());
            self.billed = Some(BilledTokens {
                input_tokens: one.input_tokens.saturating_add(two.input_tokens),
                output_tokens: one.output_tokens.saturating_add(two.output_tokens),
            });
        }
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.input_tokens, other.input_tokens);
        add(&mut self.output_tokens, other.output_tokens);
        add(&mut self.cache_read_tokens, other.cache_read_tokens);
        add(&mut self.cache_write_tokens, other.cache_write_tokens);
        add(&mut self.long_cache_write_tokens, other.long_cache_write_tokens);
        add(&mut self.reasoning_tokens, other.reasoning_tokens);
        self.tier = other.tier.or(self.tier);
        self.apart += other.apart;
        self.cost = self.cost.into_iter().chain(other.cost).reduce(Decimal::saturating_add);
    }
}

/// Why the model stopped writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It had finished.
    EndTurn,
    /// It asks for tools.
    ToolUse,
    /// It reached the maximum length of an answer.
    MaxTokens,
    /// The model or a filter of its provider refused.
    Refusal,
    /// A tool on the provider's side takes long: the answer goes on once it is sent back as it is.
    Paused,
}

/// One complete answer of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelAnswer {
    /// Text, thinking and tool calls, in order.
    pub content: Vec<Block>,
    /// Tool calls whose arguments were not a JSON object: id of the call, and what was sent, shortened.
    pub malformed: Vec<(String, String)>,
    /// Why the model stopped.
    pub stop: StopReason,
    /// Tokens used, as the provider reported them.
    pub usage: Usage,
}

impl ModelAnswer {
    /// Whether the longest answer allowed was used up before the model wrote anything: by thinking, which is counted as output.
    pub fn is_used_up(&self) -> bool {
        let says_something = |block: &Block| match block {
            Block::Text { text, .. } => !text.trim().is_empty(),
            Block::Thinking { .. } => false,
            _ => true,
        };
        self.stop == StopReason::MaxTokens && !self.content.iter().any(says_something)
    }
}

names! {
    /// The ways in which a model call fails.
    #[derive(Hash)]
    pub enum ModelErrorCode {
        /// The provider has no API key or no base URL.
        ProviderNotConfigured = "PROVIDER_NOT_CONFIGURED",
        /// There is no such provider.
        ProviderNotSupported = "PROVIDER_NOT_SUPPORTED",
        /// The API key was refused.
        AuthenticationError = "AUTHENTICATION_ERROR",
        /// Too many requests, or the provider is overloaded.
        RateLimited = "RATE_LIMITED",
        /// The provider has no such model.
        ModelNotFound = "MODEL_NOT_FOUND",
        /// The conversation is longer than the model's context window.
        ContextLengthExceeded = "CONTEXT_LENGTH_EXCEEDED",
        /// The model has used up the longest answer allowed by thinking, also when asked again with more room.
        OutputLimitReached = "OUTPUT_LIMIT_REACHED",
        /// The connection failed or broke.
        NetworkError = "NETWORK_ERROR",
        /// The provider sent nothing for too long.
        Timeout = "TIMEOUT",
        /// The response could not be parsed, or its stream ended early.
        InvalidResponse = "INVALID_RESPONSE",
        /// Any other failure.
        Unknown = "UNKNOWN",
    }
}

impl ModelErrorCode {
    /// Whether the same call may succeed later.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::RateLimited | Self::NetworkError | Self::Timeout)
    }
}

/// A failed model call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", code.as_str())]
pub struct ModelError {
    /// The kind of failure.
    pub code: ModelErrorCode,
    /// A text for people that they can act on; contains no secrets.
    pub message: String,
    /// How long the provider asked to wait.
    pub retry_after: Option<Duration>,
    /// The HTTP status, if there was a response.
    pub status: Option<u16>,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// The provider's own error text, shortened and without keys. For the log; never sent to users.
    pub cause: Option<Box<str>>,
    /// Whether the call was not made at all: this process has stopped calling the provider for a while, and
    /// `retry_after` is the rest of that time.
    pub breaker_open: bool,
}

impl ModelError {
    /// What the message of a call says that was not made because a circuit breaker is open.
    pub const NOT_CALLED: &str = "not called because most recent calls failed";

    /// Whether this message of a failed call says that no model was called. That of a chain of models has a part for each, as in
    /// `acme/m: TIMEOUT: no answer; …`; one that was skipped has no code.
    pub fn none_was_called(message: &str) -> bool {
        let has_code = |part: &str| {
            let code = part.split(": ").nth(1).unwrap_or_default();
            !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
        };
        let was_called = |part: &str| has_code(part) && !part.contains(Self::NOT_CALLED);
        message.contains(Self::NOT_CALLED) && !message.split("; ").any(was_called)
    }

    /// An error without an HTTP response.
    pub fn new(code: ModelErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            retry_after: None,
            status: None,
            request_id: None,
            cause: None,
            breaker_open: false,
        }
    }

    /// Whether the provider refused the request itself, so that a retry would fail too: a 4xx status without an
    /// error code of its own.
    pub fn refuses_the_request(&self) -> bool {
        let unnamed = matches!(self.code, ModelErrorCode::InvalidResponse | ModelErrorCode::Unknown);
        unnamed && self.status.is_some_and(|status| (400..500).contains(&status))
    }
}
