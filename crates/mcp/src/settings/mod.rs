//! [`McpSettings`]: what `jobs/mcp.toml` says.

mod check;
mod tenants;

use std::collections::BTreeMap;
use std::time::Duration;

use houston_domain::guard::{Level, Risk};
use houston_domain::tool_call::EffectClass;
use serde::{Deserialize, Serialize};

pub(crate) use self::check::is_of_the_protocol;
pub use self::tenants::TenantLimits;

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
    pub start_s: u64,
    /// Seconds of one call, unless its server says otherwise.
    pub call_s: u64,
    /// Seconds without a call after which a process is stopped.
    pub idle_s: u64,
    /// The most bytes of one message of a server.
    pub answer_bytes: usize,
    /// The most servers that may be enabled.
    pub processes: usize,
    /// How many processes may be starting at once.
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

/// A setting that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {reason}")]
pub struct SettingsError {
    /// The key below `mcp`, as `servers.time.command`.
    pub key: String,
    /// What is wrong, and what is allowed.
    pub reason: String,
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
    /// [`SettingsError`] for the first setting that is wrong.
    pub fn check(&self) -> Result<(), SettingsError> {
        let refuse = |key: String, reason: String| Err(SettingsError { key, reason });
        let McpLimits { start_s, call_s, idle_s, answer_bytes, processes, starts } = self.limits;
        let (answer_bytes, processes, starts) = (answer_bytes as u64, processes as u64, starts as u64);
        for (key, value, most) in [
            ("start_s", start_s, 600),
            ("call_s", call_s, 3600),
            ("idle_s", idle_s, 86_400),
            ("answer_bytes", answer_bytes, 16 << 20),
            ("processes", processes, 64),
            ("starts", starts, 64),
        ] {
            if !(1..=most).contains(&value) {
                return refuse(format!("limits.{key}"), format!("is {value}; allowed are 1 to {most}"));
            }
        }
        self.tenants.check()?;
        for (name, server) in &self.servers {
            server.check(name)?;
        }
        let enabled = self.servers.values().filter(|server| server.enabled).count();
        if enabled > self.limits.processes {
            let reason = format!(
                "{enabled} servers are enabled; limits.processes allows {}: each is a process of its own in every worker",
                self.limits.processes
            );
            return refuse("servers".to_owned(), reason);
        }
        Ok(())
    }
}

impl ServerSettings {
    /// A server of which nothing is said but how to start it.
    #[must_use]
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
    #[must_use]
    pub fn at(url: String) -> Self {
        Self { url: Some(url), ..Self::new(String::new(), Vec::new()) }
    }

    /// Whether it speaks a protocol without a handshake.
    pub(crate) fn is_modern(&self) -> bool {
        self.protocol.is_some()
    }

    /// The time limit of one call.
    #[must_use]
    pub fn call_limit(&self, limits: &McpLimits) -> Duration {
        Duration::from_secs(self.call_s.unwrap_or(limits.call_s))
    }
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
        assert!(error.contains("limits.answer_bytes") && error.contains("16777216"), "{error}");
    }

    #[test]
    fn disabled_servers_are_not_counted() {
        let text = "[servers.a]\ncommand = \"x\"\n[servers.b]\ncommand = \"x\"\n[servers.c]\ncommand = \"x\"\nenabled = false";
        assert_eq!(checked(&format!("{LIMITS}{text}")), Ok(()));
    }
}
