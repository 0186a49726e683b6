//! Request URLs of providers, from their base URLs.

use reqwest::Url;

use super::Lookup;
use crate::wire::Wire;

/// API version of Azure AI Foundry's inference API, unless another one is set.
const FOUNDRY_VERSION: &str = "2024-05-01-preview";

/// How request URLs are built from the base URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    GitHub,
}

impl Address {
    /// An example base URL for error messages.
    pub(super) fn example(self) -> &'static str {
        match self {
            Self::Azure => "https://<resource>.openai.azure.com",
            Self::Foundry => "https://<resource>.services.ai.azure.com",
            _ => "http://127.0.0.1:8080/v1",
        }
    }

    /// The complete base URL for `model`. `named` says whether the user set `base`. `None` when `base` is not a URL.
    pub(super) fn base(
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
    pub(super) fn operation(self, base: &Url, wire: Wire, model: &str) -> Option<Url> {
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
