//! What the model does with a message, which names the way.

use std::time::Duration;

use houston_testkit::model_server::{Call, Reply};
use serde_json::{Value, json};

/// Time of a model call.
pub(super) const MODEL: Duration = Duration::from_millis(500);
/// The tools of the example that search and read a page.
pub(super) const SEARCHES: &str = "look";
pub(super) const PAGES: &str = "upsert";
/// Their times, in ms.
pub(super) const SEARCH: u64 = 400;
pub(super) const PAGE: u64 = 600;
/// Tokens that an answer is said to have.
pub(super) const OUTPUT: u64 = 40;
/// What the goal answers in the end.
pub(super) const ANSWER: &str = "Oslo is the best of the five.";

/// Bytes per token, approximately right for English and JSON.
const BYTES_PER_TOKEN: usize = 4;
/// Words of what the tools return.
const WORDS_OF_SEARCH: u64 = 150;
const WORDS_OF_PAGE: u64 = 500;
const CITIES: [&str; 5] = ["Oslo", "Rome", "Riga", "Bern", "Cork"];
/// How the instructions of an executor begin whose model takes no time.
pub(super) const AT_ONCE: &str = "Answer at once";
/// How the instructions of other executors begin.
const ORDER: &str = "Look up ";

/// A way to do the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// One call of a tool per turn.
    Loop,
    /// Five calls of a tool in each of two turns: a model that asks for all at once.
    Batches,
    /// A plan of tools, and of questions to a model.
    Tools,
    /// A plan of executors.
    Executors,
}

impl Way {
    pub(super) const ALL: [Self; 4] = [Self::Loop, Self::Batches, Self::Tools, Self::Executors];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Loop => "loop, one call a turn",
            Self::Batches => "loop, five calls a turn",
            Self::Tools => "plan of tools and models",
            Self::Executors => "plan of executors",
        }
    }

    /// The message that asks for it.
    pub(super) fn message(self) -> String {
        format!("Compare {} ({})", CITIES.join(", "), self.name())
    }
}

/// Approximate input tokens of a request.
pub(super) fn tokens(call: &Call) -> u64 {
    let parts = [&call.json()["tools"], &call.json()["messages"]];
    let bytes: usize = parts.iter().map(|part| part.to_string().len()).sum();
    bytes.div_ceil(BYTES_PER_TOKEN) as u64
}

/// How long the model takes for a request.
pub(super) fn time(call: &Call) -> Duration {
    match call.last_user_text().starts_with(AT_ONCE) {
        true => Duration::ZERO,
        false => MODEL,
    }
}

/// The answer to a request.
pub(super) fn reply(call: &Call) -> Reply {
    let said = call.user_texts();
    if call.tools().is_empty() {
        return judgement();
    }
    let last = said.last().map_or("", String::as_str);
    if last.starts_with(AT_ONCE) {
        return judgement();
    }
    if let Some(place) = last.strip_prefix(ORDER) {
        let place = place.split('.').next().unwrap_or_default();
        return match results(call) {
            0 => Reply::tool(SEARCHES, search(place)),
            1 => Reply::tool(PAGES, page(place)),
            _ => judgement(),
        };
    }
    let way = Way::ALL.into_iter().find(|way| said.contains(&way.message()));
    let finished = Reply::tool("send_message", json!({ "content": ANSWER }));
    match (way, results(call)) {
        _ if last.starts_with("<plan_ended") => finished,
        (Some(Way::Loop), done) => match CITIES.get(done / 2) {
            Some(place) if done % 2 == 0 => Reply::tool(SEARCHES, search(place)),
            Some(place) => Reply::tool(PAGES, page(place)),
            None => finished,
        },
        (Some(Way::Batches), 0) => all(SEARCHES, search),
        (Some(Way::Batches), 5) => all(PAGES, page),
        (Some(Way::Tools), 0) => Reply::tool("create_plan", plan(tools())),
        (Some(Way::Executors), 0) => Reply::tool("create_plan", plan(executors())),
        _ => finished,
    }
}

/// The number of tool results in the conversation.
fn results(call: &Call) -> usize {
    let messages = call.json()["messages"].as_array().map_or(&[][..], Vec::as_slice);
    messages.iter().filter(|message| message["role"] == "tool").count()
}

fn judgement() -> Reply {
    Reply::text(
        "A quiet town by the water, two hours away; rooms cost 120 a night in May, and the trains run each hour.",
    )
}

fn search(place: &str) -> Value {
    json!({"op": format!("search {place}"), "ms": SEARCH, "words": WORDS_OF_SEARCH})
}

fn page(place: &str) -> Value {
    json!({"op": format!("page {place}"), "ms": PAGE, "words": WORDS_OF_PAGE})
}

/// One call for each city.
fn all(tool: &str, input: fn(&str) -> Value) -> Reply {
    CITIES.into_iter().fold(Reply::empty(), |reply, place| reply.then_tool(tool, input(place)))
}

fn plan(steps: Value) -> Value {
    let over = format!("{CITIES:?}").replace('"', "'");
    json!({
        "goal": "Compare five cities",
        "steps": [{"id": "each", "type": "loop", "title": "Look up each city", "over": over, "as": "place", "max": 5,
                   "at_once": 5, "steps": steps}],
        "output": "{{ each.result }}",
    })
}

fn tools() -> Value {
    json!([
        {"id": "search", "type": "tool", "title": "Search", "tool": SEARCHES, "args": search("{{ place }}")},
        {"id": "page", "type": "tool", "title": "Read the page", "tool": PAGES, "args": page("{{ place }}"),
         "after": ["search"]},
        {"id": "judge", "type": "llm", "title": "Judge", "prompt": "Judge {{ place }}: {{ search.result }} {{ page.result }}"},
    ])
}

fn executors() -> Value {
    json!([{"id": "look", "type": "task", "title": "Look up a city", "tools": [SEARCHES, PAGES],
            "instructions": format!("{ORDER}{{{{ place }}}}. Search, read the page, and judge it.")}])
}
