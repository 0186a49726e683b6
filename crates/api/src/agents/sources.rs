//! What agents may be made of, and where the files of their kinds are: handed down by whoever starts the server.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use houston_domain::agent::limits::Limits;
use houston_domain::agentable::AgentType;

/// Reads `jobs/agents` anew.
pub type ReadFiles = Arc<dyn Fn() -> Result<BTreeMap<String, AgentType>, String> + Send + Sync>;

/// A provider an agent may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderName {
    /// What it is called.
    pub name: String,
    /// Other names it is known by.
    pub aliases: Vec<String>,
    /// Whether its model must be named: it has none of its own choice.
    pub needs_model: bool,
    /// Whether the names of its models are known. Of a server that people run themselves, and where deployments have
    /// names of their own, they are not.
    pub is_listed: bool,
}

/// What agents may be made of.
#[derive(Clone)]
pub struct AgentSources {
    /// The names of all tools. An agent may have those of its kind.
    pub tools: Vec<String>,
    /// The use cases that models serve.
    pub use_cases: Vec<String>,
    /// The providers.
    pub providers: Vec<ProviderName>,
    /// The known model of a provider whose name is nearest to one that is not known; `None` when it is known, or
    /// nothing is known of the provider's.
    pub nearest_model: fn(&str, &str) -> Option<&'static str>,
    /// The bounds of a run, before its kind changes them.
    pub limits: Limits,
    /// The kinds as their files stand now.
    pub read_files: ReadFiles,
}

impl fmt::Debug for AgentSources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentSources").field("tools", &self.tools).finish_non_exhaustive()
    }
}

impl AgentSources {
    /// The provider of this name.
    ///
    /// # Errors
    /// What is allowed, and the nearest.
    pub(super) fn provider(&self, given: &str) -> Result<&ProviderName, String> {
        let lower = given.to_ascii_lowercase();
        let called = |one: &&ProviderName| one.name == lower || one.aliases.contains(&lower);
        self.providers.iter().find(called).ok_or_else(|| {
            let names: Vec<&str> = self.providers.iter().map(|one| one.name.as_str()).collect();
            let known = self.providers.iter().flat_map(|one| one.aliases.iter().chain([&one.name]));
            let known: Vec<&str> = known.map(String::as_str).collect();
            format!(
                "there is no provider `{}`; there are: default, {}{}",
                short(given),
                names.join(", "),
                like(&lower, &known)
            )
        })
    }
}

/// What somebody sent, as far as it is worth repeating.
pub(crate) fn short(given: &str) -> String {
    given.chars().take(80).collect()
}

/// The allowed name that is most like the given one, if any is like it.
pub(crate) fn like(given: &str, allowed: &[&str]) -> String {
    /// From 0 to 1; below it, two names have little in common.
    const LIKE: f64 = 0.7;
    // The time of a comparison grows with both names.
    let given = short(given);
    let rated = allowed.iter().map(|&name| (strsim::jaro_winkler(name, &given), name));
    rated
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .filter(|(likeness, _)| *likeness >= LIKE)
        .map(|(_, name)| format!("; did you mean `{name}`?"))
        .unwrap_or_default()
}
