//! A deterministic model for trying Houston without network or API key: it follows rules, but calls real tools.
//!
//! It reacts to the last user turn and to the offered tools:
//!
//! | user asks for | tool call | then |
//! |---|---|---|
//! | a note | `create_note {title, content}` | `send_message {content}` with the note's id |
//! | "list my notes" | `list_notes {}` | `send_message` with them |
//! | "delete my notes" | `list_notes {}`, then `delete_note` for each | `send_message` with the outcome |
//! | "list my goals" | `list_conversations {}` | `send_message` with them |
//! | "tell my goal Kyoto: book it" | `list_conversations {}`, then `post_to_conversation` to the one with this title | `send_message` with the outcome |
//! | "create a goal Kyoto: find three hotels" | `create_goal {title, message?}` | `send_message` with the outcome |
//! | "rename my goal Kyoto to Osaka", "archive my goal Kyoto" | `list_conversations {}`, then `update_goal` of the one with this title | `send_message` with the outcome |
//! | "fetch https://… and note what it says" | `fetch_page {url}`, then `create_note` if a note is wanted | `send_message` with its beginning |
//! | "search the web for …" | `search_web {query}` | `send_message` with the results |
//! | "how much is …", "calculate …" | `calculate {expression}` | `send_message` with the result |
//! | "translate … into French" | `translate {text, to}` | `send_message` with the translation |
//! | "run this code: …" | `run_code {code}`, of a fenced block or the rest of the text | `send_message` with the result |
//! | "run the snippet …" | `run_snippet {name}`, of the last word | `send_message` with the result |
//! | "plan: a; ? Which day; @ c" | `create_plan` with a step for each item (`?` asks the user, `@` is for an executor) and one that puts the results together | `send_message` with its output, once it has ended |
//! | "remember that …" | `manage_learning {action: "add", content}` | `send_message` |
//! | "write hello to a.txt" | `write_file {path, content}` | `send_message` with the outcome |
//! | "read a.txt" | `read_file {path}` | `send_message` with its text |
//! | the time or date | `get_current_time {time_zone?}` | `send_message` |
//! | "use math__add with a=2 b=3", naming a tool of a server | that call | `send_message` with the result |
//! | "use a tool to add 2 and 3", where tools must be searched | `search_tools {query}`, `get_tool_help` and `use_tool` of the first | `send_message` with the result |
//! | anything else, and a skill was disclosed | `send_message` with its first line | – |
//! | anything else | `send_message`, saying that the model is simulated | – |
//!
//! Of images that were posted with the text, it says type and size.
//!
//! If the answer must fit a schema, it is the simplest value that does, with the text in its strings; if a tool must be
//! called, so are its arguments. Tools that are not offered are not called; without `send_message` it answers in plain
//! text. After a message was sent, it ends with "Done.".
//!
//! Calls with the latency `batch` are submitted, and answered when they are asked for again.
//!
//! Directives in the user's text control the answer in load and fault tests. A line with `/sim` may contain any of
//! these:
//!
//! | directive | effect |
//! |---|---|
//! | `chunks=20` | the answer has that many words, each sent as one piece |
//! | `think=5` | sends that many words of reasoning first |
//! | `delay_ms=0` | pause before each piece |
//! | `hold_ms=2000` | pause before the first piece |
//! | `fail=rate_limited` | fails with that code ([`ModelErrorCode`], in lower case) |
//! | `fail_after=3` | … after that many events of the answer |
//! | `retry_after_ms=500` | … with that retry delay |
//! | `tool=x args={"a":1}` | calls `x`; may be repeated for parallel calls; arguments that are not a JSON object are sent unchanged |
//! | `loop=x` | calls `x` again after each result, without end |
//!
//! [`ModelErrorCode`]: houston_domain::model::ModelErrorCode

mod rules;

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, stream};
use houston_domain::history::{Block, Entry};
use houston_domain::model::{ModelAnswer, ModelError, ModelErrorCode, StopReason, Tier, Usage};
use houston_domain::model_policy::Latency;
use houston_domain::submission::SubmittedCall;
use serde_json::{Map, Value, json};

use self::rules::{Reply, Situation};
use crate::model::{Description, Event, EventStream, Model, Request, Submitting};
use crate::wire::{Call, done};

/// The simulated model. See the module page for its rules.
#[derive(Debug, Clone)]
pub struct Simulated {
    description: Description,
    delay: Duration,
}

impl Simulated {
    /// Creates the model with a pause of 15 ms before each piece, about the speed of a fast provider.
    pub fn new() -> Self {
        let description = Description {
            provider: "simulated".to_owned(),
            model: "simulated".to_owned(),
            simulated: true,
            supports_tools: true,
        };
        Self { description, delay: Duration::from_millis(15) }
    }

    /// What a call gets that is submitted or withdrawn; `None`: its answer.
    fn later(&self, request: &Request<'_>) -> Option<Event> {
        match request.submitting {
            Submitting::Withdraw(_) => Some(Event::Gone),
            Submitting::Allowed if request.latency == Latency::Batch => {
                let (model, id) = (self.description.to_string(), "later".to_owned());
                Some(Event::Submitted(Box::new(SubmittedCall { model, id, tier: Tier::Batch })))
            }
            Submitting::Fetch(_) | Submitting::Allowed | Submitting::No => None,
        }
    }

    /// Sets the pause before each piece; zero is allowed.
    #[must_use]
    pub fn with_delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}

impl Default for Simulated {
    fn default() -> Self {
        Self::new()
    }
}

impl Model for Simulated {
    fn description(&self) -> &Description {
        &self.description
    }

    fn stream<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Result<EventStream, ModelError>> {
        if let Some(event) = self.later(request) {
            return Box::pin(async move { Ok(Box::pin(stream::iter([Ok(event)])) as EventStream) });
        }
        let situation = Situation::of(request);
        let directives = &situation.directives;
        let mut reply = situation.decide();
        let must_call = request.tools.iter().find(|tool| request.must_call == Some(tool.name.as_str()));
        if let Reply::Text(text) = &mut reply {
            if let Some(tool) = must_call {
                let json = value_of_schema(&tool.input_schema, text).to_string();
                reply = Reply::Calls(vec![RequestedCall { name: tool.name.clone(), json }]);
            } else if let Some(form) = request.answer_schema {
                *text = value_of_schema(form.schema, text).to_string();
            }
        }
        let mut events = events(request, directives.think, &reply);
        let error = directives.fail.map(|code| ModelError {
            retry_after: directives.retry_after,
            ..ModelError::new(code, "ordered by /sim fail")
        });
        if error.is_some() {
            events.truncate(directives.fail_after.min(events.len() - 1));
        }
        let (hold, delay) = (directives.hold, directives.delay.unwrap_or(self.delay));
        Box::pin(async move {
            if !hold.is_zero() {
                tokio::time::sleep(hold).await;
            }
            match error {
                Some(error) if events.is_empty() => Err(error),
                error => {
                    let events = events.into_iter().map(Ok).chain(error.map(Err));
                    let paced = stream::iter(events).then(move |event| paced(event, delay));
                    Ok(Box::pin(paced) as EventStream)
                }
            }
        })
    }
}

/// The events of an answer, preceded by `think` words of reasoning.
fn events(request: &Request<'_>, think: usize, reply: &Reply) -> VecDeque<Event> {
    let mut events = VecDeque::new();
    let (mut content, mut malformed, mut written) = (Vec::new(), Vec::new(), 0);
    if think > 0 {
        let text = vec!["hmm"; think].join(" ");
        written += text.len();
        events.extend(pieces(&text).map(|piece| Event::Thinking(piece.to_owned())));
        content.push(Block::Thinking { text, raw: None });
    }
    match reply {
        Reply::Text(text) => {
            written += text.len();
            events.extend(pieces(text).map(|piece| Event::Text(piece.to_owned())));
            content.push(Block::text(text));
        }
        Reply::Calls(calls) => {
            for (index, RequestedCall { name, json }) in calls.iter().enumerate() {
                let id = format!("sim_{:08x}_{index}", fingerprint(request.entries));
                written += name.len() + json.len();
                let mut call = Call::begin(index, id, name.clone(), &mut events);
                for piece in pieces(json) {
                    call.push(piece.to_owned(), &mut events);
                }
                content.push(call.block(None, &mut malformed));
            }
        }
    }
    let usage = usage(request, written);
    done(ModelAnswer { content, malformed, stop: StopReason::EndTurn, usage }, &mut events);
    events
}

/// Usage as a provider would report it, at four characters per token.
fn usage(request: &Request<'_>, written: usize) -> Usage {
    let tokens = |chars: usize| u64::try_from(chars.div_ceil(4)).unwrap_or(u64::MAX);
    let cached: usize = request.system.iter().filter(|part| part.cached).map(|part| part.text.len()).sum();
    let system: usize = request.system.iter().map(|part| part.text.len()).sum();
    let context = request.system_context.map_or(0, str::len);
    let tools: usize = request.tools.iter().map(|tool| tool.name.len() + tool.description.len()).sum();
    let history: usize = request.entries.iter().flat_map(|entry| &entry.content).map(block_length).sum();
    Usage {
        input_tokens: tokens(system + tools + history + context),
        output_tokens: tokens(written),
        cache_read_tokens: if request.entries.len() > 1 { tokens(cached) } else { 0 },
        ..Usage::default()
    }
}

fn block_length(block: &Block) -> usize {
    match block {
        Block::Text { text, .. } | Block::Thinking { text, .. } => text.len(),
        Block::ToolUse { name, .. } => name.len() + 40,
        Block::ToolResult { content, .. } => content.len(),
        Block::Image(_) | Block::Document(_) | Block::Opaque { .. } => 0,
    }
}

/// A hash (FNV-1a) of the last two entries and the length of the history, so that call ids are unique within a run
/// and predictable in tests.
fn fingerprint(entries: &[Entry]) -> u32 {
    let mut hash = 0x811c_9dc5_u32;
    let mut feed = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    };
    feed(&entries.len().to_le_bytes());
    for block in entries.iter().rev().take(2).flat_map(|entry| &entry.content) {
        match block {
            Block::Text { text, .. } | Block::Thinking { text, .. } => feed(text.as_bytes()),
            Block::ToolUse { id, .. } => feed(id.as_bytes()),
            Block::Image(image) => feed(image.id.0.as_bytes()),
            Block::Document(document) => feed(document.id.0.as_bytes()),
            Block::Opaque { raw } => feed(raw.json.as_bytes()),
            Block::ToolResult { tool_use_id, content, .. } => {
                feed(tool_use_id.as_bytes());
                feed(content.as_bytes());
            }
        }
    }
    hash
}

/// Splits a text after each space, and long words once more, because providers split anywhere.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    const LONG: usize = 24;
    text.split_inclusive(' ').flat_map(|word| {
        let middle = (word.len() / 2..word.len()).find(|at| word.is_char_boundary(*at)).unwrap_or(0);
        let (first, second) = word.split_at(if word.len() > LONG { middle } else { word.len() });
        [first, second].into_iter().filter(|piece| !piece.is_empty())
    })
}

// Parses `/sim …` lines in a user's text, which control the simulated model in load and fault tests.
// They are listed at the beginning of this file.

/// A tool call requested by a directive.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RequestedCall {
    name: String,
    /// The arguments as they are sent, whether valid JSON or not.
    json: String,
}

/// The directives in a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Directives {
    chunks: Option<usize>,
    think: usize,
    delay: Option<Duration>,
    hold: Duration,
    fail: Option<ModelErrorCode>,
    fail_after: usize,
    retry_after: Option<Duration>,
    calls: Vec<RequestedCall>,
    repeat: Option<String>,
}

/// Longest answer a directive may request, in words, so that a test cannot exhaust memory.
const MAX_CHUNKS: usize = 100_000;

impl Directives {
    /// Parses the directives in `text` and returns them with the remaining text.
    fn read(text: &str) -> (Self, String) {
        let mut directives = Self::default();
        let mut rest = String::new();
        for line in text.lines() {
            match line.split_once("/sim ") {
                Some((before, arguments)) => {
                    rest.push_str(before);
                    directives.apply(arguments);
                }
                None => rest.push_str(line),
            }
            rest.push('\n');
        }
        (directives, rest.trim().to_owned())
    }

    fn apply(&mut self, arguments: &str) {
        let mut arguments = arguments.trim_start();
        while let Some((key, after)) = arguments.split_once('=') {
            let value_end = end_of_value(after);
            let (value, next) = after.split_at(value_end);
            self.set(key.trim(), value);
            arguments = next.trim_start();
        }
    }

    fn set(&mut self, key: &str, value: &str) {
        let millis = || value.parse().map(Duration::from_millis).unwrap_or_default();
        match key {
            "chunks" => self.chunks = value.parse().ok().map(|n: usize| n.clamp(1, MAX_CHUNKS)),
            "think" => self.think = value.parse().unwrap_or(0).min(MAX_CHUNKS),
            "delay_ms" => self.delay = Some(millis()),
            "hold_ms" => self.hold = millis(),
            "fail" => self.fail = Some(code_named(value)),
            "fail_after" => self.fail_after = value.parse().unwrap_or(0),
            "retry_after_ms" => self.retry_after = Some(millis()),
            "tool" => self.calls.push(RequestedCall { name: value.to_owned(), json: "{}".to_owned() }),
            "args" => {
                if let Some(call) = self.calls.last_mut() {
                    value.clone_into(&mut call.json);
                }
            }
            "loop" => self.repeat = Some(value.to_owned()),
            _ => {}
        }
    }
}

/// End of a value: after the JSON value it starts with, otherwise before the next space.
fn end_of_value(text: &str) -> usize {
    if text.starts_with(['{', '[', '"']) {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>();
        if let Some(Ok(_)) = values.next() {
            return values.byte_offset();
        }
    }
    text.find(' ').unwrap_or(text.len())
}

/// Parses an error code such as `rate_limited`; unknown names give `UNKNOWN`.
fn code_named(name: &str) -> ModelErrorCode {
    serde_json::from_value(name.to_uppercase().into()).unwrap_or(ModelErrorCode::Unknown)
}

/// The event, after a pause; the end of an answer has none.
async fn paced(event: Result<Event, ModelError>, delay: Duration) -> Result<Event, ModelError> {
    if !delay.is_zero() && event.as_ref().is_ok_and(|event| !matches!(event, Event::Done(_))) {
        tokio::time::sleep(delay).await;
    }
    event
}

/// How deep values are.
const DEEPEST: usize = 8;

/// A value that fits `schema`, with `text` in its strings.
fn value_of_schema(schema: &Value, text: &str) -> Value {
    of(schema, schema, text, 0)
}

fn of(root: &Value, schema: &Value, text: &str, depth: usize) -> Value {
    if depth > DEEPEST {
        return Value::Null;
    }
    let below = |schema: &Value| of(root, schema, text, depth + 1);
    if let Some(target) = schema["$ref"].as_str().and_then(|target| target.strip_prefix('#')) {
        return root.pointer(target).map_or(Value::Null, below);
    }
    if let Some(value) = schema.get("const").or_else(|| schema["enum"].get(0)) {
        return value.clone();
    }
    for choice in ["anyOf", "oneOf", "allOf"] {
        if let Some(first) = schema[choice].get(0) {
            return below(first);
        }
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
    let kind = kind.unwrap_or(if schema["properties"].is_object() { "object" } else { "string" });
    match kind {
        "object" => {
            let fields = schema["properties"].as_object().into_iter().flatten();
            let fields: Map<String, Value> =
                fields.map(|(name, schema)| (name.clone(), below(schema))).collect();
            Value::Object(fields)
        }
        "array" => {
            let items = schema["minItems"].as_u64().unwrap_or(1).clamp(1, 10);
            (0..items).map(|_| below(&schema["items"])).collect()
        }
        "integer" => schema.get("minimum").cloned().unwrap_or(json!(1)),
        "number" => schema.get("minimum").cloned().unwrap_or(json!(1.5)),
        "boolean" => json!(true),
        "null" => Value::Null,
        _ => {
            let most =
                schema["maxLength"].as_u64().map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(0));
            json!(text.chars().take(most).collect::<String>())
        }
    }
}

#[cfg(test)]
mod directive_tests {
    use super::*;

    #[test]
    fn directives_are_parsed_and_removed_from_the_text() {
        let (directives, rest) = Directives::read(
            "hello\n/sim chunks=20 delay_ms=0 tool=create_note args={\"title\": \"a b\"} tool=x args={oops fail=timeout\nthere",
        );
        assert_eq!(rest, "hello\n\nthere");
        assert_eq!(directives.chunks, Some(20));
        assert_eq!(directives.delay, Some(Duration::ZERO));
        assert_eq!(directives.fail, Some(ModelErrorCode::Timeout));
        let calls: Vec<_> =
            directives.calls.iter().map(|call| (call.name.as_str(), call.json.as_str())).collect();
        assert_eq!(calls, [("create_note", "{\"title\": \"a b\"}"), ("x", "{oops")]);
    }
}

#[cfg(test)]
mod typed_tests {
    use super::*;

    #[test]
    fn example_fits_its_schema() {
        let schema = json!({
            "type": "object", "required": ["city", "days", "stops"],
            "$defs": {"stop": {"type": "object", "properties": {"kind": {"enum": ["hotel", "train"]}, "price": {"type": "number"}}}},
            "properties": {
                "city": {"type": "string", "maxLength": 4},
                "days": {"type": "integer", "minimum": 2},
                "note": {"anyOf": [{"type": "null"}, {"type": "string"}]},
                "stops": {"type": "array", "minItems": 2, "items": {"$ref": "#/$defs/stop"}},
            },
        });
        let value = value_of_schema(&schema, "Kyoto");
        assert_eq!(value["city"], "Kyot");
        assert_eq!(value["stops"][1], json!({"kind": "hotel", "price": 1.5}));
        houston_domain::question::schema::check(&schema, &value).unwrap();
    }
}

#[cfg(test)]
mod tests;
