//! `houston replay`: replays a recorded run, with the recorded answers, or with another prompt, model or agent.

pub(super) mod agent;
mod answers;
pub(super) mod file;
pub(super) mod live;
pub(super) mod report;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::anyhow;
use clap::Args;
use houston_domain::id::{AgentId, RunId};
use houston_domain::trace::Trace;
use houston_domain::trace::compare::compare;
use houston_domain::trace::plan;
use houston_domain::trace::replay::replay_from;
use houston_domain::trace::stability::Stability;
use serde_json::json;

use super::agentable::Database;
use super::junit::{Case, junit};
use super::{Context, Failure, runtime};
use crate::output::{print, print_json};
use agent::{Agent, PromptFiles};
pub(super) use answers::Tools;

/// Replay a recorded run. With the recorded answers of its model this checks the engine: it exits 1 at the first
/// difference and says where it is. With --model, --prompt or --agent a model is asked, and what it does is compared with
/// the record; its tools are answered from the record, so nothing is changed anywhere.
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// A file of `houston trace`, or a run (`run_…`)
    trace: String,
    /// `recorded`, or a model as provider/model
    #[arg(long, default_value = "recorded")]
    model: String,
    /// Another system prompt: a folder with `role.md`, `guidelines.md` or both, or one file [default with a model: role and
    /// guidelines of the agent]
    #[arg(long, value_name = "DIR")]
    prompt: Option<PathBuf>,
    /// Replay as another agent (`agent_…`) or kind: its prompt, its tools, its model, its limits
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// What a call is answered that is not in the record
    #[arg(long, value_enum, default_value_t = Tools::Fail)]
    tools: Tools,
    /// Replay from the entry after this one: a position as `houston history` prints it
    #[arg(long, value_name = "POSITION")]
    from: Option<i64>,
    /// Replay so often, and summarise how much the replays differ
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    repeat: u16,
    /// Write the results as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    database: Database,
}

/// With what a run is replayed.
pub(super) struct With<'a> {
    pub(super) model: &'a str,
    pub(super) prompt: Option<&'a PromptFiles>,
    pub(super) agent: Option<&'a Agent>,
    pub(super) tools: Tools,
    pub(super) from: Option<i64>,
}

impl With<'_> {
    pub(super) fn is_recorded(&self) -> bool {
        self.model == "recorded" && self.prompt.is_none() && self.agent.is_none()
    }
}

/// What is to be written about a replay.
struct Output<'a> {
    repeat: u16,
    junit: Option<&'a Path>,
    json: bool,
}

impl Replay {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        let run: Option<RunId> = self.trace.parse().ok();
        let id: Option<AgentId> = self.agent.as_deref().and_then(|agent| agent.parse().ok());
        let prompt = self.prompt.as_deref().map(PromptFiles::read).transpose()?;
        let given = match run {
            Some(_) => None,
            None => Some(file::read(Path::new(&self.trace))?),
        };
        if run.is_none() && id.is_none() {
            let agent = self.agent.as_deref().map(|kind| Agent::of_kind(&context, kind)).transpose()?;
            let trace = given.ok_or_else(|| anyhow!("there is no trace"))?;
            return runtime()?.block_on(self.replay(&context, &trace, prompt.as_ref(), agent.as_ref()));
        }
        self.database.with(context, async |context, stores| {
            let trace = match (given, run) {
                (Some(trace), _) => trace,
                (None, Some(run)) => super::trace::read(&context, &stores, run).await?,
                (None, None) => return Err(anyhow!("there is no trace").into()),
            };
            let agent = match (id, self.agent.as_deref()) {
                (Some(id), _) => {
                    let stored = super::trace::agent(&stores, trace.header.run, id).await?;
                    Some(Agent::of_tenant(&context, &stored)?)
                }
                (None, Some(kind)) => Some(Agent::of_kind(&context, kind)?),
                (None, None) => None,
            };
            self.replay(&context, &trace, prompt.as_ref(), agent.as_ref()).await
        })
    }

    async fn replay(
        &self,
        context: &Context,
        trace: &Trace,
        prompt: Option<&PromptFiles>,
        agent: Option<&Agent>,
    ) -> Result<ExitCode, Failure> {
        let Self { model, tools, from, repeat, json, .. } = self;
        let with = With { model, prompt, agent, tools: *tools, from: *from };
        let output = Output { repeat: *repeat, junit: self.junit.as_deref(), json: *json };
        let is_plan = trace.header.driver.as_deref() == Some(plan::DRIVER);
        if let Some(driver) = trace.header.driver.as_deref().filter(|_| !is_plan || !with.is_recorded()) {
            let text = "decides what this run did, not the answers of its model: with a model, only runs without a driver \
                        are replayed, and with the recorded answers those of plans, too";
            return Err(Failure::Usage(anyhow!("the driver `{driver}` {text}")));
        }
        if let Some(position) = from {
            trace.checkpoint(Some(*position)).map_err(|error| Failure::Usage(error.into()))?;
        }
        match with.is_recorded() {
            true => recorded(trace, *from, &output),
            false => asked(context, trace, &with, &output).await,
        }
    }
}

/// Replays with a model, and compares.
async fn asked(
    context: &Context,
    trace: &Trace,
    with: &With<'_>,
    output: &Output<'_>,
) -> Result<ExitCode, Failure> {
    let mut comparisons = Vec::new();
    for _ in 0..output.repeat {
        let (recorded, way) = live::way(context, trace, with).await?;
        comparisons.push(compare(recorded, way));
    }
    let stability = Stability::of(&comparisons).filter(|_| output.repeat > 1);
    if let Some(path) = output.junit {
        let outputs: Vec<String> =
            comparisons.iter().map(|comparison| report::lines(comparison).join("\n")).collect();
        let case =
            |(number, output)| Case::passed(format!("{} {}", trace.header.run, number + 1)).saying(output);
        let cases: Vec<Case> = outputs.into_iter().enumerate().map(case).collect();
        file::write(path, &junit("houston replay", &cases))?;
    }
    match (output.json, &stability) {
        (true, None) => comparisons.iter().for_each(print_json),
        (true, Some(stability)) => print_json(&json!({"replays": comparisons, "stability": stability})),
        (false, None) => comparisons.iter().flat_map(report::lines).for_each(|line| print(&line)),
        (false, Some(stability)) => report::stability(stability).iter().for_each(|line| print(line)),
    }
    Ok(ExitCode::SUCCESS)
}

/// Replays with the recorded answers.
fn recorded(trace: &Trace, from: Option<i64>, output: &Output<'_>) -> Result<ExitCode, Failure> {
    let mut times = Vec::new();
    let mut result = Ok(houston_domain::trace::replay::Replayed::default());
    for _ in 0..output.repeat {
        let started = Instant::now();
        result = replay_from(trace, from);
        times.push(started.elapsed().as_secs_f64() * 1_000.0);
    }
    times.sort_by(f64::total_cmp);
    let ms = times.get(times.len() / 2).copied().unwrap_or_default();
    let run = trace.header.run;
    if let Some(path) = output.junit {
        let case = match &result {
            Ok(_) => Case::passed(run.to_string()),
            Err(found) => Case::failed(run.to_string(), &report::difference(&run.to_string(), found)),
        };
        file::write(path, &junit("houston replay", &[case]))?;
    }
    match &result {
        Ok(replayed) if output.json => {
            print_json(&json!({"run_id": run, "same": true, "replayed": replayed, "ms": ms}));
        }
        Ok(replayed) => print(&report::replayed(&run.to_string(), replayed, ms)),
        Err(found) if output.json => {
            print_json(&json!({"run_id": run, "same": false, "difference": found, "ms": ms}));
        }
        Err(found) => report::difference(&run.to_string(), found).iter().for_each(|line| print(line)),
    }
    Ok(if result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
