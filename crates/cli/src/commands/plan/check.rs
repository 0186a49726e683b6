//! `houston plan check`: a document without a server.

use std::io::Read as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use clap::Args;
use houston_domain::agent::SEND_MESSAGE;
use houston_domain::plan::{Document, MAX_BYTES, MAX_STEPS, Offer, Problem, tried};
use serde_json::json;

use crate::commands::{Context, Failure, runtime};
use crate::output::{print, print_json};

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
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
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
fn read(path: &PathBuf) -> Result<String, anyhow::Error> {
    let most = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX).saturating_add(4);
    let mut bytes = Vec::new();
    let source = if path.as_os_str() == "-" {
        std::io::stdin().take(most).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes))
    };
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
