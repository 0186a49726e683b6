//! `houston eval`: checks recorded or replayed runs against what is expected of them.

mod baseline;
mod judge;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use clap::Args;
use houston_domain::trace::Trace;
use houston_domain::trace::compare::{Way, compare};
use houston_domain::trace::expectation::Expectations;
use houston_domain::trace::replay::replay;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::junit::{Case as JunitCase, junit};
use super::replay::agent::PromptFiles;
use super::replay::{Tools, With, file, live, report};
use super::{Context, Failure, runtime};
use crate::output::{print, print_json, print_stderr};
use baseline::Baseline;
use judge::Judge;

/// The most cases of a folder.
const MOST_CASES: usize = 10_000;
/// The longest case file, in bytes.
const MOST_BYTES: usize = 1024 * 1024;

/// Check the cases of a folder. Each `*.case.toml` names a trace (`trace = "x.trace.jsonl"`) and has an `[expect]`:
/// `calls`, `never_calls`, `order`, `answer.contains`, `answer.regex`, `answer.schema`, `max_iterations`, `max_cost`,
/// `judge`. Exits 1 when a case does not meet it, or does worse than in the baseline.
#[derive(Debug, Args)]
pub(crate) struct Eval {
    /// The folder with the cases
    #[arg(value_name = "FOLDER")]
    cases: PathBuf,
    /// `recorded`, or a model as provider/model, which is asked with the tools answered from the record
    #[arg(long, default_value = "recorded")]
    model: String,
    /// Another system prompt: a folder with `role.md`, `guidelines.md` or both, or one file
    #[arg(long, value_name = "DIR")]
    prompt: Option<PathBuf>,
    /// What a call is answered that is not in the record
    #[arg(long, value_enum, default_value_t = Tools::Skip)]
    tools: Tools,
    /// The model that is asked about a `judge`, as provider/model [default: that of the kind]
    #[arg(long, value_name = "MODEL")]
    judge: Option<String>,
    /// A file with the results of an earlier evaluation: what was met there must be met
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Write the results as a baseline
    #[arg(long, value_name = "FILE")]
    write_baseline: Option<PathBuf>,
    /// Write the results as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A case file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    trace: PathBuf,
    #[serde(default)]
    expect: Expectations,
}

/// What became of a case.
#[derive(Debug, Clone, Serialize)]
struct Outcome {
    name: String,
    /// What is not met; empty: the case passed.
    unmet: Vec<String>,
    /// Whether the baseline says that it fails.
    excused: bool,
    way: Way,
    /// Calls that differ from the recorded ones.
    distance: usize,
}

impl Outcome {
    /// Whether it makes the evaluation fail.
    fn has_failed(&self) -> bool {
        !self.unmet.is_empty() && !self.excused
    }
}

impl Eval {
    pub(crate) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let prompt = self.prompt.as_deref().map(PromptFiles::read).transpose()?;
        let (prompt, tools) = (prompt.as_ref(), self.tools);
        let with = With { model: &self.model, prompt, agent: None, tools, from: None };
        let files = case_files(&self.cases)?;
        let baseline = self.baseline.as_deref().map(Baseline::read).transpose()?;
        let mut judge = Judge::new(self.judge.as_deref());
        let mut outcomes = runtime()?.block_on(async {
            let mut outcomes = Vec::new();
            for file in &files {
                outcomes.push(outcome(context, &self.cases, file, &with, &mut judge).await?);
            }
            Ok::<_, Failure>(outcomes)
        })?;
        if let Some(path) = &self.write_baseline {
            file::write(path, &Baseline::of(&outcomes).to_text())?;
        }
        if let Some(baseline) = &baseline {
            baseline.compare(&mut outcomes);
        }
        self.show(&outcomes)
    }

    fn show(&self, outcomes: &[Outcome]) -> Result<ExitCode, Failure> {
        if let Some(path) = &self.junit {
            let cases: Vec<JunitCase> = outcomes.iter().map(junit_case).collect();
            file::write(path, &junit("houston eval", &cases))?;
        }
        let failed = outcomes.iter().filter(|outcome| outcome.has_failed()).count();
        if self.json {
            print_json(&json!({"cases": outcomes, "failed": failed}));
        } else {
            outcomes.iter().flat_map(lines).for_each(|line| print(&line));
            print_stderr(&format!("{} cases, {failed} failed", outcomes.len()));
        }
        Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// The case files of a folder, sorted by name.
fn case_files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let path_text = folder.display();
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("{path_text} cannot be read"))
        .map_err(Failure::Usage)?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.to_string_lossy().ends_with(".case.toml") {
            files.push(path);
        }
    }
    if files.is_empty() || files.len() > MOST_CASES {
        let found = files.len();
        return Err(Failure::Usage(anyhow!(
            "{path_text} has {found} *.case.toml files; 1 to {MOST_CASES} are needed"
        )));
    }
    files.sort();
    Ok(files)
}

async fn outcome(
    context: &Context,
    folder: &Path,
    path: &Path,
    with: &With<'_>,
    judge: &mut Judge,
) -> Result<Outcome, Failure> {
    let path_text = path.display();
    let case: Case = toml::from_str(&file::text(path, MOST_BYTES)?)
        .map_err(|error| Failure::Usage(anyhow!("{path_text}: {error}")))?;
    let trace = file::read(&folder.join(&case.trace))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().replace(".case.toml", "");
    let mut unmet = Vec::new();
    let way = match with.is_recorded() {
        true => {
            unmet.extend(of_engine(&trace));
            Way::of(&trace)
        }
        false => match live::way(context, &trace, with).await {
            Ok((_, way)) => way,
            Err(Failure::Usage(error)) => return Err(Failure::Usage(error)),
            Err(Failure::Other(error)) => {
                unmet.push(format!("{error:#}"));
                Way::default()
            }
        },
    };
    unmet.extend(case.expect.unmet(&way));
    if let Some(question) = &case.expect.judge {
        unmet.extend(judge.unmet(context, &trace, question, &way.answer).await?);
    }
    let distance = compare(Way::of(&trace), way.clone()).distance;
    Ok(Outcome { name, unmet, excused: false, way, distance })
}

/// The difference that the engine makes, if the run can be replayed.
fn of_engine(trace: &Trace) -> Option<String> {
    let is_plan = trace.header.driver.as_deref() == Some(houston_domain::trace::plan::DRIVER);
    if trace.header.driver.is_some() && !is_plan {
        return None;
    }
    let found = replay(trace).err()?;
    Some(report::difference("replay", &found).join(";"))
}

fn lines(outcome: &Outcome) -> Vec<String> {
    let Outcome { name, unmet, excused, way, distance } = outcome;
    let word = match (unmet.is_empty(), excused) {
        (true, _) => "ok",
        (false, true) => "excused",
        (false, false) => "FAILED",
    };
    let counts = format!("{} iterations, {} calls, {distance} differ", way.iterations, way.calls.len());
    let mut lines = vec![format!("{word} {name}: {counts}")];
    lines.extend(unmet.iter().map(|unmet| format!("  {unmet}")));
    lines
}

fn junit_case(outcome: &Outcome) -> JunitCase {
    let Outcome { name, unmet, excused, .. } = outcome;
    match (unmet.is_empty(), excused) {
        (true, _) => JunitCase::passed(name.clone()),
        (false, true) => JunitCase::skipped(name.clone(), unmet),
        (false, false) => JunitCase::failed(name.clone(), unmet),
    }
}
