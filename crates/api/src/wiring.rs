//! What the process that wires this crate provides, because the crate does not depend on it: the engine's view of an agentable,
//! the configured models, MCP servers of tenants and users, and what the settings of agents may refer to.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use houston_domain::agent::limits::Limits;
use houston_domain::agentable::AgentType;
use houston_domain::answering::Sampling;
use houston_domain::id::{TenantId, UserId};
use houston_domain::mcp_server::ServerSettings;
use houston_domain::mcp_server::pin::ListedTool;
use houston_domain::overseer;
use houston_protocol::model::{EstimateModels, ModelEstimate, ModelsResponse};
use houston_protocol::problem::FieldError;
use houston_store::agentable::Agentable;
use secrecy::SecretString;
use serde_json::Value;

/// The part of the engine's view to compute.
#[derive(Debug, Clone, PartialEq)]
pub enum ExplainTopic {
    /// The prompt that a model would be sent.
    Prompt,
    /// All tools, and for each whether it may be called or why not.
    Tools,
    /// What the guards would say of a call.
    Guard {
        /// The tool.
        tool: String,
        /// Its arguments.
        input: Value,
    },
    /// With what it would run now: a [`houston_domain::trace::Snapshot`].
    Snapshot,
}

/// Why the engine's view could not be computed.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// A query failed.
    #[error(transparent)]
    Store(#[from] houston_store::Error),
    /// The agent type cannot be set up in this process, e.g. because a provider has no key.
    #[error("the agent type cannot be set up: {0}")]
    SetUp(#[source] Box<dyn std::error::Error + Send + Sync>),
}

type ExplainFuture = BoxFuture<'static, Result<Value, ExplainError>>;

/// The function that computes the engine's view of an agentable.
///
/// ```ignore
/// Explain::new(|topic, agentable| Box::pin(async move {
///     match topic {
///         ExplainTopic::Prompt => Ok(json!(engine.preview(&agentable).await?)),
///         ExplainTopic::Tools => Ok(json!({"data": engine.tools(&agentable).await?})),
///         ExplainTopic::Guard { tool, input } => Ok(json!(engine.guard(&agentable, tool, input).await?)),
///         ExplainTopic::Snapshot => Ok(json!(engine.snapshot(&agentable).await?)),
///     }
/// }))
/// ```
#[derive(Clone)]
pub struct Explain(Arc<dyn Fn(ExplainTopic, Agentable) -> ExplainFuture + Send + Sync>);

impl Explain {
    /// Wraps `explain`. Its JSON is the body of the response.
    pub fn new(explain: impl Fn(ExplainTopic, Agentable) -> ExplainFuture + Send + Sync + 'static) -> Self {
        Self(Arc::new(explain))
    }

    pub(crate) fn get(&self, topic: ExplainTopic, agentable: Agentable) -> ExplainFuture {
        (self.0)(topic, agentable)
    }
}

impl fmt::Debug for Explain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Explain")
    }
}

/// A setting that a model does not accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedSetting {
    /// `temperature`, `top_p`, `stop` or `effort`.
    pub setting: &'static str,
    /// Which model, and why, for people.
    pub why: String,
}

/// The models of the installation. This crate calls none.
pub trait ModelCatalogue: fmt::Debug + Send + Sync {
    /// The configured models and their routes, without measured speeds. Nothing of it is secret.
    fn models(&self) -> BoxFuture<'_, Result<ModelsResponse, ExplainError>>;

    /// The first of these settings that a model does not accept, and why. `model`: as `own_model` of [`Self::estimate`]; of a
    /// use case the first model counts.
    fn refusal(
        &self,
        model: String,
        sampling: Sampling,
    ) -> BoxFuture<'_, Result<Option<RefusedSetting>, ExplainError>>;

    /// What a request would cost. `own_model`: the model of the agent that is asked about, as `provider/model`, or the name of a
    /// provider, or of a use case. The inner error says which field names what does not exist.
    fn estimate(
        &self,
        asked: EstimateModels,
        own_model: Option<String>,
    ) -> BoxFuture<'_, Result<Result<ModelEstimate, FieldError>, ExplainError>>;
}

/// Reaches MCP servers of tenants and users.
pub trait ForeignServers: fmt::Debug + Send + Sync {
    /// What is wrong with an address or with headers: a JSON Pointer, and what is allowed. Nothing is sent.
    fn problem(&self, url: &str, headers: &BTreeMap<String, SecretString>) -> Option<(&'static str, String)>;

    /// The tools that a server lists now, within 8 s. The error says why not, without secrets.
    fn tools(&self, server: ForeignServer) -> BoxFuture<'_, Result<Vec<ListedTool>, String>>;

    /// Begins a login at a server that uses OAuth. `state`: what the browser brings back. The error says why not, without secrets.
    fn begin_login(
        &self,
        server: ForeignServer,
        state: String,
    ) -> BoxFuture<'_, Result<BegunForeignLogin, String>>;

    /// Ends a login: what is sealed as the account. The error says why not, without secrets.
    fn finish_login(&self, login: ReturnedLogin) -> BoxFuture<'_, Result<SecretString, String>>;
}

/// A login that has begun.
#[derive(Debug)]
pub struct BegunForeignLogin {
    /// What a person opens in a browser.
    pub url: String,
    /// What is kept, sealed, until the browser comes back.
    pub pending: SecretString,
}

/// A login whose browser has come back.
#[derive(Debug)]
pub struct ReturnedLogin {
    /// What was kept.
    pub pending: SecretString,
    /// The code that the authorization server has sent with the browser.
    pub code: SecretString,
    /// Who that server says it is.
    pub issuer: Option<String>,
}

/// A server to be asked for its tools.
#[derive(Debug, Clone)]
pub struct ForeignServer {
    /// The tenant.
    pub tenant: TenantId,
    /// The user whose it is; `None`: the tenant's.
    pub user: Option<UserId>,
    /// Its name.
    pub name: String,
    /// Its address.
    pub url: String,
    /// What its owner says of it.
    pub settings: ServerSettings,
    /// The headers that it gets.
    pub headers: BTreeMap<String, SecretString>,
}

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
