//! `houston trace`: the trace of a run, for `houston replay`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use clap::Args;
use houston_domain::cell::Cells;
use houston_domain::id::{AgentId, RunId, TenantId};
use houston_domain::trace::{Header, Trace as Recorded};
use houston_store::agent::Agent;
use houston_store::{Error, Store};

use super::agentable::Database;
use super::{Context, Failure};
use crate::explain::Explainer;
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
    #[command(flatten)]
    database: Database,
}

impl Trace {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        let Self { run, output, database } = self;
        database.with(context, async |context, stores| {
            let trace = read(&context, &stores, run).await?;
            let text = trace.to_text();
            match &output {
                None => print_json_text(text.trim_end()),
                Some(path) => {
                    std::fs::write(path, &text)
                        .with_context(|| format!("{} cannot be written", path.display()))?;
                    let lines = trace.lines.len() + 2;
                    print_stderr(&format!("{lines} lines written to {}", path.display()));
                }
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// The trace of a run of whichever tenant.
pub(super) async fn read(context: &Context, stores: &Cells<Store>, run: RunId) -> Result<Recorded, Failure> {
    let runs = stores.of(run).runs();
    let tenant = tenant_of(stores, run).await?;
    let store = stores.of(run).tenant(tenant);
    let found = store.run(run).await?;
    let agentable = store.agentable(&found.kind, found.agentable).await?;
    let explainer = Explainer::new(context.loaded.clone(), context.registry.clone());
    let snapshot = explainer.snapshot(runs, &agentable).await?;
    let settings = &context.loaded.settings;
    let header = Header::of(run, &found.kind, snapshot, settings.overseer);
    Ok(store.trace(run, settings.server.conversation.max_bytes, |_| header).await?)
}

/// An agent of the tenant whose run it is.
pub(super) async fn agent(stores: &Cells<Store>, run: RunId, id: AgentId) -> Result<Agent, Failure> {
    let tenant = tenant_of(stores, run).await?;
    stores.of(run).tenant(tenant).agent(id).await.map_err(|error| match error {
        Error::NotFound { .. } => Failure::Usage(anyhow!(
            "the tenant of {run} has no {id}; `houston list agents` prints the existing ids"
        )),
        error => error.into(),
    })
}

async fn tenant_of(stores: &Cells<Store>, run: RunId) -> Result<TenantId, Failure> {
    let tenant = stores.of(run).operator().tenant_of_thing(run.0).await?;
    let missing = || anyhow!("there is no {run} in this database; `houston list` prints the existing ids");
    Ok(tenant.ok_or_else(missing)?)
}
