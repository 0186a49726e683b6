//! `houston work`: runs a worker, without the API.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use houston_domain::id::AgentableId;

use super::{Context, Result, runtime};
use crate::metrics_listener::MetricsListener;
use crate::output::print_stderr;
use crate::system::System;
use crate::{connect, lifecycle, models, trial};

/// Drive runs.
#[derive(Debug, Args)]
pub(crate) struct Work {
    /// If DATABASE_URL or HOUSTON_REDIS_URL is not set, use the embedded servers of the folder, and create them if they
    /// do not exist
    #[arg(long)]
    embedded: bool,
    /// Drive this run alone and end: what workers do with a run that others died with
    #[arg(long, hide = true, value_name = "ID")]
    only: Option<uuid::Uuid>,
}

impl Work {
    pub(crate) fn run(self, mut context: Context) -> Result<ExitCode> {
        let addresses = connect::find(&context.loaded.settings, &context.folder, self.embedded)?;
        runtime()?.block_on(async {
            let (stores, export) = context.reach(&addresses, !addresses.embedded.is_empty()).await?;
            let has_own = addresses.has_own_database();
            if has_own || (self.embedded && self.only.is_some()) {
                context.use_key_of_folder()?;
            }
            let models = models::build(&context.loaded).await?;
            if let Some(only) = self.only {
                let system = System::new(context.loaded, &stores, &addresses.cells)?;
                lifecycle::stop_on_signals(system.stop.clone())?;
                let code = trial::drive(&system, &context.registry, &models, AgentableId(only)).await;
                tokio::join!(system.close_quickly(), export.stop());
                return code;
            }
            for line in &models.summary {
                print_stderr(&format!("model: {line}"));
            }
            let alone = trial::in_children(&context, &addresses, has_own);
            let system = System::new(context.loaded, &stores, &addresses.cells)?.with_trials(alone);
            lifecycle::stop_on_signals(system.stop.clone())?;
            houston_faults::fault!("C4")?;
            let metrics = MetricsListener::bind(&system.loaded.settings).await?;
            let running = system.start_workers(&context.registry, &models)?;
            metrics.serve(&system, false, Some(&running.slots));
            running.registered().await;
            print_stderr("working");
            lifecycle::report_to_systemd(&system.stop);
            running.ended().await.context("the worker stopped unexpectedly")?;
            tokio::join!(system.close_quickly(), export.stop());
            Ok(ExitCode::SUCCESS)
        })
    }
}
