//! Calls that make, change and tell the goals of the user.

use serde_json::{Value, json};

use super::{Reply, Situation, Step};

/// Ends that belong to the sentence, not to a name.
const ENDS: [char; 4] = ['.', '!', '"', '\''];

/// What is changed of a goal: a new title, or its archiving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GoalChange<'t> {
    Title(&'t str),
    Archive,
}

impl Situation<'_> {
    /// After the goals were listed: the message of the user to the first whose line has the words that name it.
    pub(super) fn post_to_found(&self, step: &Step<'_>) -> Option<Reply> {
        let (name, text) = goal_message(&self.user_text).filter(|_| step.name == "list_conversations")?;
        let id = found(&step.answer, name)?;
        self.call("post_to_conversation", &json!({"conversation_id": id, "text": text}))
    }

    /// After the goals were listed: the change to the first whose line has the words that name it.
    pub(super) fn change_found(&self, step: &Step<'_>) -> Option<Reply> {
        let (name, change) = goal_change(&self.user_text).filter(|_| step.name == "list_conversations")?;
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
pub(super) fn goal_message(text: &str) -> Option<(&str, &str)> {
    let (name, message) = after(text, "tell my goal ")?.split_once(':')?;
    Some((name.trim(), message.trim())).filter(|(name, message)| !name.is_empty() && !message.is_empty())
}

/// Title and message in "create a goal Kyoto: find three hotels"; without a colon there is no message.
pub(super) fn new_goal(text: &str) -> Option<Value> {
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
pub(super) fn goal_change(text: &str) -> Option<(&str, GoalChange<'_>)> {
    let changed = match after(text, "rename my goal ") {
        Some(rest) => {
            let (name, title) = rest.split_once(" to ")?;
            (name.trim(), GoalChange::Title(title.trim().trim_matches(ENDS)))
        }
        None => (after(text, "archive my goal ")?.trim().trim_matches(ENDS), GoalChange::Archive),
    };
    Some(changed).filter(|(name, change)| !name.is_empty() && *change != GoalChange::Title(""))
}
