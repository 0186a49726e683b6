use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::tests::recordings::Refusal;

/// The correction of the profile of a model, as its change.
fn corrected(provider: &str, model: &str, status: u16, body: &str) -> Option<Changes> {
    correction(&Profile::of(provider, model), status, true, body.as_bytes())
        .map(|correction| correction.changes)
}

fn changes(json: serde_json::Value) -> Option<Changes> {
    Some(serde_json::from_value(json).unwrap())
}

/// Refusals of providers as users have published them, and what each says about the profile.
#[test]
fn published_refusals_are_understood() {
    let openai = |message: &str, param: &str| {
        json!({"error": {"message": message, "type": "invalid_request_error", "param": param, "code": "unsupported_parameter"}})
            .to_string()
    };
    let anthropic = |message: &str| {
        json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}}).to_string()
    };
    let google = |message: &str| {
        json!({"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}).to_string()
    };
    for (provider, model, status, body, expected) in [
        // https://github.com/charmbracelet/crush/issues/2913, here for a model that no row knows.
        ("openai", "gpt-5.1", 400, openai("Function tools with reasoning_effort are not supported for gpt-5.1 in /v1/chat/completions. Please use /v1/responses instead.", "reasoning_effort"), json!({"wire": "openai_responses"})),
        // https://github.com/GEMISIS/leviath/issues/333
        ("custom", "gpt-5.6-terra", 400, openai("Function tools with reasoning_effort are not supported for gpt-5.6-terra in /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'.", "reasoning_effort"), json!({"wire": "openai_responses"})),
        ("openai", "new-pro-model", 404, openai("This model is only supported in v1/responses and not in v1/chat/completions.", "model"), json!({"wire": "openai_responses"})),
        ("openai", "new-pro-model", 404, openai("This is not a chat model and thus not supported in the v1/chat/completions endpoint. Did you mean to use v1/completions?", "model"), json!({"wire": "openai_responses"})),
        // A proxy that knows Chat Completions alone.
        ("openai", "gpt-5.5", 404, "{\"detail\":\"Not Found\"}".to_owned(), json!({"wire": "openai_chat"})),
        // https://github.com/deepseek-ai/DeepSeek-V3/issues/1376, from a gateway
        ("openrouter", "deepseek/deepseek-v4", 400, openai("Thinking mode does not support this tool_choice", ""), json!({"forced_tool": "auto"})),
        ("anthropic", "claude-opus-6", 400, anthropic("Thinking may not be enabled when tool_choice forces tool use."), json!({"forced_tool": "auto"})),
        // https://github.com/OpenHands/software-agent-sdk/issues/1083
        ("foundry", "my-deployment", 400, openai("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", "max_tokens"), json!({"output_limit": "max_completion_tokens"})),
        // https://github.com/editor-code-assistant/eca/issues/231, behind an address of OpenAI's
        ("openai", "mistral", 422, "{\"object\":\"error\",\"message\":{\"detail\":[{\"type\":\"extra_forbidden\",\"loc\":[\"body\",\"max_completion_tokens\"],\"msg\":\"Extra inputs are not permitted\",\"input\":32000}]},\"type\":\"invalid_request_error\"}".to_owned(), json!({"output_limit": "max_tokens"})),
        // https://github.com/The-PR-Agent/pr-agent/issues/2456
        ("anthropic", "claude-sonnet-4-5", 400, anthropic("`temperature` is deprecated for this model."), json!({"temperature": false})),
        // https://github.com/SalesforceAIResearch/MCP-Universe/issues/49
        ("anthropic", "claude-opus-4-1", 400, anthropic("`top_p` is not supported for this model."), json!({"top_p": false})),
        ("custom", "claude", 400, anthropic("`temperature` and `top_p` cannot both be specified for this model. Please use only one."), json!({"temperature_with_top_p": false})),
        ("custom", "o5", 400, openai("Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.", "temperature"), json!({"temperature": false})),
        ("custom", "o5", 400, openai("Unsupported parameter: 'stop' is not supported with this model.", "stop"), json!({"stop": false})),
        // https://github.com/code-yeongyu/oh-my-openagent/pull/5098
        ("anthropic", "claude-sonnet-4-5", 400, anthropic("\"thinking.type.enabled\" is not supported for this model. Use \"thinking.type.adaptive\" and \"output_config.effort\" to control thinking behavior."), json!({"thinking": "adaptive"})),
        ("anthropic", "claude-opus-4-6", 400, anthropic("adaptive thinking is not supported on this model"), json!({"thinking": "budget"})),
        // https://github.com/RooCodeInc/Roo-Code/issues/10700
        ("google", "gemini-3-flash", 400, google("Thinking level is not supported for this model."), json!({"thinking": "budget"})),
        ("openai", "gpt-5", 400, openai("Unsupported value: 'minimal' is not supported with the 'gpt-5' model. Supported values are: 'none', 'low', 'medium', 'high', and 'xhigh'.", "reasoning_effort"), json!({"efforts": ["none", "low", "medium", "high", "max"]})),
        ("ollama", "gpt-oss:20b", 400, "{\"error\":\"\\\"gpt-oss:20b\\\" does not support thinking\"}".to_owned(), json!({"thinking": "none", "include_thoughts": false})),
        // https://github.com/FlowiseAI/Flowise/issues/2866
        ("fireworks", "qwen2-72b", 400, "{\"error\":{\"message\":\"Extra inputs are not permitted, field: 'stream_options'\"}}".to_owned(), json!({"stream_options": false})),
        ("mistral", "open", 422, "{\"detail\":[{\"type\":\"extra_forbidden\",\"loc\":[\"body\",\"prompt_cache_key\"],\"msg\":\"Extra inputs are not permitted\"}]}".to_owned(), json!({"cache": "none"})),
        ("openai", "gpt-6-sol", 400, openai("Invalid value: '12h'. Supported values are: '30m'.", "prompt_cache_options.ttl"), json!({"long_cache": false})),
        ("openai", "gpt-5.1", 400, openai("Unsupported parameter: 'prompt_cache_retention' is not supported with this model.", "prompt_cache_retention"), json!({"long_cache": false})),
        ("openai", "gpt-6-sol", 400, openai("Unknown parameter: 'prompt_cache_options'.", "prompt_cache_options"), json!({"cache": "key"})),
        ("openai", "gpt-6-sol", 400, openai("Unknown parameter: 'input[2].content[0].prompt_cache_breakpoint'.", "input[2].content[0].prompt_cache_breakpoint"), json!({"cache": "key"})),
        ("anthropic", "claude-sonnet-4-5", 400, anthropic("system.0.cache_control.ephemeral.ttl: Extra inputs are not permitted"), json!({"long_cache": false})),
        ("custom", "claude", 400, anthropic("system.0.cache_control: Extra inputs are not permitted"), json!(null)),
        ("openai", "gpt-5.5", 400, openai("Invalid service_tier argument", "service_tier"), json!({"relaxed_tier": "", "fast_tier": ""})),
        ("openai", "gpt-5.5", 400, openai("The service_tier 'flex' is not supported for this model.", "service_tier"), json!({"relaxed_tier": ""})),
        ("google", "gemini-3-flash", 400, google("Invalid JSON payload received. Unknown name \"serviceTier\": Cannot find field."), json!({"relaxed_tier": "", "fast_tier": ""})),
        // https://github.com/llm-exe/llm-exe/issues/662
        ("together", "deepseek", 400, openai("This response_format type is unavailable now", ""), json!({"result_schema": "json_object"})),
        // https://github.com/dzhng/deep-research/issues/127
        ("fireworks", "llama", 400, openai("'response_format.type' : value is not one of the allowed values ['text','json_object']", ""), json!({"result_schema": "json_object"})),
        ("openai", "gpt-4o", 400, openai("Invalid schema for response_format 'x': In context=(), 'additionalProperties' is required to be supplied and to be false.", "response_format"), json!({"strict_schema": false})),
        ("google", "gemini-3-flash", 400, google("Function calling with a response mime type: 'application/json' is unsupported"), json!({"schema_with_tools": false})),
        ("openai", "gpt-5.1-chat-latest", 400, openai("Encrypted content is not supported with this model.", "include"), json!({"encrypted_reasoning": false})),
        ("custom", "mistral", 400, "{\"message\":\"Tool call id was call_123456 but must be a-z, A-Z, 0-9, with a length of 9.\"}".to_owned(), json!({"nine_character_ids": true})),
        ("custom", "mistral", 400, "{\"message\":\"Unexpected role 'user' after role 'tool'\",\"code\":\"3230\"}".to_owned(), json!({"requires_assistant_after_tool": true})),
        ("custom", "deepseek", 400, openai("The `reasoning_content` in the thinking mode must be passed back to the API.", ""), json!({"requires_reasoning_content": true})),
    ] {
        let expected = if expected.is_null() { None } else { changes(expected) };
        assert_eq!(corrected(provider, model, status, &body), expected, "{body}");
    }
}

#[test]
fn other_refusals_change_nothing() {
    for (status, body) in [
        (400, "{\"error\":{\"message\":\"prompt is too long: 210000 tokens > 200000 maximum\"}}"),
        (
            400,
            "{\"error\":{\"message\":\"max_tokens: 200000 > 64000, which is the maximum allowed number of output tokens\"}}",
        ),
        (
            400,
            "{\"error\":{\"message\":\"\\\"auto\\\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set; not supported\"}}",
        ),
        (400, "{\"error\":{\"message\":\"messages.1: tool_use ids were found without tool_result blocks\"}}"),
        (400, "{\"error\":{\"message\":\"Image input is not supported\"}}"),
        (401, "{\"error\":{\"message\":\"temperature is not supported\"}}"),
        (429, "{\"error\":{\"message\":\"temperature is not supported\"}}"),
        (400, ""),
    ] {
        assert_eq!(corrected("local", "x", status, body), None, "{body}");
    }
    // The name of the model is wrong, not its wire.
    let unknown =
        b"{\"error\":{\"message\":\"The model `gpt-5.5x` does not exist\",\"code\":\"model_not_found\"}}";
    assert_eq!(correction(&Profile::of("openai", "gpt-5.5x"), 404, false, unknown), None);
}

/// None of the recorded refusals, which are about keys, lengths and names, is taken for one about the profile.
#[test]
fn recorded_refusals_change_nothing() {
    for recording in crate::tests::recordings::refusals() {
        let Refusal { provider, status, body } = recording;
        assert_eq!(corrected(&provider, "x", status, &String::from_utf8_lossy(&body)), None, "{provider}");
    }
}

proptest! {
    /// A correction changes the profile, and the corrected profile is not corrected by the same refusal without end.
    #[test]
    fn corrections_come_to_an_end(
        words in proptest::collection::vec(proptest::sample::select(vec![
            "'max_tokens'", "'max_completion_tokens'", "not supported", "use", "/v1/responses", "/v1/chat/completions",
            "tool_choice", "thinking", "temperature", "top_p", "both", "response_format", "strict", "'stop'",
            "stream_options", "cache_control", "adaptive", "level", "budget", "with tools", "extra inputs are not permitted",
        ]), 1..8),
        model in proptest::sample::select(vec!["openai/gpt-5-mini", "anthropic/claude-opus-4-6", "google/gemini-3-flash",
            "deepseek/x", "local/x"]),
    ) {
        let (provider, name) = model.split_once('/').unwrap();
        let body = words.join(" ");
        let mut learned = Changes::default();
        let mut profile = Profile::of(provider, name);
        for _ in 0..12 {
            let Some(found) = correction(&profile, 400, true, body.as_bytes()) else { return Ok(()) };
            learned = learned.then(found.changes);
            let next = Profile::with(provider, name, &learned);
            if next == profile {
                return Ok(());
            }
            profile = next;
        }
    }
}
