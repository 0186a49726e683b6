//! [`McpSettings`]: what `jobs/mcp.toml` says.

use std::collections::BTreeMap;
use std::time::Duration;

use ::http::HeaderName;
use houston_domain::guard::{Level, Risk};
use houston_domain::setting::{WrongSetting, within};
use houston_domain::tool_call::EffectClass;
use houston_web::ListedHost;
use serde::{Deserialize, Serialize};

/// `jobs/mcp.toml`.
///
/// ```
/// let settings: houston_mcp::McpSettings = toml::from_str(r#"
///     [limits]
///     start_s = 30
///     call_s = 60
///     idle_s = 600
///     answer_bytes = 4194304
///     processes = 16
///     starts = 2
///     [servers.time]
///     command = "uvx"
///     args = ["mcp-server-time"]
///     kinds = ["goal"]
///     [servers.time.tools.get_current_time]
///     effect = "read"
///     risk = "read"
/// "#)?;
/// assert_eq!(settings.check(), Ok(()));
/// # Ok::<(), toml::de::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpSettings {
    /// Limits of every server.
    pub limits: McpLimits,
    /// What servers of tenants and users may take.
    #[serde(default)]
    pub tenants: TenantLimits,
    /// The servers, by name.
    #[serde(default)]
    pub servers: BTreeMap<String, ServerSettings>,
}

/// Limits of every server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpLimits {
    /// Seconds from the start of a process until it has listed its tools.
    #[serde(deserialize_with = "within::<1, 600, _, _>")]
    pub start_s: u64,
    /// Seconds of one call, unless its server says otherwise.
    #[serde(deserialize_with = "within::<1, 3600, _, _>")]
    pub call_s: u64,
    /// Seconds without a call after which a process is stopped.
    #[serde(deserialize_with = "within::<1, 86_400, _, _>")]
    pub idle_s: u64,
    /// The most bytes of one message of a server.
    #[serde(deserialize_with = "within::<1, { 16 << 20 }, _, _>")]
    pub answer_bytes: usize,
    /// The most servers that may be enabled.
    #[serde(deserialize_with = "within::<1, 64, _, _>")]
    pub processes: usize,
    /// How many processes may be starting at once.
    #[serde(deserialize_with = "within::<1, 64, _, _>")]
    pub starts: usize,
}

/// One server: `[servers.<name>]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSettings {
    /// The program: a name to look up in `PATH`, or an absolute path. Empty for a server over HTTP.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub command: String,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Names of variables of Houston's environment that it gets, for its secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Variables that it gets with these values, which are not secret.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
    /// The address of a server over HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Whether this address is in a network of the operator: then its host may be private, and http is allowed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
    /// The name of the variable with the key that it gets, as `Authorization: Bearer …`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bearer: Option<String>,
    /// Other headers that it gets: their names, and the names of the variables with their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Whether its tools are offered.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub enabled: bool,
    /// What its own words about its tools count.
    #[serde(default, skip_serializing_if = "Trust::is_none")]
    pub trust: Trust,
    /// Agent types that may call its tools, besides those that list `mcp:<name>` under `tools`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
    /// Seconds of one call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_s: Option<u64>,
    /// The protocol that it speaks, if that is a newer one than those with a handshake. Only then its tools can ask a person in
    /// the middle of a call, or begin tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// What the operator says of single tools, by the names that the server gives them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, ToolOverride>,
}

/// A protocol without a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protocol {
    /// That of 2026-07-28.
    #[serde(rename = "2026-07-28")]
    V2026July,
}

/// What the words of a server about its own tools (`readOnlyHint`, …) count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// Nothing: each tool may do the worst, unless the operator says otherwise.
    #[default]
    None,
    /// They decide, unless the operator says otherwise.
    Hints,
}

impl Trust {
    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// What the operator says of a tool: `[servers.<name>.tools.<tool>]`. What is left out follows from `trust`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolOverride {
    /// Whether it is offered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Whether a call may be repeated after a crash: `read`, `idempotent` or `effect`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<EffectClass>,
    /// What may go wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk: Option<Risk>,
    /// The level it needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    /// Whether its results contain private data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads_private: Option<bool>,
    /// Whether its results contain what strangers wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub untrusted_output: Option<bool>,
    /// Whether its arguments leave the installation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sends_out: Option<bool>,
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_yes(value: &bool) -> bool {
    *value
}

impl McpSettings {
    /// Checks what the types do not.
    ///
    /// # Errors
    /// [`WrongSetting`] for the first setting that is wrong.
    pub fn check(&self) -> Result<(), WrongSetting> {
        self.tenants.check().map_err(|wrong| wrong.below("/tenants"))?;
        for (name, server) in &self.servers {
            server.check(name)?;
        }
        let enabled = self.servers.values().filter(|server| server.enabled).count();
        if enabled > self.limits.processes {
            let reason = format!(
                "{enabled} servers are enabled; limits.processes allows {}: each is a process of its own in every worker",
                self.limits.processes
            );
            return Err(WrongSetting::new("/servers", reason));
        }
        Ok(())
    }
}

impl ServerSettings {
    /// A server of which nothing is said but how to start it.
    pub fn new(command: String, args: Vec<String>) -> Self {
        Self {
            command,
            args,
            env: Vec::new(),
            set: BTreeMap::new(),
            url: None,
            private: false,
            bearer: None,
            headers: BTreeMap::new(),
            enabled: true,
            trust: Trust::None,
            kinds: Vec::new(),
            call_s: None,
            protocol: None,
            tools: BTreeMap::new(),
        }
    }

    /// A server at an address, of which nothing else is said.
    pub fn at(url: String) -> Self {
        Self { url: Some(url), ..Self::new(String::new(), Vec::new()) }
    }

    /// Whether it speaks a protocol without a handshake.
    pub(crate) fn is_modern(&self) -> bool {
        self.protocol.is_some()
    }

    /// The time limit of one call.
    pub fn call_limit(&self, limits: &McpLimits) -> Duration {
        Duration::from_secs(self.call_s.unwrap_or(limits.call_s))
    }
}

/// What the servers of tenants and users may take, which they bring over the API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantLimits {
    /// Connections of one tenant in one process.
    #[serde(deserialize_with = "within::<1, 65_536, _, _>")]
    pub connections: usize,
    /// Connections of all tenants in one process.
    #[serde(deserialize_with = "within::<1, 65_536, _, _>")]
    pub connections_of_all: usize,
    /// The most bytes of one message of such a server.
    #[serde(deserialize_with = "within::<1, { 16 << 20 }, _, _>")]
    pub answer_bytes: usize,
    /// Addresses in networks of the operator's own that these servers may have, too.
    pub hosts: Vec<String>,
    /// Where browsers reach this installation: a login at a server with OAuth comes back there.
    #[serde(default)]
    pub public_url: Option<String>,
}

impl Default for TenantLimits {
    /// As in `jobs/mcp.toml`.
    fn default() -> Self {
        Self {
            connections: 32,
            connections_of_all: 1024,
            answer_bytes: 2 << 20,
            hosts: Vec::new(),
            public_url: None,
        }
    }
}

impl TenantLimits {
    /// # Errors
    /// [`WrongSetting`] for the first setting that is wrong.
    fn check(&self) -> Result<(), WrongSetting> {
        let refuse = |pointer, reason| Err(WrongSetting::new(pointer, reason));
        let is_address = |url: &String| url.starts_with("https://") || url.starts_with("http://");
        if let Some(url) = self.public_url.iter().find(|url| !is_address(url)) {
            return refuse("/public_url", format!("`{url}` is no address like https://houston.example.com"));
        }
        match self.hosts.iter().find_map(|url| Some((url, ListedHost::of(url).err()?))) {
            Some((url, refusal)) => refuse("/hosts", format!("`{url}`: {refusal}")),
            None => Ok(()),
        }
    }
}

/// The most characters of a server's name: the names of its tools begin with it, and may have 64.
const MAX_NAME: usize = 24;
/// Headers that the transport sets.
const OF_THE_PROTOCOL: [&str; 8] = [
    "accept",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
    "user-agent",
];

/// Whether the transport sets this header.
pub(crate) fn is_of_the_protocol(name: &str) -> bool {
    OF_THE_PROTOCOL.contains(&name.to_ascii_lowercase().as_str())
}

impl ServerSettings {
    /// Checks the settings of the server `name`.
    ///
    /// # Errors
    /// [`WrongSetting`] for the first setting that is wrong.
    pub fn check(&self, name: &str) -> Result<(), WrongSetting> {
        let at = format!("/servers/{}", name.replace('/', "~1"));
        let refuse = |key: &str, reason: String| Err(WrongSetting::new(format!("{at}{key}"), reason));
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let edges = name.starts_with('-') || name.ends_with('-');
        if name.is_empty() || name.len() > MAX_NAME || edges || !name.chars().all(is_name) {
            let reason =
                format!("a server's name has 1 to {MAX_NAME} characters of a-z, 0-9 and -, as `git-hub`");
            return refuse("", reason);
        }
        let wrong = self.url.as_ref().map_or_else(|| self.wrong_process(), |url| self.wrong_address(url));
        if let Some((key, reason)) = wrong.or_else(|| self.wrong_variable()) {
            return refuse(key, reason);
        }
        if self.call_s.is_some_and(|seconds| !(1..=3600).contains(&seconds)) {
            return refuse("/call_s", "must be from 1 to 3600".into());
        }
        if self.tools.values().any(|tool| tool.effect == Some(EffectClass::Checkable)) {
            let reason =
                "MCP cannot tell whether a call was carried out: allowed are read, idempotent and effect";
            return refuse("/tools", reason.to_owned());
        }
        Ok(())
    }

    /// What is wrong with the settings of a process: a key, and the reason.
    fn wrong_process(&self) -> Option<(&'static str, String)> {
        if self.command.trim().is_empty() {
            let reason = "is empty: name the program to start, as `npx` or `/usr/bin/server`, or the `url` of a server \
                          over HTTP";
            return Some(("/command", reason.to_owned()));
        }
        // A relative path would mean another program in another folder.
        if self.command.contains('/') && !self.command.starts_with('/') {
            let reason = "must be the name of a program in PATH, or an absolute path";
            return Some(("/command", reason.to_owned()));
        }
        let of_http = [
            ("/bearer", self.bearer.is_some()),
            ("/headers", !self.headers.is_empty()),
            ("/private", self.private),
        ];
        let reason = "belongs to a server over HTTP, with a `url`: a program gets its secrets by `env`";
        of_http.into_iter().find(|(_, is_set)| *is_set).map(|(key, _)| (key, reason.to_owned()))
    }

    /// What is wrong with the settings of a server over HTTP: a key, and the reason.
    fn wrong_address(&self, url: &str) -> Option<(&'static str, String)> {
        let has_command = !self.command.is_empty() || !self.args.is_empty();
        if has_command || !self.env.is_empty() || !self.set.is_empty() {
            let reason = "a server has either a `url`, or a `command` with args, env and set";
            return Some(("/url", reason.to_owned()));
        }
        if let Err(refusal) = ListedHost::of(url) {
            return Some(("/url", refusal.to_string()));
        }
        let is_wrong = |name: &&String| {
            let name = name.to_ascii_lowercase();
            HeaderName::try_from(&name).is_err()
                || is_of_the_protocol(&name)
                || (name == "authorization" && self.bearer.is_some())
        };
        let wrong = self.headers.keys().find(is_wrong)?;
        Some(("/headers", format!("`{wrong}` is no name of a header, or one that Houston sets")))
    }

    /// A variable whose name is wrong: its key, and the reason.
    fn wrong_variable(&self) -> Option<(&'static str, String)> {
        let env = self.env.iter().map(|name| ("/env", name));
        let set = self.set.keys().map(|name| ("/set", name));
        let bearer = self.bearer.iter().map(|name| ("/bearer", name));
        let headers = self.headers.values().map(|name| ("/headers", name));
        env.chain(set).chain(bearer).chain(headers).find_map(|(key, name)| match name.as_str() {
            // They are Houston's to set, and one of them could make the process load code of someone else.
            "PATH" | "HOME" => Some((key, format!("{name} is set by Houston: leave it out"))),
            _ if is_variable(name) => None,
            _ => {
                let reason =
                    format!("`{name}` is not the name of a variable: letters, digits and _ are allowed");
                Some((key, reason))
            }
        })
    }
}

fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: &str = "[limits]\nstart_s = 30\ncall_s = 60\nidle_s = 600\nanswer_bytes = 1000\nprocesses = 2\n\
                          starts = 2\n";

    fn checked(text: &str) -> Result<(), String> {
        let settings: McpSettings = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        settings.check().map_err(|error| error.to_string())
    }

    #[test]
    fn wrong_settings_are_refused_with_their_key() {
        for (server, words) in [
            ("[servers.Time]\ncommand = \"x\"", &["servers.Time", "a-z, 0-9"][..]),
            ("[servers.a]\nargs = []", &["servers.a.command", "is empty", "`url`"]),
            ("[servers.a]\nurl = \"ftp://a.org\"", &["servers.a.url", "only http and https"]),
            ("[servers.a]\nurl = \"https://u:p@a.org\"", &["servers.a.url", "credentials"]),
            ("[servers.a]\nurl = \"https://a.org\"\ncommand = \"x\"", &["servers.a.url", "either"]),
            ("[servers.a]\ncommand = \"x\"\nbearer = \"KEY\"", &["servers.a.bearer", "`env`"]),
            ("[servers.a]\nurl = \"https://a.org\"\nbearer = \"a key\"", &["servers.a.bearer", "variable"]),
            (
                "[servers.a]\nurl = \"https://a.org\"\nheaders = {Host = \"KEY\"}",
                &["servers.a.headers", "`Host`"],
            ),
            ("[servers.a]\ncommand = \" \"", &["servers.a.command", "is empty"]),
            ("[servers.a]\ncommand = \"./x\"", &["servers.a.command", "absolute path"]),
            ("[servers.a]\ncommand = \"x\"\ncomand = \"y\"", &["unknown field `comand`", "`args`"]),
            ("[servers.a]\ncommand = \"x\"\nenv = [\"A=b\"]", &["servers.a.env", "`A=b`"]),
            ("[servers.a]\ncommand = \"x\"\nset = {PATH = \"/x\"}", &["servers.a.set", "set by Houston"]),
            ("[servers.a]\ncommand = \"x\"\ntrust = \"all\"", &["unknown variant `all`", "`hints`"]),
            (
                "[servers.a]\ncommand = \"x\"\n[servers.a.tools.t]\neffect = \"checkable\"",
                &["servers.a.tools", "idempotent"],
            ),
            ("[servers.a]\ncommand = \"x\"\ncall_s = 0", &["servers.a.call_s", "3600"]),
            (
                "[servers.a]\ncommand = \"x\"\n[servers.b]\ncommand = \"x\"\n[servers.c]\ncommand = \"x\"",
                &["servers: 3 servers", "allows 2"],
            ),
        ] {
            let error = checked(&format!("{LIMITS}{server}")).unwrap_err();
            for word in words {
                assert!(error.contains(word), "`{error}` does not contain `{word}`");
            }
        }
        let error = checked(&LIMITS.replace("answer_bytes = 1000", "answer_bytes = 99000000")).unwrap_err();
        assert!(error.contains("99000000") && error.contains("16777216"), "{error}");
    }

    #[test]
    fn disabled_servers_are_not_counted() {
        let text = "[servers.a]\ncommand = \"x\"\n[servers.b]\ncommand = \"x\"\n[servers.c]\ncommand = \"x\"\nenabled = false";
        assert_eq!(checked(&format!("{LIMITS}{text}")), Ok(()));
    }
}
