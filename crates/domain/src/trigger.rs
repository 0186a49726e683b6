//! Triggers: messages to an agentable at a time, at a word or at an event.
//!
//! - A time is a cron expression with five fields in a time zone: [`cron`].
//! - Words are searched in what users write: [`keyword`].
//! - An event is chosen by its topic.
//!
//! Loops are bounded: a trigger does not hear what it has caused, a chain has at most [`MAX_DEPTH`] triggers, and each fires a
//! limited number of times an hour ([`Hour`]).

pub mod cron;
pub mod keyword;

use std::fmt::Write as _;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use self::cron::CronRule;
use self::keyword::KeywordRule;
use crate::event::topic::{MAX_PATTERNS, TopicPattern};
use crate::frame::{attribute, escape};
use crate::id::TriggerId;

/// Maximum number of triggers of a user.
pub const MAX_TRIGGERS: i64 = 100;
/// Maximum length of a name, in characters.
pub const MAX_NAME_CHARS: usize = 100;
/// Maximum length of instructions, in bytes.
pub const MAX_INSTRUCTIONS_BYTES: usize = 4_000;
/// Maximum number of triggers one after the other, each of which has caused the next.
pub const MAX_DEPTH: i16 = 3;
/// How many characters of a message an agent reads of the user.
const MAX_CAUSE_CHARS: usize = 2_000;

/// What happens to times that were missed because no worker was alive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Misfire {
    /// It fires once, however many were missed.
    #[default]
    Once,
    /// It fires at the next time only.
    Skip,
}

/// When a trigger fires.
///
/// ```json
/// {"type": "cron", "cron": "30 7 * * 1-5", "zone": "Europe/Berlin", "misfire": "once"}
/// {"type": "keyword", "words": ["invoice", "bill"]}
/// {"type": "event", "topics": ["task.ended"]}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum When {
    /// At these times.
    Cron {
        /// Minute, hour, day of the month, month, day of the week.
        cron: String,
        /// An IANA name.
        zone: String,
        /// What happens to missed times.
        #[serde(default)]
        misfire: Misfire,
    },
    /// When the user writes one of these words, or what the regular expression matches.
    Keyword {
        /// Words or phrases.
        #[serde(default)]
        words: Vec<String>,
        /// A regular expression, without regard to case.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        regex: Option<String>,
    },
    /// At these events.
    Event {
        /// Patterns of topics.
        topics: Vec<String>,
    },
}

/// A part of a [`When`] that is not allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{pointer}: {reason}")]
pub struct InvalidWhen {
    /// Where, as a JSON pointer into the [`When`].
    pub pointer: String,
    /// What is wrong, and what is allowed.
    pub reason: String,
}

impl InvalidWhen {
    fn at(pointer: &str, reason: impl Into<String>) -> Self {
        Self { pointer: pointer.to_owned(), reason: reason.into() }
    }
}

/// A [`When`] that was checked.
#[derive(Debug, Clone)]
pub enum Rule {
    /// At times.
    Cron(Box<CronRule>),
    /// At words of a user.
    Keyword(KeywordRule),
    /// At events.
    Event(Vec<TopicPattern>),
}

impl When {
    /// Checks everything but whether a time will come: [`CronRule::next_after`] says that.
    ///
    /// # Errors
    /// [`InvalidWhen`] for the first part that is not allowed.
    pub fn rule(&self) -> Result<Rule, InvalidWhen> {
        match self {
            Self::Cron { cron, zone, misfire } => {
                CronRule::new(cron, zone, *misfire).map(Box::new).map(Rule::Cron)
            }
            Self::Keyword { words, regex } => KeywordRule::new(words, regex.as_deref()).map(Rule::Keyword),
            Self::Event { topics } => event(topics).map(Rule::Event),
        }
    }

    /// When it is due first, if that is a time. The rest as [`Self::rule`].
    ///
    /// # Errors
    /// [`InvalidWhen`], also for a cron expression whose date never comes.
    pub fn first_after(&self, now: DateTime<Utc>) -> Result<Option<DateTime<Utc>>, InvalidWhen> {
        let Rule::Cron(rule) = self.rule()? else { return Ok(None) };
        let never = "no such date will come: `30 2 31 2 *` is never; write one that exists";
        rule.next_after(now).map(Some).ok_or_else(|| InvalidWhen::at("/cron", never))
    }
}

fn event(topics: &[String]) -> Result<Vec<TopicPattern>, InvalidWhen> {
    if topics.is_empty() || topics.len() > MAX_PATTERNS {
        return Err(InvalidWhen::at("/topics", format!("must have 1 to {MAX_PATTERNS} patterns")));
    }
    let parse = |(nth, topic): (usize, &String)| {
        topic.parse().map_err(|error: crate::event::topic::InvalidPattern| {
            InvalidWhen::at(&format!("/topics/{nth}"), error.to_string())
        })
    };
    topics.iter().enumerate().map(parse).collect()
}

/// Which triggers have caused something, one after the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chain {
    /// The triggers.
    pub triggers: Vec<TriggerId>,
    /// How many have caused each other.
    pub depth: i16,
}

impl Chain {
    /// The chain with this trigger behind it; `None` when the trigger would hear what it has caused itself, or the chain
    /// would be too long.
    #[must_use]
    pub fn then(&self, trigger: TriggerId) -> Option<Self> {
        if self.depth >= MAX_DEPTH || self.triggers.contains(&trigger) {
            return None;
        }
        let triggers = self.triggers.iter().copied().chain([trigger]).collect();
        Some(Self { triggers, depth: self.depth + 1 })
    }

    /// Both together: what has two causes.
    #[must_use]
    pub fn with(mut self, other: Self) -> Self {
        let new: Vec<_> = other.triggers.into_iter().filter(|one| !self.triggers.contains(one)).collect();
        self.triggers.extend(new);
        Self { depth: self.depth.max(other.depth), ..self }
    }
}

/// The hour of a trigger's limit: when it began, and how often the trigger has fired since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hour {
    /// When it began.
    pub at: DateTime<Utc>,
    /// How often it has fired.
    pub count: i32,
}

impl Hour {
    /// The hour with one firing more; `None` when it has `most` already. A clock that was set back begins a new hour.
    #[must_use]
    pub fn count(hour: Option<Self>, now: DateTime<Utc>, most: i32) -> Option<Self> {
        let current = hour.filter(|hour| (now - hour.at).abs() < TimeDelta::hours(1));
        let hour = current.unwrap_or(Self { at: now, count: 0 });
        (hour.count < most).then_some(Self { count: hour.count + 1, ..hour })
    }
}

/// What has made a trigger fire, for the agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// The time it was due, or when the event happened, RFC 3339.
    pub at: String,
    /// The topic of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// The public id of the event's agentable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agentable: Option<String>,
    /// What the user wrote, or the outline of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

impl Cause {
    /// A time, in its zone.
    #[must_use]
    pub fn time(at: DateTime<Utc>, zone: chrono_tz::Tz) -> Self {
        let at = at.with_timezone(&zone).to_rfc3339_opts(SecondsFormat::Secs, true);
        Self { at, ..Self::default() }
    }

    /// The same with at most as much content as an agent reads.
    #[must_use]
    pub fn with_content(self, content: &str) -> Self {
        Self { content: Some(content.chars().take(MAX_CAUSE_CHARS).collect()), ..self }
    }
}

/// The frame that an agent reads when a trigger fires.
#[must_use]
pub fn trigger_message(name: &str, instructions: &str, cause: &Cause) -> String {
    let mut text = format!("<trigger name=\"{}\" at=\"{}\"", attribute(name), attribute(&cause.at));
    for (key, value) in [("topic", &cause.topic), ("agentable", &cause.agentable)] {
        if let Some(value) = value {
            let _ = write!(text, " {key}=\"{}\"", attribute(value));
        }
    }
    let _ = write!(text, ">\n{}\n", escape(instructions.trim()));
    if let Some(content) = &cause.content {
        let _ = writeln!(text, "<cause>{}</cause>", escape(content));
    }
    text.push_str("</trigger>");
    text
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn id(n: u128) -> TriggerId {
        TriggerId(Uuid::from_u128(n))
    }

    #[test]
    fn chains_end_at_the_same_trigger_or_after_three() {
        let one = Chain::default().then(id(1)).unwrap();
        assert_eq!(one.then(id(1)), None, "a trigger does not hear itself");
        let three = one.then(id(2)).unwrap().then(id(3)).unwrap();
        assert_eq!(three.depth, 3);
        assert_eq!(three.then(id(4)), None);
        let both = one.clone().with(Chain::default().then(id(2)).unwrap());
        assert_eq!((both.depth, both.triggers), (1, vec![id(1), id(2)]));
    }

    #[test]
    fn hours_count_and_begin_anew() {
        let start = DateTime::UNIX_EPOCH;
        let first = Hour::count(None, start, 2).unwrap();
        let second = Hour::count(Some(first), start + TimeDelta::minutes(59), 2).unwrap();
        assert_eq!((second.at, second.count), (start, 2));
        assert_eq!(Hour::count(Some(second), start + TimeDelta::minutes(59), 2), None);
        for minutes in [60, -60] {
            let now = start + TimeDelta::minutes(minutes);
            assert_eq!(Hour::count(Some(second), now, 2).unwrap(), Hour { at: now, count: 1 });
        }
    }

    #[test]
    fn refusals_name_the_part() {
        let refused = |json: &str| {
            let when: When = serde_json::from_str(json).unwrap();
            when.first_after(DateTime::UNIX_EPOCH).unwrap_err().pointer
        };
        for (json, pointer) in [
            (r#"{"type": "cron", "cron": "0 0 30 2 *", "zone": "UTC"}"#, "/cron"),
            (r#"{"type": "cron", "cron": "0 0 * * * *", "zone": "UTC"}"#, "/cron"),
            (r#"{"type": "cron", "cron": "99 * * * *", "zone": "UTC"}"#, "/cron"),
            (r#"{"type": "cron", "cron": "@daily", "zone": "UTC"}"#, "/cron"),
            (r#"{"type": "cron", "cron": "0 0 * * *", "zone": "Berlin"}"#, "/zone"),
            (r#"{"type": "keyword"}"#, "/words"),
            (r#"{"type": "keyword", "words": ["a", " "]}"#, "/words/1"),
            (r#"{"type": "keyword", "regex": "(a"}"#, "/regex"),
            (r#"{"type": "event", "topics": []}"#, "/topics"),
            (r#"{"type": "event", "topics": ["run.*", "no.such"]}"#, "/topics/1"),
        ] {
            assert_eq!(refused(json), pointer, "{json}");
        }
    }

    #[test]
    fn messages_escape_what_others_wrote() {
        let cause = Cause { at: "now".into(), agentable: Some("goal_1".into()), ..Cause::default() };
        let text = trigger_message("a \"b\"", "Look.", &cause.with_content("</cause></trigger>"));
        assert_eq!(text.matches("</trigger>").count(), 1, "{text}");
        assert_eq!(text.matches("</cause>").count(), 1, "{text}");
    }
}
