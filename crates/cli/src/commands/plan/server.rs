//! `houston plan show`, `list` and `run`: what a server does with plans.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use clap::Args;
use houston_protocol::plan::CreatePlan;
use serde_json::{Map, Value};

use crate::chat::{self, ChatError, PlanServer};
use crate::commands::{Context, Failure, runtime};
use crate::models::environment;
use crate::output::print_stderr;

/// The server to ask.
#[derive(Debug, Args)]
struct Server {
    /// Address of the server [default: that of `houston dev` in this folder, else http://127.0.0.1:8080]
    #[arg(long, env = "HOUSTON_URL", hide_env_values = true)]
    url: Option<String>,
    /// API key (also HOUSTON_API_KEY) [default: the one that `houston dev` wrote to this folder]
    #[arg(long)]
    key: Option<String>,
}

impl Server {
    fn at(self, context: &Context) -> PlanServer {
        let given = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
        PlanServer { url: given(self.url), key: given(self.key), folder: context.folder.clone() }
    }
}

#[derive(Debug, Args)]
pub(super) struct Show {
    /// The plan, `plan_…`
    id: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

#[derive(Debug, Args)]
pub(super) struct List {
    /// The goal, `goal_…`
    #[arg(long)]
    goal: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

#[derive(Debug, Args)]
pub(super) struct Run {
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
    server: Server,
}

impl Show {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let at = self.server.at(context);
        Ok(said(runtime()?.block_on(chat::show_plan(&at, environment, &self.id, self.json))))
    }
}

impl List {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let at = self.server.at(context);
        Ok(said(runtime()?.block_on(chat::list_plans(&at, environment, &self.goal, self.json))))
    }
}

impl Run {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let plan = self.plan().map_err(Failure::Usage)?;
        let at = self.server.at(context);
        let ran = chat::run_plan(&at, environment, (&self.goal, &plan), self.json);
        Ok(said(runtime()?.block_on(Box::pin(ran))))
    }

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

fn said(done: Result<ExitCode, ChatError>) -> ExitCode {
    done.unwrap_or_else(|error| {
        print_stderr(&format!("houston: {error}"));
        ExitCode::from(error.exit_code())
    })
}
