//! Decides what the simulated model answers, from the last user turn and the tool results since.

use houston_domain::history::{Block, Entry, Role};
use houston_domain::image::references;
use houston_domain::inner_call::{ARGUMENTS, USE_TOOL, inner_call};
use serde_json::{Map, Number, Value, json};

use super::{Directives, RequestedCall};
use crate::model::Request;
use crate::scrub::shortened;

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
        if let Some(next) = self.next_step(step) {
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
            ("get_current_time" | "calculate", _) => format!("It is {}", step.answer),
            ("fetch_page", _) => format!("The page says: {}", without_mark(&step.answer)),
            ("search_web", _) => format!("I found: {}", without_mark(&step.answer)),
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
        let named = named_tool(&self.user_text, &self.offered);
        let named = named.and_then(|(name, input)| self.call(name, &input));
        if let Some(call) = named.or_else(|| self.call_outside(&lower)) {
            return call;
        }
        if let Some(call) = self.todo_request(&lower) {
            return call;
        }
        let asks_for_notes = has(&["notes"]) && has(&["list", "show", "my notes", "what", "which", "read"]);
        let of_file = self.file_request().and_then(|(name, input)| call(name, input));
        if let Some(call) = of_file.or_else(|| call("create_goal", new_goal(&self.user_text)?)) {
            return call;
        }
        let chosen = if goal_message(&self.user_text).is_some()
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
        let chosen = chosen.or_else(|| call(SEARCH, wanted_tool(&self.user_text)?));
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

    /// The call that follows a call: with a note, a goal or a tool that it has found.
    fn next_step(&self, step: &Step<'_>) -> Option<Reply> {
        let of_goal = || self.post_to_found(step).or_else(|| self.change_found(step));
        match step.name {
            "list_conversations" => of_goal(),
            _ if step.failed => None,
            "list_notes" if self.wants_notes_deleted() => self.deletions(&step.answer),
            "fetch_page" if self.user_text.to_lowercase().contains("note") => self.note_of_page(&step.answer),
            SEARCH => self.call(HELP, &first_found(&step.answer)?),
            HELP => self.call(USE_TOOL, &example_call(&step.answer, &self.user_text)?),
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
            Block::ToolResult { tool_use_id, content, is_error, .. } if tool_use_id == wanted => {
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
    let rest = phrases.iter().find_map(|phrase| after(text, phrase));
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
    let first_line = content.lines().next().unwrap_or_default();
    let title: Vec<&str> = first_line.split_whitespace().take(TITLE_WORDS).collect();
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

/// The code in a text: what is in its fence, else what follows the word "code". An expression becomes its result.
fn code_in(text: &str) -> String {
    let fenced = text.split("```").nth(1).map(|block| match block.split_once('\n') {
        Some((language, code)) if language.chars().all(char::is_alphanumeric) => code,
        _ => block,
    });
    let code = fenced.unwrap_or_else(|| after_phrase(text, &["this code", "the code", "code"]));
    let code = code.trim().trim_matches('`').trim();
    if code.contains("return") || code.contains([';', '\n']) {
        return code.to_owned();
    }
    format!("return ({code});")
}

/// The arguments for "translate good morning into French".
fn translation(text: &str) -> Option<Value> {
    let rest = after(text, "translate ")?;
    let lower = rest.to_ascii_lowercase();
    let (word, at) = [" into ", " to "].iter().find_map(|word| Some((word, lower.rfind(word)?)))?;
    let what = rest.get(..at)?.trim_matches(|c: char| c.is_whitespace() || "\"':".contains(c));
    let to = rest.get(at + word.len()..)?.trim_end_matches(['.', '!', '?', ' ', '\n']);
    (!what.is_empty() && !to.is_empty() && !to.contains('\n')).then(|| json!({"text": what, "to": to}))
}

impl Situation<'_> {
    /// A call that adds a todo or lists them, if the user speaks of one and the tool is offered.
    fn todo_request(&self, lower: &str) -> Option<Reply> {
        let mut words = lower.split(|c: char| !c.is_alphanumeric());
        match words.rfind(|word| word.starts_with("todo"))? {
            "todos" => self.call("list_todos", &json!({})),
            _ => {
                let title = shortened(after_phrase(&self.user_text, &["todo to", "todo that", "todo"]), 200);
                self.call("manage_todos", &json!({"action": "add", "titles": [title]}))
            }
        }
    }

    /// A call that reads a page, searches or runs code, if the user asks for one and the tool is offered.
    fn call_outside(&self, lower: &str) -> Option<Reply> {
        if ["run the snippet ", "run snippet "].iter().any(|phrase| lower.contains(phrase)) {
            let name = lower.split_whitespace().next_back().unwrap_or_default();
            return self.call("run_snippet", &json!({"name": name.trim_end_matches(['.', '!', '?'])}));
        }
        if lower.contains("run") && (lower.contains("code") || lower.contains("```")) {
            return self.call("run_code", &json!({"code": code_in(&self.user_text)}));
        }
        if let Some(input) = translation(&self.user_text) {
            return self.call("translate", &input);
        }
        if ["calculate", "how much is"].iter().any(|phrase| lower.contains(phrase)) {
            let sum = after_phrase(&self.user_text, &["calculate", "how much is"]);
            return self.call("calculate", &json!({"expression": sum.trim_end_matches(['?', '.'])}));
        }
        if ["search the web", "search for", "google"].iter().any(|phrase| lower.contains(phrase)) {
            let phrases = ["search the web for", "search the web", "search for", "google"];
            return self.call("search_web", &json!({"query": after_phrase(&self.user_text, &phrases)}));
        }
        let mut words = self.user_text.split(|c: char| c.is_whitespace() || "<>\"'()".contains(c));
        let url = words.find(|word| word.starts_with("http://") || word.starts_with("https://"))?;
        self.call("fetch_page", &json!({"url": url.trim_end_matches(['.', ',', ';', '!', '?'])}))
    }
}

/// Ends that belong to the sentence, not to a name.
const ENDS: [char; 4] = ['.', '!', '"', '\''];

/// What is changed of a goal: a new title, or its archiving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GoalChange<'t> {
    Title(&'t str),
    Archive,
}

impl Situation<'_> {
    /// After the goals were listed: the message of the user to the first whose line has the words that name it.
    fn post_to_found(&self, step: &Step<'_>) -> Option<Reply> {
        let (name, text) = goal_message(&self.user_text)?;
        let id = found(&step.answer, name)?;
        self.call("post_to_conversation", &json!({"conversation_id": id, "text": text}))
    }

    /// After the goals were listed: the change to the first whose line has the words that name it.
    fn change_found(&self, step: &Step<'_>) -> Option<Reply> {
        let (name, change) = goal_change(&self.user_text)?;
        let id = found(&step.answer, name)?;
        let input = match change {
            GoalChange::Title(title) => json!({"conversation_id": id, "title": title}),
            GoalChange::Archive => json!({"conversation_id": id, "status": "archived"}),
        };
        self.call("update_goal", &input)
    }
}

/// The id in the first line of a list that has these words.
fn found<'l>(list: &'l str, name: &str) -> Option<&'l str> {
    let line = list.lines().find(|line| line.to_lowercase().contains(&name.to_lowercase()))?;
    line.split([' ', ':']).next()
}

/// What follows a phrase, whatever its capitals.
fn after<'t>(text: &'t str, phrase: &str) -> Option<&'t str> {
    // Only ASCII letters change, so positions are the same as in `text`.
    let at = text.to_ascii_lowercase().find(phrase)? + phrase.len();
    text.get(at..)
}

/// The goal and the message in "tell my goal Kyoto: book the hotel".
fn goal_message(text: &str) -> Option<(&str, &str)> {
    let (name, message) = after(text, "tell my goal ")?.split_once(':')?;
    Some((name.trim(), message.trim())).filter(|(name, message)| !name.is_empty() && !message.is_empty())
}

/// Title and message in "create a goal Kyoto: find three hotels"; without a colon there is no message.
fn new_goal(text: &str) -> Option<Value> {
    let rest =
        ["create a goal ", "create the goal ", "new goal "].iter().find_map(|phrase| after(text, phrase))?;
    let (title, message) = rest.split_once(':').unwrap_or((rest, ""));
    let title = title.trim().trim_matches(ENDS);
    match (title, message.trim()) {
        ("", _) => None,
        (title, "") => Some(json!({"title": title})),
        (title, message) => Some(json!({"title": title, "message": message})),
    }
}

/// The goal and its change in "rename my goal Kyoto to Osaka" or "archive my goal Kyoto".
fn goal_change(text: &str) -> Option<(&str, GoalChange<'_>)> {
    let changed = match after(text, "rename my goal ") {
        Some(rest) => {
            let (name, title) = rest.split_once(" to ")?;
            (name.trim(), GoalChange::Title(title.trim().trim_matches(ENDS)))
        }
        None => (after(text, "archive my goal ")?.trim().trim_matches(ENDS), GoalChange::Archive),
    };
    Some(changed).filter(|(name, change)| !name.is_empty() && *change != GoalChange::Title(""))
}

/// Most items of a plan.
const MOST: usize = 20;

/// What the prompt of the last step begins with.
const JOIN: &str = "Put together:";

impl Situation<'_> {
    /// The plan in "plan: look up trains; ? Which day; @ compare hotels". If one must be made, each text has one.
    fn plan_request(&self) -> Option<Reply> {
        let asked =
            self.user_text.split_once(':').filter(|(word, _)| word.trim().eq_ignore_ascii_case("plan"));
        let must = self.must_call == Some("create_plan");
        let items = asked.map(|(_, items)| items).or(must.then_some(self.user_text.as_str()))?;
        let items: Vec<&str> =
            items.split(';').map(str::trim).filter(|item| !item.is_empty()).take(MOST).collect();
        if items.is_empty() {
            return None;
        }
        self.call("create_plan", &plan(&items))
    }

    /// The answer after a plan: what it resulted in.
    fn plan_ended(&self) -> Option<Reply> {
        let ended = self.user_text.find("<plan_ended ").and_then(|at| self.user_text.get(at..))?;
        if let Some(output) = between(ended, "<output", "</output>") {
            return Some(self.reply(format!("The plan is done. {output}")));
        }
        if ended.split('>').next()?.contains("status=\"completed\"") {
            return Some(self.reply("The plan is done.".to_owned()));
        }
        let error = between(ended, "<error", "</error>").unwrap_or_else(|| "It was stopped.".to_owned());
        Some(self.reply(format!("The plan is not done. {error}")))
    }

    /// The answer to the prompt of a plan's last step: the results that it contains.
    fn joined(&self) -> Option<Reply> {
        let results = self.user_text.strip_prefix(JOIN)?;
        let lines = results.lines().map(|line| between(line, "<result", "</result>").unwrap_or_default());
        let lines = lines.map(|line| line.rsplit("You asked: ").next().unwrap_or_default().trim().to_owned());
        let lines: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
        Some(self.reply(lines.join("; ")))
    }
}

/// One step for each item, side by side, and one that puts the results together. `?` asks the user, `@` is for an executor.
fn plan(items: &[&str]) -> Value {
    let mut steps = Vec::new();
    let mut prompt = JOIN.to_owned();
    for (nth, item) in items.iter().enumerate() {
        let id = format!("step_{}", nth + 1);
        let rest = |mark: char| item.strip_prefix(mark).map(str::trim).filter(|rest| !rest.is_empty());
        steps.push(match (rest('?'), rest('@')) {
            (Some(question), _) => {
                json!({"id": id, "type": "input", "title": question, "question": question})
            }
            (_, Some(work)) => json!({"id": id, "type": "task", "title": work, "instructions": work}),
            _ => json!({"id": id, "type": "llm", "title": item, "prompt": item}),
        });
        prompt.push_str(&format!("\n{{{{ {id}.result }}}}"));
    }
    steps.push(json!({"id": "all", "type": "llm", "title": "Put the results together", "prompt": prompt}));
    json!({"goal": items.join(", "), "steps": steps, "output": "{{ all.result }}"})
}

/// The text of the first element with this tag, its characters as they were.
fn between(text: &str, open: &str, close: &str) -> Option<String> {
    let (_, rest) = text.split_once(open)?;
    let (_, inner) = rest.split_once('>')?;
    let (inner, _) = inner.split_once(close)?;
    let mut plain = inner.replace("&lt;", "<").replace("&gt;", ">");
    plain = plain.replace("&quot;", "\"").replace("&#39;", "'").replace("&amp;", "&");
    Some(plain)
}

/// Finds tools.
const SEARCH: &str = "search_tools";

/// Describes one.
const HELP: &str = "get_tool_help";

/// What to search for, if the user asks for a tool: "use a tool to add 2 and 3".
fn wanted_tool(text: &str) -> Option<Value> {
    let lower = text.to_ascii_lowercase();
    let is_about_tools = lower.split(|c: char| !c.is_alphanumeric()).any(|word| word == "tool");
    let phrases = ["tool to ", "tool that ", "tool for ", "tool which "];
    let wanted = phrases.iter().find_map(|phrase| after(text, phrase));
    is_about_tools.then(|| json!({"query": wanted.unwrap_or(text).trim_end_matches(['.', '!', '?'])}))
}

/// The first tool in the answer of a search.
fn first_found(found: &str) -> Option<Value> {
    let (name, _) = found.lines().next()?.split_once(": ")?;
    (!name.contains(' ')).then(|| json!({"tool_name": name}))
}

/// The call in the help of a tool, with what the user's text says in place of the example's values: its numbers, and what is
/// quoted in it, or else its last word.
fn example_call(help: &str, text: &str) -> Option<Value> {
    let line = help.lines().find_map(|line| line.strip_prefix("Example: ")?.strip_prefix(USE_TOOL))?;
    let mut call: Value = serde_json::from_str(line.trim()).ok()?;
    let words =
        || text.split(|c: char| c.is_whitespace() || ",;?!\"'".contains(c)).filter(|word| !word.is_empty());
    let mut numbers = words().filter_map(|word| word.trim_end_matches('.').parse::<Number>().ok());
    let mut quoted = text.split(['"', '`']).skip(1).step_by(2);
    for value in call.get_mut(ARGUMENTS)?.as_object_mut()?.values_mut() {
        match value {
            Value::Number(number) => *number = numbers.next().unwrap_or_else(|| number.clone()),
            Value::String(text) if text.starts_with('<') => {
                let last = words().next_back().map(|word| word.trim_end_matches('.'));
                *text = quoted.next().or(last).unwrap_or_default().to_owned();
            }
            _ => {}
        }
    }
    Some(call)
}

/// The tool of a server that the text names, with the arguments that it gives: `math__add with a=2 b=3 say="hi"`.
fn named_tool<'t>(text: &str, offered: &[&'t str]) -> Option<(&'t str, Value)> {
    let words = || text.split(|c: char| !(c.is_alphanumeric() || "_-".contains(c)));
    let name = offered.iter().find(|name| name.contains("__") && words().any(|word| word == **name))?;
    let mut arguments = Map::new();
    for (before, after) in text.match_indices('=').map(|(at, _)| (&text[..at], &text[at + 1..])) {
        let key = before.rsplit(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or_default();
        let value = match after.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next().map(Value::from),
            None => after.split(|c: char| c.is_whitespace() || ",;".contains(c)).next().map(|word| {
                let word = word.trim_end_matches(['.', '!', '?']);
                serde_json::from_str(word).unwrap_or_else(|_| Value::from(word))
            }),
        };
        arguments.extend(value.filter(|_| !key.is_empty()).map(|value| (key.to_owned(), value)));
    }
    Some((name, Value::Object(arguments)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_of_a_server_is_called_by_its_name() {
        let offered = ["send_message", "math__add", "everything__get-sum"];
        let call = |text| named_tool(text, &offered);
        assert_eq!(
            call(r#"Use math__add with a=2, b=3.5 and say="good day"."#),
            Some(("math__add", json!({"a": 2, "b": 3.5, "say": "good day"})))
        );
        assert_eq!(
            call("everything__get-sum a=1 b=true c=x."),
            Some(("everything__get-sum", json!({"a": 1, "b": true, "c": "x"})))
        );
        assert_eq!(call("math__add = what?"), Some(("math__add", json!({}))));
        assert_eq!(call("send_message content=x"), None, "it has a rule of its own");
        assert_eq!(call("math__adder a=1"), None);
    }
}
