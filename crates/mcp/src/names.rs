//! Names that models accept: of 1 to 64 letters, digits, `_` and `-`.

use std::collections::BTreeMap;

use houston_domain::mcp_server::names::offered;

use crate::pins::Pins;
use crate::settings::{McpSettings, ServerSettings};

/// The names of the tools that each server offers: those of enabled servers that were approved and are enabled. A server
/// that is not enabled offers none.
#[must_use]
pub fn of_servers(settings: &McpSettings, pins: &Pins) -> BTreeMap<String, Vec<String>> {
    let of_server = |(name, server): (&String, &ServerSettings)| {
        let tools = if server.enabled { of_server(name, server, pins) } else { Vec::new() };
        (name.clone(), tools.into_iter().map(|(_, name)| name).collect())
    };
    settings.servers.iter().map(of_server).collect()
}

/// The tools that a server offers: the names that the server gives them, and the names under which they are offered.
pub(crate) fn of_server(name: &str, server: &ServerSettings, pins: &Pins) -> Vec<(String, String)> {
    // All pins count, so that switching one tool off does not rename another.
    let mut names = offered(name, pins.of(name).map(|(tool, _)| tool));
    let is_enabled = |tool: &str| server.tools.get(tool).is_none_or(|said| said.enabled != Some(false));
    let listed = pins.of(name).filter(|(tool, pin)| !pin.gone && is_enabled(tool));
    listed.filter_map(|(tool, _)| names.remove_entry(tool)).collect()
}
