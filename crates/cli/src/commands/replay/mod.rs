//! `houston replay`: replays a recorded run, with the recorded answers, or with another prompt or model.

pub(super) mod live;
pub(super) mod report;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, anyhow};
use clap::{Args, ValueEnum};
use houston_domain::id::RunId;
use houston_domain::trace::Trace;
use houston_domain::trace::compare::{Way, compare};
use houston_domain::trace::replay::replay;
use serde_json::json;

use super::agentable::Database;
use super::{Context, Failure, runtime};
use crate::output::{print, print_json};

/// The largest trace that is read, in bytes.
const MOST_BYTES: u64 = 256 * 1024 * 1024;

/// Replay a recorded run. With the recorded answers of its model this checks the engine: it exits 1 at the first
/// difference and says where it is. With --model or --prompt a model is asked, and what it does is compared with the
/// record; its tools are answered from the record, so nothing is changed anywhere.
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// A file of `houston trace`, or a run (`run_…`)
    trace: String,
    /// `recorded`, or a model as provider/model
    #[arg(long, default_value = "recorded")]
    model: String,
    /// A file with another system prompt [default with a model: role and guidelines of the kind]
    #[arg(long, value_name = "FILE")]
    prompt: Option<PathBuf>,
    /// Replay for another kind: its prompt, its tools, its limits
    #[arg(long, value_name = "KIND")]
    agent: Option<String>,
    /// What a call is answered that is not in the record
    #[arg(long, value_enum, default_value_t = Tools::Fail)]
    tools: Tools,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    database: Database,
}

/// What a call is answered that is not in the record. No tool is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tools {
    /// The replay ends
    Fail,
    /// The model reads that the tool is not available
    Skip,
}

/// With what a run is replayed.
pub(super) struct With<'a> {
    pub(super) model: &'a str,
    pub(super) prompt: Option<&'a Path>,
    pub(super) agent: Option<&'a str>,
    pub(super) tools: Tools,
}

impl With<'_> {
    pub(super) fn is_recorded(&self) -> bool {
        self.model == "recorded" && self.prompt.is_none() && self.agent.is_none()
    }
}

impl Replay {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        let Self { trace, model, prompt, agent, tools, json, database } = self;
        let run: Result<RunId, _> = trace.parse();
        let with = With { model: &model, prompt: prompt.as_deref(), agent: agent.as_deref(), tools };
        match run {
            Ok(run) => database.with(context, async |context, stores| {
                let trace = super::trace::read(&context.loaded, &stores, run).await?;
                show(&context, &trace, &with, json).await
            }),
            Err(_) => {
                let trace = read(Path::new(&trace))?;
                runtime()?.block_on(show(&context, &trace, &with, json))
            }
        }
    }
}

/// Reads the trace of a file.
pub(super) fn read(path: &Path) -> Result<Trace, Failure> {
    let name = path.display();
    let size = std::fs::metadata(path).with_context(|| format!("{name} cannot be read"))?.len();
    if size > MOST_BYTES {
        return Err(Failure::Usage(anyhow!("{name} has {size} bytes; a trace has at most {MOST_BYTES}")));
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("{name} cannot be read"))?;
    Trace::parse(&text).map_err(|error| Failure::Other(anyhow!("{name}: {error}")))
}

async fn show(context: &Context, trace: &Trace, with: &With<'_>, json: bool) -> Result<ExitCode, Failure> {
    if with.is_recorded() {
        return recorded(trace, json);
    }
    let way = live::way(context, trace, with).await?;
    let comparison = compare(Way::of(trace), way);
    match json {
        true => print_json(&comparison),
        false => report::lines(&comparison).iter().for_each(|line| print(line)),
    }
    Ok(ExitCode::SUCCESS)
}

fn recorded(trace: &Trace, json: bool) -> Result<ExitCode, Failure> {
    if let Some(driver) = &trace.header.driver {
        let text = "decides what this run did, not the answers of its model: only runs without a driver are replayed";
        return Err(Failure::Usage(anyhow!("the driver `{driver}` {text}")));
    }
    let started = Instant::now();
    let result = replay(trace);
    let ms = started.elapsed().as_secs_f64() * 1_000.0;
    let run = trace.header.run;
    match result {
        Ok(replayed) if json => {
            print_json(&json!({"run_id": run, "same": true, "replayed": replayed, "ms": ms}))
        }
        Ok(replayed) => print(&format!(
            "{run}: the same: {} iterations, {} entries, {} events, in {ms:.1} ms",
            replayed.iterations, replayed.entries, replayed.events
        )),
        Err(difference) => {
            match json {
                true => {
                    print_json(&json!({"run_id": run, "same": false, "difference": difference, "ms": ms}));
                }
                false => {
                    report::difference(&run.to_string(), &difference).iter().for_each(|line| print(line))
                }
            }
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}
