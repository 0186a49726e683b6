//! [`Pins`]: the tools that a person has approved. A file beside `mcp.toml`, written by `houston mcp add` and
//! `houston mcp approve`. It goes to all workers with the settings, and its changes can be reviewed like code.

use std::collections::BTreeMap;

use houston_domain::mcp_server::pin;
pub use houston_domain::mcp_server::pin::{Pin, Standing};
use serde::{Deserialize, Serialize};

use crate::listed::Listed;

/// The name of the file.
pub const FILE: &str = "mcp_pins.json";

/// The approved tools of all servers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pins {
    /// By the name of the server, then by the name that the server gives the tool.
    #[serde(default)]
    pub servers: BTreeMap<String, BTreeMap<String, Pin>>,
}

impl Pins {
    /// Reads the file.
    ///
    /// # Errors
    /// What is wrong in it.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The text of the file.
    pub fn to_text(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// These pins with those of `other` in place of the ones for the same servers.
    #[must_use]
    pub fn overridden_by(mut self, other: Self) -> Self {
        self.servers.extend(other.servers);
        self
    }

    /// The pins of a server.
    pub fn of(&self, server: &str) -> impl Iterator<Item = (&str, &Pin)> {
        self.servers.get(server).into_iter().flatten().map(|(tool, pin)| (tool.as_str(), pin))
    }

    /// The tools that a server lists now and the ones that were approved, each with its standing, sorted by name.
    pub fn compare(&self, server: &str, listed: &[Listed]) -> BTreeMap<String, Standing> {
        let pins = self.servers.get(server);
        let gone = pins.into_iter().flatten().map(|(tool, _)| (tool.clone(), Standing::Gone));
        let mut all: BTreeMap<String, Standing> = gone.collect();
        for tool in listed {
            let pin = pins.and_then(|pins| pins.get(&tool.name));
            all.insert(tool.name.clone(), pin::standing(tool, pin));
        }
        all
    }

    /// Approves what a server lists now: `only` these tools, or all if it is empty. Tools that cannot be offered are left
    /// out, and pins of tools that are gone are kept.
    pub fn approve(&mut self, server: &str, listed: &[Listed], only: &[String]) {
        let pins = self.servers.entry(server.to_owned()).or_default();
        let is_meant = |tool: &str| only.is_empty() || only.iter().any(|name| name == tool);
        for (tool, pin) in pins.iter_mut() {
            if is_meant(tool) && !listed.iter().any(|listed| listed.name == *tool) {
                pin.gone = true;
            }
        }
        for tool in listed.iter().filter(|tool| is_meant(&tool.name) && tool.refused.is_none()) {
            pins.insert(tool.name.clone(), tool.pin.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listed::tests::listed;

    #[test]
    fn changed_and_new_tools_are_found() {
        let mut pins = Pins::default();
        pins.approve("s", &[listed("a", "reads"), listed("b", "writes")], &[]);
        let now = [listed("a", "reads, and sends all to me"), listed("c", "new")];
        let standing = pins.compare("s", &now);
        let standing: Vec<_> = standing.iter().map(|(name, standing)| (name.as_str(), *standing)).collect();
        assert_eq!(standing, [("a", Standing::Changed), ("b", Standing::Gone), ("c", Standing::New)]);
    }

    #[test]
    fn tool_that_returns_as_another_one_has_changed() {
        let mut pins = Pins::default();
        pins.approve("s", &[listed("a", "reads")], &[]);
        pins.approve("s", &[], &[]);
        assert!(pins.servers["s"]["a"].gone);
        assert_eq!(pins.compare("s", &[listed("a", "steals")])["a"], Standing::Changed);
        pins.approve("s", &[listed("a", "reads")], &[]);
        assert!(!pins.servers["s"]["a"].gone);
    }

    #[test]
    fn one_tool_can_be_approved_without_the_others() {
        let mut pins = Pins::default();
        pins.approve("s", &[listed("a", "reads"), listed("b", "reads")], &["a".to_owned()]);
        assert_eq!(pins.of("s").map(|(tool, _)| tool).collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn file_is_read_as_it_was_written() {
        let mut pins = Pins::default();
        pins.approve("s", &[listed("a", "reads")], &[]);
        assert_eq!(Pins::parse(&pins.to_text()).unwrap(), pins);
    }
}
