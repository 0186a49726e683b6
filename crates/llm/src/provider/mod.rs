//! The providers, one row each, with their addresses and the keys to them. To add an OpenAI-compatible
//! provider, add a row to `data/providers.json`.

mod rows;

use std::fmt;
use std::fs::File;
use std::io::Read as _;

use futures_util::future::BoxFuture;
use houston_domain::model::{ModelError, ModelErrorCode};
use reqwest::Url;
use serde::Deserialize;

use crate::protocol::Wire;
use crate::secret::Secret;

pub use self::rows::PROVIDERS;

/// Looks up an environment variable. Only the `cli` crate reads the environment.
pub type Lookup<'a> = &'a (dyn Fn(&str) -> Option<String> + Send + Sync);

/// The header in which a provider expects the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
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

/// A row of the provider table, `data/providers.json`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Provider {
    /// The provider's name, e.g. `anthropic`.
    pub name: &'static str,
    /// Other accepted names.
    #[serde(borrow)]
    pub aliases: Vec<&'static str>,
    /// The protocol of its models, unless their profiles say otherwise; `None` for the simulated model.
    pub wire: Option<Wire>,
    /// Base URL without a trailing slash; empty when users must set it.
    pub base_url: &'static str,
    /// How request URLs are built from the base URL.
    pub address: Address,
    /// Environment variables that override the base URL; the first one set is used.
    #[serde(borrow)]
    pub url_variables: Vec<&'static str>,
    /// Environment variables with the key, or, with `_FILE` appended, with the path of a file that contains it; the
    /// first one set is used.
    #[serde(borrow)]
    pub key_variables: Vec<&'static str>,
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
    #[serde(borrow)]
    pub models: Vec<&'static str>,
    /// For people who read the table.
    pub why: &'static str,
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

    fn names(&'static self) -> impl Iterator<Item = &'static str> {
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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
    pub fn new(provider: impl Into<String>, model: impl Into<String>) -> Self {
        Self { provider: provider.into(), model: model.into(), ..Self::default() }
    }

    /// Whether a key is configured, in the selection or in an environment variable.
    pub fn has_key(&self, lookup: Lookup<'_>) -> bool {
        Provider::named(&self.provider).is_ok_and(|row| matches!(find_key(row, self, lookup), Ok(Some(_))))
    }

    /// Describes the model without connecting to it. Also works for an unknown provider, so that its failure can name
    /// it.
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

/// Identifies a model and says what Houston must know about it. Displayed as `provider/model`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// The provider's name, e.g. `anthropic`.
    pub provider: String,
    /// The model's name, as the provider knows it.
    pub model: String,
    /// Whether answers come from rules instead of a language model. Simulated answers must be labelled as such.
    pub simulated: bool,
    /// Whether the model supports tool calls.
    pub supports_tools: bool,
}

impl fmt::Display for Description {
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

/// API version of Azure AI Foundry's inference API, unless another one is set.
const FOUNDRY_VERSION: &str = "2024-05-01-preview";

/// How request URLs are built from the base URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Address {
    /// The base URL; the wire appends the operation.
    AsGiven,
    /// Like [`AsGiven`](Self::AsGiven), for a provider without a version in its URLs.
    WithoutVersion,
    /// `{endpoint}/openai/v1`, with the model in the body; if an API version is set,
    /// `{endpoint}/openai/deployments/{model}?api-version=…`.
    Azure,
    /// `{endpoint}/models?api-version=…`.
    Foundry,
    /// `https://models.github.ai/orgs/{org}/inference` if an organisation is set.
    #[serde(rename = "github")]
    GitHub,
}

impl Address {
    /// An example base URL for error messages.
    pub(crate) fn example(self) -> &'static str {
        match self {
            Self::Azure => "https://<resource>.openai.azure.com",
            Self::Foundry => "https://<resource>.services.ai.azure.com",
            _ => "http://127.0.0.1:8080/v1",
        }
    }

    /// The complete base URL for `model`. `named` says whether the user set `base`. `None` when `base` is not a URL.
    pub(crate) fn base(
        self,
        base: &str,
        named: bool,
        model: &str,
        wire: Wire,
        lookup: Lookup<'_>,
    ) -> Option<Url> {
        let mut url = Url::parse(base.trim()).ok()?;
        if url.cannot_be_a_base() {
            return None;
        }
        let variable = |names: &[&str]| {
            names.iter().find_map(|name| lookup(name).filter(|value| !value.trim().is_empty()))
        };
        match self {
            Self::AsGiven | Self::WithoutVersion => {}
            Self::GitHub => {
                if let Some(organisation) = variable(&["GITHUB_MODELS_ORG"]).filter(|_| !named) {
                    let mut path = url.path_segments_mut().ok()?;
                    path.clear().extend(["orgs", organisation.trim(), "inference"]);
                }
            }
            Self::Azure => {
                let path = url.path().trim_end_matches('/').to_owned();
                // Responses has no address by deployment, and the address that it has takes no dated version:
                // <https://learn.microsoft.com/azure/ai-foundry/openai/api-version-lifecycle>.
                let by_deployment = wire != Wire::OpenAiResponses;
                let version = variable(&["AZURE_OPENAI_API_VERSION", "OPENAI_API_VERSION"]);
                let version = version.filter(|_| by_deployment);
                if !by_deployment && let Some((resource, _)) = path.split_once("/openai/deployments/") {
                    url.set_path(&format!("{resource}/openai/v1"));
                    url.set_query(None);
                    return Some(url);
                }
                if !path.contains("/deployments/") && !path.ends_with("/v1") {
                    url.set_path(path.strip_suffix("/openai").unwrap_or(&path));
                    let versioned = by_deployment && (version.is_some() || has_version(&url));
                    if !by_deployment {
                        url.set_query(None);
                    }
                    let mut path = url.path_segments_mut().ok()?;
                    path.pop_if_empty().push("openai");
                    if versioned {
                        path.extend(["deployments", model])
                    } else {
                        path.push("v1")
                    };
                }
                set_version(&mut url, version.as_deref());
            }
            Self::Foundry => {
                let path = url.path().trim_end_matches('/').to_owned();
                if path.is_empty() || path.ends_with("/models") {
                    url.set_path(if path.is_empty() { "/models" } else { &path });
                    let version = variable(&["FOUNDRY_API_VERSION", "AZURE_INFERENCE_API_VERSION"]);
                    set_version(&mut url, Some(version.as_deref().unwrap_or(FOUNDRY_VERSION)));
                }
            }
        }
        Some(url)
    }

    /// The URL for requests to `model`. `None` when `base` is not an HTTP URL.
    pub(crate) fn operation(self, base: &Url, wire: Wire, model: &str) -> Option<Url> {
        let mut url = wire.url(base.as_str(), model)?;
        if self == Self::WithoutVersion && base.path() == "/" {
            let path = url.path().strip_prefix("/v1").unwrap_or(url.path()).to_owned();
            url.set_path(&path);
        }
        Some(url)
    }
}

fn has_version(url: &Url) -> bool {
    url.query_pairs().any(|(name, _)| name == "api-version")
}

/// A version that is already in the URL takes precedence.
fn set_version(url: &mut Url, version: Option<&str>) {
    if let Some(version) = version.filter(|_| !has_version(url)) {
        url.query_pairs_mut().append_pair("api-version", version.trim());
    }
}

/// Longest key file read, in bytes: a signed token has a few thousand.
const LONGEST: u64 = 64 << 10;

/// Finds the first key: the one in `choice`, the variable it names, then the variables of the row. For each variable,
/// `<VARIABLE>_FILE` may contain the path of a file with the key, as with Docker secrets.
///
/// # Errors
/// `PROVIDER_NOT_CONFIGURED` when a key file cannot be read or is empty.
pub(crate) fn find_key(
    row: &Provider,
    choice: &Choice,
    lookup: Lookup<'_>,
) -> Result<Option<Secret>, ModelError> {
    if let Some(key) = choice.key.as_ref().filter(|key| !key.is_empty()) {
        return Ok(Some(key.clone()));
    }
    for variable in variables(row, choice) {
        if let Some(key) = in_variable(row, variable, lookup)? {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

/// The error for a missing key: what to set, and where it was looked for.
pub(crate) fn missing_key(row: &Provider, choice: &Choice) -> ModelError {
    let variables: Vec<&str> = variables(row, choice).collect();
    let first = variables.first().copied().unwrap_or_default();
    let mut sources: Vec<String> =
        variables.iter().flat_map(|name| [(*name).to_owned(), format!("{name}_FILE")]).collect();
    sources.push(format!("providers.{}.key in jobs/providers.toml", row.name));
    if !row.key_hint.is_empty() {
        sources.push(row.key_hint.to_owned());
    }
    not_configured(format!(
        "{} needs a key: set {first} (or choose another model with HOUSTON_MODEL=provider/model). Looked in: {}",
        row.name,
        sources.join(", ")
    ))
}

fn variables<'a>(row: &'a Provider, choice: &'a Choice) -> impl Iterator<Item = &'a str> {
    choice.key_variable.as_deref().into_iter().chain(row.key_variables.iter().copied())
}

fn in_variable(row: &Provider, variable: &str, lookup: Lookup<'_>) -> Result<Option<Secret>, ModelError> {
    if let Some(key) = lookup(variable).map(|key| Secret::new(&key)).filter(|key| !key.is_empty()) {
        return Ok(Some(key));
    }
    let name = format!("{variable}_FILE");
    let Some(path) = lookup(&name).filter(|path| !path.trim().is_empty()) else { return Ok(None) };
    let refuse = |why: &dyn std::fmt::Display| {
        not_configured(format!(
            "{}: {name} names `{}`, which contains no usable key: {why}",
            row.name,
            path.trim()
        ))
    };
    let mut text = String::new();
    let read = File::open(path.trim()).and_then(|file| file.take(LONGEST).read_to_string(&mut text));
    read.map_err(|error| refuse(&error))?;
    let key = Secret::new(&text);
    if key.is_empty() { Err(refuse(&"it is empty")) } else { Ok(Some(key)) }
}

/// The error for settings that are missing or wrong.
pub(crate) fn not_configured(message: impl Into<String>) -> ModelError {
    ModelError::new(ModelErrorCode::ProviderNotConfigured, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(address: Address, base: &str, variables: &[(&str, &str)]) -> String {
        let variables: Vec<(String, String)> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let lookup = move |name: &str| {
            variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
        };
        address.base(base, false, "my deployment", Wire::OpenAiChat, &lookup).unwrap().to_string()
    }

    #[test]
    fn azure_url_depends_on_the_api_version() {
        let version = [("AZURE_OPENAI_API_VERSION", "2024-10-21")];
        let azure = |given: &str, variables| base(Address::Azure, given, variables);
        assert_eq!(azure("https://x.openai.azure.com/", &[]), "https://x.openai.azure.com/openai/v1");
        assert_eq!(azure("https://x.openai.azure.com/openai", &[]), "https://x.openai.azure.com/openai/v1");
        assert_eq!(azure("https://x/openai/v1/", &[]), "https://x/openai/v1/");
        let deployment =
            "https://x.openai.azure.com/openai/deployments/my%20deployment?api-version=2024-10-21";
        assert_eq!(azure("https://x.openai.azure.com", &version), deployment);
        assert_eq!(azure("https://x.openai.azure.com?api-version=2024-10-21", &[]), deployment);
        assert_eq!(
            azure("https://x/openai/deployments/d?api-version=1", &version),
            "https://x/openai/deployments/d?api-version=1"
        );
    }

    #[test]
    fn azure_serves_responses_at_one_address() {
        let lookup = |name: &str| (name == "AZURE_OPENAI_API_VERSION").then(|| "2024-10-21".to_owned());
        for given in [
            "https://x.openai.azure.com",
            "https://x.openai.azure.com/openai",
            "https://x.openai.azure.com?api-version=2024-10-21",
            "https://x.openai.azure.com/openai/deployments/gpt?api-version=2024-10-21",
        ] {
            let base = Address::Azure.base(given, true, "gpt", Wire::OpenAiResponses, &lookup).unwrap();
            assert_eq!(base.as_str(), "https://x.openai.azure.com/openai/v1", "{given}");
        }
    }

    #[test]
    fn foundry_and_github_urls_are_built() {
        let foundry = |given: &str, variables| base(Address::Foundry, given, variables);
        let given = "https://x.services.ai.azure.com";
        assert_eq!(foundry(given, &[]), format!("{given}/models?api-version=2024-05-01-preview"));
        assert_eq!(
            foundry(&format!("{given}/models/"), &[("FOUNDRY_API_VERSION", "9")]),
            format!("{given}/models?api-version=9")
        );
        assert_eq!(foundry("http://127.0.0.1:5273/v1", &[]), "http://127.0.0.1:5273/v1");
        let github = |variables| base(Address::GitHub, "https://models.github.ai/inference", variables);
        assert_eq!(github(&[]), "https://models.github.ai/inference");
        assert_eq!(github(&[("GITHUB_MODELS_ORG", "acme")]), "https://models.github.ai/orgs/acme/inference");
    }
}
