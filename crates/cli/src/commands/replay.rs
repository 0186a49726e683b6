//! `houston replay`: replays a recorded run, with the recorded answers, or with another prompt, model or agent.

pub(super) mod live;

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, anyhow};
use clap::Args;
use houston_api::Local;
use houston_domain::agent_settings::AgentSettings;
use houston_domain::agentable::AgentType;
use houston_domain::guard::GuardSettings;
use houston_domain::id::{AgentId, RunId};
use houston_domain::trace::compare::{Aligned, Called, Comparison, compare};
use houston_domain::trace::replay::{Difference, Replayed, replay_from};
use houston_domain::trace::stability::{Range, Stability};
use houston_domain::trace::{MAX_BYTES, Trace, plan};
use houston_protocol::problem::ProblemCode;
use serde_json::{Value, json};

use super::agentable::{agent_type, one_line, table, write_file};
use super::junit::{Case, junit};
use super::{Context, Failure, Result, runtime, trace};
use crate::output::{print, print_json};

pub(super) use self::live::Tools;

/// The longest text of a prompt, in bytes.
const MOST_BYTES: usize = 1024 * 1024;

/// The longest value that is printed, in characters.
const MOST_VALUE: usize = 200;

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

impl Replay {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode> {
        let id: Option<AgentId> = self.agent.as_deref().and_then(|agent| agent.parse().ok());
        let prompt = self.prompt.as_deref().map(PromptFiles::read).transpose()?;
        // `Ok`: the trace of a file; `Err`: the run whose trace is asked for.
        let given = match self.trace.parse::<RunId>() {
            Ok(run) => Err(run),
            Err(_) => Ok(read_trace(Path::new(&self.trace))?),
        };
        let of_kind = || self.agent.as_deref().map(|kind| Agent::of_kind(&context, kind)).transpose();
        if let (Ok(trace), None) = (&given, id) {
            let agent = of_kind()?;
            return runtime()?.block_on(self.replay(&context, trace, prompt.as_ref(), agent.as_ref()));
        }
        context.clone().with_api(async |api| {
            let trace = match given {
                Ok(trace) => trace,
                Err(run) => Trace::parse(&trace::read(&trace::of_run(&api, run).await?, run).await?)?,
            };
            let agent = match id {
                Some(id) => {
                    let run = trace.header.run;
                    Some(Agent::of_tenant(&context, &trace::of_run(&api, run).await?, run, id).await?)
                }
                None => of_kind()?,
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
    ) -> Result<ExitCode> {
        let with = With { model: &self.model, prompt, agent, tools: self.tools, from: self.from };
        let is_plan = trace.header.driver.as_deref() == Some(plan::DRIVER);
        if let Some(driver) = trace.header.driver.as_deref().filter(|_| !is_plan || !with.is_recorded()) {
            let text = "decides what this run did, not the answers of its model: with a model, only runs without a driver \
                        are replayed, and with the recorded answers those of plans, too";
            return Err(Failure::Usage(anyhow!("the driver `{driver}` {text}")));
        }
        if let Some(position) = self.from {
            trace.checkpoint(Some(position)).map_err(Failure::usage)?;
        }
        if with.is_recorded() { self.recorded(trace) } else { self.asked(context, trace, &with).await }
    }

    /// Replays with a model, and compares.
    async fn asked(&self, context: &Context, trace: &Trace, with: &With<'_>) -> Result<ExitCode> {
        let mut comparisons = Vec::new();
        for _ in 0..self.repeat {
            let (recorded, way) = live::way(context, trace, with).await?;
            comparisons.push(compare(recorded, way));
        }
        let stability = Stability::of(&comparisons).filter(|_| self.repeat > 1);
        if let Some(path) = &self.junit {
            let outputs: Vec<String> =
                comparisons.iter().map(|comparison| lines(comparison).join("\n")).collect();
            let case = |(number, output)| {
                let name = format!("{} {}", trace.header.run, number + 1);
                Case { name, output: Some(output), ..Case::default() }
            };
            let cases: Vec<Case> = outputs.into_iter().enumerate().map(case).collect();
            write_file(path, junit("houston replay", &cases))?;
        }
        match (self.json, &stability) {
            (true, None) => comparisons.iter().for_each(print_json),
            (true, Some(stability)) => print_json(&json!({"replays": comparisons, "stability": stability})),
            (false, None) => comparisons.iter().flat_map(lines).for_each(|line| print(&line)),
            (false, Some(stability)) => stability_lines(stability).iter().for_each(|line| print(line)),
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Replays with the recorded answers.
    fn recorded(&self, trace: &Trace) -> Result<ExitCode> {
        let mut times = Vec::new();
        let mut result = Ok(Replayed::default());
        for _ in 0..self.repeat {
            let started = Instant::now();
            result = replay_from(trace, self.from);
            times.push(started.elapsed().as_secs_f64() * 1_000.0);
        }
        times.sort_by(f64::total_cmp);
        let ms = times.get(times.len() / 2).copied().unwrap_or_default();
        let run = trace.header.run;
        if let Some(path) = &self.junit {
            let name = run.to_string();
            let failure = result.as_ref().err().map(|found| difference(&name, found).join("\n"));
            let case = Case { name, failure, ..Case::default() };
            write_file(path, junit("houston replay", &[case]))?;
        }
        match &result {
            Ok(replayed) if self.json => {
                print_json(&json!({"run_id": run, "same": true, "replayed": replayed, "ms": ms}));
            }
            Ok(replayed) => print(&replayed_line(&run.to_string(), replayed, ms)),
            Err(found) if self.json => {
                print_json(&json!({"run_id": run, "same": false, "difference": found, "ms": ms}));
            }
            Err(found) => difference(&run.to_string(), found).iter().for_each(|line| print(line)),
        }
        Ok(if result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// An agent that a run is replayed as.
#[derive(Debug)]
pub(in crate::commands) struct Agent {
    /// Its kind with its settings: texts, tools, use case, limits.
    agent_type: AgentType,
    /// Those settings, unless it is the default agent of its kind.
    settings: Option<AgentSettings>,
}

impl Agent {
    /// The default agent of a kind, as its file says.
    pub(in crate::commands) fn of_kind(context: &Context, kind: &str) -> Result<Self> {
        Ok(Self { agent_type: agent_type(&context.loaded, kind)?.clone(), settings: None })
    }

    /// An agent of the tenant whose run it is, within what its kind allows.
    async fn of_tenant(context: &Context, api: &Local, run: RunId, id: AgentId) -> Result<Self> {
        let path = format!("/v1/agents/{id}");
        let found: Value = match api.get(&path).await {
            Err(error) if error.is(ProblemCode::NotFound) => {
                return Err(Failure::Usage(anyhow!(
                    "the tenant of {run} has no {id}; `houston list agents` prints the existing ids"
                )));
            }
            found => found?,
        };
        let kind = agent_type(&context.loaded, found["kind"].as_str().unwrap_or_default())?;
        // It has all settings but its guards.
        let mut settings: AgentSettings = serde_json::from_value(found)?;
        let guards: GuardSettings = api.get(&format!("{path}/guards")).await?;
        settings.guards = (!guards.is_empty()).then_some(guards);
        let bounds = context.loaded.settings.orchestrator.limits;
        Ok(Self { agent_type: settings.applied_to(kind, Some(bounds)), settings: Some(settings) })
    }
}

/// Texts of a prompt that replace those of the agent.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::commands) enum PromptFiles {
    /// The system prompt as a whole.
    Whole(String),
    /// Of a folder: those that it has.
    Parts { role: Option<String>, guidelines: Option<String> },
}

impl PromptFiles {
    /// Reads a folder with `role.md` and `guidelines.md`, of which one may be missing, or a file.
    pub(in crate::commands) fn read(path: &Path) -> Result<Self> {
        if !path.is_dir() {
            return Ok(Self::Whole(read_text(path, MOST_BYTES)?));
        }
        let part = |name: &str| {
            let part = path.join(name);
            part.exists().then(|| read_text(&part, MOST_BYTES)).transpose()
        };
        match (part("role.md")?, part("guidelines.md")?) {
            (None, None) => {
                Err(Failure::Usage(anyhow!("{} has neither `role.md` nor `guidelines.md`", path.display())))
            }
            (role, guidelines) => Ok(Self::Parts { role, guidelines }),
        }
    }

    /// The system prompt of an agent with these texts.
    fn system(files: Option<&Self>, agent: &AgentType) -> String {
        let (role, guidelines) = match files {
            Some(Self::Whole(text)) => return text.clone(),
            Some(Self::Parts { role, guidelines }) => (role.as_ref(), guidelines.as_ref()),
            None => (None, None),
        };
        let role = role.unwrap_or(&agent.prompt.role);
        let guidelines = guidelines.unwrap_or(&agent.prompt.guidelines);
        format!("{role}\n\n{guidelines}")
    }
}

/// Reads the trace of a file, which may be a pipe.
pub(in crate::commands) fn read_trace(path: &Path) -> Result<Trace> {
    let text = read_text(path, MAX_BYTES)?;
    Trace::parse(&text).map_err(|error| Failure::Other(anyhow!("{}: {error}", path.display())))
}

/// Reads at most so many bytes of text.
pub(in crate::commands) fn read_text(path: &Path, most: usize) -> Result<String> {
    let name = path.display();
    let unreadable = || format!("{name} cannot be read");
    let file = File::open(path).with_context(unreadable).map_err(Failure::Usage)?;
    let mut bytes = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    file.take(limit).read_to_end(&mut bytes).with_context(unreadable).map_err(Failure::Usage)?;
    if bytes.len() > most {
        return Err(Failure::Usage(anyhow!("{name} is larger than {most} bytes, which are read at most")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
        Failure::Other(anyhow!("{name}: line {line}: is not UTF-8"))
    })
}

pub(crate) fn difference(run: &str, found: &Difference) -> Vec<String> {
    let Difference { line, iteration, what, recorded, replayed } = found;
    vec![
        format!("{run}: differs at line {line}, iteration {iteration} ({what})"),
        format!("  recorded: {}", one_line(&recorded.to_string(), MOST_VALUE)),
        format!("  replayed: {}", one_line(&replayed.to_string(), MOST_VALUE)),
    ]
}

fn replayed_line(run: &str, replayed: &Replayed, ms: f64) -> String {
    let Replayed { iterations, entries, events, steps, advances, .. } = replayed;
    let what = match advances {
        0 => format!("{iterations} iterations, {entries} entries, {events} events"),
        _ => format!("{steps} results of steps, {advances} decisions of the plan"),
    };
    format!("{run}: the same: {what}, in {ms:.1} ms")
}

fn stability_lines(found: &Stability) -> Vec<String> {
    let Stability { replays, same_calls, same_answer, ways, answers, cost, statuses, .. } = found;
    let range =
        |Range { least, mean, most }: Range| [least.to_string(), format!("{mean:.1}"), most.to_string()];
    let row = |name: &str, [least, mean, most]: [String; 3]| [name.to_owned(), least, mean, most];
    let rows = [
        row("calls that differ", range(found.distance)),
        row("iterations", range(found.iterations)),
        row("tokens in", range(found.input_tokens)),
        row("tokens out", range(found.output_tokens)),
    ];
    let ended = statuses.iter().map(|(status, count)| format!("{count} {status}")).collect::<Vec<_>>();
    let cost = cost.map_or("unknown".to_owned(), |cost| format!("${cost}"));
    let mut lines = vec![
        format!(
            "{replays} replays: {same_calls} with the recorded calls, {same_answer} with the recorded answer"
        ),
        format!("{ways} different lists of calls, {answers} different answers; {}", ended.join(", ")),
    ];
    lines.extend(table(&["", "LEAST", "MEAN", "MOST"], &rows));
    lines.push(format!("cost of all: {cost}"));
    lines
}

pub(crate) fn lines(comparison: &Comparison) -> Vec<String> {
    let Comparison { distance, calls, same_answer, recorded, replayed } = comparison;
    let mut lines: Vec<String> = calls.iter().flat_map(of_call).collect();
    lines.push(format!("{distance} of {} calls differ", calls.len()));
    let cost =
        |cost: Option<rust_decimal::Decimal>| cost.map_or("unknown".to_owned(), |cost| format!("${cost}"));
    let row = |name: &str, one: String, two: String| [name.to_owned(), one, two];
    let rows = [
        row("iterations", recorded.iterations.to_string(), replayed.iterations.to_string()),
        row("tokens in", recorded.input_tokens.to_string(), replayed.input_tokens.to_string()),
        row("tokens out", recorded.output_tokens.to_string(), replayed.output_tokens.to_string()),
        row("cost", cost(recorded.cost), cost(replayed.cost)),
    ];
    lines.extend(table(&["", "RECORDED", "REPLAYED"], &rows));
    if *same_answer {
        lines.push("the answer is the same".to_owned());
    } else {
        lines.push(format!("- {}", one_line(&recorded.answer, MOST_VALUE)));
        lines.push(format!("+ {}", one_line(&replayed.answer, MOST_VALUE)));
    }
    lines
}

fn of_call(aligned: &Aligned) -> Vec<String> {
    let line = |sign: char, call: &Called| {
        let input = one_line(&call.input.to_string(), MOST_VALUE);
        format!("{sign} {} {input}", one_line(&call.name, MOST_VALUE))
    };
    match aligned {
        Aligned::Same { call } => vec![line(' ', call)],
        Aligned::Removed { call } => vec![line('-', call)],
        Aligned::Added { call } => vec![line('+', call)],
        Aligned::Changed { recorded, replayed } => vec![line('-', recorded), line('+', replayed)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_replaces_the_texts_that_it_has() {
        let kind: AgentType = toml::from_str(include_str!("../../../../jobs/agents/goal.toml")).unwrap();
        let folder = tempfile::tempdir().unwrap();
        assert!(PromptFiles::read(folder.path()).is_err());
        std::fs::write(folder.path().join("role.md"), "You are brief.").unwrap();
        let files = PromptFiles::read(folder.path()).unwrap();
        let system = PromptFiles::system(Some(&files), &kind);
        assert_eq!(system, format!("You are brief.\n\n{}", kind.prompt.guidelines));
        let whole = PromptFiles::read(&folder.path().join("role.md")).unwrap();
        assert_eq!(PromptFiles::system(Some(&whole), &kind), "You are brief.");
    }

    fn failure(path: &Path, most: usize) -> String {
        match read_text(path, most) {
            Err(Failure::Usage(error) | Failure::Other(error)) => format!("{error:#}"),
            Ok(text) => panic!("{text}"),
        }
    }

    #[test]
    fn files_without_end_and_other_bytes_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(failure(Path::new("/dev/zero"), 1_000).contains("larger than 1000 bytes"));
        let file = folder.path().join("x.trace.jsonl");
        std::fs::write(&file, b"{}\n\n{\"a\":\"\xff\"}\n").unwrap();
        assert!(failure(&file, 1_000).ends_with("line 3: is not UTF-8"));
        assert!(failure(folder.path(), 1_000).contains("cannot be read"));
        assert!(failure(&folder.path().join("none"), 1_000).contains("cannot be read"));
    }
}
