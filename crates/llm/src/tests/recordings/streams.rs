use std::collections::VecDeque;

use houston_domain::history::Block;
use houston_domain::model::{ModelAnswer, ModelError, ModelErrorCode, StopReason};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Recording, are_here, code_of, expected, recordings};
use crate::model::Event;
use crate::profile::{AnswerEnd, Profile};
use crate::protocol::Wire;
use crate::reader::Reader;

/// The wire of a recording.
fn wire(recording: &Recording) -> Wire {
    match recording.provider() {
        "anthropic" => Wire::Anthropic,
        "gemini" => Wire::Gemini,
        "openai" if recording.name.starts_with("openai/responses") => Wire::OpenAiResponses,
        "cohere" => Wire::Cohere,
        "ollama" if recording.name.contains("ndjson") => Wire::Ollama,
        _ => Wire::OpenAiChat,
    }
}

/// How the answers of a recording's provider end.
fn answer_end(recording: &Recording) -> AnswerEnd {
    let name = recording.provider().replace("azure_openai", "azure").replace("azure_foundry", "foundry");
    Profile::on(wire(recording), &name, "m").answer_end
}

/// The events of a stream split into `chunks`, and the error it ends with, if any.
fn replay<'a>(
    recording: &Recording,
    chunks: impl Iterator<Item = &'a [u8]>,
) -> (Vec<Event>, Option<ModelError>) {
    let wire = wire(recording);
    let mut reader = Reader::new(wire.framing(), wire.decoder(recording.provider(), answer_end(recording)));
    let mut events = VecDeque::new();
    for chunk in chunks {
        if let Err(error) = reader.push(chunk, &mut events) {
            return (events.into(), Some(error));
        }
        if let Some(Event::Done(_)) = events.back() {
            return (events.into(), None);
        }
    }
    let error = reader.end(&mut events).err();
    (events.into(), error)
}

fn streams() -> Vec<Recording> {
    recordings().into_iter().filter(|recording| recording.streams()).collect()
}

/// The blocks of a turn as the prototype named them; it had several names for reasoning.
fn kinds(turn: &ModelAnswer) -> Vec<&'static str> {
    let kind = |block: &Block| match block {
        Block::Text { .. } => "text",
        Block::ToolUse { .. } => "tool_use",
        Block::ToolResult { .. } => "tool_result",
        Block::Image(_) => "image",
        Block::Document(_) => "document",
        Block::Thinking { raw, .. } => {
            if raw.as_ref().is_some_and(|raw| raw.json.contains("redacted")) {
                "redacted_thinking"
            } else if raw.as_ref().is_some_and(|raw| &*raw.wire == "anthropic") {
                "thinking"
            } else {
                "reasoning"
            }
        }
        Block::Opaque { raw } if raw.json.contains("_tool_result\"") => "web_search_tool_result",
        Block::Opaque { .. } => "server_tool_use",
    };
    turn.content.iter().map(kind).collect()
}

/// The same for Gemini, where the prototype named parts by content. It stored signed parts separately, even empty
/// ones.
fn parts(turn: &ModelAnswer, recording: &Recording) -> Vec<&'static str> {
    let mut parts: Vec<&str> = Vec::new();
    for block in &turn.content {
        match block {
            Block::Text { raw: Some(raw), .. } => {
                let pieces: Vec<Value> = serde_json::from_str(&raw.json).unwrap();
                parts.extend(pieces.iter().map(|_| "text"));
            }
            Block::ToolUse { .. } => parts.push("functionCall"),
            _ => parts.push("text"),
        }
    }
    let empty_part = String::from_utf8_lossy(&recording.body).contains(r#""text": """#);
    if empty_part && !parts.contains(&"text") {
        parts.push("text");
    }
    parts
}

/// The usage as the prototype counted it, with cached input separately.
fn summary(turn: &ModelAnswer, recording: &Recording) -> Value {
    let kinds = if recording.provider() == "gemini" { parts(turn, recording) } else { kinds(turn) };
    let calls = turn.content.iter().filter_map(|block| match block {
        Block::ToolUse { name, input, .. } => Some(json!([name, input])),
        _ => None,
    });
    let chars: usize = turn
        .content
        .iter()
        .map(|block| if let Block::Text { text, .. } = block { text.chars().count() } else { 0 })
        .sum();
    let usage = turn.usage;
    json!({
        "tool_calls": calls.collect::<Vec<_>>(),
        "text_chars": chars,
        "blocks": kinds,
        "usage": {
            "input": usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens,
            "output": usage.output_tokens,
            "cache_read": usage.cache_read_tokens,
            "cache_write": usage.cache_write_tokens,
            "reasoning": usage.reasoning_tokens,
        },
    })
}

fn assert_as_expected(recording: &Recording, row: &Value, events: &[Event], error: Option<&ModelError>) {
    let name = &recording.name;
    if let Some(code) = row["code"].as_str() {
        let error = error.unwrap_or_else(|| panic!("{name}: no error"));
        assert_eq!(error.code, code_of(code), "{name}: {error}");
        assert_eq!(error.status.map(u64::from), row["status"].as_u64(), "{name}");
        return;
    }
    assert_eq!(error, None, "{name}");
    let Some(Event::Done(turn)) = events.last() else { panic!("{name}: {events:?}") };
    let mut row = row.clone();
    let stop = match row["stop"].as_str().unwrap() {
        "tool_use" | "tool_calls" => StopReason::ToolUse,
        "STOP" if row["tool_calls"] != json!([]) => StopReason::ToolUse,
        _ => StopReason::EndTurn,
    };
    assert_eq!(turn.stop, stop, "{name}");
    for ignored in ["stop", "agrees_with_rig"] {
        row.as_object_mut().unwrap().remove(ignored);
    }
    // Costs are not compared here.
    row["usage"].as_object_mut().unwrap().remove("cost");
    assert_eq!(summary(turn, recording), row, "{name}");
    assert!(turn.malformed.is_empty(), "{name}");
    assert_events_match_turn(name, events, turn);
}

/// Checks that the events of the stream add up to the final answer.
fn assert_events_match_turn(name: &str, events: &[Event], turn: &ModelAnswer) {
    let (mut text, mut thinking) = (String::new(), String::new());
    let mut calls: Vec<(String, String, String)> = Vec::new();
    for event in events {
        match event {
            Event::Text(more) => text.push_str(more),
            Event::Thinking(more) => thinking.push_str(more),
            Event::ToolStart { index, id, name } => {
                assert_eq!(*index, calls.len());
                calls.push((id.clone(), name.clone(), String::new()));
            }
            Event::ToolArguments { index, json } => calls[*index].2.push_str(json),
            _ => {}
        }
    }
    let (mut done_text, mut done_thinking, mut done_calls) = (String::new(), String::new(), Vec::new());
    for block in &turn.content {
        match block {
            Block::Text { text, .. } => done_text.push_str(text),
            Block::Thinking { text, .. } => done_thinking.push_str(text),
            Block::ToolUse { id, name, input, .. } => {
                done_calls.push((id.clone(), name.clone(), input.clone()))
            }
            Block::Opaque { .. } => {}
            Block::ToolResult { .. } | Block::Image(_) | Block::Document(_) => panic!("{name}: {block:?}"),
        }
    }
    assert_eq!((text, thinking), (done_text, done_thinking), "{name}");
    let streamed_calls: Vec<_> = calls
        .into_iter()
        .map(|(id, name, json)| (id, name, crate::wire::fields::parse_arguments(&json).unwrap()))
        .collect();
    assert_eq!(streamed_calls, done_calls, "{name}");
}

#[test]
fn recorded_streams_decode_the_same_however_split() {
    if !are_here() {
        return;
    }
    let (streams, expected) = (streams(), expected());
    let mut compared = 0;
    for recording in &streams {
        let (events, error) = replay(recording, std::iter::once(recording.body.as_slice()));
        for size in [1, 7] {
            let cut = replay(recording, recording.body.chunks(size));
            assert_eq!(cut, (events.clone(), error.clone()), "{} in chunks of {size}", recording.name);
        }
        if let Some((_, row)) = expected.iter().find(|(name, _)| *name == recording.name) {
            assert_as_expected(recording, row, &events, error.as_ref());
            compared += 1;
        }
    }
    println!(
        "{} recorded streams replayed whole and in chunks of 1 and 7; {compared} compared",
        streams.len()
    );
    assert!(streams.len() >= 31 && compared >= 27, "only {} and {compared}", streams.len());
}

/// The prototype did not read these.
#[test]
fn recorded_responses_are_decoded() {
    if !are_here() {
        return;
    }
    let streams = streams();
    let replayed = |name: &str| {
        let recording = streams.iter().find(|recording| recording.name == name).unwrap();
        replay(recording, recording.body.chunks(7))
    };
    let name = "openai/responses_stream_tool_call";
    let (events, _) = replayed(name);
    let Some(Event::Done(turn)) = events.last() else { panic!("{events:?}") };
    assert_events_match_turn(name, &events, turn);
    assert_eq!(kinds(turn), ["reasoning", "tool_use"]);
    assert_eq!(
        turn.content[1],
        Block::ToolUse {
            id: "call_gAlMKYUezxsrjOsVqKjhG5Me".into(),
            name: "best_language_to_learn".into(),
            input: json!({}),
            raw: None,
        }
    );
    assert_eq!(turn.stop, StopReason::ToolUse);
    assert!(turn.usage.reasoning_tokens > 0 && turn.usage.output_tokens > turn.usage.reasoning_tokens);

    let (_, error) = replayed("openai/responses_stream_rate_limited_in_stream");
    assert_eq!(error.unwrap().code, ModelErrorCode::RateLimited);
}

#[test]
fn recorded_stream_cut_between_events_is_an_error() {
    if !are_here() {
        return;
    }
    let (mut cuts, mut complete) = (0, 0);
    for recording in streams() {
        let text = String::from_utf8(recording.body.clone()).unwrap();
        let end_of_event = if wire(&recording) == Wire::Ollama { "\n" } else { "\n\n" };
        let frames: Vec<&str> = text.split_inclusive(end_of_event).collect();
        // From here on the answer is complete by its wire's rules, whatever is still missing.
        let mark = match wire(&recording) {
            Wire::Anthropic => "message_stop",
            Wire::OpenAiResponses => "response.completed",
            Wire::Gemini => "\"finishReason\":",
            Wire::Ollama => "\"done\":true",
            Wire::Cohere => "message-end",
            Wire::OpenAiChat if answer_end(&recording) == AnswerEnd::DoneMark => "[DONE]",
            Wire::OpenAiChat => "\"finish_reason\":\"",
        };
        let marks = [mark, "event: error\n", "\"error\":{"];
        let is_last = |frame: &&str| marks.iter().any(|mark| frame.contains(mark));
        let end = frames.iter().position(is_last).unwrap_or(frames.len());
        for (count, whole) in (0..frames.len()).map(|count| (count, count > end)) {
            let prefix: String = frames[..count].concat();
            let (events, error) = replay(&recording, std::iter::once(prefix.as_bytes()));
            let done = matches!(events.last(), Some(Event::Done(_)));
            assert_eq!(error.is_none(), done, "{} after {count} events", recording.name);
            assert!(whole || !done, "{} after {count} events is taken for an answer", recording.name);
            if let Some(error) = error.filter(|_| !whole) {
                assert_eq!(error.code, ModelErrorCode::NetworkError, "{}", recording.name);
            }
            if done { complete += 1 } else { cuts += 1 }
        }
    }
    println!("{cuts} cuts refused; {complete} came after the finish reason");
    assert!(cuts > 650, "only {cuts}");
}

#[test]
fn recorded_complete_answers_emit_stream_events() {
    if !are_here() {
        return;
    }
    let mut ran = 0;
    let in_one_piece =
        |recording: &&Recording| ["/json_", "/chat_json_"].iter().any(|kind| recording.name.contains(kind));
    for recording in recordings().iter().filter(in_one_piece) {
        let body = String::from_utf8(recording.body.clone()).unwrap();
        let mut events = VecDeque::new();
        wire(recording).decoder("x", answer_end(recording)).whole_answer(&body, &mut events).unwrap();
        let events: Vec<Event> = events.into();
        let Some(Event::Done(turn)) = events.last() else { panic!("{events:?}") };
        assert!(turn.usage.input_tokens > 0 && !turn.content.is_empty(), "{}", recording.name);
        assert_events_match_turn(&recording.name, &events, turn);
        if recording.name.contains("tool") {
            assert_eq!(turn.stop, StopReason::ToolUse);
            let calls = turn.content.iter().filter(|block| matches!(block, Block::ToolUse { .. })).count();
            assert_eq!(calls, 2, "{}", recording.name);
        }
        if recording.name.contains("cache") {
            assert!(turn.usage.cache_read_tokens > 0);
        }
        ran += 1;
    }
    println!("{ran} answers in one piece");
    assert_eq!(ran, 4);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn recorded_streams_decode_the_same_for_random_splits(which in any::<prop::sample::Index>(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20)) {
        if !are_here() {
            return Ok(());
        }
        let streams = streams();
        let recording = which.get(&streams);
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(recording.body.len())).collect();
        at.sort_unstable();
        at.push(recording.body.len());
        let mut start = 0;
        let chunks: Vec<&[u8]> = at.iter().map(|end| { let chunk = &recording.body[start..*end]; start = *end; chunk }).collect();
        prop_assert_eq!(
            replay(recording, chunks.into_iter()),
            replay(recording, std::iter::once(recording.body.as_slice()))
        );
    }
}
