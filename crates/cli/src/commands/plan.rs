//! `houston plan`: plans and their documents.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use houston_domain::agent::SEND_MESSAGE;
use houston_domain::plan::{Document, MAX_BYTES, MAX_STEPS, Offer, Problem, tried};
use houston_protocol::plan::CreatePlan;
use serde_json::{Map, Value, json};

use super::agentable::open;
use super::{Context, Failure, Result, runtime};
use crate::chat::{self, ChatError, ServerArg};
use crate::output::{print, print_json};

/// Check, show, list and run plans.
#[derive(Debug, Subcommand)]
pub(crate) enum Plan {
    /// Check a document without a server: one problem a line, each with its place. Exits 1 if there is one
    Check(Check),
    /// Show a plan: its steps, what it asks, its output
    Show {
        /// The plan, `plan_…`
        id: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: ServerArg,
    },
    /// List the plans of a goal, newest first
    List {
        /// The goal, `goal_…`
        #[arg(long)]
        goal: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: ServerArg,
    },
    /// Run a document for a goal, and print how it gets on. Exits 1 if it is not completed
    Run(Run),
}

impl Plan {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode> {
        let at = |server| (server, context.folder.as_path());
        let done = match self {
            Self::Check(check) => return check.run(&context),
            Self::Show { id, json, server } => runtime()?.block_on(chat::show_plan(at(&server), &id, json)),
            Self::List { goal, json, server } => {
                runtime()?.block_on(chat::list_plans(at(&server), &goal, json))
            }
            Self::Run(run) => {
                let plan = run.plan().map_err(Failure::Usage)?;
                let ran = chat::run_plan(at(&run.server), (&run.goal, &plan), run.json);
                runtime()?.block_on(Box::pin(ran))
            }
        };
        Ok(done.unwrap_or_else(ChatError::report))
    }
}

/// Check a document without a server.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// A JSON file; `-`: standard input
    file: PathBuf,
    /// A tool that the plan may call besides those of this installation: of an MCP server or a client
    #[arg(long = "tool", value_name = "NAME")]
    tools: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Check {
    fn run(self, context: &Context) -> Result<ExitCode> {
        let Self { file, tools, json } = self;
        let text = read(&file).map_err(Failure::Usage)?;
        let names: Vec<String> = context.registry.names().into_iter().chain(tools).collect();
        // The answer to the user is for the agent that made the plan.
        let names = names.iter().map(String::as_str).filter(|name| *name != SEND_MESSAGE);
        let offered: Vec<&str> = names.collect();
        let problems = match Document::parse(&text, Offer { tools: &offered, steps: MAX_STEPS }) {
            Ok(_) => {
                // Evaluates in child processes.
                let _runtime = runtime()?;
                let document = serde_json::from_str(&text).unwrap_or_default();
                tried(&document).err().into_iter().collect()
            }
            Err(problems) => problems,
        };
        report(&file.display().to_string(), &problems, json);
        Ok(ExitCode::from(u8::from(!problems.is_empty())))
    }
}

/// The text of a file. Of one that is too long, as much as shows that it is.
fn read(path: &Path) -> Result<String, anyhow::Error> {
    let most = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX).saturating_add(4);
    let mut bytes = Vec::new();
    let source = open(path, most).and_then(|mut file| file.read_to_end(&mut bytes));
    source.with_context(|| format!("{} cannot be read", path.display()))?;
    if bytes.len() > MAX_BYTES {
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
    String::from_utf8(bytes).map_err(|_| anyhow!("{} is not text in UTF-8", path.display()))
}

fn report(file: &str, problems: &[Problem], json: bool) {
    if json {
        let problems: Vec<_> = problems
            .iter()
            .map(|problem| json!({"pointer": problem.pointer, "message": problem.message}))
            .collect();
        return print_json(&json!({"file": file, "valid": problems.is_empty(), "problems": problems}));
    }
    for problem in problems {
        print(&format!("{file}: {problem}"));
    }
    if problems.is_empty() {
        print(&format!("{file}: valid"));
    }
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// A JSON file with the document
    #[arg(required_unless_present = "template")]
    file: Option<PathBuf>,
    /// In its place: the name of a template of the server's, as in jobs/plans/research.json
    #[arg(long, value_name = "NAME", conflicts_with = "file")]
    template: Option<String>,
    /// The goal it works for, `goal_…`
    #[arg(long)]
    goal: String,
    /// What its expressions read as `input`: a JSON object
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArg,
}

impl Run {
    fn plan(&self) -> anyhow::Result<CreatePlan> {
        let document = self.file.as_deref().map(document).transpose()?;
        let input = self.input.as_deref().map(object).transpose().context("--input")?;
        Ok(CreatePlan { document, template: self.template.clone(), input: input.unwrap_or_default() })
    }
}

fn document(path: &Path) -> anyhow::Result<Map<String, Value>> {
    let file = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("{file} cannot be read"))?;
    object(&text).with_context(|| format!("{file} is not a document of a plan"))
}

fn object(text: &str) -> anyhow::Result<Map<String, Value>> {
    match serde_json::from_str(text)? {
        Value::Object(fields) => Ok(fields),
        _ => Err(anyhow!("it must be a JSON object")),
    }
}
