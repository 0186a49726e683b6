//! Tests for all wires: a tool that the model must call is named, if it is sent.

use houston_domain::history::{Block, Entry};
use houston_domain::tool_call::{EffectClass, ToolDefinition};
use serde_json::{Value, json};

use crate::model::{Description, Request};
use crate::profile::Profile;
use crate::protocol::Wire;

fn sent(wire: Wire, must_call: Option<&str>, supports_tools: bool) -> Value {
    let model = Description {
        provider: "p".into(),
        model: "claude-sonnet-4-5".into(),
        simulated: false,
        supports_tools,
    };
    let tool = |name: &str| ToolDefinition {
        name: name.to_owned(),
        description: "Looks.".to_owned(),
        input_schema: json!({"type": "object"}).into(),
        effect: EffectClass::Read,
        timeout: ToolDefinition::default_timeout(),
    };
    let entries = [Entry::user(vec![Block::text("Look")])];
    let request = Request {
        entries: &entries,
        tools: &[tool("look"), tool("find")],
        must_call,
        max_output_tokens: 9,
        ..Request::default()
    };
    serde_json::from_slice(&wire.encode(&model, &Profile::on(wire, &model.provider, &model.model), &request))
        .unwrap()
}

#[test]
fn a_forced_tool_is_named_on_each_wire_that_can() {
    for (wire, at, expected) in [
        (Wire::Anthropic, "/tool_choice", json!({"type": "tool", "name": "look"})),
        (Wire::OpenAiChat, "/tool_choice", json!({"type": "function", "function": {"name": "look"}})),
        (Wire::OpenAiResponses, "/tool_choice", json!({"type": "function", "name": "look"})),
        (
            Wire::Gemini,
            "/toolConfig/functionCallingConfig",
            json!({"mode": "ANY", "allowedFunctionNames": ["look"]}),
        ),
        (Wire::Cohere, "/tool_choice", json!("REQUIRED")),
    ] {
        assert_eq!(sent(wire, Some("look"), true).pointer(at), Some(&expected));
        for (must_call, supports_tools) in [(None, true), (Some("fly"), true), (Some("look"), false)] {
            assert_eq!(sent(wire, must_call, supports_tools).pointer(at), None, "{must_call:?}");
        }
    }
    assert_eq!(sent(Wire::Cohere, Some("look"), true)["tools"].as_array().unwrap().len(), 1);
    // It cannot say so, and is offered the tool alone.
    let ollama = sent(Wire::Ollama, Some("look"), true);
    assert_eq!((ollama.get("tool_choice"), ollama["tools"].as_array().unwrap().len()), (None, 1));
}
