//! Where the metadata of servers is, and which of it is believed: pure functions.

use serde::Deserialize;
use url::Url;

/// Where metadata is.
const FOLDER: &str = "/.well-known/";

/// The metadata of an MCP server (RFC 9728).
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct ResourceMetadata {
    pub(super) resource: String,
    #[serde(default)]
    pub(super) authorization_servers: Vec<String>,
    #[serde(default)]
    pub(super) scopes_supported: Vec<String>,
}

/// The metadata of an authorization server (RFC 8414).
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct ServerMetadata {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: String,
    pub(super) token_endpoint: String,
    pub(super) registration_endpoint: Option<String>,
    #[serde(default)]
    pub(super) code_challenge_methods_supported: Vec<String>,
    #[serde(default)]
    pub(super) authorization_response_iss_parameter_supported: bool,
}

/// Where the metadata of a server may be: where its challenge says, else below its address.
pub(super) fn of_resource(server: &Url, challenge: Option<&str>) -> Vec<String> {
    match challenge.and_then(|challenge| parameter(challenge, "resource_metadata")) {
        Some(named) => vec![named],
        None => inserted(server, "oauth-protected-resource"),
    }
}

/// Where the metadata of an authorization server may be.
pub(super) fn of_issuer(issuer: &Url) -> Vec<String> {
    let mut all = inserted(issuer, "oauth-authorization-server");
    let has_path = issuer.path() != "/";
    // The last of the first kind is for the root, which is another issuer.
    all.truncate(1);
    all.extend(inserted(issuer, "openid-configuration").into_iter().take(1));
    if has_path {
        all.push(format!("{}{FOLDER}openid-configuration", issuer.as_str().trim_end_matches('/')));
    }
    all
}

/// The addresses that the standards give to metadata of this kind: for the path, then for the root.
fn inserted(url: &Url, kind: &str) -> Vec<String> {
    let origin = url.origin().ascii_serialization();
    let root = format!("{origin}{FOLDER}{kind}");
    match url.path().trim_end_matches('/') {
        "" => vec![root],
        path => vec![format!("{root}{path}"), root],
    }
}

/// A parameter of a `WWW-Authenticate` header.
fn parameter(challenge: &str, name: &str) -> Option<String> {
    let mut rest = challenge;
    loop {
        let at = rest.find(name)?;
        let before = rest[..at].chars().next_back();
        let after = &rest[at + name.len()..];
        rest = after;
        if before.is_none_or(|c| c == ' ' || c == ',')
            && let Some(value) = after.strip_prefix("=\"")
        {
            return value.split_once('"').map(|(value, _)| value.to_owned());
        }
    }
}

impl ResourceMetadata {
    /// Why this is not the metadata of the server at this address; `None`: it is. Tokens for one server must not be got with
    /// the metadata of another.
    pub(super) fn problem(&self, server: &Url) -> Option<String> {
        let is_of_it = Url::parse(&self.resource).is_ok_and(|resource| {
            let path = resource.path().trim_end_matches('/');
            let rest = server.path().strip_prefix(path);
            resource.origin() == server.origin()
                && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        match (is_of_it, self.authorization_servers.is_empty()) {
            (false, _) => Some("its metadata is about another resource".to_owned()),
            (_, true) => Some("its metadata names no authorization server".to_owned()),
            _ => None,
        }
    }
}

impl ServerMetadata {
    /// Why this is not the metadata of this authorization server, or one that cannot be used; `None`: it can.
    pub(super) fn problem(&self, issuer: &str) -> Option<&'static str> {
        if self.issuer.trim_end_matches('/') != issuer.trim_end_matches('/') {
            return Some("its metadata names another issuer");
        }
        let has_pkce = self.code_challenge_methods_supported.iter().any(|method| method == "S256");
        (!has_pkce)
            .then_some("it does not say that it supports PKCE with S256, without which codes could be stolen")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn metadata_is_where_the_challenge_says_or_below_the_host() {
        let server = url("https://mcp.acme.com/team/mcp");
        let challenge = "Bearer error=\"x\", resource_metadata=\"https://mcp.acme.com/meta\", scope=\"a\"";
        assert_eq!(of_resource(&server, Some(challenge)), ["https://mcp.acme.com/meta"]);
        let usual = [
            format!("https://mcp.acme.com{FOLDER}oauth-protected-resource/team/mcp"),
            format!("https://mcp.acme.com{FOLDER}oauth-protected-resource"),
        ];
        for challenge in [None, Some("Bearer"), Some("Bearer my_resource_metadata=\"https://evil.com\"")] {
            assert_eq!(of_resource(&server, challenge), usual, "{challenge:?}");
        }
        assert_eq!(
            of_issuer(&url("https://login.acme.com/eu")),
            [
                format!("https://login.acme.com{FOLDER}oauth-authorization-server/eu"),
                format!("https://login.acme.com{FOLDER}openid-configuration/eu"),
                format!("https://login.acme.com/eu{FOLDER}openid-configuration"),
            ]
        );
        assert_eq!(of_issuer(&url("https://login.acme.com")).len(), 2);
    }

    #[test]
    fn metadata_of_others_is_not_believed() {
        let of = |resource: &str| ResourceMetadata {
            resource: resource.to_owned(),
            authorization_servers: vec!["https://login.acme.com".to_owned()],
            scopes_supported: Vec::new(),
        };
        let server = url("https://mcp.acme.com/team/mcp");
        for resource in
            ["https://mcp.acme.com/team/mcp", "https://mcp.acme.com", "https://mcp.acme.com/team/"]
        {
            assert_eq!(of(resource).problem(&server), None, "{resource}");
        }
        for resource in ["https://mcp.acme.com/te", "https://bank.com", "http://mcp.acme.com/team/mcp", "x"] {
            assert!(of(resource).problem(&server).is_some(), "{resource}");
        }
        let metadata = ServerMetadata {
            issuer: "https://login.acme.com".to_owned(),
            code_challenge_methods_supported: vec!["S256".to_owned()],
            ..ServerMetadata::default()
        };
        assert_eq!(metadata.problem("https://login.acme.com/"), None);
        assert!(metadata.problem("https://evil.com").is_some());
        let plain = ServerMetadata { code_challenge_methods_supported: vec!["plain".to_owned()], ..metadata };
        assert!(plain.problem("https://login.acme.com").is_some());
    }
}
