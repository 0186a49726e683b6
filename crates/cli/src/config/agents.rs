//! The tools, use cases and providers that agents created over the API may name.

use std::collections::BTreeMap;
use std::sync::Arc;

use houston_api::{AgentSources, ProviderName};
use houston_domain::agentable::AgentType;
use houston_llm::{PROVIDERS, Provider, capabilities};

use super::{Kind, Loaded, USE_CASES, kinds};

impl Loaded {
    /// The names that agents may use. `read_files` reads the agent types again at each call.
    pub(crate) fn agent_sources(&self) -> AgentSources {
        let (folders, tools, servers) = (self.folders.clone(), self.tools.clone(), self.mcp.servers.clone());
        let packs = self.settings.packs.clone();
        let read = move || kinds::load(&folders, &tools, &servers, &packs).map(types);
        AgentSources {
            tools: self.tools.clone(),
            use_cases: USE_CASES.map(str::to_owned).to_vec(),
            providers: PROVIDERS.iter().map(provider).collect(),
            nearest_model: capabilities::nearest,
            limits: self.settings.orchestrator.limits,
            overseer: self.settings.overseer,
            read_files: Arc::new(move || read().map_err(|error| error.to_string())),
        }
    }
}

/// The agent types, without their origins.
pub(super) fn types(kinds: BTreeMap<String, Kind>) -> BTreeMap<String, AgentType> {
    kinds.into_iter().map(|(name, kind)| (name, kind.agent_type)).collect()
}

fn provider(row: &Provider) -> ProviderName {
    ProviderName {
        name: row.name.to_owned(),
        aliases: row.aliases.iter().map(|&alias| alias.to_owned()).collect(),
        needs_model: row.default_model.is_empty(),
        is_listed: row.needs_key && !row.default_model.is_empty(),
    }
}
