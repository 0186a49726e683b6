use std::collections::VecDeque;

use houston_domain::history::{Block, Entry};
use houston_domain::tool_call::ToolDefinition;
use serde_json::{Value, json};

use super::{Recording, are_here, recordings};
use crate::model::{Description, Event, Request};
use crate::profile::Profile;
use crate::protocol::Wire;
use crate::reader::Reader;

pub(super) fn recording(name: &str) -> Recording {
    recordings().into_iter().find(|recording| recording.name == name).unwrap()
}

/// The recorded answer as the history stores it: through JSON, as in the database.
pub(super) fn answer(wire: Wire, provider: &str, name: &str) -> Entry {
    let end = Profile::on(wire, provider, "m").answer_end;
    let mut reader = Reader::new(wire.framing(), wire.decoder(provider, end));
    let mut events = VecDeque::new();
    reader.push(&recording(name).body, &mut events).unwrap();
    reader.end(&mut events).unwrap();
    let Some(Event::Done(turn)) = events.pop_back() else { panic!("{name} has no end") };
    serde_json::from_str(&serde_json::to_string(&Entry::assistant(turn.content)).unwrap()).unwrap()
}

fn encode(
    wire: Wire,
    profile: &str,
    model: (&str, &str),
    entries: &[Entry],
    tools: &[ToolDefinition],
    limit: u32,
) -> Value {
    let description = Description {
        provider: model.0.to_owned(),
        model: model.1.to_owned(),
        simulated: false,
        supports_tools: true,
    };
    let request = Request { system: &[], entries, tools, max_output_tokens: limit, ..Request::default() };
    let profile = Profile::on(wire, profile, model.1);
    serde_json::from_slice(&wire.encode(&description, &profile, &request)).unwrap()
}

fn tool(name: &str, description: &str, input_schema: &Value) -> ToolDefinition {
    serde_json::from_value(json!({"name": name, "description": description, "input_schema": input_schema}))
        .unwrap()
}

pub(super) fn result(entry: &Entry, content: &str) -> Entry {
    let id = entry.tool_uses().next().unwrap().to_owned();
    Entry::user(vec![Block::ToolResult {
        tool_use_id: id,
        content: content.to_owned(),
        is_error: false,
        code: None,
    }])
}

/// The second request of a recorded conversation equals what Houston sends after reading the first answer.
#[test]
fn signed_thinking_is_sent_back_as_recorded() {
    if !are_here() {
        return;
    }
    let second = recording("anthropic/stream_thinking_tool_result_turn").request;
    let first = answer(Wire::Anthropic, "anthropic", "anthropic/stream_thinking_then_tool");
    let question = second["messages"][0]["content"][0]["text"].as_str().unwrap();
    let entries = [Entry::user(vec![Block::text(question)]), first.clone(), result(&first, "0.32a0")];
    let recorded_tool = &second["tools"][0];
    let tools = [tool(
        "fixed_version",
        recorded_tool["description"].as_str().unwrap(),
        &recorded_tool["input_schema"],
    )];

    let model = ("anthropic", "claude-haiku-4-5-20251001");
    let sent = encode(Wire::Anthropic, "x", model, &entries, &tools, 64_000);
    for field in ["model", "max_tokens", "messages", "tools", "stream"] {
        assert_eq!(sent[field], second[field], "{field}");
    }
    assert!(sent.get("system").is_none());

    // Another wire leaves it out.
    let sent = encode(Wire::OpenAiChat, "x", ("openai", "x"), &entries, &tools, 1);
    assert!(
        !sent.to_string().contains("signature") && !sent.to_string().contains("fixed_version tool to see")
    );
}

#[test]
fn redacted_thinking_and_server_tools_are_sent_back_unchanged() {
    if !are_here() {
        return;
    }
    for name in ["anthropic/stream_redacted_thinking", "anthropic/stream_web_search_citations"] {
        let stream = String::from_utf8(recording(name).body).unwrap();
        let recorded: Vec<Value> = stream
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok())
            .filter(|event| event["type"] == "content_block_start")
            .map(|event| event["content_block"].clone())
            .filter(|block| block["type"] != "text")
            .collect();
        assert!(recorded.len() >= 2);
        let entries = [
            Entry::user(vec![Block::text("hi")]),
            answer(Wire::Anthropic, "anthropic", name),
            Entry::user(vec![Block::text("and?")]),
        ];
        let sent = encode(Wire::Anthropic, "x", ("anthropic", "x"), &entries, &[], 1);
        for mut block in recorded {
            let sent_content = sent["messages"][1]["content"].as_array().unwrap();
            if block["type"] == "server_tool_use" {
                block["input"] = json!({"query": sent_content[0]["input"]["query"].as_str().unwrap()});
            }
            assert!(sent_content.contains(&block), "{name}: {block} is not in {sent_content:?}");
        }
    }
}

#[test]
fn chat_history_is_encoded_as_recorded() {
    if !are_here() {
        return;
    }
    let recorded = recording("deepseek/stream_reasoning_tool").request;
    let content_of = |index: usize| recorded["messages"][index]["content"].as_str().unwrap();
    let call = &recorded["messages"][2]["tool_calls"][0];
    let asks = Entry::assistant(vec![
        Block::text(content_of(2)),
        Block::ToolUse {
            id: call["id"].as_str().unwrap().to_owned(),
            name: "best_language_to_learn".to_owned(),
            input: json!({}),
            raw: None,
        },
    ]);
    let entries = [
        Entry::user(vec![Block::text(content_of(1))]),
        asks.clone(),
        result(&asks, content_of(3)),
        Entry::assistant(vec![Block::text(content_of(4))]),
        Entry::user(vec![Block::text(content_of(5))]),
    ];
    let definition = &recorded["tools"][0]["function"];
    let tools = [tool(
        "best_language_to_learn",
        definition["description"].as_str().unwrap(),
        &definition["parameters"],
    )];
    let sent = encode(Wire::OpenAiChat, "x", ("deepseek", "deepseek-chat"), &entries, &tools, 9);
    assert_eq!(sent["messages"].as_array().unwrap()[..], recorded["messages"].as_array().unwrap()[1..]);
    for field in ["model", "stream", "stream_options"] {
        assert_eq!(sent[field], recorded[field], "{field}");
    }
    // What says nothing in the schema of a tool is left out.
    let mut offered = recorded["tools"].clone();
    let parameters = offered[0]["function"]["parameters"].as_object_mut().unwrap();
    assert_eq!(parameters.remove("strict"), Some(json!(true)));
    assert_eq!(parameters.remove("required"), Some(json!([])));
    assert_eq!(sent["tools"], offered);
    assert_eq!(sent["max_tokens"], 9);

    // DeepSeek itself requires the reasoning of every tool call, even if empty.
    let sent = encode(Wire::OpenAiChat, "deepseek", ("deepseek", "x"), &entries, &tools, 9);
    assert_eq!(sent["messages"][1]["reasoning_content"], "");
    assert!(sent["messages"][3].get("reasoning_content").is_none());
}

#[test]
fn reasoning_is_sent_back_only_to_its_provider() {
    if !are_here() {
        return;
    }
    let asks = answer(Wire::OpenAiChat, "openrouter", "openrouter/stream_reasoning_details_tool");
    let entries = [Entry::user(vec![Block::text("hi")]), asks.clone(), result(&asks, "sunny")];
    let sent = |provider: &str| encode(Wire::OpenAiChat, "x", (provider, "x"), &entries, &[], 1);

    let details = sent("openrouter")["messages"][1]["reasoning_details"].clone();
    let [detail] = &details.as_array().unwrap()[..] else { panic!("{details}") };
    let Block::Thinking { text, .. } = &asks.content[0] else { panic!("{asks:?}") };
    assert_eq!(detail["text"], **text);
    assert_eq!(detail["format"], "anthropic-claude-v1");
    let stream = String::from_utf8(recording("openrouter/stream_reasoning_details_tool").body).unwrap();
    assert!(stream.contains(&format!("\"signature\":{}", detail["signature"])));

    assert!(sent("groq")["messages"][1].get("reasoning_details").is_none());
    let anthropic = encode(Wire::Anthropic, "x", ("anthropic", "x"), &entries, &[], 1);
    assert_eq!(anthropic["messages"][1]["content"].as_array().unwrap().len(), 1, "only the tool call");

    let asks = answer(Wire::OpenAiChat, "ollama", "ollama/openai_compat_stream_tool");
    let entries = [Entry::user(vec![Block::text("hi")]), asks.clone(), result(&asks, "sunny")];
    let sent = encode(Wire::OpenAiChat, "x", ("ollama", "x"), &entries, &[], 1);
    assert!(sent["messages"][1]["reasoning"].as_str().unwrap().starts_with("We need to call"));
}
