//! Topics: the names under which events are subscribed to, and the patterns that choose among them.

use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value};

use super::Event;
use crate::id::{AgentableId, UserId};

macro_rules! topics {
    ($($variant:ident $topic:literal;)*) => {
        /// All topics, one for each kind of event.
        pub const TOPICS: &[&str] = &[$($topic),*];

        impl Event {
            /// The name under which the event is subscribed to: segments with dots between, as in `run.finished`.
            pub fn topic(&self) -> &'static str {
                match self { $(Self::$variant { .. } => $topic),* }
            }
        }

        /// The names of the variants, beside their topics.
        #[cfg(test)]
        const VARIANTS: &[(&str, &str)] = &[$((stringify!($variant), $topic)),*];
    };
}

topics! {
    RunQueued "run.queued";
    MessagePosted "message.posted";
    AttemptStarted "attempt.started";
    Thought "thought.written";
    MessageSent "message.sent";
    ToolCalled "tool.called";
    ToolReturned "tool.returned";
    StepFinished "step.finished";
    RetryScheduled "run.retry_scheduled";
    RateLimited "run.rate_limited";
    ModelFallback "model.fallback";
    TeamRouted "team.routed";
    ContextCompressed "context.compressed";
    ContextShifted "context.shifted";
    Analysed "message.analysed";
    TitleSet "title.set";
    StateChanged "state.changed";
    ErrorShown "error.reported";
    TaskStarted "task.started";
    TaskEnded "task.ended";
    PlanCreated "plan.created";
    PlanProgress "plan.progress";
    PlanChanged "plan.changed";
    PlanEnded "plan.ended";
    PlanStepStarted "plan.step.started";
    PlanStepFinished "plan.step.finished";
    PlanStepFailed "plan.step.failed";
    HandedOver "run.handed_over";
    RunWaiting "run.waiting";
    QuestionAsked "question.asked";
    QuestionClosed "question.closed";
    SessionArchived "session.archived";
    RunFinished "run.finished";
}

/// Fields of events that an outline has: ids, names, numbers, states and times. What people, models and tools wrote is read
/// with the ids.
const OUTLINED: &[&str] = &[
    "agent_id",
    "agent_name",
    "attempt",
    "between_runs",
    "by",
    "call_id",
    "code",
    "completed_at",
    "compression_id",
    "entries_after",
    "entries_before",
    "expires_at",
    "from",
    "is_error",
    "iteration",
    "kind",
    "message_id",
    "model",
    "name",
    "number",
    "of",
    "operations",
    "path",
    "plan_id",
    "question_id",
    "resumed",
    "retry_at",
    "session_id",
    "started_at",
    "state",
    "status",
    "step",
    "strategy",
    "takeover",
    "task_id",
    "task_run_id",
    "team_id",
    "to",
    "tokens_after",
    "tokens_before",
    "until",
    "usage",
    "version",
];

impl Event {
    /// What the event says without texts that people, models or tools wrote, so that it is short, and safe to pass on.
    pub fn outline(&self) -> Map<String, Value> {
        let fields = match serde_json::to_value(self) {
            Ok(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        fields.into_iter().filter(|(name, _)| OUTLINED.contains(&name.as_str())).collect()
    }
}

/// Which topics are wanted: the segments of a topic, `*` for any one segment, `**` at the end for all that follow, one or more.
///
/// ```
/// use houston_domain::event::topic::TopicPattern;
///
/// let pattern: TopicPattern = "run.*".parse().unwrap();
/// assert!(pattern.matches("run.finished") && !pattern.matches("message.sent"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TopicPattern(Box<str>);

/// Maximum number of characters of a pattern.
const MAX_PATTERN: usize = 100;

/// Why a text is no pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPattern {
    /// It has other characters, or an empty segment.
    #[error(
        "a pattern has segments of a-z, 0-9 and _ with dots between, `*` for any one segment, and `**` at the end for all \
         that follow: `run.*`, `question.asked`, `**`; at most {MAX_PATTERN} characters"
    )]
    Form,
    /// No topic matches it.
    #[error("no event has a topic that matches; there are: {}", TOPICS.join(", "))]
    MatchesNothing,
}

impl TopicPattern {
    /// Whether the topic is wanted.
    pub fn matches(&self, topic: &str) -> bool {
        let mut topic = topic.split('.');
        for segment in self.0.split('.') {
            match (segment, topic.next()) {
                ("**", Some(_)) => return true,
                ("*", Some(_)) => {}
                (wanted, Some(found)) if wanted == found => {}
                _ => return false,
            }
        }
        topic.next().is_none()
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TopicPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for TopicPattern {
    type Err = InvalidPattern;

    fn from_str(text: &str) -> Result<Self, InvalidPattern> {
        let is_name = |segment: &str| {
            !segment.is_empty()
                && segment
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        };
        let before_last = text.rsplit_once('.').map_or("", |(before, _)| before);
        let has_rest_inside = before_last.split('.').any(|segment| segment == "**");
        let is_segment = |segment: &str| matches!(segment, "*" | "**") || is_name(segment);
        if text.len() > MAX_PATTERN || has_rest_inside || !text.split('.').all(is_segment) {
            return Err(InvalidPattern::Form);
        }
        let pattern = Self(text.into());
        if TOPICS.iter().any(|topic| pattern.matches(topic)) {
            Ok(pattern)
        } else {
            Err(InvalidPattern::MatchesNothing)
        }
    }
}

/// Maximum number of patterns of one filter.
pub const MAX_PATTERNS: usize = 20;

/// Which events of a tenant are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFilter {
    /// One of these must match the topic.
    pub topics: Vec<TopicPattern>,
    /// Only those of this user's agentables.
    pub user: Option<UserId>,
    /// Only those of agentables of this kind.
    pub kind: Option<String>,
    /// Only those of this agentable.
    pub agentable: Option<AgentableId>,
}

/// Whose event it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventOwner {
    /// The agentable in whose stream it is.
    pub agentable: AgentableId,
    /// The kind of the agentable.
    pub kind: String,
    /// The user of the agentable.
    pub user: UserId,
}

impl EventFilter {
    /// Whether an event with this topic is wanted.
    pub fn matches(&self, topic: &str, owner: &EventOwner) -> bool {
        self.agentable.is_none_or(|agentable| agentable == owner.agentable)
            && self.user.is_none_or(|user| user == owner.user)
            && self.kind.as_ref().is_none_or(|kind| *kind == owner.kind)
            && self.topics.iter().any(|pattern| pattern.matches(topic))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;
    use crate::id::MessageId;

    /// The names of the variants in the source, so that none is without a topic.
    fn variants_in_the_source() -> BTreeSet<&'static str> {
        let text = include_str!("../event.rs").split("pub enum Event {").nth(1).unwrap();
        let text = text.split("\n}\n").next().unwrap();
        let lines = text.lines().filter_map(|line| line.strip_prefix("    "));
        let names = lines.filter(|line| line.starts_with(|letter: char| letter.is_ascii_uppercase()));
        names.map(|line| line.split([' ', '(', ',']).next().unwrap()).collect()
    }

    #[test]
    fn every_event_has_one_topic_of_its_own() {
        let listed: BTreeSet<&str> = VARIANTS.iter().map(|(variant, _)| *variant).collect();
        assert_eq!(listed, variants_in_the_source());
        let topics: BTreeSet<&str> = TOPICS.iter().copied().collect();
        assert_eq!(topics.len(), VARIANTS.len());
        for topic in topics {
            assert!((2..=3).contains(&topic.split('.').count()), "{topic}");
            assert!(topic.parse::<TopicPattern>().unwrap().matches(topic));
        }
    }

    #[test]
    fn patterns_choose_by_segments() {
        for (pattern, topic, expected) in [
            ("run.*", "run.finished", true),
            ("run.*", "attempt.started", false),
            ("question.asked", "question.asked", true),
            ("question.asked", "question.closed", false),
            ("tool.**", "tool.called", true),
            ("**", "title.set", true),
            ("*.finished", "step.finished", true),
            ("*.*", "run.finished", true),
        ] {
            let parsed: TopicPattern = pattern.parse().unwrap();
            assert_eq!(parsed.matches(topic), expected, "{pattern} {topic}");
            assert_eq!(parsed.to_string(), pattern);
        }
        // A topic may get more segments later.
        let deep = TopicPattern("plan.**".into());
        assert!(deep.matches("plan.step.failed") && !deep.matches("plan"));
    }

    #[test]
    fn texts_that_are_no_patterns_are_refused() {
        for text in ["", ".", "run.", ".run", "Run.*", "run.**.x", "**.finished", "run.f*", "rün", "a b"] {
            assert_eq!(text.parse::<TopicPattern>(), Err(InvalidPattern::Form), "{text}");
        }
        assert_eq!("a".repeat(101).parse::<TopicPattern>(), Err(InvalidPattern::Form));
        for text in ["*", "runs.*", "run.ended", "run.finished.twice"] {
            assert_eq!(text.parse::<TopicPattern>(), Err(InvalidPattern::MatchesNothing), "{text}");
        }
        assert!(InvalidPattern::MatchesNothing.to_string().contains("run.finished"));
    }

    #[test]
    fn outline_has_no_text_that_anybody_wrote() {
        let secret = "my password is hunter2";
        let message_id = MessageId(Uuid::nil());
        let input = serde_json::json!({"to": secret});
        let called = Event::ToolCalled {
            call_id: "call_1".into(),
            name: "send_mail".into(),
            input,
            message_id,
            decided_by: None,
        };
        let returned = Event::ToolReturned {
            call_id: "call_1".into(),
            content: secret.into(),
            is_error: true,
            code: None,
            message_id,
        };
        let reported = Event::ErrorShown { message_id, content: secret.into(), metadata: Value::Null };
        for event in [called, returned, reported, Event::Thought { text: secret.into(), withdrawn_at: None }]
        {
            let outline = Value::Object(event.outline());
            assert!(!outline.to_string().contains("hunter2"), "{outline}");
        }
    }

    fn owner(n: u128) -> EventOwner {
        EventOwner {
            agentable: AgentableId(Uuid::from_u128(n)),
            kind: "goal".into(),
            user: UserId(Uuid::from_u128(n + 1)),
        }
    }

    fn segment() -> impl Strategy<Value = String> {
        prop_oneof![Just("*".to_owned()), "[a-z]{1,3}"]
    }

    proptest! {
        /// The same as a regular expression that is made from the pattern.
        #[test]
        fn matching_equals_the_regular_expression(
            segments in prop::collection::vec(segment(), 1..4),
            rest: bool,
            topic in prop::collection::vec("[a-z]{1,3}", 1..5),
        ) {
            let mut text = segments.join(".");
            if rest {
                text.push_str(".**");
            }
            let topic = topic.join(".");
            let expression = text.split('.').map(|segment| match segment {
                "**" => ".+".to_owned(),
                "*" => "[a-z]+".to_owned(),
                name => name.to_owned(),
            });
            let expression = format!("^{}$", expression.collect::<Vec<_>>().join("\\."));
            let expected = regex::Regex::new(&expression).unwrap().is_match(&topic);
            prop_assert_eq!(TopicPattern(text.into()).matches(&topic), expected);
        }

        #[test]
        fn parsing_never_fails_in_another_way(text in "[a-z*._]{0,12}") {
            if let Ok(pattern) = text.parse::<TopicPattern>() {
                prop_assert!(TOPICS.iter().any(|topic| pattern.matches(topic)));
                prop_assert_eq!(pattern.as_str(), text);
            }
        }

        #[test]
        fn each_condition_of_a_filter_must_hold(user: bool, kind: bool, agentable: bool, others in 0_u8..8) {
            let (own, other) = (owner(1), owner(7));
            let pick = |bit: u8| if others & bit == 0 { &own } else { &other };
            let filter = EventFilter {
                topics: vec!["run.*".parse().unwrap(), "title.set".parse().unwrap()],
                user: user.then(|| pick(1).user),
                kind: kind.then(|| if others & 2 == 0 { "goal" } else { "task" }.to_owned()),
                agentable: agentable.then(|| pick(4).agentable),
            };
            let is_own = !(user && others & 1 != 0 || kind && others & 2 != 0 || agentable && others & 4 != 0);
            prop_assert_eq!(filter.matches("run.queued", &own), is_own);
            prop_assert_eq!(filter.matches("title.set", &own), is_own);
            prop_assert!(!filter.matches("message.sent", &own));
        }
    }
}
