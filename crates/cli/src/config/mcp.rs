//! The tools of MCP servers as far as settings need them: their names, and the agent types that may call them.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use houston_domain::agentable::AgentType;
use houston_mcp::own::OwnPool;
use houston_mcp::pool::names_of_servers;
use houston_mcp::{McpSettings, Pins, Pool, Surroundings, pins};

use super::kinds::Kind;
use super::layers::Layers;
use super::{ConfigError, Loaded, Result};
use crate::environment::environment;

/// Before the name of a server, in `tools` of an agent type: all its tools.
const PREFIX: &str = "mcp:";

/// The MCP servers of an installation.
#[derive(Debug, Clone)]
pub(crate) struct Mcp {
    pub(super) servers: Servers,
    /// The approved tools.
    pub(crate) pins: Pins,
    /// The first file of approved tools that cannot be read, and why.
    broken: Option<(PathBuf, String)>,
    /// The connections of this process to the servers of tenants and users.
    pub(crate) own: OwnPool,
    /// The servers of this process, once its tools are registered.
    pub(crate) pool: Option<Pool>,
}

impl Mcp {
    pub(super) fn load(settings: &McpSettings, folders: &[PathBuf]) -> Self {
        let (pins, broken) = read_pins(folders);
        Self { servers: Servers::of(settings, &pins), pins, broken, own: OwnPool::new(settings), pool: None }
    }

    /// Refuses a file of approved tools that cannot be read. Only the commands that write it go on without it.
    ///
    /// # Errors
    /// [`ConfigError`] for the first such file.
    pub(crate) fn check_pins(&self) -> Result<()> {
        let Some((path, reason)) = &self.broken else { return Ok(()) };
        let todo = "restore the file, or write it anew with `houston mcp approve <server>` for each server";
        let (key, origin) = ("approved tools of MCP servers", path.display().to_string());
        Err(ConfigError::setting(key, &origin, format!("{reason}; {todo}")))
    }
}

/// The names of the tools of each server, and the kinds that may call them.
#[derive(Debug, Clone, Default)]
pub(super) struct Servers(BTreeMap<String, Offered>);

#[derive(Debug, Clone)]
struct Offered {
    tools: Vec<String>,
    kinds: Vec<String>,
}

impl Servers {
    pub(super) fn of(settings: &McpSettings, pins: &Pins) -> Self {
        let names = names_of_servers(settings, pins);
        let offered = |(name, server): (&String, &houston_mcp::ServerSettings)| {
            let tools = names.get(name).cloned().unwrap_or_default();
            (name.clone(), Offered { tools, kinds: server.kinds.clone() })
        };
        Self(settings.servers.iter().map(offered).collect())
    }

    /// The names of all their tools.
    pub(super) fn tools(&self) -> impl Iterator<Item = &String> {
        self.0.values().flat_map(|offered| &offered.tools)
    }

    /// What agent types may list in place of the names of tools: `mcp:<server>`.
    pub(super) fn patterns(&self) -> Vec<String> {
        self.0.keys().map(|name| format!("{PREFIX}{name}")).collect()
    }

    /// Puts the names of tools in place of `mcp:<server>`, and adds the tools of the servers that name this kind. They come
    /// last, so that the definitions before them stay the same and cached.
    pub(super) fn add_to(&self, agent_type: &mut AgentType) {
        agent_type.direct = self.expanded(&agent_type.direct);
        let mut tools = self.expanded(&agent_type.tools);
        let named = self.0.values().filter(|offered| offered.kinds.contains(&agent_type.kind));
        tools.extend(named.flat_map(|offered| offered.tools.iter().cloned()));
        let mut seen = HashSet::new();
        tools.retain(|name| seen.insert(name.clone()));
        agent_type.tools = tools;
    }

    /// The names, with those of its tools in place of `mcp:<server>`.
    fn expanded(&self, names: &[String]) -> Vec<String> {
        let meant = |name: &String| self.0.get(name.strip_prefix(PREFIX)?);
        let tools = |name: &String| meant(name).map_or_else(|| vec![name.clone()], |of| of.tools.clone());
        names.iter().flat_map(tools).collect()
    }

    /// # Errors
    /// [`ConfigError`] when a server names a kind that does not exist.
    pub(super) fn check_kinds(&self, kinds: &BTreeMap<String, Kind>, layers: &Layers) -> Result<()> {
        for (name, offered) in &self.0 {
            if let Some(wrong) = offered.kinds.iter().find(|kind| !kinds.contains_key(*kind)) {
                let existing = kinds.keys().cloned().collect::<Vec<_>>().join(", ");
                let reason = format!("there is no agent type `{wrong}`; there are: {existing}");
                return Err(layers.refuse(format!("mcp.servers.{name}.kinds"), reason));
            }
        }
        Ok(())
    }
}

/// The pins of the folders, and the first file that cannot be read; those of later folders replace those of earlier ones, server
/// by server.
fn read_pins(folders: &[PathBuf]) -> (Pins, Option<(PathBuf, String)>) {
    let (mut all, mut broken) = (Pins::default(), None);
    for path in folders.iter().map(|folder| folder.join(pins::FILE)).filter(|path| path.is_file()) {
        let text = std::fs::read_to_string(&path).map_err(|error| error.to_string());
        match text.and_then(|text| Pins::parse(&text).map_err(|error| error.to_string())) {
            Ok(pins) => all = all.overridden_by(pins),
            Err(reason) => broken = broken.or(Some((path, reason))),
        }
    }
    (all, broken)
}

impl Loaded {
    /// The servers of these settings; their homes are below `folder`.
    pub(crate) fn pool(&self, settings: &McpSettings, folder: &std::path::Path) -> Pool {
        let homes = folder.join("mcp");
        let surroundings = Surroundings { path: std::env::var_os("PATH"), homes, variable: environment };
        Pool::new(settings, &self.mcp.pins, surroundings)
    }
}

#[cfg(test)]
mod tests {
    use houston_mcp::pool::names_of_servers;

    use crate::config::load;
    use crate::config::tests::tools;

    const PINS: &str = r#"{"servers": {"time": {
        "now": {"sha256": "1", "description": "Now.", "input_schema": {"type": "object"}},
        "then": {"sha256": "2", "description": "Then.", "input_schema": {"type": "object"}},
        "old": {"sha256": "3", "description": "Old.", "input_schema": {"type": "object"}, "gone": true}
    }}}"#;
    const SERVER: &str = "[servers.time]\ncommand = \"uvx\"\n";

    /// The tools of the kind `goal` with this `mcp.toml`, and this change of the file of the kind.
    fn tools_of_goal(mcp: &str, change: (&str, &str)) -> Result<Vec<String>, String> {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("mcp.toml", mcp);
        write(houston_mcp::pins::FILE, PINS);
        std::fs::create_dir(folder.path().join("agents")).unwrap();
        let goal = super::super::kinds::BUILT_IN[0].1;
        assert!(goal.contains(change.0));
        write("agents/goal.toml", &goal.replacen(change.0, change.1, 1));
        let mut loaded = load(Some(folder.path()), &tools()).map_err(|error| error.to_string())?;
        assert_eq!(
            names_of_servers(&loaded.settings.mcp, &loaded.mcp.pins)
                .into_values()
                .flatten()
                .collect::<Vec<_>>(),
            loaded
                .pool(&loaded.settings.mcp, folder.path())
                .tools()
                .iter()
                .map(|tool| tool.definition().name.clone())
                .collect::<Vec<_>>(),
            "settings and the registry must agree about names"
        );
        Ok(loaded.kinds.remove("goal").unwrap().agent_type.tools)
    }

    #[test]
    fn agent_type_lists_the_tools_of_a_server_by_a_pattern() {
        let tools = tools_of_goal(SERVER, ("tools = [", "tools = [\n\"mcp:time\", \"time__now\",")).unwrap();
        assert_eq!(tools[..2], ["time__now", "time__then"]);
        assert_eq!(tools.iter().filter(|tool| *tool == "time__now").count(), 1);
    }

    #[test]
    fn server_adds_its_tools_to_the_kinds_it_names() {
        let tools = tools_of_goal(&format!("{SERVER}kinds = [\"goal\"]"), ("", "")).unwrap();
        assert_eq!(tools[tools.len() - 2..], ["time__now", "time__then"]);
        let off = format!("{SERVER}kinds = [\"goal\"]\n[servers.time.tools.then]\nenabled = false");
        assert_eq!(tools_of_goal(&off, ("", "")).unwrap().last().unwrap(), "time__now");
        let off = format!("{SERVER}enabled = false\nkinds = [\"goal\"]");
        assert!(!tools_of_goal(&off, ("", "")).unwrap().contains(&"time__now".to_owned()));
    }

    #[test]
    fn broken_approvals_are_refused_by_all_but_their_repair() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(houston_mcp::pins::FILE), "{\"servers\": {").unwrap();
        let loaded = load(Some(folder.path()), &tools()).unwrap();
        let error = loaded.mcp.check_pins().unwrap_err().to_string();
        assert!(error.contains("mcp_pins.json") && error.contains("houston mcp approve"), "{error}");
    }

    #[test]
    fn unknown_servers_and_kinds_are_refused() {
        let error = tools_of_goal(SERVER, ("tools = [", "tools = [\"mcp:tme\",")).unwrap_err();
        assert!(error.contains("`mcp:tme`") && error.contains("did you mean `mcp:time`?"), "{error}");
        let error = tools_of_goal(&format!("{SERVER}kinds = [\"gaol\"]"), ("", "")).unwrap_err();
        assert!(
            error.contains("mcp.servers.time.kinds") && error.contains("no agent type `gaol`"),
            "{error}"
        );
        let error = tools_of_goal("[servers.Time]\ncommand = \"x\"", ("", "")).unwrap_err();
        assert!(error.contains("mcp.servers.Time") && error.contains("a-z"), "{error}");
    }
}
