//! What agents made through the API may be made of.

use houston_api::{AgentSources, ProviderName, ReadFiles};
use houston_domain::agent::limits::Limits;
use houston_llm::{PROVIDERS, Provider, limits};

use super::USE_CASES;

/// Of these tools, within these limits; `read_files` reads the kinds anew.
pub(super) fn sources(tools: Vec<String>, limits: Limits, read_files: ReadFiles) -> AgentSources {
    AgentSources {
        tools,
        use_cases: USE_CASES.map(str::to_owned).to_vec(),
        providers: PROVIDERS.iter().map(name).collect(),
        nearest_model: limits::nearest,
        limits,
        read_files,
    }
}

fn name(row: &Provider) -> ProviderName {
    ProviderName {
        name: row.name.to_owned(),
        aliases: row.aliases.iter().map(|&alias| alias.to_owned()).collect(),
        needs_model: row.default_model.is_empty(),
        is_listed: row.needs_key && !row.default_model.is_empty(),
    }
}
