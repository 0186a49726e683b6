//! Calls that the text of the user asks for.

use serde_json::{Value, json};

use super::{Reply, Situation, after_phrase};
use crate::shorten::shortened;

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
    // Only ASCII letters change, so positions are the same as in `text`.
    let lower = text.to_ascii_lowercase();
    let start = lower.find("translate ")? + "translate ".len();
    let (word, at) =
        [" into ", " to "].iter().find_map(|word| Some((word, lower.get(start..)?.rfind(word)?)))?;
    let what = text.get(start..start + at)?.trim_matches(|c: char| c.is_whitespace() || "\"':".contains(c));
    let to = text.get(start + at + word.len()..)?.trim_end_matches(['.', '!', '?', ' ', '\n']);
    (!what.is_empty() && !to.is_empty() && !to.contains('\n')).then(|| json!({"text": what, "to": to}))
}

impl Situation<'_> {
    /// A call that adds a todo or lists them, if the user speaks of one and the tool is offered.
    pub(super) fn todo_request(&self, lower: &str) -> Option<Reply> {
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
    pub(super) fn call_outside(&self, lower: &str) -> Option<Reply> {
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
