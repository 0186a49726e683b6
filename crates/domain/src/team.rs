//! Teams: agents of one kind, and a router that picks the one that answers a run. All share the agentable's history and
//! notes.

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use crate::answering::Output;
use crate::bounded_regex::invalid;
use crate::id::{AgentId, TeamId};
use crate::setting::{WrongSetting, positive, require};
use crate::time::Time;

/// Maximum length of one pattern, in characters.
pub const MAX_PATTERN_CHARS: usize = 500;

/// Maximum nesting of groups in a regular expression.
const MAX_REGEX_DEPTH: u32 = 50;

settings! {
    /// `[limits]` of `jobs/teams.toml`: how many agents and teams there may be.
    pub struct TeamLimits {
        /// Agents of one tenant.
        pub agents_per_tenant: u32 = 1_000, "positive";
        /// Teams of one tenant.
        pub teams_per_tenant: u32 = 200, "positive";
        /// Agents of one team.
        pub agents_per_team: usize = 20, "positive";
        /// Rules of one router.
        pub rules_per_team: usize = 50, "positive";
    }
}

settings! {
    /// `[rules]` of `jobs/teams.toml`: what trying the rules of one message may cost.
    pub struct RuleLimits {
        /// Bytes of one compiled regular expression. The time of a match is in proportion to this times `regex_chars`.
        pub regex_bytes: usize = 128 * 1024, "positive";
        /// Characters of a message that a regular expression is matched against, from its beginning.
        pub regex_chars: usize = 1_000, "positive";
        /// CPU time that all rules of one message may take, in ms. It is checked between two rules.
        pub budget_ms: u64 = 50, "positive";
    }
}

names! {
    /// How a router picks.
    pub enum RouterKind {
        /// By the first rule that matches.
        Rules = "rules",
        /// By a model that reads the names and descriptions of the agents.
        Model = "model",
    }
}

names! {
    /// What picked the agent.
    pub enum RoutedBy {
        /// A rule matched.
        Rule = "rule",
        /// The model picked it.
        Model = "model",
        /// No rule matched, or the model call failed: it is the team's default agent.
        Default = "default",
    }
}

/// A team.
///
/// ```json
/// {"id": "team_0190…", "name": "Support", "kind": "goal", "description": "", "agents": ["agent_0190…"],
///  "default_agent_id": "agent_0190…", "router": {"by": "model"}, "version": 1,
///  "created_at": "2026-11-22T09:00:00.000Z", "updated_at": "2026-11-22T09:00:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TeamResponse))]
pub struct Team {
    pub id: TeamId,
    /// Unique in the tenant.
    pub name: String,
    /// The kind of its agents, as in `goal`.
    pub kind: String,
    pub description: String,
    /// Its agents.
    pub agents: Vec<AgentId>,
    /// The agent that answers when no rule matches, or the model cannot pick one.
    #[serde(rename = "default_agent_id")]
    pub fallback: AgentId,
    /// How it picks the agent that answers a run.
    pub router: Router,
    /// The form of its answers, whichever agent answers; absent if it is that of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Output>,
    /// Increases with each change.
    pub version: i64,
    pub created_at: Time,
    pub updated_at: Time,
}

/// How a team picks the agent that answers.
///
/// ```json
/// {"by": "rules", "rules": [{"when": {"prefix": "/translate"}, "agent_id": "agent_0190…"}]}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Router {
    /// `rules`: the first rule that matches; `model`: a model that reads the descriptions of the agents.
    pub by: RouterKind,
    /// The rules, in the order in which they are tried; a router by `rules` has 1 to 50.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Rule>>))]
    pub rules: Vec<Rule>,
}

/// A rule of a router: `{"when": {"contains": "invoice"}, "agent_id": "agent_0190…"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The condition under which the agent is picked.
    pub when: Condition,
    /// The agent that is picked.
    pub agent_id: AgentId,
}

/// A condition on a message: all given fields must match. Case is ignored. `{"contains": "please",
/// "longer_than": 20}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// The message contains this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contains: Option<String>,
    /// The message begins with this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// This regular expression matches in the beginning of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
    /// The message has more characters than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longer_than: Option<u32>,
}

/// A compiled condition.
#[derive(Debug, Clone)]
struct Matcher {
    contains: Option<String>,
    prefix: Option<String>,
    regex: Option<Regex>,
    longer_than: Option<u32>,
}

impl Condition {
    /// Checks that the condition is valid.
    ///
    /// # Errors
    /// [`WrongSetting`] when it has no field, a text is empty or too long, or the regular expression is invalid.
    pub fn check(&self, limits: &RuleLimits) -> Result<(), WrongSetting> {
        self.matcher(limits).map(|_| ())
    }

    fn matcher(&self, limits: &RuleLimits) -> Result<Matcher, WrongSetting> {
        require(*self != Self::default(), "", "give at least one of contains, prefix, regex, longer_than")?;
        for (field, text) in [("contains", &self.contains), ("prefix", &self.prefix), ("regex", &self.regex)]
        {
            let fits = |text: &String| (1..=MAX_PATTERN_CHARS).contains(&text.chars().count());
            let reason = format_args!("`{field}` must have 1 to {MAX_PATTERN_CHARS} characters");
            require(text.as_ref().is_none_or(fits), format!("/{field}"), reason)?;
        }
        let lower = |text: &Option<String>| text.as_ref().map(|text| text.to_lowercase());
        let regex = self.regex.as_deref().map(|pattern| compile(pattern, limits.regex_bytes)).transpose();
        Ok(Matcher {
            contains: lower(&self.contains),
            prefix: lower(&self.prefix),
            regex: regex.map_err(|wrong| WrongSetting::new("/regex", format!("`regex` {wrong}")))?,
            longer_than: self.longer_than,
        })
    }
}

fn compile(pattern: &str, most_bytes: usize) -> Result<Regex, String> {
    RegexBuilder::new(pattern)
        .case_insensitive(true)
        .size_limit(most_bytes)
        .dfa_size_limit(most_bytes)
        .nest_limit(MAX_REGEX_DEPTH)
        .build()
        .map_err(invalid)
}

/// A message in the forms that conditions read.
struct Texts<'m> {
    message: &'m str,
    lower: String,
    /// The part that regular expressions are matched against.
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

/// The compiled rules of a router.
#[derive(Debug, Clone)]
pub struct Rules {
    rules: Vec<(Matcher, AgentId)>,
    regex_chars: usize,
}

impl Rules {
    /// Compiles `rules`.
    ///
    /// # Errors
    /// The index (from 0) of the first invalid rule, and what is wrong with it.
    pub fn new(rules: &[Rule], limits: &RuleLimits) -> Result<Self, (usize, WrongSetting)> {
        let compiled = rules.iter().enumerate().map(|(index, rule)| {
            let matcher = rule.when.matcher(limits).map_err(|invalid| (index, invalid))?;
            Ok((matcher, rule.agent_id))
        });
        Ok(Self { rules: compiled.collect::<Result<_, _>>()?, regex_chars: limits.regex_chars })
    }

    /// The first rule that matches `message` and whose agent is `available`: its index from 0, and the agent.
    /// `is_spent` is called before each rule but the first: one rule cannot be interrupted, and [`RuleLimits`]
    /// limits its time.
    ///
    /// # Errors
    /// How many rules were tried when `is_spent` returned true before a rule matched.
    pub fn pick(
        &self,
        message: &str,
        available: impl Fn(AgentId) -> bool,
        mut is_spent: impl FnMut() -> bool,
    ) -> Result<Option<(usize, AgentId)>, usize> {
        let texts = Texts::new(message, self.regex_chars);
        for (index, (matcher, agent)) in self.rules.iter().enumerate() {
            ensure!(index == 0 || !is_spent(), index);
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
    fn first_matching_rule_picks() {
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
        assert_eq!(others, (1, agent(2)), "unavailable agents are skipped");
    }

    #[test]
    fn invalid_conditions_say_why_and_what_is_allowed() {
        let huge = format!(r#"{{"regex": "{}"}}"#, "(\\\\w{50}){50}");
        for (when, field, words) in [
            ("{}", None, "contains, prefix, regex, longer_than"),
            (r#"{"contains": ""}"#, Some("contains"), "1 to 500"),
            (r#"{"regex": "(a"}"#, Some("regex"), "unclosed group"),
            (r#"{"regex": "(?=a)"}"#, Some("regex"), "Look-around"),
            (&huge, Some("regex"), "too large"),
        ] {
            let error =
                serde_json::from_str::<Condition>(when).unwrap().check(&RuleLimits::default()).unwrap_err();
            assert_eq!(error.key(), field.unwrap_or_default(), "{when}");
            assert!(error.to_string().contains(words), "{when}: {error}");
        }
        let error = serde_json::from_str::<Condition>(r#"{"contians": "a"}"#).unwrap_err().to_string();
        assert!(error.contains("contians") && error.contains("contains"), "{error}");
    }

    #[test]
    fn spent_budget_stops_between_two_rules() {
        let rules = rules(&[r#"{"regex": "a"}"#, r#"{"regex": "b"}"#, r#"{"regex": "c"}"#]);
        let mut left = 1;
        let mut spend = || {
            left -= 1;
            left < 0
        };
        assert_eq!(rules.pick("c", |_| true, &mut spend), Err(2));
        assert_eq!(rules.pick("a", |_| true, || true), Ok(Some((0, agent(1)))), "the first is always tried");
    }

    #[test]
    fn regexes_match_only_the_beginning_of_a_message() {
        let rules = rules(&[r#"{"regex": "end"}"#, r#"{"contains": "end"}"#]);
        assert_eq!(picked(&rules, &format!("{}end", "ä".repeat(997))), Some(1));
        assert_eq!(picked(&rules, &format!("{}end", "ä".repeat(998))), Some(2));
    }

    #[test]
    fn common_patterns_compile_and_slow_ones_do_not() {
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
        /// Any text can be matched, and `contains` ignores case.
        #[test]
        fn contains_ignores_case(before in ".{0,20}", word in "[a-zäöüß0-9]{1,8}", after in ".{0,20}") {
            let rules = Rules::new(&[Rule {
                when: Condition { contains: Some(word.clone()), ..Condition::default() },
                agent_id: agent(1),
            }], &RuleLimits::default()).unwrap();
            let message = format!("{before} {word} {after}");
            prop_assert!(rules.pick(&message, |_| true, || false).unwrap().is_some());
        }
    }
}
