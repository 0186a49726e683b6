//! `jobs/packs.toml`: named sets of tools that agent types bring in by one line.

use std::collections::BTreeMap;

use houston_domain::agentable::AgentType;
use serde::{Deserialize, Serialize};

use super::ConfigError;
use super::explain::nearest;
use super::layers::Layers;
use super::mcp::Servers;

/// A set of tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pack {
    /// What the tools are for, for people.
    pub(crate) description: String,
    /// Names of tools, or `mcp:<server>` for all of a server.
    pub(crate) tools: Vec<String>,
}

/// All packs, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Packs(BTreeMap<String, Pack>);

impl Packs {
    /// # Errors
    /// [`ConfigError::Setting`] when a pack lists a tool or server that does not exist, or nothing.
    pub(super) fn check(
        &self,
        tools: &[String],
        servers: &Servers,
        layers: &Layers,
    ) -> Result<(), ConfigError> {
        let patterns = servers.patterns();
        let allowed: Vec<&str> = tools.iter().chain(&patterns).map(String::as_str).collect();
        for (name, pack) in &self.0 {
            let wrong = pack.tools.iter().find(|tool| !allowed.contains(&tool.as_str()));
            let reason = match wrong {
                None if pack.tools.is_empty() => "a pack lists at least one tool".to_owned(),
                None => continue,
                Some(wrong) => {
                    let like = nearest(wrong, &allowed).map(|like| format!("; did you mean `{like}`?"));
                    let (like, allowed) = (like.unwrap_or_default(), allowed.join(", "));
                    format!("there is no tool `{wrong}`; there are: {allowed}{like}")
                }
            };
            return Err(layers.refuse(format!("packs.{name}.tools"), reason));
        }
        Ok(())
    }

    /// The names of all packs.
    pub(super) fn names(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }

    /// Adds the tools of its packs to an agent type, after its own, so that the definitions before them stay the same.
    pub(super) fn add_to(&self, agent_type: &mut AgentType) {
        for pack in agent_type.packs.iter().filter_map(|name| self.0.get(name)) {
            for tool in &pack.tools {
                if !agent_type.tools.contains(tool) {
                    agent_type.tools.push(tool.clone());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::load;
    use crate::config::tests::tools;

    /// The tools of the kind `goal` with these packs, and this line in its file.
    fn tools_of_goal(packs: &str, line: &str) -> Result<Vec<String>, String> {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("packs.toml", packs);
        std::fs::create_dir(folder.path().join("agents")).unwrap();
        let goal = super::super::kinds::BUILT_IN[0].1;
        let goal: String = goal
            .lines()
            .filter(|line| !line.starts_with("direct = "))
            .map(|line| format!("{line}\n"))
            .collect();
        write("agents/goal.toml", &goal.replacen("creates = ", &format!("{line}\ncreates = "), 1));
        let mut loaded = load(Some(folder.path()), &tools()).map_err(|error| error.to_string())?;
        let entry = loaded.entries().into_iter().find(|(key, ..)| key == "agents.goal.packs");
        assert_eq!(entry.is_some(), line.contains("packs"), "`houston config show` prints the packs");
        Ok(loaded.kinds.remove("goal").unwrap().agent_type.tools)
    }

    #[test]
    fn packs_add_their_tools_after_those_of_the_kind() {
        let before = tools_of_goal("", "").unwrap();
        let with = tools_of_goal("", "packs = [\"notes\", \"files\"]").unwrap();
        assert_eq!(with[..before.len()], before);
        assert_eq!(with[before.len()..].first().unwrap(), "read_file", "a tool is listed once");
        let own = "[mine]\ndescription = \"Mine\"\ntools = [\"http_request\", \"create_note\"]";
        assert_eq!(tools_of_goal(own, "packs = [\"mine\"]").unwrap().last().unwrap(), "http_request");
    }

    #[test]
    fn packs_and_tools_that_do_not_exist_are_refused() {
        let error = tools_of_goal("", "packs = [\"file\"]").unwrap_err();
        assert!(error.contains("no pack `file`") && error.contains("did you mean `files`?"), "{error}");
        let error = tools_of_goal("[x]\ndescription = \"\"\ntools = [\"fetch_pge\"]", "").unwrap_err();
        assert!(error.contains("packs.x.tools") && error.contains("did you mean `fetch_page`?"), "{error}");
        let error = tools_of_goal("[x]\ndescription = \"\"\ntools = []", "").unwrap_err();
        assert!(error.contains("at least one tool"), "{error}");
        let error = tools_of_goal("", "direct = [\"create_nte\"]").unwrap_err();
        assert!(error.contains("no tool `create_nte`"), "{error}");
    }
}
