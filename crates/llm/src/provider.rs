//! The providers: one row each. Adding an OpenAI-compatible one means adding a row to [`PROVIDERS`].

use std::fmt;
use std::sync::Arc;

use houston_domain::model::{ModelError, ModelErrorCode};

use crate::client::{Caller, HttpModel};
use crate::http::Http;
use crate::model::{Description, Model};
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
    /// `api-key: <key>` (Azure)
    AzureKeyHeader,
    /// `x-goog-api-key: <key>`
    GoogleKeyHeader,
}

/// What is known of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provider {
    /// As in `anthropic/claude-…` before the slash.
    pub name: &'static str,
    /// What it speaks; `None` for the simulated model.
    pub wire: Option<Wire>,
    /// What it speaks differently from the rest of its wire.
    pub dialect: Dialect,
    /// Where it is, without a trailing slash; empty when only the user knows.
    pub base_url: &'static str,
    /// The variable that names another base URL.
    pub url_variable: &'static str,
    /// The variable that holds the key.
    pub key_variable: &'static str,
    /// How the key is sent.
    pub auth: AuthStyle,
    /// Whether it refuses to work without.
    pub needs_key: bool,
    /// Whether its models usually call tools.
    pub supports_tools: bool,
    /// Used when nobody named a model. The names were current in November 2026.
    pub default_model: &'static str,
}

/// An OpenAI-compatible provider that needs a key, which is most of them.
const COMPATIBLE: Provider = Provider {
    name: "",
    wire: Some(Wire::OpenAiChat),
    dialect: Dialect::COMPATIBLE,
    base_url: "",
    url_variable: "",
    key_variable: "",
    auth: AuthStyle::Bearer,
    needs_key: true,
    supports_tools: true,
    default_model: "",
};

/// All of them, in the order in which [`detect`](crate::detect::detect) looks for a key.
pub const PROVIDERS: &[Provider] = &[
    Provider {
        name: "anthropic",
        wire: Some(Wire::Anthropic),
        base_url: "https://api.anthropic.com/v1",
        url_variable: "ANTHROPIC_BASE_URL",
        key_variable: "ANTHROPIC_API_KEY",
        auth: AuthStyle::ApiKeyHeader,
        default_model: "claude-sonnet-5-5",
        ..COMPATIBLE
    },
    Provider {
        name: "openai",
        dialect: Dialect::OPENAI,
        base_url: "https://api.openai.com/v1",
        url_variable: "OPENAI_BASE_URL",
        key_variable: "OPENAI_API_KEY",
        default_model: "gpt-5-mini",
        ..COMPATIBLE
    },
    Provider {
        name: "openrouter",
        base_url: "https://openrouter.ai/api/v1",
        url_variable: "OPENROUTER_BASE_URL",
        key_variable: "OPENROUTER_API_KEY",
        default_model: "anthropic/claude-sonnet-5.5",
        ..COMPATIBLE
    },
    Provider {
        name: "deepseek",
        dialect: Dialect::DEEPSEEK,
        base_url: "https://api.deepseek.com/v1",
        url_variable: "DEEPSEEK_BASE_URL",
        key_variable: "DEEPSEEK_API_KEY",
        default_model: "deepseek-v4-flash",
        ..COMPATIBLE
    },
    Provider {
        name: "groq",
        base_url: "https://api.groq.com/openai/v1",
        url_variable: "GROQ_BASE_URL",
        key_variable: "GROQ_API_KEY",
        default_model: "openai/gpt-oss-120b",
        ..COMPATIBLE
    },
    Provider {
        name: "mistral",
        dialect: Dialect::MISTRAL,
        base_url: "https://api.mistral.ai/v1",
        url_variable: "MISTRAL_BASE_URL",
        key_variable: "MISTRAL_API_KEY",
        default_model: "mistral-medium-latest",
        ..COMPATIBLE
    },
    Provider {
        name: "xai",
        base_url: "https://api.x.ai/v1",
        url_variable: "XAI_BASE_URL",
        key_variable: "XAI_API_KEY",
        default_model: "grok-4.3",
        ..COMPATIBLE
    },
    Provider {
        name: "together",
        base_url: "https://api.together.xyz/v1",
        url_variable: "TOGETHER_BASE_URL",
        key_variable: "TOGETHER_API_KEY",
        default_model: "meta-llama/Llama-3.3-70B-Instruct-Turbo",
        ..COMPATIBLE
    },
    Provider {
        name: "fireworks",
        base_url: "https://api.fireworks.ai/inference/v1",
        url_variable: "FIREWORKS_BASE_URL",
        key_variable: "FIREWORKS_API_KEY",
        default_model: "accounts/fireworks/models/deepseek-v4-flash",
        ..COMPATIBLE
    },
    Provider {
        name: "ollama",
        base_url: "http://127.0.0.1:11434/v1",
        url_variable: "OLLAMA_BASE_URL",
        key_variable: "OLLAMA_API_KEY",
        needs_key: false,
        default_model: "gpt-oss:20b",
        ..COMPATIBLE
    },
    Provider {
        name: "local",
        url_variable: "HOUSTON_LOCAL_URL",
        key_variable: "HOUSTON_LOCAL_KEY",
        needs_key: false,
        default_model: "default",
        ..COMPATIBLE
    },
    Provider { name: "simulated", wire: None, needs_key: false, default_model: "simulated", ..COMPATIBLE },
];

impl Provider {
    /// The row called `name`.
    ///
    /// # Errors
    /// `PROVIDER_NOT_SUPPORTED`, naming the nearest row.
    pub fn named(name: &str) -> Result<&'static Self, ModelError> {
        let lower = name.to_ascii_lowercase();
        if let Some(row) = PROVIDERS.iter().find(|row| row.name == lower) {
            return Ok(row);
        }
        let nearest = PROVIDERS.iter().max_by(|a, b| {
            strsim::jaro_winkler(a.name, &lower).total_cmp(&strsim::jaro_winkler(b.name, &lower))
        });
        let nearest = nearest.map_or("simulated", |row| row.name);
        let known: Vec<&str> = PROVIDERS.iter().map(|row| row.name).collect();
        let shown: String = name.chars().take(60).collect();
        Err(ModelError::new(
            ModelErrorCode::ProviderNotSupported,
            format!("no provider is called `{shown}`: did you mean {nearest}? Known: {}", known.join(", ")),
        ))
    }
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
            wire: None,
            tools: None,
        }
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

/// Makes a model of a choice. Nothing is sent yet: a wrong key shows in the first call.
///
/// # Errors
/// `PROVIDER_NOT_SUPPORTED` for an unknown provider; `PROVIDER_NOT_CONFIGURED` when the key or the base URL
/// is missing or unusable, in one line that names the variable to set.
pub fn connect(choice: &Choice, http: &Http, lookup: Lookup<'_>) -> Result<Arc<dyn Model>, ModelError> {
    let row = Provider::named(&choice.provider)?;
    let Some(wire) = choice.wire.or(row.wire) else {
        return Ok(Arc::new(Simulated::new()));
    };
    let not_configured = |message| ModelError::new(ModelErrorCode::ProviderNotConfigured, message);

    let key = choice.key.clone().or_else(|| key_of(row, lookup)).filter(|key| !key.is_empty());
    if key.is_none() && row.needs_key {
        return Err(not_configured(format!(
            "{} needs a key: set {} (or choose another model with HOUSTON_MODEL=provider/model)",
            row.name, row.key_variable
        )));
    }
    let base =
        choice.base_url.clone().or_else(|| lookup(row.url_variable).filter(|url| !url.trim().is_empty()));
    let base = base.as_deref().unwrap_or(row.base_url);
    if base.is_empty() {
        return Err(not_configured(format!(
            "{} needs the address of a server: set {} (for example http://127.0.0.1:8080/v1)",
            row.name, row.url_variable
        )));
    }
    let Some(url) = wire.url(base, &choice.model) else {
        return Err(not_configured(format!("{}: `{base}` is no http or https address", row.name)));
    };
    HttpModel::new(Caller::new(choice.description(), key), wire, row.dialect, url, row.auth, http)
        .map(|model| Arc::new(model) as Arc<dyn Model>)
}

/// The key in the provider's variable.
pub(crate) fn key_of(row: &Provider, lookup: Lookup<'_>) -> Option<Secret> {
    if row.key_variable.is_empty() {
        return None;
    }
    lookup(row.key_variable).map(|key| Secret::new(&key)).filter(|key| !key.is_empty())
}
