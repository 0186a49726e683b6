//! Layers: compiled settings.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use unicode_normalization::UnicodeNormalization;

use crate::autonomy::Autonomy;

use super::path::sensitive_globs;
use super::pattern::{Patterns, Star};
use super::rule::{CALL_WORK, Rule};
use super::{
    Category, GuardError, GuardSettings, Intents, Level, Problem, ProfileTable, Risk, Ruling, Spot,
    ToolSettings, Unattended,
};

/// Maximum number of rules of one layer.
pub const MAX_RULES: usize = 200;
/// Maximum number of conditions (entries of `when`) of all rules of one layer: compiling them takes at most some 0.1 s.
pub const MAX_CONDITIONS: usize = 500;

/// Whose settings a layer has, from the highest to the lowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerKind {
    /// The installation's: what no other layer may exceed.
    Installation,
    /// Those of an agent type.
    Kind,
    /// Those of an agent of a team.
    Agent,
    /// Those of a tenant.
    Tenant,
    /// Those of a user.
    User,
    /// Those of one agentable, for instance a goal.
    Agentable,
}

impl LayerKind {
    /// All layers, from the highest to the lowest.
    pub const ALL: [Self; 6] =
        [Self::Installation, Self::Kind, Self::Agent, Self::Tenant, Self::User, Self::Agentable];

    /// The name in events.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Installation => "installation",
            Self::Kind => "kind",
            Self::Agent => "agent",
            Self::Tenant => "tenant",
            Self::User => "user",
            Self::Agentable => "agentable",
        }
    }
}

impl fmt::Display for LayerKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Compiled settings. Compile them once per version of the settings, and share them in an `Arc`.
#[derive(Debug, Clone)]
pub struct Layer {
    kind: LayerKind,
    name: String,
    pub(super) level: Option<Level>,
    pub(super) categories: Option<Vec<Category>>,
    pub(super) paths: Patterns,
    pub(super) hosts: Patterns,
    pub(super) sensitive: Patterns,
    pub(super) denied: Patterns,
    pub(super) allowed: Patterns,
    autonomy: Option<Autonomy>,
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
        let at = |spot: Spot| move |problem| GuardError { layer: kind, spot, problem };
        if kind == LayerKind::Installation
            && let Some(key) = missing(settings)
        {
            return Err(at(Spot::Key(key))(Problem::Missing));
        }
        let list = |key, patterns: &Option<Vec<String>>, star| {
            Patterns::new(patterns.as_deref().unwrap_or_default(), star).map_err(at(Spot::Key(key)))
        };
        let sensitive = settings.sensitive.as_deref().unwrap_or_default();
        let conditions: usize = settings.rule.iter().map(|rule| rule.when.len()).sum();
        for (key, given, max) in
            [("rule", settings.rule.len(), MAX_RULES), ("rule.when", conditions, MAX_CONDITIONS)]
        {
            if given > max {
                return Err(at(Spot::Key(key))(Problem::TooMany { given, max }));
            }
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
                .map_err(at(Spot::Key("sensitive")))?,
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

    /// Whose settings it has.
    #[must_use]
    pub fn kind(&self) -> LayerKind {
        self.kind
    }

    /// Whose settings it has, for people.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How much agents do without asking, at most. `None`: it says nothing.
    #[must_use]
    pub fn autonomy(&self) -> Option<Autonomy> {
        self.autonomy
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
        let wrong = |(pointer, problem)| GuardError {
            layer: kind,
            spot: Spot::Rule { number, tool: rule.tool.chars().take(100).collect(), pointer },
            problem,
        };
        Patterns::new(std::slice::from_ref(&rule.tool), Star::All)
            .map_err(|problem| wrong((None, problem)))?;
        rules.push(Rule::new(number, rule).map_err(wrong)?);
        tools.push(rule.tool.clone());
    }
    let tools = Patterns::new(&tools, Star::All).map_err(|problem| GuardError {
        layer: kind,
        spot: Spot::Key("rule"),
        problem,
    })?;
    Ok((tools, rules))
}

/// The facts about tools, with pointers in place of names.
fn compile_tools(
    kind: LayerKind,
    tools: &BTreeMap<String, ToolSettings>,
) -> Result<BTreeMap<String, ToolSettings>, GuardError> {
    let wrong = |name: &str, key, problem| GuardError {
        layer: kind,
        spot: Spot::Tool { name: name.to_owned(), key },
        problem,
    };
    let compile = |(name, settings): (&String, &ToolSettings)| {
        if name.is_empty() || name.contains(['*', '?', '[', '{']) {
            return Err(wrong(name, "name", Problem::NotOneTool));
        }
        if kind != LayerKind::Installation {
            let only = [("category", settings.category.is_some()), ("reply", settings.reply.is_some())];
            if let Some((key, _)) = only.into_iter().find(|(_, is_set)| *is_set) {
                return Err(wrong(name, key, Problem::OnlyInstallation));
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
