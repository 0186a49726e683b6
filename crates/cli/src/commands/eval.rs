//! `houston eval`: checks recorded or replayed runs against what is expected of them.

use std::collections::BTreeMap;
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

use super::replay::{Tools, With, live, read, report};
use super::{Context, Failure, runtime};
use crate::output::{print, print_json, print_stderr};

/// The most cases of a folder.
const MOST_CASES: usize = 10_000;

/// Check the cases of a folder. Each `*.case.toml` names a trace (`trace = "x.trace.jsonl"`) and has an `[expect]`:
/// `calls`, `never_calls`, `order`, `answer.contains`, `answer.regex`, `max_iterations`, `max_cost`. Exits 1 when a case
/// does not meet it, or does worse than in the baseline.
#[derive(Debug, Args)]
pub(crate) struct Eval {
    /// The folder with the cases
    folder: PathBuf,
    /// `recorded`, or a model as provider/model, which is asked with the tools answered from the record
    #[arg(long, default_value = "recorded")]
    model: String,
    /// A file with another system prompt
    #[arg(long, value_name = "FILE")]
    prompt: Option<PathBuf>,
    /// What a call is answered that is not in the record
    #[arg(long, value_enum, default_value_t = Tools::Skip)]
    tools: Tools,
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
    way: Way,
    /// Calls that differ from the recorded ones.
    distance: usize,
}

/// What an earlier evaluation came to, by case.
type Baseline = BTreeMap<String, Before>;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Before {
    passed: bool,
    iterations: u32,
    calls: usize,
}

impl Eval {
    pub(crate) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let with =
            With { model: &self.model, prompt: self.prompt.as_deref(), agent: None, tools: self.tools };
        let files = case_files(&self.folder)?;
        let baseline = self.baseline.as_deref().map(read_baseline).transpose()?;
        let mut outcomes = runtime()?.block_on(async {
            let mut outcomes = Vec::new();
            for file in &files {
                outcomes.push(outcome(context, &self.folder, file, &with).await?);
            }
            Ok::<_, Failure>(outcomes)
        })?;
        if let Some(baseline) = &baseline {
            outcomes.iter_mut().for_each(|outcome| compare_with(baseline, outcome));
        }
        if let Some(path) = &self.write_baseline {
            write(path, &json_text(&outcomes.iter().map(before).collect::<Baseline>()))?;
        }
        if let Some(path) = &self.junit {
            write(path, &junit(&outcomes))?;
        }
        let failed = outcomes.iter().filter(|outcome| !outcome.unmet.is_empty()).count();
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

async fn outcome(context: &Context, folder: &Path, file: &Path, with: &With<'_>) -> Result<Outcome, Failure> {
    let path_text = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("{path_text} cannot be read"))?;
    let case: Case =
        toml::from_str(&text).map_err(|error| Failure::Usage(anyhow!("{path_text}: {error}")))?;
    let trace = read(&folder.join(&case.trace))?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().replace(".case.toml", "");
    let mut unmet = Vec::new();
    let way = match with.is_recorded() {
        true => {
            unmet.extend(of_engine(&trace));
            Way::of(&trace)
        }
        false => match live::way(context, &trace, with).await {
            Ok(way) => way,
            Err(Failure::Usage(error)) => return Err(Failure::Usage(error)),
            Err(Failure::Other(error)) => {
                unmet.push(format!("{error:#}"));
                Way::default()
            }
        },
    };
    unmet.extend(case.expect.unmet(&way));
    let distance = compare(Way::of(&trace), way.clone()).distance;
    Ok(Outcome { name, unmet, way, distance })
}

/// The difference that the engine makes, if the run can be replayed.
fn of_engine(trace: &Trace) -> Option<String> {
    if trace.header.driver.is_some() {
        return None;
    }
    let found = replay(trace).err()?;
    Some(report::difference("replay", &found).join(";"))
}

fn before(outcome: &Outcome) -> (String, Before) {
    let Outcome { name, unmet, way, .. } = outcome;
    let before = Before { passed: unmet.is_empty(), iterations: way.iterations, calls: way.calls.len() };
    (name.clone(), before)
}

/// A case that failed before may fail again; one that passed may not need more model calls than before.
fn compare_with(baseline: &Baseline, outcome: &mut Outcome) {
    match baseline.get(&outcome.name) {
        Some(Before { passed: false, .. }) => outcome.unmet.clear(),
        Some(before) if outcome.way.iterations > before.iterations => outcome
            .unmet
            .push(format!("baseline: {} model calls, {} before", outcome.way.iterations, before.iterations)),
        _ => {}
    }
}

fn read_baseline(path: &Path) -> Result<Baseline, Failure> {
    let path_text = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("{path_text} cannot be read"));
    let text = text.map_err(Failure::Usage)?;
    serde_json::from_str(&text)
        .map_err(|error| Failure::Usage(anyhow!("{path_text} is no baseline: {error}")))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    Ok(std::fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))?)
}

fn json_text(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

fn lines(outcome: &Outcome) -> Vec<String> {
    let Outcome { name, unmet, way, distance } = outcome;
    let word = if unmet.is_empty() { "ok" } else { "FAILED" };
    let counts = format!("{} iterations, {} calls, {distance} differ", way.iterations, way.calls.len());
    let mut lines = vec![format!("{word} {name}: {counts}")];
    lines.extend(unmet.iter().map(|unmet| format!("  {unmet}")));
    lines
}

fn junit(outcomes: &[Outcome]) -> String {
    let failed = outcomes.iter().filter(|outcome| !outcome.unmet.is_empty()).count();
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"houston eval\" tests=\"{}\" failures=\"{failed}\">\n",
        outcomes.len()
    );
    for Outcome { name, unmet, .. } in outcomes {
        let name = escaped(name);
        if unmet.is_empty() {
            xml += &format!("  <testcase name=\"{name}\"/>\n");
        } else {
            let text = escaped(&unmet.join("\n"));
            xml += &format!(
                "  <testcase name=\"{name}\"><failure message=\"not as expected\">{text}</failure></testcase>\n"
            );
        }
    }
    xml + "</testsuite>\n"
}

/// Text for XML, without characters that XML does not have.
fn escaped(text: &str) -> String {
    let mut xml = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => xml.push_str("&amp;"),
            '<' => xml.push_str("&lt;"),
            '>' => xml.push_str("&gt;"),
            '"' => xml.push_str("&quot;"),
            '\n' | '\t' => xml.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => xml.push('?'),
            c => xml.push(c),
        }
    }
    xml
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(name: &str, unmet: &[&str], iterations: u32) -> Outcome {
        let unmet = unmet.iter().map(|&unmet| unmet.to_owned()).collect();
        Outcome { name: name.to_owned(), unmet, way: Way { iterations, ..Way::default() }, distance: 0 }
    }

    #[test]
    fn junit_names_what_failed_and_escapes_it() {
        let xml = junit(&[case("a", &[], 1), case("b", &["<x> & \"y\"\u{1b}"], 1)]);
        assert!(
            xml.contains("tests=\"2\" failures=\"1\"") && xml.contains("<testcase name=\"a\"/>"),
            "{xml}"
        );
        assert!(xml.contains("&lt;x&gt; &amp; &quot;y&quot;?"), "{xml}");
    }

    #[test]
    fn a_case_may_not_do_worse_than_its_baseline() {
        let baseline: Baseline = [case("a", &[], 2), case("b", &["no"], 2)].iter().map(before).collect();
        let check = |mut outcome: Outcome| {
            compare_with(&baseline, &mut outcome);
            outcome.unmet.len()
        };
        assert_eq!(check(case("a", &[], 2)), 0);
        assert_eq!(check(case("a", &[], 3)), 1);
        assert_eq!(check(case("a", &["no"], 2)), 1);
        assert_eq!(check(case("b", &["no"], 9)), 0, "it failed before, too");
        assert_eq!(check(case("new", &["no"], 1)), 1);
    }
}
