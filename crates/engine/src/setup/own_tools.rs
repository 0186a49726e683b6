//! Tools of a tenant's own: compiled once per version of their source, and added to the setups of runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use houston_domain::id::{TenantId, UserId};
use houston_domain::mcp_server::headers_purpose;
use houston_domain::sealed::{Purpose, SecretKeys};
use houston_domain::tool_source::{SourceSummary, SourceType, purpose};
use houston_store::run_context::RunContext;
use houston_store::tool_source::StoredSource;
use houston_tools::SharedTool;
use houston_tools::endpoint::tools_of_document;
use houston_tools::outside::Web;
use houston_tools::servers::{OwnServer, OwnServers};
use secrecy::SecretString;
use uuid::Uuid;

use crate::setup::cache::Cache;
use crate::setup::kinds::Setups;
use crate::setup::{Setup, guards};

/// Length of the documents of all sources that are kept compiled.
const MAX_CACHED_BYTES: usize = 8 * 1024 * 1024;

/// What the tools of tenants' own need.
#[derive(Clone, Default)]
pub struct OwnToolsParts {
    /// Sends their requests: to the public internet only.
    pub web: Arc<Web>,
    /// The keys of their secrets. Without, they have none.
    pub keys: Option<SecretKeys>,
    /// Makes tools of their MCP servers. Without, those have none.
    pub servers: Option<Arc<dyn OwnServers>>,
}

/// Compiles and caches the tools of tenants' own.
pub(crate) struct OwnTools {
    parts: OwnToolsParts,
    compiled: Cache<Version, Tools>,
}

/// Tools of one source.
pub(crate) type Tools = Arc<[SharedTool]>;

/// A version of a source.
#[derive(PartialEq, Eq, Hash)]
struct Version {
    tenant: TenantId,
    user: Option<Uuid>,
    source: SourceType,
    name: String,
    hash: String,
}

impl Version {
    fn of(tenant: TenantId, summary: &SourceSummary, hash: &str) -> Self {
        let SourceSummary { user, source, name, .. } = summary;
        Self { tenant, user: *user, source: *source, name: name.clone(), hash: hash.to_owned() }
    }
}

impl OwnTools {
    pub(crate) fn new(parts: OwnToolsParts) -> Self {
        Self { parts, compiled: Cache::of(MAX_CACHED_BYTES) }
    }

    /// The tools of a source, if this process has compiled its version.
    fn cached(&self, tenant: TenantId, summary: &SourceSummary) -> Option<Tools> {
        self.compiled.get(&Version::of(tenant, summary, &summary.hash), |_| true)
    }

    /// Compiles a source. One that this version cannot read has no tools.
    async fn compile(&self, tenant: TenantId, summary: &SourceSummary, stored: StoredSource) -> Tools {
        let (version, bytes) = (Version::of(tenant, summary, &stored.hash), stored.document.len());
        let (parts, summary) = (self.parts.clone(), summary.clone());
        // Reading a long document takes too long for a thread of the runtime.
        let compiled = houston_meter::compute(tenant.0, move || match summary.source {
            SourceType::Endpoints => parts.of_endpoints(tenant, &summary, &stored),
            SourceType::McpServer => parts.of_server(tenant, &summary, &stored),
        });
        let tools: Tools = compiled.await.unwrap_or_default().into();
        self.compiled.put(version, Arc::clone(&tools), bytes);
        tools
    }
}

impl OwnToolsParts {
    fn of_endpoints(
        &self,
        tenant: TenantId,
        source: &SourceSummary,
        stored: &StoredSource,
    ) -> Vec<SharedTool> {
        let what = purpose(source.source, &source.name);
        let secrets = self.secrets(tenant, &what, stored.sealed.as_deref()).unwrap_or_default();
        let secrets = |name: &str| secrets.get(name).cloned();
        tools_of_document(&stored.document, &source.name, &secrets, &self.web).unwrap_or_else(|error| {
            tracing::error!(%tenant, %error, "a document of endpoints cannot be read: its tools are not offered");
            Vec::new()
        })
    }

    /// A server whose headers cannot be opened has no tools: it would be called without them.
    fn of_server(&self, tenant: TenantId, source: &SourceSummary, stored: &StoredSource) -> Vec<SharedTool> {
        let SourceSummary { name, user, .. } = source;
        let Some(servers) = &self.servers else { return Vec::new() };
        let what = headers_purpose(user.unwrap_or(tenant.0), name);
        let Some(headers) = self.secrets(tenant, &what, stored.sealed.as_deref()) else { return Vec::new() };
        match serde_json::from_str(&stored.document) {
            Ok(document) => {
                let (user, name, version) = (user.map(UserId), name.clone(), stored.hash.clone());
                servers.tools(OwnServer { tenant, user, name, version, document, headers })
            }
            Err(error) => {
                tracing::error!(%tenant, server = name, %error, "an MCP server cannot be read: its tools are not offered");
                Vec::new()
            }
        }
    }

    /// The secrets of a source; `None`: they cannot be opened.
    fn secrets(
        &self,
        tenant: TenantId,
        what: &str,
        sealed: Option<&[u8]>,
    ) -> Option<BTreeMap<String, SecretString>> {
        let Some(sealed) = sealed else { return Some(BTreeMap::new()) };
        let opened = match &self.keys {
            Some(keys) => {
                keys.open_named(Purpose { tenant, what }, sealed).map_err(|error| error.to_string())
            }
            None => Err("HOUSTON_SECRETS_KEY is not set".to_owned()),
        };
        opened
            .inspect_err(
                |reason| tracing::error!(%tenant, what, reason, "secrets of a tenant cannot be opened"),
            )
            .ok()
    }
}

impl Setups {
    /// The tools of the tenant's own that a run may have, by their sources. What this process has not compiled yet is `read`.
    pub(crate) async fn own_tools_for<'c, E, F>(
        &self,
        setup: &Setup,
        context: &'c RunContext,
        read: impl Fn(TenantId, &'c SourceSummary) -> F,
    ) -> Result<Vec<(&'c SourceSummary, Tools)>, E>
    where
        F: Future<Output = Result<Option<StoredSource>, E>>,
    {
        let mut sources = Vec::new();
        for (tenant, summary) in sources_for(setup, context) {
            let tools = match self.own_tools.cached(tenant, summary) {
                Some(tools) => tools,
                None => match read(tenant, summary).await? {
                    Some(stored) => self.own_tools.compile(tenant, summary, stored).await,
                    None => continue,
                },
            };
            sources.push((summary, tools));
        }
        Ok(sources)
    }

    /// The setup with the tools of these sources that it is to have: all of a source whose kinds include the setup's, and those
    /// that its agent lists. A tool of the installation's keeps its name.
    pub(super) fn extended(&self, setup: &Arc<Setup>, sources: &[(&SourceSummary, Tools)]) -> Arc<Setup> {
        let kind = &setup.agent_type.kind;
        let mut more: Vec<SharedTool> = Vec::new();
        for (source, tools) in sources {
            let is_for_all = source.kinds.contains(kind);
            for tool in tools.iter() {
                let name = &tool.definition().name;
                let is_wanted = is_for_all || setup.unknown_tools.contains(name);
                let is_taken =
                    self.tools.is_taken(name) || more.iter().any(|other| other.definition().name == *name);
                if is_wanted && is_taken {
                    tracing::warn!(
                        source = source.name,
                        tool = name,
                        "a tool of a tenant has a name that is taken"
                    );
                } else if is_wanted {
                    more.push(Arc::clone(tool));
                }
            }
        }
        if more.is_empty() {
            return Arc::clone(setup);
        }
        let mut setup = Setup::clone(setup);
        let with = self.searched(setup.offer_with_results.with(&more), &setup.agent_type);
        setup.offer_all(with, |offer| offer.with(&more));
        Arc::new(guards::without_switched_off(setup))
    }
}

/// The sources that may have tools for a run with this setup.
fn sources_for<'c>(setup: &Setup, context: &'c RunContext) -> Vec<(TenantId, &'c SourceSummary)> {
    let Some((tenant, sources)) = &context.sources else { return Vec::new() };
    let lists_others = !setup.unknown_tools.is_empty();
    let may_have = |source: &&SourceSummary| lists_others || source.kinds.contains(&setup.agent_type.kind);
    let able = setup.model.description().supports_tools;
    sources.iter().filter(|_| able).filter(may_have).map(|source| (*tenant, source)).collect()
}
