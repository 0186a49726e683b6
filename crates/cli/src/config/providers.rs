//! The structs of `jobs/providers.toml`.

use houston_llm::{Secret, Wire, redacted_address};
use serde::{Deserialize, Serialize, Serializer};

/// The settings of one provider:
///
/// ```toml
/// [custom]
/// base_url = "http://127.0.0.1:1234/v1"
/// key_variable = "MY_KEY"
/// ```
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ProviderSettings {
    /// The address including the API version, e.g. `https://api.openai.com/v1`. Credentials in it are never printed.
    #[serde(serialize_with = "redacted")]
    pub(crate) base_url: Option<String>,
    /// The format of requests and responses.
    pub(crate) wire: Option<Wire>,
    /// The API key.
    #[serde(skip_serializing)]
    pub(crate) key: Option<Secret>,
    /// The environment variable with the API key.
    pub(crate) key_variable: Option<String>,
    /// Whether its models can call tools.
    pub(crate) tools: Option<bool>,
}

/// Redacts credentials. Settings are serialised only for `houston config show`.
#[expect(clippy::ref_option, reason = "the shape `serialize_with` takes")]
fn redacted<S: Serializer>(base_url: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    base_url.as_deref().map(redacted_address).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use houston_llm::Wire;

    use crate::config::load;
    use crate::config::tests::tools;

    #[test]
    fn providers_are_set_by_name_and_keys_are_never_printed() {
        let folder = tempfile::tempdir().unwrap();
        let write = |text: &str| std::fs::write(folder.path().join("providers.toml"), text).unwrap();
        write("[custom]\nbase_url = \"http://127.0.0.1:1/v1\"\nwire = \"anthropic\"\nkey = \"sk-secret\"");
        let loaded = load(Some(folder.path()), &tools()).unwrap();
        assert_eq!(loaded.settings.providers["custom"].wire, Some(Wire::Anthropic));
        assert!(loaded.entries().iter().any(|(key, ..)| key == "providers.custom.base_url"));
        assert!(!format!("{:?} {:?}", loaded.settings, loaded.entries()).contains("sk-secret"));

        // No error of this file contains a value.
        for text in [
            "[groq]\nkey = 918273645546372819",
            "[groq]\nkey = 918273645546372819918273645546372819",
            "[groq]\nkey = sk-918273645546372819",
            "groq = \"sk-918273645546372819\"",
            "[groq]\nwire = \"sk-918273645546372819\"",
            "[groq]\ntools = \"sk-918273645546372819\"",
        ] {
            write(text);
            let error = load(Some(folder.path()), &tools()).unwrap_err().to_string();
            assert!(error.contains("providers") && !error.contains("918273"), "{error}");
        }
        write("[groq]\nbase_url = \"http://luser:CANARY@host/v1?key=CANARY\"");
        let loaded = load(Some(folder.path()), &tools()).unwrap();
        let shown = format!("{:?}", loaded.entries());
        assert!(shown.contains("[redacted]@host/v1") && !shown.contains("CANARY"), "{shown}");

        write("[costum]\nbase_url = \"x\"");
        let error = load(Some(folder.path()), &tools()).unwrap_err().to_string();
        assert!(error.contains("providers.costum") && error.contains("did you mean custom?"), "{error}");
    }
}
