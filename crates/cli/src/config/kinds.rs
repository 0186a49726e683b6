//! Loads agent types: the built-in ones, then those of the folders, which replace or add kinds. Errors have the line, the column,
//! what is allowed, and the most similar name.
//!
//! Besides: `jobs/packs.toml`, named sets of tools that agent types bring in by one line; and the names that agents created over
//! the API may use.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use houston_api::{AgentSources, ProviderName};
use houston_domain::agent::limits::LimitChanges;
use houston_domain::agentable::{AgentType, Planning, check_kind};
use houston_domain::mode::Mode;
use houston_llm::{PROVIDERS, Provider, capabilities};
use houston_store::Archiving;
use houston_store::reach::Reach;
use houston_tools::Needs;
use houston_tools::builtin::{CREATE_PLAN, CREATE_TASK, needs};
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::error::nearest;
use super::layers::Layers;
use super::mcp::Servers;
use super::{ConfigError, Loaded, ModelSelection, USE_CASES};

/// The built-in agent types: kind and TOML.
pub(super) const BUILT_IN: &[(&str, &str)] = &[
    ("goal", include_str!("../../../../jobs/agents/goal.toml")),
    ("task", include_str!("../../../../jobs/agents/task.toml")),
    ("user_agent", include_str!("../../../../jobs/agents/user_agent.toml")),
    ("plan", include_str!("../../../../jobs/agents/plan.toml")),
    ("executor", include_str!("../../../../jobs/agents/executor.toml")),
];

/// An agent type, and the file it comes from.
#[derive(Debug, Clone)]
pub(crate) struct Kind {
    pub(crate) agent_type: AgentType,
    pub(crate) origin: String,
}

impl Loaded {
    /// The settings for closing sessions, and the kinds whose sessions are closed.
    #[must_use]
    pub(crate) fn archiving(&self) -> Archiving {
        let kinds = self.kinds.iter().filter(|(_, kind)| kind.agent_type.archives);
        let kinds = kinds.map(|(name, _)| name.clone()).collect();
        Archiving { kinds, settings: self.settings.session_archive }
    }
}

impl Loaded {
    /// Which kinds reach which.
    #[must_use]
    pub(crate) fn reach(&self) -> Reach {
        let kinds = self.kinds.values().map(|kind| &kind.agent_type);
        Reach::new(kinds.map(|kind| (kind.kind.as_str(), kind.reaches.as_slice())))
    }
}

/// Loads all agent types, by kind. Files of a later folder replace those of earlier ones.
///
/// # Errors
/// [`ConfigError::AgentType`] with the position in the file and what is allowed, [`ConfigError::Folder`] when a file
/// cannot be read.
pub(super) fn load(
    folders: &[PathBuf],
    tools: &[String],
    servers: &Servers,
    packs: &Packs,
) -> Result<BTreeMap<String, Kind>, ConfigError> {
    let patterns = servers.patterns();
    let tools: &[&str] = &tools.iter().chain(&patterns).map(String::as_str).collect::<Vec<_>>();
    let mut kinds: BTreeMap<String, Kind> = BTreeMap::new();
    for (kind, text) in BUILT_IN {
        let path = PathBuf::from(format!("jobs/agents/{kind}.toml"));
        kinds.insert((*kind).to_owned(), File { path: &path, text }.read(kind, tools, packs)?);
    }
    let mut texts = BTreeMap::new();
    for folder in folders.iter().map(|folder| folder.join("agents")).filter(|folder| folder.is_dir()) {
        let fail = |source| ConfigError::Folder { path: folder.clone(), source };
        for entry in std::fs::read_dir(&folder).map_err(fail)? {
            let path = entry.map_err(fail)?.path();
            let Some(kind) = path.file_stem().and_then(|stem| stem.to_str()) else { continue };
            if path.extension().is_some_and(|extension| extension == "toml") && !kind.starts_with('.') {
                let text = std::fs::read_to_string(&path)
                    .map_err(|source| ConfigError::Folder { path: path.clone(), source })?;
                kinds.insert(kind.to_owned(), File { path: &path, text: &text }.read(kind, tools, packs)?);
                texts.insert(kind.to_owned(), (path, text));
            }
        }
    }
    kinds.values_mut().for_each(|kind| packs.add_to(&mut kind.agent_type));
    check_created(&kinds, &texts)?;
    kinds.values_mut().for_each(|kind| servers.add_to(&mut kind.agent_type));
    Ok(kinds)
}

/// Checks references between kinds: `creates` may list only kinds that agents create, and a kind with the tool
/// `create_task` must list some; `reaches` may list only conversational kinds, and the tools for them need it. `texts` are the files of the folders.
fn check_created(
    kinds: &BTreeMap<String, Kind>,
    texts: &BTreeMap<String, (PathBuf, String)>,
) -> Result<(), ConfigError> {
    let reachable: Vec<&str> = kinds
        .values()
        .filter(|kind| kind.agent_type.conversational)
        .map(|kind| kind.agent_type.kind.as_str())
        .collect();
    let begun_by_agents = |kind: &AgentType| !kind.conversational && !kind.made_with_user;
    let allowed: Vec<&str> = kinds
        .values()
        .filter(|kind| begun_by_agents(&kind.agent_type))
        .map(|kind| kind.agent_type.kind.as_str())
        .collect();
    let plans: Vec<&str> = kinds
        .values()
        .filter(|kind| kind.agent_type.is_plan())
        .map(|kind| kind.agent_type.kind.as_str())
        .collect();
    for (name, Kind { agent_type, .. }) in kinds {
        let built_in = BUILT_IN.iter().find(|(known, _)| known == name).map_or("", |(_, text)| *text);
        let shipped = (PathBuf::from(format!("jobs/agents/{name}.toml")), built_in.to_owned());
        let (path, text) = texts.get(name).unwrap_or(&shipped);
        File { path, text }.check_created(agent_type, &allowed, &plans)?;
        File { path, text }.check_reached(agent_type, &reachable)?;
    }
    Ok(())
}

/// The positions of names that are checked after parsing.
#[derive(Deserialize)]
struct SpannedNames {
    kind: Spanned<String>,
    tools: Vec<Spanned<String>>,
    #[serde(default)]
    packs: Vec<Spanned<String>>,
    #[serde(default)]
    direct: Vec<Spanned<String>>,
    #[serde(default)]
    creates: Vec<Spanned<String>>,
    #[serde(default)]
    reaches: Vec<Spanned<String>>,
    use_case: Option<Spanned<String>>,
    plans: Option<Spanned<String>>,
}

/// An agent type's file.
struct File<'f> {
    path: &'f Path,
    text: &'f str,
}

impl File<'_> {
    fn read(&self, stem: &str, tools: &[&str], packs: &Packs) -> Result<Kind, ConfigError> {
        let agent_type: AgentType = toml::from_str(self.text).map_err(|error| self.unreadable(&error))?;
        let named: SpannedNames = toml::from_str(self.text).map_err(|error| self.unreadable(&error))?;
        if agent_type.kind != stem {
            let reason = format!("kind is `{}`, but the file's name is {stem}.toml", agent_type.kind);
            return Err(self.refuse(named.kind.span().start, reason));
        }
        check_kind(stem).map_err(|error| self.refuse(named.kind.span().start, error.to_string()))?;
        for tool in named.tools.iter().chain(&named.direct) {
            self.check_name("tool", tool, tools)?;
        }
        for pack in &named.packs {
            self.check_name("pack", pack, &packs.names())?;
        }
        if let Some(use_case) = &named.use_case {
            self.check_use_case(use_case)?;
        }
        if let Some(Err(reason)) = agent_type.state.as_ref().map(|state| state.check_declaration()) {
            return Err(self.refuse(self.text.find("[state").unwrap_or(0), reason));
        }
        // The history of a session may be without a limit.
        let limits = LimitChanges { max_history_entries: None, ..agent_type.limits };
        if let Err(wrong) = limits.check(None) {
            let reason = format!("limits.{}: {}", wrong.key(), wrong.reason);
            return Err(self.refuse(self.text.find("[limits").unwrap_or(0), reason));
        }
        Ok(Kind { agent_type, origin: self.path.display().to_string() })
    }

    fn check_name(&self, what: &str, name: &Spanned<String>, existing: &[&str]) -> Result<(), ConfigError> {
        let given = name.get_ref().as_str();
        if existing.contains(&given) {
            return Ok(());
        }
        let (allowed, like) = (existing.join(", "), like(given, existing));
        Err(self
            .refuse(name.span().start, format!("there is no {what} `{given}`; there are: {allowed}{like}")))
    }

    fn check_created(
        &self,
        agent_type: &AgentType,
        allowed: &[&str],
        plans: &[&str],
    ) -> Result<(), ConfigError> {
        let named: SpannedNames = toml::from_str(self.text).map_err(|error| self.unreadable(&error))?;
        for kind in &named.creates {
            let given = kind.get_ref().as_str();
            if !allowed.contains(&given) {
                let (known, like) = (allowed.join(", "), like(given, allowed));
                let reason =
                    format!("tasks of kind `{given}` cannot be created; allowed kinds are: {known}{like}");
                return Err(self.refuse(kind.span().start, reason));
            }
        }
        let lacks_kinds =
            agent_type.tools.iter().any(|tool| tool == CREATE_TASK) && agent_type.creates.is_empty();
        if lacks_kinds {
            let in_tools = named.tools.iter().find(|tool| tool.get_ref() == CREATE_TASK);
            let at = in_tools.or(named.packs.first()).map_or(0, |name| name.span().start);
            let reason =
                format!("{CREATE_TASK} needs `creates = [\"…\"]`; allowed kinds are: {}", allowed.join(", "));
            return Err(self.refuse(at, reason));
        }
        self.check_planning(agent_type, &named, plans)?;
        let writes_feeds = agent_type.modes.contains(&Mode::FeedGeneration);
        if writes_feeds && !agent_type.made_with_user {
            let at = self.text.find("modes").unwrap_or(0);
            let reason =
                "only a kind with `made_with_user = true` has the mode feed_generation: it is one per user";
            return Err(self.refuse(at, reason.to_owned()));
        }
        Ok(())
    }

    /// The tools for plans, and plans for each message, need a kind of plans. `plans`: the kinds there are.
    fn check_planning(
        &self,
        agent_type: &AgentType,
        named: &SpannedNames,
        plans: &[&str],
    ) -> Result<(), ConfigError> {
        let creates_plans = agent_type.creates.iter().any(|kind| plans.contains(&kind.as_str()));
        let tool = agent_type.tools.iter().find(|tool| needs(tool) == Some(Needs::Plans));
        if let Some(tool) = tool.filter(|_| !creates_plans) {
            let in_tools = named.tools.iter().find(|name| name.get_ref() == tool);
            let at = in_tools.or(named.packs.first()).map_or(0, |name| name.span().start);
            let reason =
                format!("{tool} needs a kind of plans in `creates`; there are: {}", plans.join(", "));
            return Err(self.refuse(at, reason));
        }
        let makes_plans = agent_type.tools.iter().any(|tool| tool == CREATE_PLAN);
        if let Some(at) = named.plans.as_ref().filter(|_| agent_type.plans == Planning::Force && !makes_plans)
        {
            let reason = format!(
                "plans = \"force\" needs {CREATE_PLAN} in `tools`, and a kind of plans in `creates`; there are: {}",
                plans.join(", ")
            );
            return Err(self.refuse(at.span().start, reason));
        }
        Ok(())
    }

    fn check_reached(&self, agent_type: &AgentType, allowed: &[&str]) -> Result<(), ConfigError> {
        let named: SpannedNames = toml::from_str(self.text).map_err(|error| self.unreadable(&error))?;
        for kind in &named.reaches {
            let given = kind.get_ref().as_str();
            if !allowed.contains(&given) {
                let (known, like) = (allowed.join(", "), like(given, allowed));
                let reason = format!(
                    "`{given}` is no kind with conversations; kinds that have them are: {known}{like}"
                );
                return Err(self.refuse(kind.span().start, reason));
            }
        }
        let tool = agent_type.tools.iter().find(|tool| needs(tool) == Some(Needs::Reach));
        match tool.filter(|_| agent_type.reaches.is_empty()) {
            None => Ok(()),
            Some(tool) => {
                let in_tools = named.tools.iter().find(|name| name.get_ref() == tool);
                let at = in_tools.or(named.packs.first()).map_or(0, |name| name.span().start);
                let reason =
                    format!("{tool} needs `reaches = [\"…\"]`; allowed kinds are: {}", allowed.join(", "));
                Err(self.refuse(at, reason))
            }
        }
    }

    fn check_use_case(&self, use_case: &Spanned<String>) -> Result<(), ConfigError> {
        let given = use_case.get_ref();
        if USE_CASES.contains(&given.as_str()) || ModelSelection::One(given.clone()).check().is_ok() {
            return Ok(());
        }
        let (known, like) = (USE_CASES.join(", "), like(given, &USE_CASES));
        let reason = format!(
            "use_case `{given}` is neither a use case ({known}{like}) nor models (provider/model, with commas between \
             several)"
        );
        Err(self.refuse(use_case.span().start, reason))
    }

    /// The parser's error; for an unknown key with the most similar one.
    fn unreadable(&self, error: &toml::de::Error) -> ConfigError {
        let message = error.message();
        let mut quoted = message.split('`').skip(1).step_by(2);
        let reason = match quoted.next().filter(|_| message.starts_with("unknown ")) {
            Some(given) => {
                let allowed: Vec<&str> = quoted.collect();
                format!("{message}{}", like(given, &allowed))
            }
            None => message.to_owned(),
        };
        self.refuse(error.span().map_or(0, |span| span.start), reason)
    }

    fn refuse(&self, at: usize, reason: String) -> ConfigError {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
        ConfigError::AgentType { path: self.path.to_owned(), line, column, reason }
    }
}

/// `; did you mean …?` with the most similar name, or empty.
fn like(given: &str, allowed: &[&str]) -> String {
    nearest(given, allowed).map(|known| format!("; did you mean `{known}`?")).unwrap_or_default()
}

impl Loaded {
    /// The names that agents may use. `read_files` reads the agent types again at each call.
    pub(crate) fn agent_sources(&self) -> AgentSources {
        let (folders, tools, servers) = (self.folders.clone(), self.tools.clone(), self.mcp.servers.clone());
        let packs = self.settings.packs.clone();
        let read = move || load(&folders, &tools, &servers, &packs).map(agent_types);
        AgentSources {
            tools: self.tools.clone(),
            use_cases: USE_CASES.map(str::to_owned).to_vec(),
            providers: PROVIDERS.iter().map(provider).collect(),
            nearest_model: capabilities::nearest,
            limits: self.settings.orchestrator.limits,
            overseer: self.settings.overseer,
            read_files: Arc::new(move || read().map_err(|error| error.to_string())),
        }
    }
}

/// The agent types, without their origins.
pub(super) fn agent_types(kinds: BTreeMap<String, Kind>) -> BTreeMap<String, AgentType> {
    kinds.into_iter().map(|(name, kind)| (name, kind.agent_type)).collect()
}

fn provider(row: &Provider) -> ProviderName {
    ProviderName {
        name: row.name.to_owned(),
        aliases: row.aliases.iter().map(|&alias| alias.to_owned()).collect(),
        needs_model: row.default_model.is_empty(),
        is_listed: row.needs_key && !row.default_model.is_empty(),
    }
}

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
    fn add_to(&self, agent_type: &mut AgentType) {
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
    use super::*;
    use crate::config::load;
    use crate::config::tests::tools;

    fn refused(stem: &str, text: &str) -> String {
        let tools = ["create_note", "send_message"];
        let path = PathBuf::from(format!("agents/{stem}.toml"));
        File { path: &path, text }.read(stem, &tools, &Packs::default()).map(drop).unwrap_err().to_string()
    }

    #[test]
    fn tools_for_plans_and_forced_plans_need_a_kind_of_plans() {
        let refused = |text: String| {
            let agent_type: AgentType = toml::from_str(&text).unwrap();
            let file = File { path: Path::new("agents/project.toml"), text: &text };
            file.check_created(&agent_type, &["plan", "task"], &["plan"]).map_err(|error| error.to_string())
        };
        let with_tool = PROJECT.replacen("create_note", CREATE_PLAN, 1);
        let error = refused(with_tool.clone()).unwrap_err();
        assert!(
            error.contains("line 6, column 3: create_plan needs a kind of plans in `creates`"),
            "{error}"
        );
        let forced = format!("plans = \"force\"\n{PROJECT}");
        let error = refused(forced).unwrap_err();
        assert!(
            error.contains("line 1, column 9: plans = \"force\" needs create_plan in `tools`"),
            "{error}"
        );
        let fine = format!("plans = \"force\"\ncreates = [\"plan\"]\n{with_tool}");
        refused(fine).unwrap();
    }

    const PROJECT: &str = "kind = \"project\"\nconversational = true\narchives = true\nreply = \"text\"\n\
                           tools = [\n  \"create_note\",\n  \"send_message\",\n]\nuse_case = \"agent\"\n\
                           [prompt]\nrole = \"You run a project.\"\n";

    #[test]
    fn errors_of_kind_files_say_position_and_allowed_values() {
        for (stem, from, to, position, words) in [
            (
                "project",
                "archives",
                "archive",
                "line 3, column 1",
                &["`archive`", "did you mean `archives`?"][..],
            ),
            ("project", "role =", "roll =", "line 11, column 1", &["`guidelines`", "did you mean `role`?"]),
            (
                "project",
                "\"text\"",
                "\"texts\"",
                "line 4, column 9",
                &["`send_message`", "did you mean `text`?"],
            ),
            (
                "project",
                "create_note",
                "create_nte",
                "line 6, column 3",
                &["no tool", "did you mean `create_note`?"],
            ),
            ("project", "send_message", "fly", "line 7, column 3", &["`fly`", "create_note, send_message"]),
            (
                "project",
                "\"agent\"",
                "\"agnet\"",
                "line 9, column 12",
                &["use case", "did you mean `agent`?"],
            ),
            (
                "project",
                "tools =",
                "autonomy = \"hgih\"\ntools =",
                "line 5, column 12",
                &["`none`", "did you mean `high`?"],
            ),
            ("project", "= true\na", "= 1\na", "line 2, column 18", &["boolean"]),
            ("other", "", "", "line 1, column 8", &["`project`", "other.toml"]),
            ("run", "\"project\"", "\"run\"", "line 1, column 8", &["`run` cannot be a kind", "reserved"]),
        ] {
            let error = refused(stem, &PROJECT.replacen(from, to, 1));
            assert!(error.starts_with(&format!("agents/{stem}.toml: {position}: ")), "{error}");
            for word in words {
                assert!(error.contains(word), "`{error}` does not contain `{word}`");
            }
        }
    }

    /// The tools of the kind `goal` with these packs, and this line in its file.
    fn tools_of_goal(packs: &str, line: &str) -> Result<Vec<String>, String> {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("packs.toml", packs);
        std::fs::create_dir(folder.path().join("agents")).unwrap();
        let goal = super::BUILT_IN[0].1;
        let goal: String = goal
            .lines()
            .filter(|line| !line.starts_with("direct = "))
            .map(|line| format!("{line}\n"))
            .collect();
        write("agents/goal.toml", &goal.replacen("creates = ", &format!("{line}\ncreates = "), 1));
        let mut loaded = load(Some(folder.path()), &tools()).map_err(|error| error.to_string())?;
        let entry = loaded.entries().into_iter().find(|entry| entry.key == "agents.goal.packs");
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
