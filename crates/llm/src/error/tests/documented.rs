//! Documented error responses of providers, with the expected code.

use crate::error::Code;

/// Error responses that the recordings do not contain: status, body, expected code. Shapes and wording are from
/// documentation and public reports; names and numbers are invented.
pub(super) const DOCUMENTED: &[(u16, &str, Code)] = &[
    // Conversation too long, as each provider words it.
    (
        400,
        r#"{"error":{"message":"Input tokens exceed the configured limit of 272000 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
        Code::ContextLengthExceeded,
    ),
    (
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 199000 + 20000 > 200000, decrease input length or `max_tokens` and try again"}}"#,
        Code::ContextLengthExceeded,
    ),
    (
        413,
        r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
        Code::ContextLengthExceeded,
    ),
    (
        400,
        r#"{"error":{"code":400,"message":"The input token count (1250074) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}"#,
        Code::ContextLengthExceeded,
    ),
    (
        400,
        r#"{"object":"error","message":"Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_error","param":null,"code":"3051"}"#,
        Code::ContextLengthExceeded,
    ),
    (
        400,
        r#"{"code":"invalid-argument","error":"This model's maximum prompt length is 131072 but the request contains 537812 tokens."}"#,
        Code::ContextLengthExceeded,
    ),
    (
        400,
        r#"{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
        Code::ContextLengthExceeded,
    ),
    (
        413,
        r#"{"error":{"message":"Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 8000","type":"tokens","code":"rate_limit_exceeded"}}"#,
        Code::ContextLengthExceeded,
    ),
    (
        400,
        r#"{"error_type":"TOO_MANY_TOKENS","id":"c1","message":"too many tokens: size limit exceeded by 25836 tokens."}"#,
        Code::ContextLengthExceeded,
    ),
    (
        422,
        r#"{"error":{"message":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000","type":"invalid_request_error"}}"#,
        Code::ContextLengthExceeded,
    ),
    (
        400,
        r#"{"error":{"message":"The prompt is too long: 150000, model maximum context length: 131071","type":"invalid_request_error"}}"#,
        Code::ContextLengthExceeded,
    ),
    (400, r#"{"error":{"code":"1261","message":"Prompt exceeds max length"}}"#, Code::ContextLengthExceeded),
    (
        413,
        r#"{"error":{"code":"tokens_limit_reached","message":"Request body too large for x model. Max size: 8000 tokens.","details":"Request body too large"}}"#,
        Code::ContextLengthExceeded,
    ),
    (
        400,
        r#"{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens","type":"BadRequestError","code":400}"#,
        Code::ContextLengthExceeded,
    ),
    (
        400,
        r#"{"object":"error","message":"The decoder prompt (length 9000) is longer than the maximum model length of 4096.","type":"BadRequestError","code":400}"#,
        Code::ContextLengthExceeded,
    ),
    (
        500,
        r#"{"error":{"code":500,"message":"input (4002 tokens) is too large to process. increase the physical batch size (current batch size: 512)","type":"server_error"}}"#,
        Code::ContextLengthExceeded,
    ),
    (
        400,
        r#"{"error":{"code":400,"message":"Provider returned error","metadata":{"raw":"{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"prompt is too long: 2 tokens > 1\"}}","provider_name":"Anthropic"}}}"#,
        Code::ContextLengthExceeded,
    ),
    // Not too long, although tokens are mentioned.
    (
        400,
        r#"{"error":{"message":"max_tokens is too large: 100000. This model supports at most 16384 completion tokens","type":"invalid_request_error"}}"#,
        Code::Unknown,
    ),
    (
        429,
        r#"{"error":{"message":"Request too large for x on tokens per min (TPM): Limit 30000, Requested 40000. The input or output tokens must be reduced","type":"tokens","code":"rate_limit_exceeded"}}"#,
        Code::RateLimited,
    ),
    // Out of credit.
    (
        429,
        r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","code":"insufficient_quota"}}"#,
        Code::Unknown,
    ),
    (
        402,
        r#"{"error":{"message":"Insufficient Balance","type":"unknown_error","code":"invalid_request_error"}}"#,
        Code::Unknown,
    ),
    (
        402,
        r#"{"error":{"message":"This request requires more credits, or fewer max_tokens.","code":402}}"#,
        Code::Unknown,
    ),
    (
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}"#,
        Code::Unknown,
    ),
    (
        403,
        r#"{"code":"permission-denied","error":"Your newly created team doesn't have any credits yet."}"#,
        Code::Unknown,
    ),
    (
        429,
        r#"{"error":{"code":"1113","message":"Insufficient balance or no resource package. Please recharge."}}"#,
        Code::Unknown,
    ),
    // Content filter.
    (
        400,
        r#"{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation"}}}"#,
        Code::Unknown,
    ),
    (
        403,
        r#"{"error":{"code":403,"message":"x requires moderation on OpenRouter. Your input was flagged","metadata":{"reasons":["violence"],"flagged_input":"…"}}}"#,
        Code::Unknown,
    ),
    // Keys and permissions.
    (
        401,
        r#"{"error":{"message":"Unauthorized","type":"api_error","param":null,"code":null}}"#,
        Code::AuthenticationError,
    ),
    (401, r#"{"id":"x","message":"Incorrect API key provided: ****"}"#, Code::AuthenticationError),
    (
        403,
        r#"{"error":{"code":403,"message":"Permission denied","status":"PERMISSION_DENIED"}}"#,
        Code::AuthenticationError,
    ),
    (
        400,
        r#"{"error":{"code":400,"message":"API key expired. Please renew the API key.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}"#,
        Code::AuthenticationError,
    ),
    (
        401,
        r#"{"error":{"code":"unauthorized","message":"Bad credentials","details":"Bad credentials"}}"#,
        Code::AuthenticationError,
    ),
    // Unknown model.
    (
        404,
        r#"{"id":"x","message":"model 'command' not found, make sure the correct model ID was used and that you have access to the model."}"#,
        Code::ModelNotFound,
    ),
    (
        404,
        r#"{"id":"x","message":"model 'command-r' was removed on September 15, 2025."}"#,
        Code::ModelNotFound,
    ),
    (404, r#"{"error":"model \"x\" not found, try pulling it first"}"#, Code::ModelNotFound),
    (404, r#"{"error":{"message":"No endpoints found for x/y.","code":404}}"#, Code::ModelNotFound),
    (
        404,
        r#"{"error":{"message":"Unable to access model x. Please visit","type":"invalid_request_error","code":"model_not_available"}}"#,
        Code::ModelNotFound,
    ),
    (
        404,
        r#"{"error":{"object":"error","type":"invalid_request_error","code":"NOT_FOUND","message":"Model not found, inaccessible, and/or not deployed"}}"#,
        Code::ModelNotFound,
    ),
    (
        400,
        r#"{"error":{"code":"unknown_model","message":"Unknown model: x","details":"Unknown model: x"}}"#,
        Code::ModelNotFound,
    ),
    (
        400,
        r#"{"error":{"message":"Invalid model 'x'. Permitted models can be found in the documentation","type":"invalid_model","code":400}}"#,
        Code::ModelNotFound,
    ),
    (
        400,
        r#"{"error":{"code":"model_decommissioned","message":"The model `x` has been decommissioned and is no longer supported.","type":"invalid_request_error"}}"#,
        Code::ModelNotFound,
    ),
    (400, r#"{"error":{"code":400,"message":"Model x/y does not exist"}}"#, Code::ModelNotFound),
    // The model exists, something else does not.
    (
        404,
        r#"{"error":{"message":"tools is not supported in this model. For a list of supported models, see the documentation.","type":"invalid_request_error","param":null,"code":null}}"#,
        Code::Unknown,
    ),
    (
        404,
        r#"{"error":{"message":"No endpoints found that support tool use. To learn more, see the documentation","code":404}}"#,
        Code::Unknown,
    ),
    (
        404,
        r#"{"error":{"message":"No endpoints found that support the provided 'tool_choice' value.","code":404}}"#,
        Code::Unknown,
    ),
    (
        404,
        r#"{"error":{"message":"No endpoints found matching your data policy (Free model publication).","code":404}}"#,
        Code::Unknown,
    ),
    (
        404,
        r#"{"error":{"code":404,"message":"Not found: cache content metadata for 1.","status":"NOT_FOUND"}}"#,
        Code::Unknown,
    ),
    // The server was set up without the feature: a retry fails the same way.
    (
        500,
        r#"{"error":{"code":500,"message":"tools param requires --jinja flag","type":"server_error"}}"#,
        Code::Unknown,
    ),
    (
        500,
        r#"{"error":{"code":500,"message":"Cannot use both json_schema and grammar","type":"server_error"}}"#,
        Code::Unknown,
    ),
    (
        500,
        r#"{"error":{"code":500,"message":"image input is not supported - hint: if this is unexpected","type":"server_error"}}"#,
        Code::Unknown,
    ),
    (
        500,
        r#"{"error":"model requires more system memory (7.5 GiB) than is available (3.1 GiB)"}"#,
        Code::Unknown,
    ),
    // Wrong address.
    (
        404,
        r#"{"error":{"message":"Invalid URL (POST /v1/v1/chat/completions)","type":"invalid_request_error","code":null}}"#,
        Code::InvalidResponse,
    ),
    (
        404,
        r#"{"error":{"message":"Unknown request URL: POST /x. Please check the URL for typos","type":"invalid_request_error","code":"unknown_url"}}"#,
        Code::InvalidResponse,
    ),
    (404, r#"{"error":{"code":"404","message":"Resource not found"}}"#, Code::InvalidResponse),
    (
        404,
        r#"{"type":"error","error":{"type":"not_found_error","message":"Not Found"}}"#,
        Code::InvalidResponse,
    ),
    (405, "{\"detail\":\"Method Not Allowed\"}", Code::InvalidResponse),
    // Rate limits and overload.
    (
        429,
        r#"{"error":{"code":"RateLimitReached","message":"Rate limit of 10 per 60s exceeded. Please wait 44 seconds before retrying."}}"#,
        Code::RateLimited,
    ),
    (
        429,
        r#"{"message":"You are using a Trial key, which is limited to 20 API calls / minute."}"#,
        Code::RateLimited,
    ),
    (
        498,
        r#"{"error":{"message":"Flex tier capacity exceeded","type":"invalid_request_error","code":"capacity_exceeded"}}"#,
        Code::RateLimited,
    ),
    (
        503,
        r#"{"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}"#,
        Code::RateLimited,
    ),
    (
        529,
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
        Code::RateLimited,
    ),
    // Broken, slow or unavailable.
    (499, "", Code::NetworkError),
    (
        500,
        r#"{"error":{"message":"The server had an error while processing your request","type":"server_error"}}"#,
        Code::NetworkError,
    ),
    (503, "upstream connect error or disconnect/reset before headers", Code::NetworkError),
    (520, "<html>error code: 520</html>", Code::NetworkError),
    (524, "<html>A timeout occurred</html>", Code::Timeout),
    (
        504,
        r#"{"error":{"code":504,"message":"The request timed out","status":"DEADLINE_EXCEEDED"}}"#,
        Code::Timeout,
    ),
    (408, r#"{"error":{"message":"Request timed out","code":408}}"#, Code::Timeout),
    (
        501,
        r#"{"error":{"code":501,"message":"This server does not support it","type":"not_supported_error"}}"#,
        Code::Unknown,
    ),
    // Other errors.
    (
        422,
        r#"{"object":"error","message":{"detail":[{"loc":["body","messages"],"msg":"field required"}]},"type":"invalid_request_error"}"#,
        Code::Unknown,
    ),
    (
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages.1: `tool_use` ids were found without `tool_result` blocks immediately after"}}"#,
        Code::Unknown,
    ),
    (400, r#"{"error":"\"tinyllama\" does not support tools"}"#, Code::Unknown),
];
