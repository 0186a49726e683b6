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

use super::error::{like, unknown};
use super::folder::{self, AGENTS};
use super::layers::Layers;
use super::mcp::Servers;
use super::{ConfigError, Loaded, ModelSelection, Result, USE_CASES};

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
    pub(crate) fn archiving(&self) -> Archiving {
        let kinds = self.kinds.iter().filter(|(_, kind)| kind.agent_type.archives);
        let kinds = kinds.map(|(name, _)| name.clone()).collect();
        Archiving { kinds, settings: self.settings.session_archive }
    }

    /// Which kinds reach which.
    pub(crate) fn reach(&self) -> Reach {
        let kinds = self.kinds.values().map(|kind| &kind.agent_type);
        Reach::new(kinds.map(|kind| (kind.kind.as_str(), kind.reaches.as_slice())))
    }

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

/// Loads all agent types, by kind. Files of a later folder replace those of earlier ones.
///
/// # Errors
/// [`ConfigError`] with the position in the file and what is allowed, or when a file cannot be read.
pub(super) fn load(
    folders: &[PathBuf],
    tools: &[String],
    servers: &Servers,
    packs: &Packs,
) -> Result<BTreeMap<String, Kind>> {
    let patterns = servers.patterns();
    let tools: &[&str] = &tools.iter().chain(&patterns).map(String::as_str).collect::<Vec<_>>();
    let built_in = BUILT_IN.iter().map(|(kind, text)| folder::File {
        stem: (*kind).to_owned(),
        path: PathBuf::from(format!("jobs/agents/{kind}.toml")),
        text: (*text).to_owned(),
    });
    let of_folders = folder::files(folders.iter().map(PathBuf::as_path), AGENTS, &[".toml"])?;
    let mut files: BTreeMap<String, File> = BTreeMap::new();
    for file in built_in.chain(of_folders) {
        let stem = file.stem.clone();
        files.insert(stem, File::read(file, tools, packs)?);
    }
    for file in files.values_mut() {
        packs.add_to(&mut file.agent_type);
    }
    check_created(&files)?;
    let kind = |(name, File { path, mut agent_type, .. }): (String, File)| {
        servers.add_to(&mut agent_type);
        (name, Kind { agent_type, origin: path.display().to_string() })
    };
    Ok(files.into_iter().map(kind).collect())
}

/// Checks references between kinds: `creates` may list only kinds that agents create, and a kind with the tool
/// `create_task` must list some; `reaches` may list only conversational kinds, and the tools for them need it.
fn check_created(files: &BTreeMap<String, File>) -> Result<()> {
    let names = |is_meant: fn(&AgentType) -> bool| -> Vec<&str> {
        let types = files.values().map(|file| &file.agent_type).filter(|kind| is_meant(kind));
        types.map(|kind| kind.kind.as_str()).collect()
    };
    let reachable = names(|kind| kind.conversational);
    let begun_by_agents = names(|kind| !kind.conversational && !kind.made_with_user);
    let plans = names(AgentType::is_plan);
    for file in files.values() {
        file.check_created(&begun_by_agents, &plans)?;
        file.check_reached(&reachable)?;
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
struct File {
    path: PathBuf,
    text: String,
    agent_type: AgentType,
    names: SpannedNames,
}

impl File {
    fn parse(folder::File { path, text, .. }: folder::File) -> Result<Self> {
        let agent_type = toml::from_str(&text).map_err(|error| unreadable(&path, &text, &error))?;
        let names = toml::from_str(&text).map_err(|error| unreadable(&path, &text, &error))?;
        Ok(Self { path, text, agent_type, names })
    }

    /// Reads a file, and checks what no other kind decides.
    fn read(file: folder::File, tools: &[&str], packs: &Packs) -> Result<Self> {
        let stem = file.stem.clone();
        let file = Self::parse(file)?;
        let Self { agent_type, names, text, .. } = &file;
        let at_kind = names.kind.span().start;
        if agent_type.kind != stem {
            let reason = format!("kind is `{}`, but the file's name is {stem}.toml", agent_type.kind);
            return Err(file.refuse(at_kind, reason));
        }
        check_kind(&stem).map_err(|error| file.refuse(at_kind, error))?;
        file.check_names(&names.tools, tools, no("tool"))?;
        file.check_names(&names.direct, tools, no("tool"))?;
        file.check_names(&names.packs, &packs.names(), no("pack"))?;
        if let Some(use_case) = &names.use_case {
            file.check_use_case(use_case)?;
        }
        if let Some(Err(reason)) = agent_type.state.as_ref().map(|state| state.check_declaration()) {
            return Err(file.refuse(text.find("[state").unwrap_or(0), reason));
        }
        // The history of a session may be without a limit.
        let limits = LimitChanges { max_history_entries: None, ..agent_type.limits };
        if let Err(wrong) = limits.check(None) {
            let reason = format!("limits.{}: {}", wrong.key(), wrong.reason);
            return Err(file.refuse(text.find("[limits").unwrap_or(0), reason));
        }
        Ok(file)
    }

    /// Refuses the first name that is not allowed; `wrong` begins what is said of it.
    fn check_names(
        &self,
        names: &[Spanned<String>],
        allowed: &[&str],
        wrong: impl Fn(&str) -> String,
    ) -> Result<()> {
        let Some(name) = names.iter().find(|name| !allowed.contains(&name.get_ref().as_str())) else {
            return Ok(());
        };
        let given = name.get_ref();
        let reason = format!("{}: {}{}", wrong(given), allowed.join(", "), like(given, allowed));
        Err(self.refuse(name.span().start, reason))
    }

    /// Refuses a tool that needs more than the file says. One that a pack has brought is refused where the packs are.
    fn refuse_tool(&self, tool: &str, reason: String) -> Result<()> {
        let in_tools = self.names.tools.iter().find(|name| name.get_ref() == tool);
        let at = in_tools.or(self.names.packs.first()).map_or(0, |name| name.span().start);
        Err(self.refuse(at, reason))
    }

    fn check_created(&self, allowed: &[&str], plans: &[&str]) -> Result<()> {
        let Self { agent_type, names, .. } = self;
        self.check_names(&names.creates, allowed, |given| {
            format!("tasks of kind `{given}` cannot be created; allowed kinds are")
        })?;
        if agent_type.creates.is_empty() && agent_type.tools.iter().any(|tool| tool == CREATE_TASK) {
            let allowed = allowed.join(", ");
            let reason = format!("{CREATE_TASK} needs `creates = [\"…\"]`; allowed kinds are: {allowed}");
            return self.refuse_tool(CREATE_TASK, reason);
        }
        self.check_planning(plans)?;
        if agent_type.modes.contains(&Mode::FeedGeneration) && !agent_type.made_with_user {
            let reason =
                "only a kind with `made_with_user = true` has the mode feed_generation: it is one per user";
            return Err(self.refuse(self.text.find("modes").unwrap_or(0), reason.to_owned()));
        }
        Ok(())
    }

    /// The tools for plans, and plans for each message, need a kind of plans. `plans`: the kinds there are.
    fn check_planning(&self, plans: &[&str]) -> Result<()> {
        let AgentType { creates, tools, plans: planning, .. } = &self.agent_type;
        let creates_plans = creates.iter().any(|kind| plans.contains(&kind.as_str()));
        let tool = tools.iter().find(|tool| needs(tool) == Some(Needs::Plans));
        let plans = plans.join(", ");
        if let Some(tool) = tool.filter(|_| !creates_plans) {
            let reason = format!("{tool} needs a kind of plans in `creates`; there are: {plans}");
            return self.refuse_tool(tool, reason);
        }
        let lacks_tool = *planning == Planning::Force && !tools.iter().any(|tool| tool == CREATE_PLAN);
        if let Some(at) = self.names.plans.as_ref().filter(|_| lacks_tool) {
            let reason = format!(
                "plans = \"force\" needs {CREATE_PLAN} in `tools`, and a kind of plans in `creates`; there are: {plans}"
            );
            return Err(self.refuse(at.span().start, reason));
        }
        Ok(())
    }

    fn check_reached(&self, allowed: &[&str]) -> Result<()> {
        self.check_names(&self.names.reaches, allowed, |given| {
            format!("`{given}` is no kind with conversations; kinds that have them are")
        })?;
        let AgentType { tools, reaches, .. } = &self.agent_type;
        let tool = tools.iter().find(|tool| needs(tool) == Some(Needs::Reach));
        match tool.filter(|_| reaches.is_empty()) {
            None => Ok(()),
            Some(tool) => {
                let allowed = allowed.join(", ");
                let reason = format!("{tool} needs `reaches = [\"…\"]`; allowed kinds are: {allowed}");
                self.refuse_tool(tool, reason)
            }
        }
    }

    fn check_use_case(&self, use_case: &Spanned<String>) -> Result<()> {
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

    fn refuse(&self, at: usize, reason: String) -> ConfigError {
        refusal(&self.path, &self.text, at, reason)
    }
}

/// What is said of a name of nothing.
fn no(what: &str) -> impl Fn(&str) -> String {
    move |given| format!("there is no {what} `{given}`; there are")
}

/// The parser's error; for an unknown key with the most similar one.
fn unreadable(path: &Path, text: &str, error: &toml::de::Error) -> ConfigError {
    let message = error.message();
    let mut quoted = message.split('`').skip(1).step_by(2);
    let reason = match quoted.next().filter(|_| message.starts_with("unknown ")) {
        Some(given) => format!("{message}{}", like(given, &quoted.collect::<Vec<_>>())),
        None => message.to_owned(),
    };
    refusal(path, text, error.span().map_or(0, |span| span.start), reason)
}

/// The error of a file at this byte of its text.
fn refusal(path: &Path, text: &str, at: usize, reason: String) -> ConfigError {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
    ConfigError::file(path, format!("line {line}, column {column}: {reason}"))
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
    /// [`ConfigError`] when a pack lists a tool or server that does not exist, or nothing.
    pub(super) fn check(&self, tools: &[String], servers: &Servers, layers: &Layers) -> Result<()> {
        let patterns = servers.patterns();
        let allowed: Vec<&str> = tools.iter().chain(&patterns).map(String::as_str).collect();
        for (name, pack) in &self.0 {
            let wrong = pack.tools.iter().find(|tool| !allowed.contains(&tool.as_str()));
            let reason = match wrong {
                None if pack.tools.is_empty() => "a pack lists at least one tool".to_owned(),
                None => continue,
                Some(wrong) => unknown("tool", wrong, &allowed),
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

    fn file(stem: &str, text: &str) -> folder::File {
        let path = PathBuf::from(format!("agents/{stem}.toml"));
        folder::File { stem: stem.to_owned(), path, text: text.to_owned() }
    }

    fn refused(stem: &str, text: &str) -> String {
        let tools = ["create_note", "send_message"];
        File::read(file(stem, text), &tools, &Packs::default()).map(drop).unwrap_err().to_string()
    }

    #[test]
    fn tools_for_plans_and_forced_plans_need_a_kind_of_plans() {
        let refused = |text: String| {
            let file = File::parse(file("project", &text)).unwrap();
            file.check_created(&["plan", "task"], &["plan"]).map_err(|error| error.to_string())
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
