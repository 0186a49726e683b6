//! The rows of the provider table. Fields that a row omits are as in [`COMPATIBLE`].

use super::{Address, AuthStyle, Provider};
use crate::protocol::Wire;

/// Defaults: an OpenAI-compatible provider that requires a key.
const COMPATIBLE: Provider = Provider {
    name: "",
    aliases: &[],
    wire: Some(Wire::OpenAiChat),
    base_url: "",
    address: Address::AsGiven,
    url_variables: &[],
    key_variables: &[],
    key_hint: "",
    auth: AuthStyle::Bearer,
    needs_key: true,
    found_by_key: true,
    supports_tools: true,
    default_model: "",
    models: &[],
};

/// Source of Entra tokens, for error messages.
const AZURE_TOKEN: &str = "the token of `az account get-access-token`";

/// All providers, in the order in which [`detect_all`](crate::detect::detect_all) looks for keys.
pub const PROVIDERS: &[Provider] = &[
    Provider {
        name: "anthropic",
        aliases: &["claude"],
        wire: Some(Wire::Anthropic),
        base_url: "https://api.anthropic.com/v1",
        url_variables: &["ANTHROPIC_BASE_URL"],
        key_variables: &["ANTHROPIC_API_KEY"],
        auth: AuthStyle::ApiKeyHeader,
        default_model: "claude-sonnet-5-5",
        ..COMPATIBLE
    },
    Provider {
        name: "openai",
        base_url: "https://api.openai.com/v1",
        url_variables: &["OPENAI_BASE_URL"],
        key_variables: &["OPENAI_API_KEY"],
        default_model: "gpt-5-mini",
        ..COMPATIBLE
    },
    Provider {
        name: "google",
        aliases: &["gemini"],
        wire: Some(Wire::Gemini),
        base_url: "https://generativelanguage.googleapis.com/v1beta",
        url_variables: &["GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"],
        key_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        auth: AuthStyle::GoogleKeyHeader,
        default_model: "gemini-2.5-flash",
        ..COMPATIBLE
    },
    Provider {
        name: "openrouter",
        base_url: "https://openrouter.ai/api/v1",
        url_variables: &["OPENROUTER_BASE_URL"],
        key_variables: &["OPENROUTER_API_KEY"],
        default_model: "anthropic/claude-sonnet-5.5",
        ..COMPATIBLE
    },
    Provider {
        name: "deepseek",
        base_url: "https://api.deepseek.com/v1",
        url_variables: &["DEEPSEEK_BASE_URL"],
        key_variables: &["DEEPSEEK_API_KEY"],
        default_model: "deepseek-v4-flash",
        ..COMPATIBLE
    },
    Provider {
        name: "groq",
        base_url: "https://api.groq.com/openai/v1",
        url_variables: &["GROQ_BASE_URL"],
        key_variables: &["GROQ_API_KEY"],
        default_model: "openai/gpt-oss-120b",
        ..COMPATIBLE
    },
    Provider {
        name: "mistral",
        base_url: "https://api.mistral.ai/v1",
        url_variables: &["MISTRAL_BASE_URL"],
        key_variables: &["MISTRAL_API_KEY"],
        default_model: "mistral-medium-latest",
        ..COMPATIBLE
    },
    Provider {
        name: "xai",
        aliases: &["x-ai", "grok"],
        base_url: "https://api.x.ai/v1",
        url_variables: &["XAI_BASE_URL"],
        key_variables: &["XAI_API_KEY"],
        default_model: "grok-4.3",
        ..COMPATIBLE
    },
    Provider {
        name: "zhipu",
        aliases: &["zai", "z.ai", "z-ai"],
        base_url: "https://api.z.ai/api/paas/v4",
        url_variables: &["ZHIPU_BASE_URL", "ZAI_BASE_URL"],
        key_variables: &["ZHIPU_API_KEY", "ZAI_API_KEY", "ZHIPUAI_API_KEY"],
        default_model: "glm-4.7",
        ..COMPATIBLE
    },
    Provider {
        name: "cohere",
        wire: Some(Wire::Cohere),
        base_url: "https://api.cohere.com/v2",
        url_variables: &["COHERE_BASE_URL"],
        key_variables: &["COHERE_API_KEY", "CO_API_KEY"],
        default_model: "command-a-03-2025",
        ..COMPATIBLE
    },
    Provider {
        name: "together",
        aliases: &["togetherai"],
        base_url: "https://api.together.xyz/v1",
        url_variables: &["TOGETHER_BASE_URL"],
        key_variables: &["TOGETHER_API_KEY"],
        default_model: "meta-llama/Llama-3.3-70B-Instruct-Turbo",
        ..COMPATIBLE
    },
    Provider {
        name: "fireworks",
        aliases: &["fireworksai"],
        base_url: "https://api.fireworks.ai/inference/v1",
        url_variables: &["FIREWORKS_BASE_URL"],
        key_variables: &["FIREWORKS_API_KEY"],
        default_model: "accounts/fireworks/models/deepseek-v4-flash",
        ..COMPATIBLE
    },
    // Its models search and cite, and do not support tool calls.
    Provider {
        name: "perplexity",
        base_url: "https://api.perplexity.ai",
        address: Address::WithoutVersion,
        url_variables: &["PERPLEXITY_BASE_URL"],
        key_variables: &["PERPLEXITY_API_KEY", "PPLX_API_KEY"],
        supports_tools: false,
        default_model: "sonar",
        ..COMPATIBLE
    },
    // The model is the name of a deployment, which users choose.
    Provider {
        name: "azure",
        aliases: &["azure-openai", "azure_openai"],
        address: Address::Azure,
        url_variables: &["AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_BASE_URL"],
        key_variables: &["AZURE_OPENAI_API_KEY"],
        key_hint: AZURE_TOKEN,
        auth: AuthStyle::AzureKeyHeader,
        found_by_key: false,
        ..COMPATIBLE
    },
    Provider {
        name: "foundry",
        aliases: &["azure-foundry", "azure_foundry", "azure-ai"],
        address: Address::Foundry,
        url_variables: &["FOUNDRY_ENDPOINT", "AZURE_INFERENCE_ENDPOINT", "AZURE_AI_ENDPOINT"],
        key_variables: &["FOUNDRY_API_KEY", "AZURE_INFERENCE_CREDENTIAL", "AZURE_AI_API_KEY"],
        key_hint: AZURE_TOKEN,
        auth: AuthStyle::AzureKeyHeader,
        found_by_key: false,
        ..COMPATIBLE
    },
    // The port changes with every start; `foundry service status` prints it.
    Provider {
        name: "foundry-local",
        aliases: &["foundry_local"],
        url_variables: &["FOUNDRY_LOCAL_ENDPOINT"],
        key_variables: &["FOUNDRY_LOCAL_API_KEY"],
        needs_key: false,
        ..COMPATIBLE
    },
    // Many machines have this token for other reasons, so it does not select the provider.
    Provider {
        name: "github",
        aliases: &["github-models", "github_models"],
        base_url: "https://models.github.ai/inference",
        address: Address::GitHub,
        url_variables: &["GITHUB_MODELS_BASE_URL"],
        key_variables: &["GITHUB_TOKEN"],
        key_hint: "the token of `gh auth token`",
        found_by_key: false,
        default_model: "openai/gpt-4.1-mini",
        models: &["openai/gpt-4.1", "openai/gpt-4o", "openai/gpt-4o-mini", "openai/gpt-5-mini"],
        ..COMPATIBLE
    },
    Provider {
        name: "ollama",
        wire: Some(Wire::Ollama),
        base_url: "http://127.0.0.1:11434",
        url_variables: &["OLLAMA_BASE_URL"],
        key_variables: &["OLLAMA_API_KEY"],
        needs_key: false,
        default_model: "gpt-oss:20b",
        ..COMPATIBLE
    },
    Provider {
        name: "local",
        url_variables: &["HOUSTON_LOCAL_URL"],
        key_variables: &["HOUSTON_LOCAL_KEY"],
        needs_key: false,
        default_model: "default",
        ..COMPATIBLE
    },
    // Configured entirely by the user.
    Provider {
        name: "custom",
        url_variables: &["HOUSTON_CUSTOM_URL"],
        key_variables: &["HOUSTON_CUSTOM_KEY"],
        needs_key: false,
        ..COMPATIBLE
    },
    Provider { name: "simulated", wire: None, needs_key: false, default_model: "simulated", ..COMPATIBLE },
];
