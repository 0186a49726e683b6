//! Plans that the user writes down, and what became of them.

use serde_json::{Value, json};

use super::{Reply, Situation};

/// Most items of a plan.
const MOST: usize = 20;
/// What the prompt of the last step begins with.
const JOIN: &str = "Put together:";

impl Situation<'_> {
    /// The plan in "plan: look up trains; ? Which day; @ compare hotels". If one must be made, each text has one.
    pub(super) fn plan_request(&self) -> Option<Reply> {
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
    pub(super) fn plan_ended(&self) -> Option<Reply> {
        let ended = self.user_text.find("<plan_ended ").and_then(|at| self.user_text.get(at..))?;
        if let Some(output) = between(ended, "<output", "</output>") {
            return Some(self.reply(format!("The plan is done. {output}")));
        }
        let error = between(ended, "<error", "</error>").unwrap_or_else(|| "It was stopped.".to_owned());
        Some(self.reply(format!("The plan is not done. {error}")))
    }

    /// The answer to the prompt of a plan's last step: the results that it contains.
    pub(super) fn joined(&self) -> Option<Reply> {
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
