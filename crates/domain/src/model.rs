//! What a model answers and how it fails, whatever provider it stands behind.

use std::time::Duration;

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use crate::history::Block;

/// Tokens of one model call. `input` counts everything sent, cached or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Sent, including what the cache served.
    pub input_tokens: u64,
    /// Received, including reasoning.
    pub output_tokens: u64,
    /// Of the input, served from the provider's cache.
    #[serde(default)]
    pub cache_read_tokens: u64,
    /// Of the input, written to the provider's cache.
    #[serde(default)]
    pub cache_write_tokens: u64,
    /// Of the output, spent on reasoning.
    #[serde(default)]
    pub reasoning_tokens: u64,
    /// What it cost in US dollars: what the provider itself said; else, once it is priced, what its list says.
    /// `None` when that is not known. Of a sum: what is known of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Decimal>,
    /// What is charged for, where that is not every token (Cohere). `None` once the call is priced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub billed: Option<BilledTokens>,
}

/// Tokens that a provider charges for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BilledTokens {
    /// Sent.
    pub input_tokens: u64,
    /// Received.
    pub output_tokens: u64,
}

/// The largest cost of one call that is believed, in US dollars.
const LARGEST_COST: Decimal = Decimal::from_parts(100_000, 0, 0, false, 0);

impl Usage {
    /// Whether a cost that a provider reports can be that of one call: from 0 to 100,000 US dollars. Anything else would
    /// lower a sum, or end a budget, by a mistake.
    #[must_use]
    pub fn is_plausible_cost(cost: &Decimal) -> bool {
        (Decimal::ZERO..=LARGEST_COST).contains(cost)
    }

    /// What is charged for.
    #[must_use]
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
        add(&mut self.reasoning_tokens, other.reasoning_tokens);
        self.cost = self.cost.into_iter().chain(other.cost).reduce(Decimal::saturating_add);
    }
}

/// Why the model stopped writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It was done.
    EndTurn,
    /// It wants tools.
    ToolUse,
    /// It reached the limit of its answer.
    MaxTokens,
    /// It, or its provider's filter, declined.
    Refusal,
}

/// One complete answer of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelTurn {
    /// Text, thinking and tool calls, in order.
    pub content: Vec<Block>,
    /// Tool arguments that were no JSON object: call id and what was sent, shortened.
    pub malformed: Vec<(String, String)>,
    /// Why it stopped.
    pub stop: StopReason,
    /// What it used, as reported by the provider.
    pub usage: Usage,
}

/// The ten ways a model call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ModelErrorCode {
    /// No key, or no base URL.
    ProviderNotConfigured,
    /// A provider nobody knows.
    ProviderNotSupported,
    /// The key is wrong.
    AuthenticationError,
    /// Too much, too fast; or the provider is overloaded.
    RateLimited,
    /// The provider does not know the model.
    ModelNotFound,
    /// The conversation is too long for the model.
    ContextLengthExceeded,
    /// The connection failed or broke.
    NetworkError,
    /// Nothing came for too long.
    Timeout,
    /// What came was no answer: garbage, or a stream that just ended.
    InvalidResponse,
    /// Anything else.
    Unknown,
}

impl ModelErrorCode {
    /// Whether the same call may succeed later.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::RateLimited | Self::NetworkError | Self::Timeout)
    }

    /// The name in events and metadata.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ProviderNotConfigured => "PROVIDER_NOT_CONFIGURED",
            Self::ProviderNotSupported => "PROVIDER_NOT_SUPPORTED",
            Self::AuthenticationError => "AUTHENTICATION_ERROR",
            Self::RateLimited => "RATE_LIMITED",
            Self::ModelNotFound => "MODEL_NOT_FOUND",
            Self::ContextLengthExceeded => "CONTEXT_LENGTH_EXCEEDED",
            Self::NetworkError => "NETWORK_ERROR",
            Self::Timeout => "TIMEOUT",
            Self::InvalidResponse => "INVALID_RESPONSE",
            Self::Unknown => "UNKNOWN",
        }
    }
}

/// A failed model call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", code.as_str())]
pub struct ModelError {
    /// Which of the ten.
    pub code: ModelErrorCode,
    /// What a person can read and act on; no secrets.
    pub message: String,
    /// How long the provider asked to wait.
    pub retry_after: Option<Duration>,
    /// The HTTP status, when there was an answer.
    pub status: Option<u16>,
    /// The provider's name for the request.
    pub request_id: Option<String>,
    /// What the provider said, as it said it: shortened, without keys. For the log; users are never shown it.
    pub cause: Option<Box<str>>,
    /// Nobody was asked: this process has stopped asking the provider for a while, and `retry_after` is what is
    /// left of that while.
    pub breaker_open: bool,
}

impl ModelError {
    /// An error that came without an HTTP answer.
    #[must_use]
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

    /// Whether the provider refused the request itself, which will be no better later: a 4xx that is none of the
    /// codes with a meaning of their own.
    #[must_use]
    pub fn refuses_the_request(&self) -> bool {
        let unnamed = matches!(self.code, ModelErrorCode::InvalidResponse | ModelErrorCode::Unknown);
        unnamed && self.status.is_some_and(|status| (400..500).contains(&status))
    }
}
