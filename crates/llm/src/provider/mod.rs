//! The providers, one row each. To add an OpenAI-compatible provider, add a row to [`PROVIDERS`].

mod address;
mod key;
mod rows;

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use houston_domain::model::{ModelError, ModelErrorCode};

pub use self::address::Address;
use self::key::not_configured;
pub use self::rows::PROVIDERS;
use crate::client::{CallContext, Endpoint, HttpModel};
use crate::http::Http;
use crate::ledger::metered;
use crate::model::{Description, Model};
use crate::profile::{Changes, Profile};
use crate::scrub::redacted_address;
use crate::secret::Secret;
use crate::simulated::Simulated;
use crate::wire::Wire;

/// Looks up an environment variable. Only the `cli` crate reads the environment.
pub type Lookup<'a> = &'a (dyn Fn(&str) -> Option<String> + Send + Sync);

/// The header in which a provider expects the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthStyle {
    /// `authorization: Bearer <key>`
    Bearer,
    /// `x-api-key: <key>`
    ApiKeyHeader,
    /// `api-key: <key>` (Azure); Entra tokens are sent as `authorization: Bearer`.
    AzureKeyHeader,
    /// `x-goog-api-key: <key>`
    GoogleKeyHeader,
}

/// A row of the provider table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provider {
    /// The provider's name, e.g. `anthropic`.
    pub name: &'static str,
    /// Other accepted names.
    pub aliases: &'static [&'static str],
    /// The protocol of its models, unless their profiles say otherwise; `None` for the simulated model.
    pub wire: Option<Wire>,
    /// Base URL without a trailing slash; empty when users must set it.
    pub base_url: &'static str,
    /// How request URLs are built from the base URL.
    pub address: Address,
    /// Environment variables that override the base URL; the first one set is used.
    pub url_variables: &'static [&'static str],
    /// Environment variables with the key, or, with `_FILE` appended, with the path of a file that contains it; the
    /// first one set is used.
    pub key_variables: &'static [&'static str],
    /// Another source of the key, as text for messages; empty if there is none.
    pub key_hint: &'static str,
    /// The header for the key.
    pub auth: AuthStyle,
    /// Whether calls require a key.
    pub needs_key: bool,
    /// Whether the provider is chosen automatically when its key is set.
    pub found_by_key: bool,
    /// Whether its models usually support tool calls.
    pub supports_tools: bool,
    /// Model used when none is configured; empty when users must name one. Names as of November 2026.
    pub default_model: &'static str,
    /// Some model names, for suggestions, where no table lists the provider's models. Other names are sent unchanged.
    pub models: &'static [&'static str],
}

/// How similar a provider's name must be to be suggested (Jaro-Winkler, 0 to 1).
const MIN_SIMILARITY: f64 = 0.75;

impl Provider {
    /// Finds a provider by its name or an alias, ignoring case.
    ///
    /// # Errors
    /// `PROVIDER_NOT_SUPPORTED` for an unknown name, with a suggestion and the list of names.
    pub fn named(name: &str) -> Result<&'static Self, ModelError> {
        let lower = name.to_ascii_lowercase();
        if let Some(row) = PROVIDERS.iter().find(|row| row.names().any(|known| known == lower)) {
            return Ok(row);
        }
        let nearest = nearest(PROVIDERS.iter().flat_map(Self::names), &lower, MIN_SIMILARITY);
        let like = nearest.map_or(".".to_owned(), |nearest| format!(": did you mean {nearest}?"));
        let known: Vec<&str> = PROVIDERS.iter().map(|row| row.name).collect();
        let shown: String = name.chars().take(60).collect();
        Err(ModelError::new(
            ModelErrorCode::ProviderNotSupported,
            format!("unknown provider `{shown}`{like} Known providers: {}", known.join(", ")),
        ))
    }

    fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// The base URL from the first variable that is set.
    pub(crate) fn url_variable(&self, lookup: Lookup<'_>) -> Option<String> {
        self.url_variables.iter().find_map(|name| lookup(name).filter(|url| !url.trim().is_empty()))
    }
}

/// The entry of `known` most similar to `name`, if its similarity is at least `least` (Jaro-Winkler, 0 to 1).
pub(crate) fn nearest<'a>(known: impl Iterator<Item = &'a str>, name: &str, least: f64) -> Option<&'a str> {
    let rated = known.map(|known| (strsim::jaro_winkler(known, name), known));
    rated.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(rating, _)| *rating >= least).map(|(_, known)| known)
}

/// A model selection. Fields that are `None` are taken from the provider's row and its environment variables. For
/// example, `Choice::new("groq", "openai/gpt-oss-120b")`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The provider's name or alias.
    pub provider: String,
    /// The model's name, as the provider knows it.
    pub model: String,
    /// Base URL, up to and including the version (`http://127.0.0.1:8080/v1`).
    pub base_url: Option<String>,
    /// The API key.
    pub key: Option<Secret>,
    /// Environment variable with the key, checked before those of the row.
    pub key_variable: Option<String>,
    /// Protocol, for a server that uses another one than its row says.
    pub wire: Option<Wire>,
    /// Whether the model supports tool calls, if that differs from its row.
    pub tools: Option<bool>,
}

impl Choice {
    /// Selects a model of `provider`, with all other settings from the provider's row.
    #[must_use]
    pub fn new(provider: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            provider: provider.into(),
            model: model.into(),
            base_url: None,
            key: None,
            key_variable: None,
            wire: None,
            tools: None,
        }
    }

    /// Whether a key is configured, in the selection or in an environment variable.
    #[must_use]
    pub fn has_key(&self, lookup: Lookup<'_>) -> bool {
        Provider::named(&self.provider).is_ok_and(|row| matches!(key::find(row, self, lookup), Ok(Some(_))))
    }

    /// Describes the model without connecting to it. Also works for an unknown provider, so that its failure can name
    /// it.
    #[must_use]
    pub fn description(&self) -> Description {
        let row = Provider::named(&self.provider).ok();
        Description {
            provider: row.map_or(&*self.provider, |row| row.name).to_owned(),
            model: self.model.clone(),
            simulated: row.is_some_and(|row| row.wire.is_none()),
            supports_tools: self.tools.unwrap_or_else(|| row.is_none_or(|row| row.supports_tools)),
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

/// Parses `provider/model`; the model may contain slashes. A provider alone selects its default model.
///
/// # Errors
/// `PROVIDER_NOT_SUPPORTED` for an unknown provider, with a suggestion.
pub fn parse_choice(text: &str) -> Result<Choice, ModelError> {
    let (provider, model) = text.trim().split_once('/').unwrap_or((text.trim(), ""));
    let row = Provider::named(provider)?;
    Ok(Choice::new(row.name, if model.is_empty() { row.default_model } else { model }))
}

/// A source of access tokens that expire and are used in place of a key.
pub trait TokenSource: Send + Sync {
    /// A valid token; `None` if none is available. Called before each model call, so implementations should cache.
    fn token(&self) -> BoxFuture<'_, Option<Secret>>;
}

/// Creates the model of `choice`. Sends nothing: a rejected key shows in the first call.
///
/// # Errors
/// `PROVIDER_NOT_SUPPORTED` for an unknown provider; `PROVIDER_NOT_CONFIGURED` when the key, model or base URL is
/// missing or invalid. The message names the variable to set.
pub fn connect(choice: &Choice, http: &Http, lookup: Lookup<'_>) -> Result<Arc<dyn Model>, ModelError> {
    connect_with(choice, http, lookup, None)
}

/// Like [`connect`]; if no key is set, each call uses a token from `tokens`.
///
/// # Errors
/// As [`connect`].
pub fn connect_with(
    choice: &Choice,
    http: &Http,
    lookup: Lookup<'_>,
    tokens: Option<Arc<dyn TokenSource>>,
) -> Result<Arc<dyn Model>, ModelError> {
    let own = Changes { wire: choice.wire, ..Changes::default() };
    connect_as(choice, Connection { http, lookup, tokens, own })
}

/// What a model is connected with.
pub(crate) struct Connection<'a> {
    pub(crate) http: &'a Http,
    pub(crate) lookup: Lookup<'a>,
    pub(crate) tokens: Option<Arc<dyn TokenSource>>,
    /// Changes of its profile that take precedence over all rows.
    pub(crate) own: Changes,
}

/// Like [`connect_with`], with a profile that is changed.
///
/// # Errors
/// As [`connect`].
pub(crate) fn connect_as(
    choice: &Choice,
    Connection { http, lookup, tokens, own }: Connection<'_>,
) -> Result<Arc<dyn Model>, ModelError> {
    let row = Provider::named(&choice.provider)?;
    if own.wire.or(row.wire).is_none() {
        return Ok(Arc::new(Simulated::new()));
    }
    if choice.model.trim().is_empty() {
        let what = if row.address == Address::Azure { "the name of a deployment" } else { "a model" };
        return Err(not_configured(format!("{0} needs {what}: write {0}/<name>", row.name)));
    }
    let key = key::find(row, choice, lookup)?;
    let tokens = tokens.filter(|_| key.is_none());
    if key.is_none() && tokens.is_none() && row.needs_key {
        return Err(key::missing(row, choice));
    }
    let named = choice.base_url.clone().or_else(|| row.url_variable(lookup));
    let base = named.as_deref().unwrap_or(row.base_url);
    if base.trim().is_empty() {
        return Err(not_configured(format!(
            "{0} needs a base URL: set {1}, or providers.{0}.base_url in jobs/providers.toml (for example {2})",
            row.name,
            row.url_variables.join(" or "),
            row.address.example(),
        )));
    }
    let profile = Profile::with(row.name, &choice.model, &own);
    let url = |wire: Wire| {
        let url = row.address.base(base, named.is_some(), &choice.model, wire, lookup)?;
        row.address.operation(&url, wire, &choice.model)
    };
    let Some(first) = url(profile.wire) else {
        return Err(not_configured(format!(
            "{}: `{}` is not an http or https URL",
            row.name,
            redacted_address(base)
        )));
    };
    let context = CallContext::new(choice.description(), key, &first);
    let endpoint = Endpoint { url: first, other: profile.wire.alternative().and_then(url) };
    HttpModel::new(context, profile, endpoint, row.auth, http)
        .map(|model| metered(Arc::new(model.with_tokens(tokens))))
}
