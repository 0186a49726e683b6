//! A compiled rule, and the comparison of arguments with patterns.

use std::collections::BTreeMap;

use serde_json::Value;

use super::argument::{Pointer, each_value};
use super::path::fold_pattern;
use super::pattern::{Pattern, Star};
use super::{Problem, RuleSettings, Ruling};

/// Maximum number of pointers of one rule.
const MAX_POINTERS: usize = 20;
/// Maximum number of examples of one rule, of each sort.
const MAX_EXAMPLES: usize = 20;
/// Work of comparing the arguments of a call with the patterns of a layer: sixteen milliseconds at worst.
pub(super) const CALL_WORK: u64 = 4 * 1024 * 1024;

/// How patterns are compared with arguments. See [`RuleSettings`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Matching {
    /// For what restricts.
    Generous,
    /// For what permits.
    Exact,
}

/// The condition `when`: JSON pointers, each with a pattern.
#[derive(Debug, Clone)]
pub(super) struct When {
    matching: Matching,
    /// Each pointer with its compiled pattern. The pattern `*` is `None`: any value.
    patterns: Vec<(Pointer, Option<Pattern>)>,
}

impl When {
    /// Compiles a condition. The error names the pointer it is about.
    pub(super) fn new(
        when: &BTreeMap<String, String>,
        matching: Matching,
    ) -> Result<Self, (String, Problem)> {
        let too_many = Problem::TooMany { given: when.len(), max: MAX_POINTERS };
        if let Some((last, _)) = when.last_key_value().filter(|_| when.len() > MAX_POINTERS) {
            return Err((last.clone(), too_many));
        }
        let compile = |(pointer, pattern): (&String, &String)| {
            let wrong = |problem| (pointer.clone(), problem);
            if !pointer.starts_with('/') {
                return Err(wrong(Problem::Pointer(pointer.clone())));
            }
            if pattern == "*" {
                return Ok((Pointer::new(pointer), None));
            }
            let compiled = match matching {
                Matching::Generous => Pattern::new(&fold_pattern(pattern), Star::All),
                Matching::Exact => Pattern::new(pattern, Star::WithoutSlash),
            };
            Ok((Pointer::new(pointer), Some(compiled.map_err(wrong)?)))
        };
        Ok(Self { matching, patterns: when.iter().map(compile).collect::<Result<_, _>>()? })
    }

    /// Whether `input` meets the condition. When that takes more work than is `left`, it does if it restricts, and does not
    /// if it permits.
    pub(super) fn is_met(&self, input: &Value, left: &mut u64) -> bool {
        self.patterns.iter().all(|(pointer, pattern)| {
            pointer.of(input).is_some_and(|value| self.is_value_met(value, pattern.as_ref(), left))
        })
    }

    fn is_value_met(&self, value: &Value, pattern: Option<&Pattern>, left: &mut u64) -> bool {
        let mut count = 0_usize;
        match self.matching {
            Matching::Generous => !each_value(value, &mut |text| {
                !pattern.is_none_or(|pattern| pattern.is_match_without_case(&text, left).unwrap_or(true))
            }),
            Matching::Exact => {
                let all = each_value(value, &mut |text| {
                    count += 1;
                    pattern.is_none_or(|pattern| {
                        !leads_up(&text) && pattern.is_match(&text, left).unwrap_or(false)
                    })
                });
                all && count > 0
            }
        }
    }
}

/// Whether a part of the text is `..`: what `acme/*` permits must not be `acme/..`.
fn leads_up(text: &str) -> bool {
    text.split(['/', '\\']).any(|part| part == "..")
}

/// A compiled rule. Its pattern of tools is compiled with those of the other rules of its layer.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    /// `rule 3: github__create_issue`.
    pub(super) label: String,
    pub(super) decide: Ruling,
    pub(super) why: String,
    /// Of a rule that asks: whether a lasting yes is possible.
    pub(super) lasting: bool,
    pub(super) when: When,
}

impl Rule {
    /// Compiles rule `number` (from 1) and tries its examples. The error names the pointer it is about, if any.
    pub(super) fn new(number: usize, settings: &RuleSettings) -> Result<Self, (Option<String>, Problem)> {
        let RuleSettings { tool, when, decide, why, always, examples, counterexamples } = settings;
        if *always && *decide != Ruling::Ask {
            return Err((None, Problem::AlwaysWithoutAsk));
        }
        if let Some(given) =
            [examples.len(), counterexamples.len()].into_iter().find(|given| *given > MAX_EXAMPLES)
        {
            return Err((None, Problem::TooMany { given, max: MAX_EXAMPLES }));
        }
        let matching = if *decide == Ruling::Allow { Matching::Exact } else { Matching::Generous };
        let when = When::new(when, matching).map_err(|(pointer, problem)| (Some(pointer), problem))?;
        if let Some(example) = examples.iter().find(|example| !when.is_met(example, &mut CALL_WORK.clone())) {
            return Err((None, Problem::MustMatch(example.to_string())));
        }
        if let Some(example) =
            counterexamples.iter().find(|example| when.is_met(example, &mut CALL_WORK.clone()))
        {
            return Err((None, Problem::MustNotMatch(example.to_string())));
        }
        let why = if why.is_empty() { format!("a rule about `{tool}` says so") } else { why.clone() };
        Ok(Self { label: format!("rule {number}: {tool}"), decide: *decide, why, lasting: !always, when })
    }
}
