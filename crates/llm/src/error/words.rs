//! Codes and phrases by which errors are classified, in lower case. Codes are compared as a whole, phrases are
//! searched for.

/// Headers with a request id: those of providers before those of proxies and gateways.
pub(super) const REQUEST_IDS: &[&str] = &[
    "request-id",
    "x-request-id",
    "apim-request-id",
    "x-ms-request-id",
    "x-goog-request-id",
    "x-goog-trace-id",
    "x-debug-trace-id",
    "x-ds-trace-id",
    "mistral-correlation-id",
    "x-kong-request-id",
    "x-github-request-id",
    "x-generation-id",
    "x-amzn-requestid",
    "cf-ray",
];

pub(super) const TOO_LONG_TAGS: &[&str] = &[
    "context_length_exceeded",
    "exceed_context_size_error",
    "too_many_prompt_tokens",
    "too_many_tokens",
    "model_context_window_exceeded",
    "model_max_prompt_tokens_exceeded",
    "tokens_limit_reached",
    "request_too_large",
    "string_above_max_length",
];

pub(super) const TOO_LONG_PHRASES: &[&str] = &[
    "prompt is too long",
    "prompt too long",
    "prompt exceeds max length",
    "prompt token count",
    "input is too long",
    "input tokens exceed",
    "input token count",
    "exceed context limit",
    "exceeded model token limit",
    "longer than the maximum model length",
    "longer than the model's context",
    "maximum context length",
    "maximum prompt length",
    "maximum number of tokens allowed",
    "context length",
    "context window",
    "context size",
    "is too large to process",
    "range of input length should be",
    "reduce the length of the messages",
    "`inputs` tokens + `max_new_tokens` must be",
    "too many tokens",
    "total length of all messages",
];

pub(super) const OUT_OF_CREDIT_TAGS: &[&str] = &[
    "insufficient_quota",
    "insufficient_balance",
    "insufficient_credits",
    "exceeded_current_quota_error",
    "billing_error",
    "billing_not_active",
    "billing_hard_limit_reached",
    "payment_required",
];

pub(super) const OUT_OF_CREDIT_PHRASES: &[&str] = &[
    "credit balance is too low",
    "insufficient balance",
    "insufficient credits",
    "requires more credits",
    "have any credits",
    "used all available credits",
    "余额不足",
];

pub(super) const FILTERED_TAGS: &[&str] =
    &["content_filter", "content_policy_violation", "responsibleaipolicyviolation", "moderation_blocked"];

pub(super) const FILTERED_PHRASES: &[&str] =
    &["content management policy", "content violates usage guidelines", "requires moderation"];

pub(super) const BAD_KEY_TAGS: &[&str] = &[
    "authentication_error",
    "invalid_api_key",
    "invalid_authentication_error",
    "api_key_invalid",
    "permission_error",
    "permission_denied",
    "unauthenticated",
    "unauthorized",
];

pub(super) const BAD_KEY_PHRASES: &[&str] = &[
    "incorrect api key",
    "invalid api key",
    "api key not valid",
    "api key expired",
    "no auth credentials",
    "invalid x-api-key",
    "bad credentials",
];

pub(super) const NO_MODEL_TAGS: &[&str] = &[
    "model_not_found",
    "model_decommissioned",
    "deploymentnotfound",
    "not_found_error",
    "invalid_model",
    "unknown_model",
    "model_not_available",
    "model_not_exist",
];

pub(super) const NO_MODEL_PHRASES: &[&str] = &[
    "is not a valid model",
    "invalid model",
    "unknown model",
    "no such model",
    "no endpoints found for",
    "unable to access model",
    "supported api model names",
    "supported models are",
    "model identifier is invalid",
    "does not exist or you do not have access",
];

/// The model exists; something else that was requested does not, or is not allowed.
pub(super) const NOT_THE_MODEL_PHRASES: &[&str] = &[
    // The model exists; its address does not serve it: see `correction`.
    "in the v1/chat/completions endpoint",
    "not in v1/chat/completions",
    "in the v1/responses endpoint",
    "not in v1/responses",
    "no endpoints found that",
    "no endpoints found matching",
    "no endpoints available",
    "no allowed providers",
    "is not supported in this model",
    "not supported by this model",
    "not supported with this model",
    "does not support",
    "cache content",
    "cached content",
    "cachedcontent",
];

/// Messages of llama.cpp and Ollama, sent with status 500, about a server set up without the needed feature.
pub(super) const SETUP_PHRASES: &[&str] = &[
    "requires --jinja",
    "cannot use both json_schema and grammar",
    "input is not supported",
    "requires more system memory",
    "unable to load model",
];

/// These count only if `model` precedes them.
pub(super) const MISSING_PHRASES: &[&str] = &[
    "not found",
    "does not exist",
    "not exist",
    "was removed",
    "has been deprecated",
    "been decommissioned",
    "reached the end of its life",
];

/// The address is wrong, not the model.
pub(super) const NO_ADDRESS_PHRASES: &[&str] = &[
    "invalid url",
    "unknown request url",
    "resource not found",
    "path not found",
    "page not found",
    "no route",
];

pub(super) const TOO_MUCH_TAGS: &[&str] = &[
    "rate_limit_error",
    "rate_limit_exceeded",
    "rate_limited",
    "ratelimitreached",
    "too_many_requests",
    "resource_exhausted",
    "overloaded_error",
    "overloaded",
    "server_overloaded",
    "engine_overloaded",
    "engine_overloaded_error",
    "throttlingexception",
    "slow_down",
];

pub(super) const TOO_SLOW_TAGS: &[&str] =
    &["timeout_error", "deadline_exceeded", "timeout", "gateway_timeout"];

pub(super) const BROKEN_TAGS: &[&str] = &[
    "api_error",
    "server_error",
    "internal_error",
    "internal_server_error",
    "internalservererror",
    "internal",
    "service_unavailable",
    "unavailable",
    "bad_gateway",
];

/// Ollama's messages, which come without a code.
pub(super) const BROKEN_PHRASES: &[&str] = &[
    "error was encountered while running the model",
    "runner process",
    "unexpected eof",
    "internal server error",
];
