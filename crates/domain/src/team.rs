//! Teams: agents of one kind, and a router that picks the one that answers a run. All share what the agentable knows:
//! its history, its notes.

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use crate::id::AgentId;

/// Agents of one team: a router that is a model reads about all of them.
pub const MAX_TEAM_AGENTS: usize = 20;
/// Rules of one router.
pub const MAX_RULES: usize = 50;
/// Characters of one pattern.
pub const MAX_PATTERN_CHARS: usize = 500;
/// Teams of one tenant. A bound, not a quota.
pub const MAX_TEAMS: i64 = 200;

/// Bytes a compiled regular expression may take. Matching takes time in proportion to its size and to the text's.
const MAX_REGEX_BYTES: usize = 256 * 1024;
/// How deep its groups may nest.
const MAX_REGEX_DEPTH: u32 = 50;

/// Who picks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouterKind {
    /// The first rule that holds.
    Rules,
    /// A model, by the names and descriptions of the agents.
    Model,
}

/// Who picked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoutedBy {
    /// A rule held.
    Rule,
    /// The model chose.
    Model,
    /// No rule held, or the model could not be asked: the team's default agent.
    Default,
}

/// How a team picks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Router {
    /// Who picks.
    pub by: RouterKind,
    /// In the order in which they are tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// When it holds.
    pub when: Condition,
    /// Who answers then.
    pub agent_id: AgentId,
}

/// What must be true of a message: all that is given. Upper and lower case are the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// It has this text somewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contains: Option<String>,
    /// It begins with this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// This regular expression matches somewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
    /// It has more characters than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longer_than: Option<u32>,
}

/// A condition that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCondition {
    /// It says nothing.
    #[error("give at least one of contains, prefix, regex, longer_than")]
    Empty,
    /// A text that every message has, or that is too long.
    #[error("`{field}` must have 1 to {MAX_PATTERN_CHARS} characters")]
    Length {
        /// Which.
        field: &'static str,
    },
    /// No regular expression, or too large a one.
    #[error("`regex` is not a regular expression that can be used: {reason}")]
    Regex {
        /// Why.
        reason: String,
    },
}

impl InvalidCondition {
    /// Which field is wrong, if one is.
    #[must_use]
    pub fn field(&self) -> Option<&'static str> {
        match self {
            Self::Empty => None,
            Self::Length { field } => Some(field),
            Self::Regex { .. } => Some("regex"),
        }
    }
}

/// A condition, ready to be tried.
#[derive(Debug, Clone)]
struct Matcher {
    contains: Option<String>,
    prefix: Option<String>,
    regex: Option<Regex>,
    longer_than: Option<u32>,
}

impl Condition {
    /// Whether it can be used.
    ///
    /// # Errors
    /// [`InvalidCondition`]: what is wrong, and what is allowed.
    pub fn check(&self) -> Result<(), InvalidCondition> {
        self.matcher().map(|_| ())
    }

    fn matcher(&self) -> Result<Matcher, InvalidCondition> {
        if *self == Self::default() {
            return Err(InvalidCondition::Empty);
        }
        for (field, text) in [("contains", &self.contains), ("prefix", &self.prefix), ("regex", &self.regex)]
        {
            if text.as_ref().is_some_and(|text| text.is_empty() || text.chars().count() > MAX_PATTERN_CHARS) {
                return Err(InvalidCondition::Length { field });
            }
        }
        let lower = |text: &Option<String>| text.as_ref().map(|text| text.to_lowercase());
        Ok(Matcher {
            contains: lower(&self.contains),
            prefix: lower(&self.prefix),
            regex: self.regex.as_deref().map(compile).transpose()?,
            longer_than: self.longer_than,
        })
    }
}

fn compile(pattern: &str) -> Result<Regex, InvalidCondition> {
    let built = RegexBuilder::new(pattern)
        .case_insensitive(true)
        .size_limit(MAX_REGEX_BYTES)
        .dfa_size_limit(MAX_REGEX_BYTES)
        .nest_limit(MAX_REGEX_DEPTH)
        .build();
    built.map_err(|error| {
        // The last line says what; those before it point at the place.
        let told = error.to_string();
        let reason = told.lines().last().unwrap_or_default().trim().trim_start_matches("error: ").to_owned();
        InvalidCondition::Regex { reason }
    })
}

impl Matcher {
    /// `lower` is `message` in lower case.
    fn holds(&self, message: &str, lower: &str) -> bool {
        let longer = |most: &u32| message.chars().nth(usize::try_from(*most).unwrap_or(usize::MAX)).is_some();
        self.contains.as_ref().is_none_or(|text| lower.contains(text))
            && self.prefix.as_ref().is_none_or(|text| lower.trim_start().starts_with(text))
            && self.regex.as_ref().is_none_or(|regex| regex.is_match(message))
            && self.longer_than.as_ref().is_none_or(longer)
    }
}

/// The rules of a router, ready to be tried.
#[derive(Debug, Clone)]
pub struct Rules(Vec<(Matcher, AgentId)>);

impl Rules {
    /// Prepares `rules`.
    ///
    /// # Errors
    /// The first that cannot be used, by its place from 0, and why.
    pub fn new(rules: &[Rule]) -> Result<Self, (usize, InvalidCondition)> {
        let prepared = rules.iter().enumerate().map(|(place, rule)| {
            let matcher = rule.when.matcher().map_err(|invalid| (place, invalid))?;
            Ok((matcher, rule.agent_id))
        });
        prepared.collect::<Result<_, _>>().map(Self)
    }

    /// The first rule that holds for `message` and whose agent is `available`: its place from 0, and the agent.
    #[must_use]
    pub fn pick(&self, message: &str, available: impl Fn(AgentId) -> bool) -> Option<(usize, AgentId)> {
        let lower = message.to_lowercase();
        let mut all = self.0.iter().enumerate();
        all.find(|(_, (matcher, agent))| available(*agent) && matcher.holds(message, &lower))
            .map(|(place, (_, agent))| (place, *agent))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn agent(number: u128) -> AgentId {
        AgentId(uuid::Uuid::from_u128(number))
    }

    fn rules(conditions: &[&str]) -> Rules {
        let rules: Vec<Rule> = conditions
            .iter()
            .zip(1..)
            .map(|(when, number)| Rule { when: serde_json::from_str(when).unwrap(), agent_id: agent(number) })
            .collect();
        Rules::new(&rules).unwrap()
    }

    fn picked(rules: &Rules, message: &str) -> Option<u128> {
        rules.pick(message, |_| true).map(|(_, agent)| agent.0.as_u128())
    }

    #[test]
    fn the_first_rule_that_holds_picks() {
        let rules = rules(&[
            r#"{"prefix": "/translate"}"#,
            r#"{"contains": "RECHNUNG"}"#,
            r#"{"regex": "\\b(bug|crash)e?s?\\b"}"#,
            r#"{"contains": "please", "longer_than": 20}"#,
        ]);
        for (message, wanted) in [
            ("/Translate the Rechnung", Some(1)),
            ("  /translate this", Some(1)),
            ("Wo ist meine rechnung?", Some(2)),
            ("It CRASHES", Some(3)),
            ("debugging", None),
            ("please", None),
            ("please do what I ask you", Some(4)),
            ("", None),
        ] {
            assert_eq!(picked(&rules, message), wanted, "{message}");
        }
        let others = rules.pick("/translate the rechnung", |one| one != agent(1)).unwrap();
        assert_eq!(others, (1, agent(2)), "an agent that is not available is passed over");
    }

    #[test]
    fn a_condition_that_cannot_be_used_says_why_and_what_is_allowed() {
        let huge = format!(r#"{{"regex": "{}"}}"#, "(\\\\w{50}){50}");
        for (when, field, words) in [
            ("{}", None, "contains, prefix, regex, longer_than"),
            (r#"{"contains": ""}"#, Some("contains"), "1 to 500"),
            (r#"{"regex": "(a"}"#, Some("regex"), "unclosed group"),
            (r#"{"regex": "(?=a)"}"#, Some("regex"), "look-around"),
            (&huge, Some("regex"), "size limit"),
        ] {
            let error = serde_json::from_str::<Condition>(when).unwrap().check().unwrap_err();
            assert_eq!(error.field(), field, "{when}");
            assert!(error.to_string().contains(words), "{when}: {error}");
        }
        let error = serde_json::from_str::<Condition>(r#"{"contians": "a"}"#).unwrap_err().to_string();
        assert!(error.contains("contians") && error.contains("contains"), "{error}");
    }

    proptest! {
        /// No text breaks the trying, and case never matters to `contains`.
        #[test]
        fn a_text_in_a_message_is_found_in_any_case(before in ".{0,20}", word in "[a-zäöüß0-9]{1,8}", after in ".{0,20}") {
            let rules = Rules::new(&[Rule {
                when: Condition { contains: Some(word.clone()), ..Condition::default() },
                agent_id: agent(1),
            }]).unwrap();
            let message = format!("{before} {word} {after}");
            prop_assert!(rules.pick(&message, |_| true).is_some());
        }
    }
}
