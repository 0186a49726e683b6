//! The rows of the provider table.

use std::sync::LazyLock;

use super::{Address, AuthStyle, Provider};
use crate::protocol::Wire;

/// All providers, in the order in which [`detect_all`](crate::detect::detect_all) looks for keys.
pub static PROVIDERS: LazyLock<Vec<Provider>> =
    LazyLock::new(|| crate::of_data(include_str!("../../data/providers.json")));

impl Default for Provider {
    /// What a row leaves out: an OpenAI-compatible provider that requires a key.
    fn default() -> Self {
        Self {
            name: "",
            aliases: Vec::new(),
            wire: Some(Wire::OpenAiChat),
            base_url: "",
            address: Address::AsGiven,
            url_variables: Vec::new(),
            key_variables: Vec::new(),
            key_hint: "",
            auth: AuthStyle::Bearer,
            needs_key: true,
            found_by_key: true,
            supports_tools: true,
            default_model: "",
            models: Vec::new(),
            why: "",
        }
    }
}
