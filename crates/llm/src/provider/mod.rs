//! The providers: one row each. Adding an OpenAI-compatible one means adding a row to [`PROVIDERS`].

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
use crate::client::{CallContext, HttpModel};
use crate::http::Http;
use crate::model::{Description, Model};
use crate::scrub::redacted_address;
use crate::secret::Secret;
use crate::simulated::Simulated;
use crate::wire::{Dialect, Wire};

/// Where the values of environment variables come from. The environment itself is read in `cli` alone.
pub type Lookup<'a> = &'a (dyn Fn(&str) -> Option<String> + Send + Sync);

/// How a provider wants to be shown the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthStyle {
    /// `authorization: Bearer <key>`
    Bearer,
    /// `x-api-key: <key>`
    ApiKeyHeader,
    /// `api-key: <key>` (Azure); a token of Entra goes as `Bearer`.
    AzureKeyHeader,
    /// `x-goog-api-key: <key>`
    GoogleKeyHeader,
}

/// What is known of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provider {
    /// As in `anthropic/claude-…` before the slash.
    pub name: &'static str,
    /// Other names it is known by.
    pub aliases: &'static [&'static str],
    /// What it speaks; `None` for the simulated model.
    pub wire: Option<Wire>,
    /// What it speaks differently from the rest of its wire.
    pub dialect: Dialect,
    /// Where it is, without a trailing slash; empty when only the user knows.
    pub base_url: &'static str,
    /// What becomes of the base URL.
    pub address: Address,
    /// The variables that name another base URL; the first that is set counts.
    pub url_variables: &'static [&'static str],
    /// The variables that hold the key, or with `_FILE` behind their name a file with it; the first that is set
    /// counts.
    pub key_variables: &'static [&'static str],
    /// Where else a key may come from, in words; empty for nowhere.
    pub key_hint: &'static str,
    /// How the key is sent.
    pub auth: AuthStyle,
    /// Whether it refuses to work without.
    pub needs_key: bool,
    /// Whether a key alone is enough to choose it when nobody chose.
    pub found_by_key: bool,
    /// Whether its models usually call tools.
    pub supports_tools: bool,
    /// Used when nobody named a model; empty when only the user knows one. The names were current in November
    /// 2026.
    pub default_model: &'static str,
    /// Some of its models, to recognise a slip, where no table has them. Any other name is sent as it is.
    pub models: &'static [&'static str],
}

/// How like a row's name must be to be suggested (Jaro-Winkler, 0 to 1).
const MIN_SIMILARITY: f64 = 0.75;

impl Provider {
    /// The row called `name`, or known by it.
    ///
    /// # Errors
    /// `PROVIDER_NOT_SUPPORTED`, naming the nearest row.
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
            format!("no provider is called `{shown}`{like} Known: {}", known.join(", ")),
        ))
    }

    fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// The base URL that one of its variables names.
    pub(crate) fn url_variable(&self, lookup: Lookup<'_>) -> Option<String> {
        self.url_variables.iter().find_map(|name| lookup(name).filter(|url| !url.trim().is_empty()))
    }
}

/// Of `known`, the name most like `name`, if it is at least `least` like it (Jaro-Winkler, 0 to 1).
pub(crate) fn nearest<'a>(known: impl Iterator<Item = &'a str>, name: &str, least: f64) -> Option<&'a str> {
    let rated = known.map(|known| (strsim::jaro_winkler(known, name), known));
    rated.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(rating, _)| *rating >= least).map(|(_, known)| known)
}

/// A model to talk to. What is `None` is taken from the provider's row and its variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// A row's name.
    pub provider: String,
    /// The model's name, as the provider knows it.
    pub model: String,
    /// Where the provider is, up to and including its version (`http://127.0.0.1:8080/v1`).
    pub base_url: Option<String>,
    /// The key.
    pub key: Option<Secret>,
    /// A variable that holds it, looked at before those of the row.
    pub key_variable: Option<String>,
    /// What it speaks, for a server that speaks something else than its row says.
    pub wire: Option<Wire>,
    /// Whether it can call tools, for a model that differs from what its row says.
    pub tools: Option<bool>,
}

impl Choice {
    /// A provider's model with everything else as its row says.
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

    /// Whether a key is found where it, or its row, says.
    #[must_use]
    pub fn has_key(&self, lookup: Lookup<'_>) -> bool {
        Provider::named(&self.provider).is_ok_and(|row| matches!(key::find(row, self, lookup), Ok(Some(_))))
    }

    /// Describes the model without connecting to it; for an unknown provider too, so that its failure has a
    /// name.
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

/// Reads `provider/model`; the model may hold slashes. A provider alone means its default model.
///
/// # Errors
/// `PROVIDER_NOT_SUPPORTED`, naming the nearest provider.
pub fn parse_choice(text: &str) -> Result<Choice, ModelError> {
    let (provider, model) = text.trim().split_once('/').unwrap_or((text.trim(), ""));
    let row = Provider::named(provider)?;
    Ok(Choice::new(row.name, if model.is_empty() { row.default_model } else { model }))
}

/// Issues tokens that stand for a key and expire.
pub trait TokenSource: Send + Sync {
    /// A token that is valid now; `None` when there is none. Asked before each call, so it must be cached.
    fn token(&self) -> BoxFuture<'_, Option<Secret>>;
}

/// Makes a model of a choice. Nothing is sent yet: a wrong key shows in the first call.
///
/// # Errors
/// `PROVIDER_NOT_SUPPORTED` for an unknown provider; `PROVIDER_NOT_CONFIGURED` when the key or the base URL
/// is missing or unusable, in one line that names the variable to set.
pub fn connect(choice: &Choice, http: &Http, lookup: Lookup<'_>) -> Result<Arc<dyn Model>, ModelError> {
    connect_with(choice, http, lookup, None)
}

/// As [`connect`]; where no key is set, each call is made with a token of `tokens`.
///
/// # Errors
/// As [`connect`].
pub fn connect_with(
    choice: &Choice,
    http: &Http,
    lookup: Lookup<'_>,
    tokens: Option<Arc<dyn TokenSource>>,
) -> Result<Arc<dyn Model>, ModelError> {
    let row = Provider::named(&choice.provider)?;
    let Some(wire) = choice.wire.or(row.wire) else {
        return Ok(Arc::new(Simulated::new()));
    };
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
            "{0} needs the address of a server: set {1} or providers.{0}.base_url in jobs/providers.toml (for example {2})",
            row.name,
            row.url_variables.join(" or "),
            row.address.example(),
        )));
    }
    let url = row.address.base(base, named.is_some(), &choice.model, lookup);
    let Some(url) = url.and_then(|url| row.address.operation(&url, wire, &choice.model)) else {
        return Err(not_configured(format!(
            "{}: `{}` is no http or https address",
            row.name,
            redacted_address(base)
        )));
    };
    HttpModel::new(CallContext::new(choice.description(), key, &url), wire, row.dialect, url, row.auth, http)
        .map(|model| Arc::new(model.with_tokens(tokens)) as Arc<dyn Model>)
}
