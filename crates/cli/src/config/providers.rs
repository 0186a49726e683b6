//! What the configuration says of providers.

use houston_llm::{Secret, Wire, shown_address};
use serde::{Deserialize, Serialize, Serializer};

/// A table of `jobs/providers.toml`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ProviderSettings {
    /// Where it is, up to and including its version. Credentials in it are never shown.
    #[serde(serialize_with = "shown")]
    pub(crate) base_url: Option<String>,
    /// What it speaks.
    pub(crate) wire: Option<Wire>,
    /// The key.
    #[serde(skip_serializing)]
    pub(crate) key: Option<Secret>,
    /// The variable that holds it.
    pub(crate) key_variable: Option<String>,
    /// Whether its models call tools.
    pub(crate) tools: Option<bool>,
}

/// Settings are serialised to be shown, and for nothing else.
#[expect(clippy::ref_option, reason = "the shape `serialize_with` takes")]
fn shown<S: Serializer>(base_url: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    base_url.as_deref().map(shown_address).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use houston_llm::Wire;

    use crate::config::load;
    use crate::config::tests::tools;

    #[test]
    fn a_provider_is_told_of_by_its_name_and_its_key_is_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let write = |text: &str| std::fs::write(folder.path().join("providers.toml"), text).unwrap();
        write("[custom]\nbase_url = \"http://127.0.0.1:1/v1\"\nwire = \"anthropic\"\nkey = \"sk-secret\"");
        let loaded = load(Some(folder.path()), &tools()).unwrap();
        assert_eq!(loaded.settings.providers["custom"].wire, Some(Wire::Anthropic));
        assert!(loaded.shown().iter().any(|(key, ..)| key == "providers.custom.base_url"));
        assert!(!format!("{:?} {:?}", loaded.settings, loaded.shown()).contains("sk-secret"));

        // Whatever is wrong in this file, the error shows no value of it.
        for text in [
            "[groq]\nkey = 918273645546372819",
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
        let shown = format!("{:?}", loaded.shown());
        assert!(shown.contains("[redacted]@host/v1") && !shown.contains("CANARY"), "{shown}");

        write("[costum]\nbase_url = \"x\"");
        let error = load(Some(folder.path()), &tools()).unwrap_err().to_string();
        assert!(error.contains("providers.costum") && error.contains("did you mean custom?"), "{error}");
    }
}
