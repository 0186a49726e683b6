//! What the settings of agents may refer to: tools, use cases, providers, limits, and the files of the kinds. The
//! process that starts the server provides it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use houston_domain::agent::limits::Limits;
use houston_domain::agentable::AgentType;
use houston_domain::overseer;

/// Reads `jobs/agents`: the kinds by name, or an error message with file, position and what is allowed.
pub type ReadFiles = Arc<dyn Fn() -> Result<BTreeMap<String, AgentType>, String> + Send + Sync>;

/// A provider an agent may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderName {
    /// Name of the provider, in small letters.
    pub name: String,
    /// Other accepted names, in small letters.
    pub aliases: Vec<String>,
    /// Whether agents must name a model, because the provider has no default model.
    pub needs_model: bool,
    /// Whether the provider's models are listed, so that names can be checked. False for self-hosted servers and for
    /// providers whose deployments have custom names.
    pub is_listed: bool,
}

/// What the settings of agents may refer to.
#[derive(Clone)]
pub struct AgentSources {
    /// Names of the tools of all kinds. An agent may have those of its kind.
    pub tools: Vec<String>,
    /// Names of the use cases, e.g. `agent`, `titles`.
    pub use_cases: Vec<String>,
    /// Providers that agents may name.
    pub providers: Vec<ProviderName>,
    /// Called with a provider and a model: the most similar listed model if the given one is not listed; `None` if it
    /// is listed, or the provider has no list.
    pub nearest_model: fn(&str, &str) -> Option<&'static str>,
    /// The limits of a run, before the kind overrides them.
    pub limits: Limits,
    /// The overseer's settings, for the traces of runs.
    pub overseer: overseer::Settings,
    /// Reads the files of the kinds.
    pub read_files: ReadFiles,
}

impl fmt::Debug for AgentSources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentSources").field("tools", &self.tools).finish_non_exhaustive()
    }
}

impl AgentSources {
    /// Finds a provider by name or alias, ignoring case.
    ///
    /// # Errors
    /// A message with the allowed providers and the most similar one.
    pub(super) fn provider(&self, given: &str) -> Result<&ProviderName, String> {
        let lower = given.to_ascii_lowercase();
        let called = |one: &&ProviderName| one.name == lower || one.aliases.contains(&lower);
        self.providers.iter().find(called).ok_or_else(|| {
            let names: Vec<&str> = self.providers.iter().map(|one| one.name.as_str()).collect();
            let names_and_aliases =
                self.providers.iter().flat_map(|one| one.aliases.iter().chain([&one.name]));
            let names_and_aliases: Vec<&str> = names_and_aliases.map(String::as_str).collect();
            format!(
                "there is no provider `{}`; there are: default, {}{}",
                truncated(given),
                names.join(", "),
                suggestion(&lower, &names_and_aliases)
            )
        })
    }
}

/// The first 80 characters of a client's value, for error messages.
pub(crate) fn truncated(given: &str) -> String {
    given.chars().take(80).collect()
}

/// `; did you mean …?` with the allowed name most similar to `given`; empty if none is similar.
pub(crate) fn suggestion(given: &str, allowed: &[&str]) -> String {
    /// Minimum Jaro-Winkler similarity, from 0 to 1.
    const MIN_SIMILARITY: f64 = 0.7;
    // Comparing takes time proportional to both lengths.
    let given = truncated(given);
    let rated = allowed.iter().map(|&name| (strsim::jaro_winkler(name, &given), name));
    rated
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .filter(|(similarity, _)| *similarity >= MIN_SIMILARITY)
        .map(|(_, name)| format!("; did you mean `{name}`?"))
        .unwrap_or_default()
}
