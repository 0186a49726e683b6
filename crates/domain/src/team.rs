//! Teams: agents of one kind, and a router that picks the one that answers a run. All share what the agentable knows:
//! its history, its notes.

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use crate::id::AgentId;

/// Characters of one pattern.
pub const MAX_PATTERN_CHARS: usize = 500;

/// How deep the groups of a regular expression may nest.
const MAX_REGEX_DEPTH: u32 = 50;

/// `[limits]` of `jobs/teams.toml`: how many agents and teams there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TeamLimits {
    /// Agents of one tenant.
    pub agents_per_tenant: u32,
    /// Teams of one tenant.
    pub teams_per_tenant: u32,
    /// Agents of one team.
    pub agents_per_team: usize,
    /// Rules of one router.
    pub rules_per_team: usize,
}

impl Default for TeamLimits {
    fn default() -> Self {
        Self { agents_per_tenant: 1_000, teams_per_tenant: 200, agents_per_team: 20, rules_per_team: 50 }
    }
}

/// `[rules]` of `jobs/teams.toml`: what trying the rules of one message may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleLimits {
    /// Bytes of one compiled regular expression. The time of a match is in proportion to this times `regex_chars`.
    pub regex_bytes: usize,
    /// Characters of a message that a regular expression is matched against, from its beginning.
    pub regex_chars: usize,
    /// CPU time that all rules of one message may take, in ms. It is checked between two rules.
    pub budget_ms: u64,
}

impl Default for RuleLimits {
    fn default() -> Self {
        Self { regex_bytes: 128 * 1024, regex_chars: 1_000, budget_ms: 50 }
    }
}

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
    pub fn check(&self, limits: &RuleLimits) -> Result<(), InvalidCondition> {
        self.matcher(limits).map(|_| ())
    }

    fn matcher(&self, limits: &RuleLimits) -> Result<Matcher, InvalidCondition> {
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
            regex: self.regex.as_deref().map(|pattern| compile(pattern, limits.regex_bytes)).transpose()?,
            longer_than: self.longer_than,
        })
    }
}

fn compile(pattern: &str, most_bytes: usize) -> Result<Regex, InvalidCondition> {
    let built = RegexBuilder::new(pattern)
        .case_insensitive(true)
        .size_limit(most_bytes)
        .dfa_size_limit(most_bytes)
        .nest_limit(MAX_REGEX_DEPTH)
        .build();
    built.map_err(|error| {
        // The last line says what; those before it point at the place.
        let told = error.to_string();
        let reason = told.lines().last().unwrap_or_default().trim().trim_start_matches("error: ").to_owned();
        InvalidCondition::Regex { reason }
    })
}

/// A message, in the forms that conditions look at.
struct Texts<'m> {
    message: &'m str,
    lower: String,
    /// The beginning that regular expressions are matched against.
    beginning: &'m str,
}

impl<'m> Texts<'m> {
    fn new(message: &'m str, regex_chars: usize) -> Self {
        let end = message.char_indices().nth(regex_chars).map_or(message.len(), |(end, _)| end);
        Self { message, lower: message.to_lowercase(), beginning: message.get(..end).unwrap_or(message) }
    }
}

impl Matcher {
    fn holds(&self, texts: &Texts<'_>) -> bool {
        let Texts { message, lower, beginning } = texts;
        let longer = |most: &u32| message.chars().nth(usize::try_from(*most).unwrap_or(usize::MAX)).is_some();
        self.contains.as_ref().is_none_or(|text| lower.contains(text))
            && self.prefix.as_ref().is_none_or(|text| lower.trim_start().starts_with(text))
            && self.longer_than.as_ref().is_none_or(longer)
            && self.regex.as_ref().is_none_or(|regex| regex.is_match(beginning))
    }
}

/// The rules of a router, compiled.
#[derive(Debug, Clone)]
pub struct Rules {
    rules: Vec<(Matcher, AgentId)>,
    regex_chars: usize,
}

/// The budget was spent before a rule held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetSpent {
    /// How many rules were tried.
    pub tried: usize,
}

impl Rules {
    /// Compiles `rules`.
    ///
    /// # Errors
    /// The first rule that cannot be used, by its index from 0, and why.
    pub fn new(rules: &[Rule], limits: &RuleLimits) -> Result<Self, (usize, InvalidCondition)> {
        let compiled = rules.iter().enumerate().map(|(index, rule)| {
            let matcher = rule.when.matcher(limits).map_err(|invalid| (index, invalid))?;
            Ok((matcher, rule.agent_id))
        });
        Ok(Self { rules: compiled.collect::<Result<_, _>>()?, regex_chars: limits.regex_chars })
    }

    /// The first rule that holds for `message` and whose agent is `available`: its index from 0, and the agent.
    /// `is_spent` is asked before each rule but the first: one rule cannot be interrupted, and [`RuleLimits`] bound
    /// what it takes.
    ///
    /// # Errors
    /// [`BudgetSpent`] when `is_spent` says so before a rule held.
    pub fn pick(
        &self,
        message: &str,
        available: impl Fn(AgentId) -> bool,
        mut is_spent: impl FnMut() -> bool,
    ) -> Result<Option<(usize, AgentId)>, BudgetSpent> {
        let texts = Texts::new(message, self.regex_chars);
        for (index, (matcher, agent)) in self.rules.iter().enumerate() {
            if index > 0 && is_spent() {
                return Err(BudgetSpent { tried: index });
            }
            if available(*agent) && matcher.holds(&texts) {
                return Ok(Some((index, *agent)));
            }
        }
        Ok(None)
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
        Rules::new(&rules, &RuleLimits::default()).unwrap()
    }

    fn picked(rules: &Rules, message: &str) -> Option<u128> {
        rules.pick(message, |_| true, || false).unwrap().map(|(_, agent)| agent.0.as_u128())
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
        let others = rules.pick("/translate the rechnung", |one| one != agent(1), || false).unwrap().unwrap();
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
            let error =
                serde_json::from_str::<Condition>(when).unwrap().check(&RuleLimits::default()).unwrap_err();
            assert_eq!(error.field(), field, "{when}");
            assert!(error.to_string().contains(words), "{when}: {error}");
        }
        let error = serde_json::from_str::<Condition>(r#"{"contians": "a"}"#).unwrap_err().to_string();
        assert!(error.contains("contians") && error.contains("contains"), "{error}");
    }

    #[test]
    fn a_spent_budget_ends_the_trying_between_two_rules() {
        let rules = rules(&[r#"{"regex": "a"}"#, r#"{"regex": "b"}"#, r#"{"regex": "c"}"#]);
        let mut left = 1;
        let mut spend = || {
            left -= 1;
            left < 0
        };
        assert_eq!(rules.pick("c", |_| true, &mut spend), Err(BudgetSpent { tried: 2 }));
        assert_eq!(rules.pick("a", |_| true, || true), Ok(Some((0, agent(1)))), "the first is always tried");
    }

    #[test]
    fn a_regex_sees_the_beginning_of_a_message_alone() {
        let rules = rules(&[r#"{"regex": "end"}"#, r#"{"contains": "end"}"#]);
        assert_eq!(picked(&rules, &format!("{}end", "ä".repeat(997))), Some(1));
        assert_eq!(picked(&rules, &format!("{}end", "ä".repeat(998))), Some(2));
    }

    #[test]
    fn words_and_addresses_fit_and_what_is_slow_does_not() {
        let check = |pattern: &str| {
            let condition = Condition { regex: Some(pattern.to_owned()), ..Condition::default() };
            condition.check(&RuleLimits::default())
        };
        for pattern in [
            r"\w+@\w+",
            r"\b\w+ing\b",
            r"[a-z0-9._%+-]+@[a-z0-9.-]+\.[a-z]{2,}",
            r"\$?\d+([.,]\d{2})? *(eur|usd)",
        ] {
            assert_eq!(check(pattern), Ok(()), "{pattern}");
        }
        assert!(check("(?-i)(?:a?b?c?d?){0,450}Z$").is_err());
    }

    proptest! {
        /// No text breaks the trying, and case never matters to `contains`.
        #[test]
        fn a_text_in_a_message_is_found_in_any_case(before in ".{0,20}", word in "[a-zäöüß0-9]{1,8}", after in ".{0,20}") {
            let rules = Rules::new(&[Rule {
                when: Condition { contains: Some(word.clone()), ..Condition::default() },
                agent_id: agent(1),
            }], &RuleLimits::default()).unwrap();
            let message = format!("{before} {word} {after}");
            prop_assert!(rules.pick(&message, |_| true, || false).unwrap().is_some());
        }
    }
}
