//! Layers: compiled settings, with their rules and the comparison of arguments with patterns.

use std::collections::BTreeMap;

use serde_json::Value;
use unicode_normalization::UnicodeNormalization;

use super::argument::{Pointer, each_value, fold_pattern, sensitive_globs};
use super::pattern::{Pattern, Patterns, Star, too_many};
use super::{
    Category, GuardError, GuardSettings, Intents, Level, ProfileTable, Risk, RuleSettings, Ruling,
    ToolSettings, Unattended,
};
use crate::autonomy::Autonomy;

/// Maximum number of rules of one layer.
pub const MAX_RULES: usize = 200;

/// Maximum number of conditions (entries of `when`) of all rules of one layer: compiling them takes at most some 0.1 s.
pub const MAX_CONDITIONS: usize = 500;

names! {
    /// Whose settings a layer has, from the highest to the lowest.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum LayerKind {
        /// The installation's: what no other layer may exceed.
        Installation = "installation",
        /// Those of an agent type.
        Kind = "kind",
        /// Those of an agent of a team.
        Agent = "agent",
        /// Those of a tenant.
        Tenant = "tenant",
        /// Those of a user.
        User = "user",
        /// Those of one agentable, for instance a goal.
        Agentable = "agentable",
    }
}

/// Compiled settings. Compile them once per version of the settings, and share them in an `Arc`.
#[derive(Debug, Clone)]
pub struct Layer {
    /// Whose settings it has.
    pub kind: LayerKind,
    /// Whose settings it has, for people.
    pub name: String,
    pub(super) level: Option<Level>,
    pub(super) categories: Option<Vec<Category>>,
    pub(super) paths: Patterns,
    pub(super) hosts: Patterns,
    pub(super) sensitive: Patterns,
    pub(super) denied: Patterns,
    pub(super) allowed: Patterns,
    /// How much agents do without asking, at most. `None`: it says nothing.
    pub autonomy: Option<Autonomy>,
    pub(super) intents: Intents,
    pub(super) unattended: Unattended,
    pub(super) profile: ProfileTable,
    /// The patterns of tools of `rules`, in the same order.
    rule_tools: Patterns,
    rules: Vec<Rule>,
    tools: BTreeMap<String, ToolSettings>,
}

impl Layer {
    /// Compiles the settings of a layer. `name` says whose they are, for people: `goal`, or the name of a tenant.
    ///
    /// # Errors
    /// [`GuardError`] when a pattern or a pointer is wrong, an example of a rule does not behave as it should, there is
    /// too much of something, a lower layer sets what only the installation may, or the installation leaves out a key.
    pub fn compile(
        kind: LayerKind,
        name: impl Into<String>,
        settings: &GuardSettings,
    ) -> Result<Self, GuardError> {
        let at = |key: &'static str| {
            move |problem: String| GuardError::new(kind, &format!(", `{key}`: {problem}"))
        };
        if kind == LayerKind::Installation
            && let Some(key) = missing(settings)
        {
            let problem = "it is missing; the installation's settings have every key, see jobs/guards.toml";
            return Err(at(key)(problem.to_owned()));
        }
        let list = |key, patterns: &Option<Vec<String>>, star| {
            Patterns::new(patterns.as_deref().unwrap_or_default(), star).map_err(at(key))
        };
        let sensitive = settings.sensitive.as_deref().unwrap_or_default();
        let conditions: usize = settings.rule.iter().map(|rule| rule.when.len()).sum();
        for (key, given, max) in
            [("rule", settings.rule.len(), MAX_RULES), ("rule.when", conditions, MAX_CONDITIONS)]
        {
            ensure!(given <= max, at(key)(too_many(given, max)));
        }
        let (rule_tools, rules) = compile_rules(kind, settings)?;
        Ok(Self {
            kind,
            name: name.into(),
            level: settings.level,
            categories: settings.categories.clone(),
            paths: list("paths", &settings.paths.as_ref().map(|paths| composed(paths)), Star::WithoutSlash)?,
            hosts: list("hosts", &settings.hosts.as_ref().map(|hosts| lower(hosts)), Star::All)?,
            sensitive: Patterns::expanded(sensitive, Star::WithoutSlash, sensitive_globs)
                .map_err(at("sensitive"))?,
            denied: list("denied", &settings.denied, Star::All)?,
            allowed: list("allowed", &settings.allowed, Star::All)?,
            autonomy: settings.autonomy,
            intents: settings.intents.unwrap_or_default(),
            unattended: settings.unattended.unwrap_or_default(),
            profile: settings.profile.map(super::Profile::table).unwrap_or_default(),
            rule_tools,
            rules,
            tools: compile_tools(kind, &settings.tools)?,
        })
    }

    /// What it says of a tool's facts.
    pub(super) fn tool(&self, name: &str) -> Option<&ToolSettings> {
        self.tools.get(name)
    }

    /// The strictest of what its profile says of `risks`, with the risk.
    pub(super) fn strictest_of_risks(&self, risks: &[Risk]) -> Option<(Ruling, Risk)> {
        risks.iter().filter_map(|risk| Some((self.profile.get(*risk)?, *risk))).max()
    }

    /// Whether a rule is about a tool, whatever its arguments.
    pub(super) fn has_rule_about(&self, tool: &str) -> bool {
        !self.rules.is_empty() && self.rule_tools.is_match(tool)
    }

    /// The strictest rule that matches a call, and of several equally strict ones the first.
    pub(super) fn strictest_rule(&self, tool: &str, input: &Value) -> Option<&Rule> {
        if self.rules.is_empty() {
            return None;
        }
        let (mut strictest, mut left): (Option<&Rule>, _) = (None, CALL_WORK);
        for number in self.rule_tools.matches(tool) {
            let Some(rule) = self.rules.get(number) else { continue };
            if strictest.is_none_or(|other| is_stricter(rule, other)) && rule.when.is_met(input, &mut left) {
                strictest = Some(rule);
            }
        }
        strictest
    }
}

/// Of two rules that ask, the one without a lasting yes is the stricter one.
pub(super) fn is_stricter(rule: &Rule, other: &Rule) -> bool {
    (rule.decide, !rule.lasting) > (other.decide, !other.lasting)
}

fn compile_rules(kind: LayerKind, settings: &GuardSettings) -> Result<(Patterns, Vec<Rule>), GuardError> {
    let mut rules = Vec::with_capacity(settings.rule.len());
    let mut tools = Vec::with_capacity(settings.rule.len());
    for (number, rule) in (1..).zip(&settings.rule) {
        let wrong =
            |wrong: String| GuardError::new(kind, &format!(", rule {number} ({:.100}){wrong}", rule.tool));
        Patterns::new(std::slice::from_ref(&rule.tool), Star::All)
            .map_err(|problem| wrong(format!(": {problem}")))?;
        rules.push(Rule::new(number, rule).map_err(wrong)?);
        tools.push(rule.tool.clone());
    }
    let tools = Patterns::new(&tools, Star::All)
        .map_err(|problem| GuardError::new(kind, &format!(", `rule`: {problem}")))?;
    Ok((tools, rules))
}

/// The facts about tools, with pointers in place of names.
fn compile_tools(
    kind: LayerKind,
    tools: &BTreeMap<String, ToolSettings>,
) -> Result<BTreeMap<String, ToolSettings>, GuardError> {
    let wrong = |name: &str, key: &str, problem: &str| {
        GuardError::new(kind, &format!(", [tools.{name}] `{key}`: {problem}"))
    };
    let compile = |(name, settings): (&String, &ToolSettings)| {
        if name.is_empty() || name.contains(['*', '?', '[', '{']) {
            let problem = "facts are about one tool: give its name; for patterns there are rules";
            return Err(wrong(name, "name", problem));
        }
        if kind != LayerKind::Installation {
            let only = [("category", settings.category.is_some()), ("reply", settings.reply.is_some())];
            if let Some((key, _)) = only.into_iter().find(|(_, is_set)| *is_set) {
                return Err(wrong(name, key, "only the installation's settings may set it"));
            }
        }
        Ok((name.clone(), settings.with_pointers()))
    };
    tools.iter().map(compile).collect()
}

/// The first key that the installation's settings leave out.
fn missing(settings: &GuardSettings) -> Option<&'static str> {
    let profile = settings.profile.map(super::Profile::table).unwrap_or_default();
    let keys = [
        ("level", settings.level.is_some()),
        ("categories", settings.categories.is_some()),
        ("paths", settings.paths.is_some()),
        ("hosts", settings.hosts.is_some()),
        ("sensitive", settings.sensitive.is_some()),
        ("denied", settings.denied.is_some()),
        ("allowed", settings.allowed.is_some()),
        ("intents", settings.intents.is_some()),
        ("unattended", settings.unattended.is_some()),
        ("profile", settings.profile.is_some()),
        ("profile.read", profile.get(Risk::Read).is_some()),
        ("profile.write", profile.get(Risk::Write).is_some()),
        ("profile.external", profile.get(Risk::External).is_some()),
        ("profile.exec", profile.get(Risk::Exec).is_some()),
        ("profile.destructive", profile.get(Risk::Destructive).is_some()),
    ];
    keys.into_iter().find(|(_, is_set)| !is_set).map(|(key, _)| key)
}

/// Patterns in the normal form C of Unicode, like the paths that they are compared with.
fn composed(patterns: &[String]) -> Vec<String> {
    patterns.iter().map(|pattern| pattern.nfc().collect()).collect()
}

fn lower(patterns: &[String]) -> Vec<String> {
    patterns.iter().map(|pattern| pattern.to_lowercase()).collect()
}

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
    /// Compiles a condition. The error begins with the pointer it is about.
    pub(super) fn new(when: &BTreeMap<String, String>, matching: Matching) -> Result<Self, String> {
        if let Some((last, _)) = when.last_key_value().filter(|_| when.len() > MAX_POINTERS) {
            return Err(format!(", `{last}`: {}", too_many(when.len(), MAX_POINTERS)));
        }
        let compile = |(pointer, pattern): (&String, &String)| {
            ensure!(pointer.starts_with('/'), no_pointer(pointer));
            if pattern == "*" {
                return Ok((Pointer::new(pointer), None));
            }
            let compiled = match matching {
                Matching::Generous => Pattern::new(&fold_pattern(pattern), Star::All),
                Matching::Exact => Pattern::new(pattern, Star::WithoutSlash),
            };
            let compiled = compiled.map_err(|problem| format!(", `{pointer}`: {problem}"))?;
            Ok((Pointer::new(pointer), Some(compiled)))
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

/// What is wrong with a text in the place of a JSON pointer.
pub(super) fn no_pointer(text: &str) -> String {
    format!(", `{text}`: `{text}` is not a JSON pointer: it begins with `/`, as `/to` or `/to/0`")
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
    /// Compiles rule `number` (from 1) and tries its examples. The error begins with the pointer it is about, if any.
    pub(super) fn new(number: usize, settings: &RuleSettings) -> Result<Self, String> {
        let RuleSettings { tool, when, decide, why, always, examples, counterexamples } = settings;
        if *always && *decide != Ruling::Ask {
            let problem =
                ": `always` says that a question has no lasting yes: it is for rules with `decide = \"ask\"`";
            return Err(problem.to_owned());
        }
        if let Some(given) =
            [examples.len(), counterexamples.len()].into_iter().find(|given| *given > MAX_EXAMPLES)
        {
            return Err(format!(": {}", too_many(given, MAX_EXAMPLES)));
        }
        let matching = if *decide == Ruling::Allow { Matching::Exact } else { Matching::Generous };
        let when = When::new(when, matching)?;
        if let Some(example) = examples.iter().find(|example| !when.is_met(example, &mut CALL_WORK.clone())) {
            return Err(format!(": the rule must match its `match` example {example}, and does not"));
        }
        if let Some(example) =
            counterexamples.iter().find(|example| when.is_met(example, &mut CALL_WORK.clone()))
        {
            return Err(format!(": the rule must not match its `not_match` example {example}, and does"));
        }
        let why = if why.is_empty() { format!("a rule about `{tool}` says so") } else { why.clone() };
        Ok(Self { label: format!("rule {number}: {tool}"), decide: *decide, why, lasting: !always, when })
    }
}
