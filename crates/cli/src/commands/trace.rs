//! `houston trace`: the trace of a run, for `houston replay`.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use houston_api::Local;
use houston_domain::id::RunId;

use super::agentable::{Api, write_file};
use super::{Context, Result};
use crate::output::{print_json_text, print_stderr};

/// Write the trace of a run: what it was given, what it did, what was answered, as lines of JSON for `houston replay`.
/// Texts that look like keys are redacted; everything else is as the run had it.
#[derive(Debug, Args)]
pub(crate) struct Trace {
    /// The run, `run_…`
    run: RunId,
    /// File to write [default: stdout]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Trace {
    pub(crate) fn run(self, context: Context) -> Result<()> {
        let Self { run, output } = self;
        context.with_api(async |api| {
            let text = read(&of_run(&api, run).await?, run).await?;
            match &output {
                None => print_json_text(text.trim_end()),
                Some(path) => {
                    write_file(path, &text)?;
                    print_stderr(&format!("{} lines written to {}", text.lines().count(), path.display()));
                }
            }
            Ok(())
        })
    }
}

/// For the tenant whose run it is.
pub(super) async fn of_run(api: &Api, run: RunId) -> Result<Local> {
    api.of_named(run, &run.to_string()).await
}

/// The trace of a run.
pub(super) async fn read(api: &Local, run: RunId) -> Result<String> {
    let trace = api.bytes(&format!("/v1/runs/{run}/trace")).await?;
    Ok(String::from_utf8(trace.into()).context("the trace is not UTF-8")?)
}
