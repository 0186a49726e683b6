//! Decides what the simulated model answers, from the last user turn and the tool results since.

mod goals;
mod plans;
mod requests;

use houston_domain::history::{Block, Entry, Role};
use houston_domain::image::references;
use houston_domain::inner_call::{USE_TOOL, inner_call};
use serde_json::{Value, json};

use self::goals::{goal_change, goal_message, new_goal};
use super::directive::{Directives, RequestedCall};
use super::finding;
use crate::model::Request;
use crate::shorten::shortened;

/// Longest part of the user's text that is repeated, in characters.
const LONGEST_ECHO: usize = 300;

/// The next answer: text or tool calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    Text(String),
    Calls(Vec<RequestedCall>),
}

/// A tool call made since the last user text, with its result.
struct Step<'a> {
    name: &'a str,
    answer: String,
    failed: bool,
}

/// Name and first line of the skill that Houston has written into this text.
fn skill_in(text: &str) -> Option<(String, String)> {
    let (head, body) = text.strip_prefix("<skill ")?.split_once(">\n")?;
    let name = head.split("name=\"").nth(1)?.trim_end_matches('"');
    Some((name.to_owned(), body.lines().next().unwrap_or_default().to_owned()))
}

/// The last user entry with text, and the tool calls since.
pub(super) struct Situation<'a> {
    pub(super) directives: Directives,
    user_text: String,
    /// Types and sizes of the images that follow the text.
    images: Vec<String>,
    /// Name and first line of a skill that follows the text.
    skill: Option<(String, String)>,
    steps: Vec<Step<'a>>,
    offered: Vec<&'a str>,
    must_call: Option<&'a str>,
}

impl<'a> Situation<'a> {
    /// Extracts the situation from a request.
    pub(super) fn of(request: &Request<'a>) -> Self {
        let entries = request.entries;
        // What Houston discloses of skills follows the text that calls for it.
        let is_users = |text: &str| skill_in(text).is_none() && !text.starts_with("<skills ");
        let is_text = |entry: &Entry| {
            entry.content.iter().any(|block| matches!(block, Block::Text { text, .. } if is_users(text)))
        };
        let last = entries.iter().rposition(|entry| entry.role == Role::User && is_text(entry)).unwrap_or(0);
        // Earlier entries are ignored, even unanswered ones: their directives were executed or cancelled.
        let text = entries.get(last).map(Entry::text).unwrap_or_default();
        let (directives, mut user_text) = Directives::read(&without_tags(&text));
        let images = entries.get(last).map(images_in).unwrap_or_default();
        for image in references(&user_text.clone()) {
            user_text = user_text.replace(&image.reference(), "").trim_end().to_owned();
        }
        Self {
            directives,
            user_text,
            images,
            skill: entries.iter().skip(last + 1).find_map(|entry| skill_in(&entry.text())),
            steps: steps(entries.get(last + 1..).unwrap_or_default()),
            offered: request.tools.iter().map(|tool| tool.name.as_str()).collect(),
            must_call: request.must_call,
        }
    }

    /// Chooses the next answer.
    pub(super) fn decide(&self) -> Reply {
        if let Some(name) = &self.directives.repeat {
            return Reply::Calls(vec![RequestedCall { name: name.clone(), json: "{}".to_owned() }]);
        }
        let Some(step) = self.steps.last() else { return self.first_reply() };
        if step.name == "send_message" && !step.failed {
            return Reply::Text("Done.".to_owned());
        }
        if step.name == "list_notes"
            && !step.failed
            && self.wants_notes_deleted()
            && let Some(calls) = self.deletions(&step.answer)
        {
            return calls;
        }
        if step.name == "fetch_page"
            && !step.failed
            && self.user_text.to_lowercase().contains("note")
            && let Some(note) = self.note_of_page(&step.answer)
        {
            return note;
        }
        let of_goal = || self.post_to_found(step).or_else(|| self.change_found(step));
        if let Some(next) = self.next_of_finding(step).or_else(of_goal) {
            return next;
        }
        self.reply(match (step.name, step.failed) {
            ("delete_note", true) => self.deleted(),
            (name, true) => format!("I tried {name}, and it failed: {}", step.answer),
            ("create_note", _) => match id_in(&step.answer, "note_") {
                Some(id) => format!("I wrote it down as {id}."),
                None => format!("I wrote it down: {}", step.answer),
            },
            ("list_notes", _) => format!("Your notes: {}", step.answer),
            ("list_conversations", _) => format!("Your goals: {}", step.answer),
            ("create_goal" | "update_goal", _) => step.answer.clone(),
            ("create_plan", _) => format!("I made a plan. {}", step.answer),
            ("list_todos", _) => format!("Your todos: {}", step.answer),
            ("manage_todos", _) => format!("I put it on your list. {}", step.answer),
            ("write_file", _) => format!("I wrote the file. {}", step.answer),
            ("read_file", _) => format!("The file: {}", step.answer),
            ("manage_learning", _) => "I will remember that.".to_owned(),
            ("delete_note", _) => self.deleted(),
            ("get_current_time", _) => format!("It is {}", step.answer),
            ("fetch_page", _) => format!("The page says: {}", without_mark(&step.answer)),
            ("search_web", _) => format!("I found: {}", without_mark(&step.answer)),
            ("calculate", _) => format!("It is {}", step.answer),
            ("translate", _) => format!("The translation: {}", without_mark(&step.answer)),
            ("run_snippet", _) => format!("The snippet returned {}", step.answer),
            ("run_code", _) => format!("The code returned {}", step.answer),
            (name, _) => format!("{name} answered: {}", step.answer),
        })
    }

    /// The answer before any tool was called.
    fn first_reply(&self) -> Reply {
        if !self.directives.calls.is_empty() {
            return Reply::Calls(self.directives.calls.clone());
        }
        if let Some(reply) = self.plan_ended().or_else(|| self.joined()).or_else(|| self.plan_request()) {
            return reply;
        }
        let lower = self.user_text.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        let call = |name: &str, input: Value| self.call(name, &input);
        let named = finding::named(&self.user_text, &self.offered);
        let named = named.and_then(|(name, input)| self.call(name, &input));
        if let Some(call) = named.or_else(|| self.call_outside(&lower)) {
            return call;
        }
        if let Some(call) = self.todo_request(&lower) {
            return call;
        }
        let asks_for_notes = has(&["notes"]) && has(&["list", "show", "my notes", "what", "which", "read"]);
        let of_file = self.file_request().and_then(|(name, input)| call(name, input));
        let chosen = if of_file.is_some() {
            of_file
        } else if let Some(goal) = new_goal(&self.user_text).and_then(|goal| call("create_goal", goal)) {
            Some(goal)
        } else if goal_message(&self.user_text).is_some()
            || goal_change(&self.user_text).is_some()
            || has(&["goals"]) && has(&["list", "show", "my goals"])
        {
            call("list_conversations", json!({}))
        } else if asks_for_notes || self.wants_notes_deleted() {
            call("list_notes", json!({}))
        } else if has(&["note", "write down", "write this down", "jot down"]) {
            let (title, content) = note_in(&self.user_text);
            call("create_note", json!({"title": title, "content": content}))
        } else if has(&["remember", "learn that", "don't forget"]) {
            let content = after_phrase(
                &self.user_text,
                &["remember that", "learn that", "don't forget that", "remember"],
            );
            call("manage_learning", json!({"action": "add", "content": content}))
        } else if lower
            .split(|c: char| !c.is_alphanumeric())
            .any(|word| matches!(word, "time" | "date" | "clock"))
        {
            call("get_current_time", time_zone_in(&self.user_text))
        } else {
            None
        };
        let chosen = chosen.or_else(|| call(finding::SEARCH, finding::wanted(&self.user_text)?));
        let chosen = chosen.or_else(|| {
            let (name, line) = self.skill.as_ref()?;
            Some(self.reply(format!("I follow the skill {name}: {line}")))
        });
        chosen.unwrap_or_else(|| {
            let asked = if self.user_text.is_empty() { "nothing" } else { self.user_text.as_str() };
            let asked = shortened(asked, LONGEST_ECHO);
            let seen: String = self.images.iter().map(|image| format!(" I see an image: {image}.")).collect();
            self.reply(format!(
                "This is Houston's simulated model: it follows rules and needs no key. You asked: {asked}{seen}"
            ))
        })
    }

    /// What follows a search for tools, or the help of one.
    fn next_of_finding(&self, step: &Step<'_>) -> Option<Reply> {
        match step.name {
            finding::SEARCH if !step.failed => self.call(finding::HELP, &finding::first(&step.answer)?),
            finding::HELP if !step.failed => {
                self.call(USE_TOOL, &finding::example(&step.answer, &self.user_text)?)
            }
            _ => None,
        }
    }

    /// A note with what a page says.
    fn note_of_page(&self, page: &str) -> Option<Reply> {
        let text = without_mark(page);
        let title = text.lines().find(|line| !line.trim().is_empty())?;
        let title = shortened(title.trim_start_matches(['#', ' ']), 60);
        self.call("create_note", &json!({"title": title, "content": text}))
    }

    /// A call that writes or reads a file, if the text ends with the path of one.
    fn file_request(&self) -> Option<(&'static str, Value)> {
        let text = self.user_text.trim_end_matches(|c: char| c.is_whitespace() || ".!?\"'`".contains(c));
        let (before, path) = text.rsplit_once(char::is_whitespace)?;
        let path = path.trim_start_matches(['"', '\'', '`']);
        if !path.contains(['.', '/']) || path.contains("://") {
            return None;
        }
        // Only ASCII letters change, so positions are the same as in `before`.
        let lower = before.to_ascii_lowercase();
        if let Some(at) = ["write ", "save "].iter().find_map(|verb| Some(lower.find(verb)? + verb.len())) {
            let end = [" to", " into", " in"].iter().find_map(|word| before.strip_suffix(word))?.len();
            let content = before.get(at..end)?.trim_matches(['"', '\'', '`']);
            return Some(("write_file", json!({"path": path, "content": content})));
        }
        let reads =
            ["read", "show", "open"].iter().any(|verb| lower.split_whitespace().any(|word| word == *verb));
        reads.then(|| ("read_file", json!({"path": path})))
    }

    /// Whether the user asks to delete notes.
    fn wants_notes_deleted(&self) -> bool {
        let lower = self.user_text.to_lowercase();
        lower.contains("notes") && ["delete", "remove", "forget"].iter().any(|word| lower.contains(word))
    }

    /// Calls that delete the notes in a list; `None` if it has none, or the tool is not offered.
    fn deletions(&self, list: &str) -> Option<Reply> {
        let name = "delete_note";
        let words = list.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let mut ids: Vec<&str> = words.filter(|word| word.starts_with("note_")).collect();
        ids.dedup();
        let call =
            |id: &&str| RequestedCall { name: name.to_owned(), json: json!({"note_id": id}).to_string() };
        let calls: Vec<RequestedCall> = ids.iter().map(call).collect();
        (self.offered.contains(&name) && !calls.is_empty()).then_some(Reply::Calls(calls))
    }

    /// How many notes were deleted, and why the others were not.
    fn deleted(&self) -> String {
        let deletions = || self.steps.iter().filter(|step| step.name == "delete_note");
        let done = deletions().filter(|step| !step.failed).count();
        match deletions().find(|step| step.failed) {
            None => format!("I deleted {done} of your notes."),
            Some(failed) => format!("I deleted {done} of your notes; one I did not: {}", failed.answer),
        }
    }

    /// A tool call, if the tool is offered.
    fn call(&self, name: &str, input: &Value) -> Option<Reply> {
        self.offered
            .contains(&name)
            .then(|| Reply::Calls(vec![RequestedCall { name: name.to_owned(), json: input.to_string() }]))
    }

    /// Sends `text` to the user, repeated or cut to the number of words set by `chunks`.
    fn reply(&self, text: String) -> Reply {
        let text = match self.directives.chunks {
            Some(count) => text.split_whitespace().cycle().take(count).collect::<Vec<_>>().join(" "),
            None => text,
        };
        self.call("send_message", &json!({"content": text})).unwrap_or(Reply::Text(text))
    }
}

/// Types and sizes of the images in an entry.
fn images_in(entry: &Entry) -> Vec<String> {
    let described = entry.content.iter().filter_map(|block| match block {
        Block::Image(image) => {
            let header = image.header;
            Some(format!("{}, {} x {} pixels", header.image_type.name(), header.width, header.height))
        }
        _ => None,
    });
    described.collect()
}

/// The tool calls in `entries` that have a result.
fn steps(entries: &[Entry]) -> Vec<Step<'_>> {
    let results = |wanted: &str| {
        entries.iter().flat_map(|entry| &entry.content).find_map(|block| match block {
            Block::ToolResult { tool_use_id, content, is_error } if tool_use_id == wanted => {
                Some((observation_in(content), *is_error))
            }
            _ => None,
        })
    };
    let calls = entries.iter().flat_map(|entry| &entry.content).filter_map(|block| match block {
        Block::ToolUse { id, name, input, .. } => Some((id, inner_call(name, input).0)),
        _ => None,
    });
    calls.filter_map(|(id, name)| results(id).map(|(answer, failed)| Step { name, answer, failed })).collect()
}

/// The text of a tool result: its `observation` or `error` field, otherwise the whole content.
fn observation_in(content: &str) -> String {
    const LONGEST: usize = 500;
    let text = serde_json::from_str::<Value>(content).ok().and_then(|value| {
        let text = value.get("observation").or_else(|| value.get("error"))?;
        Some(text.as_str().map_or_else(|| text.to_string(), str::to_owned))
    });
    text.unwrap_or_else(|| content.to_owned()).chars().take(LONGEST).collect()
}

/// The text of `<message>` elements, otherwise the whole text. Prompts wrap user messages in such elements, and the
/// rules must not react to the wrapping.
fn without_tags(text: &str) -> String {
    for tag in ["user_message", "message"] {
        let (open, close) = (format!("<{tag}"), format!("</{tag}>"));
        let inner: Vec<&str> = text
            .split(&open)
            .skip(1)
            .filter_map(|part| {
                part.split_once('>')?.1.split_once(close.as_str()).map(|(inner, _)| inner.trim())
            })
            .collect();
        if !inner.is_empty() {
            return inner.join("\n");
        }
    }
    text.to_owned()
}

/// The text after the first phrase found, ignoring case; all of `text` when none is found.
fn after_phrase<'a>(text: &'a str, phrases: &[&str]) -> &'a str {
    // Only ASCII letters change, so positions are the same as in `text`.
    let lower = text.to_ascii_lowercase();
    let rest = phrases.iter().find_map(|phrase| lower.find(phrase).map(|at| &text[at + phrase.len()..]));
    let rest = rest.unwrap_or(text).trim_matches(|c: char| c.is_whitespace() || matches!(c, ':' | ',' | '"'));
    if rest.is_empty() { text.trim() } else { rest }
}

/// What a page or a search says, without the lines that mark it as written by strangers.
fn without_mark(text: &str) -> String {
    let lines = text.lines().filter(|line| {
        !line.starts_with("<untrusted ") && !line.starts_with("</untrusted>") && !line.starts_with('[')
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A note's title (its first eight words) and content.
fn note_in(text: &str) -> (String, String) {
    const TITLE_WORDS: usize = 8;
    const PHRASES: [&str; 10] = [
        "write down that",
        "write this down",
        "write down",
        "jot down",
        "note that",
        "a note about",
        "a note that",
        "a note to",
        "a note",
        "note",
    ];
    let content = after_phrase(text, &PHRASES);
    let title =
        content.lines().next().unwrap_or_default().split_whitespace().take(TITLE_WORDS).collect::<Vec<_>>();
    (title.join(" "), content.to_owned())
}

/// `{"time_zone": …}` if the text contains a zone such as `Europe/Berlin`.
fn time_zone_in(text: &str) -> Value {
    let is_zone = |word: &&str| {
        word.split_once('/').is_some_and(|(area, city)| {
            area.starts_with(|c: char| c.is_ascii_uppercase())
                && city.starts_with(|c: char| c.is_ascii_uppercase())
        })
    };
    let trimmed = |word| str::trim_matches(word, |c: char| c.is_ascii_punctuation());
    match text.split_whitespace().map(trimmed).find(is_zone) {
        Some(zone) => json!({ "time_zone": zone }),
        None => json!({}),
    }
}

/// The first word in `text` that starts with `prefix`.
fn id_in<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').find(|word| word.starts_with(prefix))
}
