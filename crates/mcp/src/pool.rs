//! [`Pool`]: the servers of a process, and their tools, under names that models accept.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use houston_domain::mcp_server::names::offered;
use houston_tools::SharedTool;

use crate::pins::{Pin, Pins};
use crate::server::Server;
use crate::settings::{McpSettings, ServerSettings};
use crate::surroundings::{Shared, Surroundings};
use crate::tool::McpTool;

/// The longest time of [`Pool::close`].
const CLOSE: Duration = Duration::from_secs(5);

/// The servers of a process. Nothing is started before a tool is called.
#[derive(Clone)]
pub struct Pool {
    servers: BTreeMap<String, Offered>,
    shared: Arc<Shared>,
}

/// A server, and the tools that it offers.
#[derive(Clone)]
struct Offered {
    server: Arc<Server>,
    tools: Vec<SharedTool>,
}

impl Pool {
    /// The enabled servers, with the tools that were approved and are enabled.
    pub fn new(settings: &McpSettings, pins: &Pins, surroundings: Surroundings) -> Self {
        let shared = Arc::new(Shared::new(surroundings, settings.limits.starts));
        let enabled = settings.servers.iter().filter(|(_, server)| server.enabled);
        let servers = enabled.map(|(name, server)| {
            let pinned: BTreeMap<String, Pin> =
                pins.of(name).map(|(tool, pin)| (tool.to_owned(), pin.clone())).collect();
            let named = tool_names(name, server, pins);
            let server = Server::new(name, server.clone(), settings.limits, pinned, Arc::clone(&shared));
            let server = Arc::new(server);
            let tool = |(tool, name): (String, String)| {
                let pin = pins.servers.get(server.name())?.get(&tool)?;
                Some(Arc::new(McpTool::new(Arc::clone(&server), &tool, name, pin)) as SharedTool)
            };
            let tools = named.into_iter().filter_map(tool).collect();
            (name.clone(), Offered { server: Arc::clone(&server), tools })
        });
        Self { servers: servers.collect(), shared }
    }

    /// Ends all processes, and waits for that, at most five seconds. One that does not leave by itself is killed after
    /// three.
    pub async fn close(&self) {
        self.shared.stop.cancel();
        self.shared.tracker.close();
        // A process that left its group could hold a pipe open.
        let _ = tokio::time::timeout(CLOSE, self.shared.tracker.wait()).await;
    }

    /// The server with this name, if it is enabled.
    pub fn server(&self, name: &str) -> Option<&Arc<Server>> {
        self.servers.get(name).map(|offered| &offered.server)
    }

    /// The tools of all servers.
    pub fn tools(&self) -> Vec<SharedTool> {
        self.servers.values().flat_map(|offered| offered.tools.iter().cloned()).collect()
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.servers.keys()).finish()
    }
}

/// The names of the tools that each server offers: those of enabled servers that were approved and are enabled. A server
/// that is not enabled offers none.
pub fn names_of_servers(settings: &McpSettings, pins: &Pins) -> BTreeMap<String, Vec<String>> {
    let of_server = |(name, server): (&String, &ServerSettings)| {
        let tools = if server.enabled { tool_names(name, server, pins) } else { Vec::new() };
        (name.clone(), tools.into_iter().map(|(_, name)| name).collect())
    };
    settings.servers.iter().map(of_server).collect()
}

/// The tools that a server offers: the names that the server gives them, and the names under which they are offered.
fn tool_names(name: &str, server: &ServerSettings, pins: &Pins) -> Vec<(String, String)> {
    // All pins count, so that switching one tool off does not rename another.
    let mut names = offered(name, pins.of(name).map(|(tool, _)| tool));
    let is_enabled = |tool: &str| server.tools.get(tool).is_none_or(|said| said.enabled != Some(false));
    let listed = pins.of(name).filter(|(tool, pin)| !pin.gone && is_enabled(tool));
    listed.filter_map(|(tool, _)| names.remove_entry(tool)).collect()
}
