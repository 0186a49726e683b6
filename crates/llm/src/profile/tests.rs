use houston_domain::history::{Block, Entry};
use houston_domain::tool_call::ToolDefinition;
use serde_json::{Value, json};

use super::*;
use crate::model::Request;

fn tool(name: &str) -> ToolDefinition {
    serde_json::from_value(json!({"name": name, "description": "", "input_schema": {"type": "object"}}))
        .unwrap()
}

/// What a model is sent.
fn sent(provider: &str, model: &str, change: impl for<'a> Fn(&mut Request<'a>)) -> (Wire, Value) {
    let profile = Profile::of(provider, model);
    let description = Description {
        provider: provider.to_owned(),
        model: model.to_owned(),
        simulated: false,
        supports_tools: true,
    };
    let entries = [Entry::user(vec![Block::text("Hello")])];
    let tools = [tool("look"), tool("find")];
    let mut request =
        Request { entries: &entries, tools: &tools, max_output_tokens: 4096, ..Request::default() };
    change(&mut request);
    let body = profile.wire.encode(&description, &profile, &request);
    (profile.wire, serde_json::from_slice(&body).unwrap())
}

#[test]
fn every_row_says_what_it_is_for() {
    for row in ROWS.iter() {
        assert!(!row.patterns.is_empty() && row.set != Changes::default() && !row.why.is_empty(), "{row:?}");
    }
}

/// F1: tools on Chat Completions are refused for these.
#[test]
fn gpt_5_5_with_tools_uses_responses() {
    for (provider, model, wire) in [
        ("openai", "gpt-5.5", Wire::OpenAiResponses),
        ("openai", "gpt-5.6-terra", Wire::OpenAiResponses),
        ("openai", "GPT-6-sol", Wire::OpenAiResponses),
        ("openai", "gpt-5-codex", Wire::OpenAiResponses),
        ("azure", "gpt-5.5-2026-04-23", Wire::OpenAiResponses),
        ("openai", "gpt-5-mini", Wire::OpenAiChat),
        ("openai", "gpt-4.1", Wire::OpenAiChat),
        ("openrouter", "openai/gpt-5.5", Wire::OpenAiChat),
        ("local", "gpt-5.5", Wire::OpenAiChat),
        ("anthropic", "claude-sonnet-5-5", Wire::Anthropic),
    ] {
        assert_eq!(Profile::of(provider, model).wire, wire, "{provider}/{model}");
    }
    let (_, body) = sent("openai", "gpt-5.5", |_| {});
    assert_eq!(body["tools"].as_array().unwrap().len(), 2);
    assert_eq!(body["max_output_tokens"], 4096);
}

/// F2: a named tool is refused by models that think.
#[test]
fn forced_tool_is_asked_for_as_the_model_accepts() {
    let forced =
        |provider: &str, model: &str| sent(provider, model, |request| request.must_call = Some("find")).1;
    let tools = |body: &Value| body["tools"].as_array().unwrap().len();
    let deepseek = forced("deepseek", "deepseek-v4-flash");
    assert_eq!(deepseek["thinking"], json!({"type": "disabled"}));
    assert_eq!(deepseek["tool_choice"]["function"]["name"], "find");
    assert_eq!(sent("deepseek", "deepseek-v4-flash", |_| {}).1.get("thinking"), None);
    for model in ["claude-opus-5-5", "claude-fable-5-1", "claude-mythos-5-1", "claude-fable-5-2"] {
        let body = forced("anthropic", model);
        assert_eq!((body.get("tool_choice"), tools(&body)), (None, 1), "{model}");
        assert_eq!(body["tools"][0]["name"], "find");
    }
    let opus = forced("anthropic", "claude-opus-4-8");
    assert_eq!((&opus["tool_choice"], tools(&opus)), (&json!({"type": "tool", "name": "find"}), 2));
    assert_eq!(forced("zhipu", "glm-4.7").get("tool_choice"), None);
}

/// F4: the name of the output limit depends on the model, not on its provider.
#[test]
fn output_limit_has_the_name_that_the_model_takes() {
    for (provider, model, name) in [
        ("github", "openai/gpt-5-mini", "max_completion_tokens"),
        ("foundry", "gpt-5-mini", "max_completion_tokens"),
        ("foundry", "o4-mini", "max_completion_tokens"),
        ("openai", "gpt-4o", "max_completion_tokens"),
        ("github", "openai/gpt-4o", "max_tokens"),
        ("foundry", "grok-4", "max_tokens"),
        ("mistral", "mistral-large-latest", "max_tokens"),
    ] {
        let (_, body) = sent(provider, model, |_| {});
        assert_eq!(body[name], 4096, "{provider}/{model}");
    }
}

#[test]
fn rows_of_the_operator_take_precedence() {
    let row = |text: &str, set: Value| Row {
        patterns: vec![Pattern::new(text).unwrap()],
        on: None,
        set: serde_json::from_value(set).unwrap(),
        why: String::new(),
    };
    let own = [
        row("openai/*", json!({"wire": "openai_chat", "vision": false})),
        row("openai/gpt-5.5*", json!({"forced_tool": "required", "context_window": 9})),
    ];
    let rows = ROWS.iter().chain(&own);
    let profile = Profile::from_rows("openai", "gpt-5.5", rows.clone(), &Changes::default());
    assert_eq!((profile.wire, profile.forced_tool), (Wire::OpenAiChat, ForcedTool::Required));
    assert_eq!((profile.sees(), profile.capabilities.context_window), (false, Some(9)));
    // What the choice itself says counts more.
    let choice = Changes { wire: Some(Wire::OpenAiResponses), ..Changes::default() };
    assert_eq!(Profile::from_rows("openai", "gpt-5.5", rows, &choice).wire, Wire::OpenAiResponses);
    assert!(serde_json::from_value::<Changes>(json!({"max_token": 1})).is_err());
    assert!(is_pattern("local/qwen3*") && !is_pattern("qwen3"));
}

#[test]
fn vision_and_documents_follow_the_profile() {
    for (provider, model, sees, documents) in [
        ("openai", "gpt-5-mini", true, true),
        ("anthropic", "claude-sonnet-4-5", true, true),
        ("mistral", "mistral-large-2512", true, false),
        ("openai", "gpt-of-my-own", false, false),
    ] {
        let profile = Profile::of(provider, model);
        assert_eq!((profile.sees(), profile.takes_documents()), (sees, documents), "{provider}/{model}");
    }
}

/// A model, the effort that it is asked for, and where its request has the settings.
type Sent = (&'static str, &'static str, Option<Effort>, Value);

/// What is sent of a temperature of 0.5, a share of 0.9 and the end `END`.
fn sent_settings() -> Vec<Sent> {
    vec![
        (
            "openai",
            "gpt-4o",
            None,
            json!({"/temperature": 0.5, "/top_p": 0.9, "/stop": ["END"], "/reasoning_effort": null}),
        ),
        (
            "openai",
            "gpt-5-mini",
            Some(Effort::Minimal),
            json!({"/temperature": null, "/top_p": null, "/stop": null, "/reasoning_effort": "minimal"}),
        ),
        ("openai", "gpt-5.5", Some(Effort::Max), json!({"/reasoning/effort": "xhigh", "/temperature": null})),
        (
            "deepseek",
            "deepseek-v4-flash",
            Some(Effort::None),
            json!({"/thinking/type": "disabled", "/reasoning_effort": null, "/temperature": 0.5}),
        ),
        (
            "deepseek",
            "deepseek-v4-flash",
            Some(Effort::High),
            json!({"/thinking/type": "enabled", "/reasoning_effort": "high"}),
        ),
        ("openrouter", "x/y", Some(Effort::Low), json!({"/reasoning/effort": "low"})),
        (
            "mistral",
            "mistral-large-latest",
            Some(Effort::Low),
            json!({"/reasoning_effort": null, "/stop": ["END"]}),
        ),
        (
            "anthropic",
            "claude-opus-5",
            Some(Effort::Low),
            json!({"/output_config/effort": "low", "/thinking/type": "adaptive", "/temperature": null,
                "/stop_sequences": ["END"]}),
        ),
        (
            "anthropic",
            "claude-sonnet-4-5",
            Some(Effort::Low),
            json!({"/thinking/type": "enabled", "/thinking/budget_tokens": 2048, "/temperature": null, "/top_p": 0.9}),
        ),
        (
            "anthropic",
            "claude-sonnet-4-5",
            None,
            json!({"/temperature": 0.5, "/top_p": null, "/thinking": null}),
        ),
        (
            "google",
            "gemini-3-flash",
            Some(Effort::Low),
            json!({"/generationConfig/thinkingConfig/thinkingLevel": "low", "/generationConfig/temperature": 0.5,
                "/generationConfig/topP": 0.9, "/generationConfig/stopSequences": ["END"]}),
        ),
        (
            "google",
            "gemini-2.5-flash",
            Some(Effort::Low),
            json!({"/generationConfig/thinkingConfig/thinkingBudget": 2048}),
        ),
        (
            "cohere",
            "command-a-reasoning-08-2025",
            Some(Effort::Low),
            json!({"/thinking/token_budget": 2048, "/p": 0.9, "/temperature": 0.5, "/stop_sequences": ["END"]}),
        ),
        (
            "ollama",
            "gpt-oss:20b",
            Some(Effort::Low),
            json!({"/think": "low", "/options/temperature": 0.5, "/options/top_p": 0.9, "/options/stop": ["END"]}),
        ),
        ("ollama", "qwen3", Some(Effort::Low), json!({"/think": null})),
    ]
}

#[test]
fn settings_are_sent_where_the_model_takes_them() {
    let stop = ["END".to_owned()];
    for (provider, model, effort, expected) in sent_settings() {
        let profile = Profile::of(provider, model);
        let description = Description {
            provider: provider.to_owned(),
            model: model.to_owned(),
            simulated: false,
            supports_tools: true,
        };
        let entries = [Entry::user(vec![Block::text("Hello")])];
        let request = Request {
            entries: &entries,
            max_output_tokens: 4096,
            temperature: Some(0.5),
            top_p: Some(0.9),
            stop: &stop,
            effort,
            ..Request::default()
        };
        let body: Value =
            serde_json::from_slice(&profile.wire.encode(&description, &profile, &request)).unwrap();
        for (at, value) in expected.as_object().unwrap() {
            assert_eq!(body.pointer(at).unwrap_or(&Value::Null), value, "{provider}/{model} {at}: {body}");
        }
        // What is not sent is what the caller is told.
        let unaccepted: Vec<&str> =
            profile.unaccepted(&request).iter().map(|unaccepted| unaccepted.setting).collect();
        let text = body.to_string();
        for (setting, is_sent) in [
            ("temperature", text.contains("\"temperature\":")),
            ("top_p", ["\"top_p\":", "\"topP\":", "\"p\":"].iter().any(|name| text.contains(name))),
            ("stop", text.contains("\"END\"")),
        ] {
            assert_eq!(unaccepted.contains(&setting), !is_sent, "{provider}/{model} {setting}: {body}");
        }
    }
}

#[test]
fn refused_settings_say_why() {
    let why = |provider: &str, model: &str, request: Request<'_>| -> Vec<String> {
        Profile::of(provider, model).unaccepted(&request).iter().map(ToString::to_string).collect()
    };
    let effort = |effort| Request { effort: Some(effort), ..Request::default() };
    assert_eq!(
        why("openai", "gpt-5-mini", effort(Effort::Max)),
        ["effort: the model does not take `max`; it takes minimal, low, medium, high"]
    );
    assert_eq!(
        why("openai", "gpt-4o", effort(Effort::Low)),
        ["effort: the model has no setting for how much it thinks"]
    );
    let warm = Request { temperature: Some(0.5), effort: Some(Effort::Low), ..Request::default() };
    assert_eq!(
        why("anthropic", "claude-sonnet-4-5", warm),
        ["temperature: the model takes none while it thinks by request"]
    );
    assert_eq!(why("openai", "gpt-5.5", warm), ["temperature: the model does not take it"]);
    assert!(why("google", "gemini-3-flash", warm).is_empty());
}
