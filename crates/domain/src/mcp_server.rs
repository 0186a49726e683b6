//! MCP servers of tenants and users: what is stored of them, and which of their tools may be offered.
//!
//! A server lists its tools; a person approves them by their pins. Runs are offered the approved definitions, as they were
//! when they were approved, so a server that is slow, gone or has changed holds no run up before one of its tools is called.

pub mod names;
pub mod pin;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::guard::Risk;
use crate::setting::{WrongSetting, require};
use crate::tool_call::EffectClass;

/// Maximum length of a name, in bytes: the names of its tools begin with it, and may have 64.
pub const MAX_NAME_BYTES: usize = 24;
/// Maximum number of servers of a tenant, and of each of its users.
pub const MAX_SERVERS: i64 = 20;
/// Maximum length of its address, in bytes.
pub const MAX_URL_BYTES: usize = 2048;
/// Maximum number of headers.
pub const MAX_HEADERS: usize = 20;
/// Maximum number of tools that are named in its settings.
pub const MAX_NAMED_TOOLS: usize = 500;
/// Maximum length of all approved definitions of a server, in bytes of JSON.
pub const MAX_PINS_BYTES: usize = 512 * 1024;
/// Maximum number of scopes that are asked for.
pub const MAX_SCOPES: usize = 50;
/// Maximum length of a scope, and of the id of a client, in bytes.
pub const MAX_OAUTH_BYTES: usize = 500;
/// Time limits of a call, in seconds: the least, the usual and the most.
pub const TIMEOUT_S: [u64; 3] = [1, 60, 600];

/// What a tenant says of a server, besides its address.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerSettings {
    /// Whether its tools are offered.
    pub enabled: bool,
    /// The kinds whose agents are offered all of its tools; agents of other kinds list them.
    pub kinds: Vec<String>,
    /// The tools that may be offered, by the names that the server gives them; `None`: all that are approved.
    pub only: Option<Vec<String>>,
    /// Seconds of one call.
    pub timeout_s: u64,
    /// What the tenant says of single tools, by the names that the server gives them.
    pub tools: BTreeMap<String, ToolSettings>,
    /// How people log in; `None`: they do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oauth: Option<OAuthSettings>,
}

/// How people log in to a server that uses OAuth: `{"client_id": "houston", "scopes": ["read"], "shared": false}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = McpOAuth))]
#[serde(deny_unknown_fields)]
pub struct OAuthSettings {
    /// The id of Houston at the authorization server, a public client with PKCE; without, it is registered there at the first
    /// login.
    pub client_id: Option<String>,
    /// What is asked for; without, all that the server names.
    pub scopes: Option<Vec<String>>,
    /// Of a server of the tenant: whether the account of the tenant is used for all users. By default each of them logs in, and the
    /// tenant's account only lists the tools.
    #[serde(default)]
    pub shared: bool,
}

/// Where a browser comes back after a login, below the address of the installation.
pub const LOGIN_PATH: &str = "/mcp/login";

/// What an account at a server is sealed for. `account`: the user or the tenant that has logged in.
pub fn account_purpose(account: Uuid, owner: Uuid, server: &str) -> String {
    format!("mcp_accounts/{account}/{owner}/{server}")
}

/// What a login that has begun is sealed for.
pub fn login_purpose(account: Uuid, owner: Uuid, server: &str) -> String {
    format!("mcp_logins/{account}/{owner}/{server}")
}

/// What a tenant says of a tool. It is the word of a person; what the server says can only make it stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolSettings {
    /// Whether a call may be repeated after a crash: `read`, `idempotent` or `effect`; without, `effect`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<EffectClass>,
    /// What may go wrong; without, the worst.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<Risk>,
}

/// What the headers of a server are sealed for.
pub fn headers_purpose(owner: Uuid, server: &str) -> String {
    format!("mcp_servers/{owner}/{server}")
}

/// What is wrong with the name of a server; `None`: nothing.
pub fn name_problem(name: &str) -> Option<String> {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let has_edges = name.starts_with('-') || name.ends_with('-');
    let is_name = (1..=MAX_NAME_BYTES).contains(&name.len()) && !has_edges && name.bytes().all(is_allowed);
    (!is_name).then(|| format!("a name has 1 to {MAX_NAME_BYTES} characters of a-z, 0-9 and -, as `git-hub`"))
}

impl ServerSettings {
    /// Checks these settings, except for the kinds.
    ///
    /// # Errors
    /// [`WrongSetting`] at the first that is wrong.
    pub fn check(&self) -> Result<(), WrongSetting> {
        let [least, _, most] = TIMEOUT_S;
        let is_usual = (least..=most).contains(&self.timeout_s);
        require(is_usual, "/timeout_s", format_args!("must be from {least} to {most}"))?;
        let named = self.tools.len().max(self.only.as_ref().map_or(0, Vec::len));
        let reason = format_args!("at most {MAX_NAMED_TOOLS} tools can be named");
        require(named <= MAX_NAMED_TOOLS, "/tools", reason)?;
        let texts =
            self.oauth.iter().flat_map(|oauth| oauth.client_id.iter().chain(oauth.scopes.iter().flatten()));
        let is_word = |text: &String| {
            (1..=MAX_OAUTH_BYTES).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
        };
        let texts: Vec<&String> = texts.collect();
        let allowed = format_args!("have 1 to {MAX_OAUTH_BYTES} characters without spaces");
        let reason = format_args!("`client_id` and up to {MAX_SCOPES} `scopes` {allowed}");
        require(texts.len() <= MAX_SCOPES && texts.into_iter().all(is_word), "/oauth", reason)?;
        let reason =
            "MCP cannot tell whether a call was carried out: allowed are read, idempotent and effect";
        let mut tools = self.tools.iter();
        let checkable = tools.find(|(_, said)| said.effect == Some(EffectClass::Checkable));
        checkable.map_or(Ok(()), |(tool, _)| Err(WrongSetting::new(format!("/tools/{tool}/effect"), reason)))
    }

    /// Whether this tool may be offered, once it is approved.
    pub fn allows(&self, tool: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.iter().any(|name| name == tool))
    }
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            kinds: Vec::new(),
            only: None,
            timeout_s: TIMEOUT_S[1],
            tools: BTreeMap::new(),
            oauth: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_can_begin_the_names_of_tools() {
        for name in ["crm", "git-hub", "1", &"x".repeat(MAX_NAME_BYTES)] {
            assert_eq!(name_problem(name), None, "{name}");
        }
        for name in ["", "CRM", "a_b", "-a", "a-", "a/b", &"x".repeat(MAX_NAME_BYTES + 1)] {
            assert!(name_problem(name).is_some(), "{name}");
        }
    }

    #[test]
    fn settings_that_cannot_work_are_refused_with_their_place() {
        let checkable = ToolSettings { effect: Some(EffectClass::Checkable), risk: None };
        let usual = ServerSettings::default();
        for (settings, at) in [
            (ServerSettings { timeout_s: 0, ..usual.clone() }, Some("/timeout_s")),
            (ServerSettings { timeout_s: 601, ..usual.clone() }, Some("/timeout_s")),
            (
                ServerSettings { tools: [("a".to_owned(), checkable)].into(), ..usual.clone() },
                Some("/tools/a/effect"),
            ),
            (
                ServerSettings { only: Some(vec![String::new(); MAX_NAMED_TOOLS + 1]), ..usual.clone() },
                Some("/tools"),
            ),
            (usual, None),
        ] {
            let problem = settings.check().err();
            assert_eq!(problem.as_ref().map(|problem| problem.pointer.as_str()), at, "{problem:?}");
        }
    }
}
