//! What is wrong with the settings of one server.

use ::http::HeaderName;
use houston_domain::tool_call::EffectClass;

use super::{ServerSettings, SettingsError, ToolOverride};

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
    /// [`SettingsError`] for the first setting that is wrong.
    pub fn check(&self, name: &str) -> Result<(), SettingsError> {
        let refuse =
            |key: &str, reason: String| Err(SettingsError { key: format!("servers.{name}{key}"), reason });
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
            return refuse(".call_s", "must be from 1 to 3600".into());
        }
        let checkable = |tool: &&ToolOverride| tool.effect == Some(EffectClass::Checkable);
        if self.tools.values().any(|tool| checkable(&tool)) {
            let reason =
                "MCP cannot tell whether a call was carried out: allowed are read, idempotent and effect";
            return refuse(".tools", reason.to_owned());
        }
        Ok(())
    }

    /// What is wrong with the settings of a process: a key, and the reason.
    fn wrong_process(&self) -> Option<(&'static str, String)> {
        if self.command.trim().is_empty() {
            let reason = "is empty: name the program to start, as `npx` or `/usr/bin/server`, or the `url` of a server \
                          over HTTP";
            return Some((".command", reason.to_owned()));
        }
        // A relative path would mean another program in another folder.
        if self.command.contains('/') && !self.command.starts_with('/') {
            let reason = "must be the name of a program in PATH, or an absolute path";
            return Some((".command", reason.to_owned()));
        }
        let of_http = [
            (".bearer", self.bearer.is_some()),
            (".headers", !self.headers.is_empty()),
            (".private", self.private),
        ];
        let reason = "belongs to a server over HTTP, with a `url`: a program gets its secrets by `env`";
        of_http.into_iter().find(|(_, is_set)| *is_set).map(|(key, _)| (key, reason.to_owned()))
    }

    /// What is wrong with the settings of a server over HTTP: a key, and the reason.
    fn wrong_address(&self, url: &str) -> Option<(&'static str, String)> {
        let has_command = !self.command.is_empty() || !self.args.is_empty();
        if has_command || !self.env.is_empty() || !self.set.is_empty() {
            let reason = "a server has either a `url`, or a `command` with args, env and set";
            return Some((".url", reason.to_owned()));
        }
        if let Err(refusal) = houston_web::ListedHost::of(url) {
            return Some((".url", refusal.to_string()));
        }
        let is_wrong = |name: &&String| {
            let name = name.to_ascii_lowercase();
            HeaderName::try_from(&name).is_err()
                || is_of_the_protocol(&name)
                || (name == "authorization" && self.bearer.is_some())
        };
        let wrong = self.headers.keys().find(is_wrong)?;
        Some((".headers", format!("`{wrong}` is no name of a header, or one that Houston sets")))
    }

    /// A variable whose name is wrong: its key, and the reason.
    fn wrong_variable(&self) -> Option<(&'static str, String)> {
        let named = |key, names: Vec<_>| names.into_iter().map(move |name: &String| (key, name));
        let mut all = named(".env", self.env.iter().collect())
            .chain(named(".set", self.set.keys().collect()))
            .chain(named(".bearer", self.bearer.iter().collect()))
            .chain(named(".headers", self.headers.values().collect()));
        all.find_map(|(key, name)| match name.as_str() {
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
