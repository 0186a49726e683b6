//! `houston work`: a worker alone.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;

use super::{Context, Failure, runtime};
use crate::output::tell;
use crate::system::System;
use crate::{connect, lifecycle, models};

/// Drive runs.
#[derive(Debug, Args)]
pub(crate) struct Work {
    /// Where DATABASE_URL or HOUSTON_REDIS_URL is not set, use servers of Houston's own: those in the folder, made if
    /// there are none
    #[arg(long)]
    embedded: bool,
}

impl Work {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        let addresses = connect::find(&context.loaded.settings, &context.folder, self.embedded)?;
        runtime()?.block_on(async {
            let settings = &context.loaded.settings;
            let store = connect::store(settings, &addresses.database_url).await?;
            connect::prepare_schema(&store, settings, addresses.embedded.is_some()).await?;
            let models = models::build(&context.loaded).await.map_err(anyhow::Error::from)?;
            for told in &models.told {
                tell(&format!("model: {told}"));
            }
            let system = System::new(context.loaded, store, &addresses.database_url, &addresses.redis_url)?;
            let signals = lifecycle::on_signals(system.stop.clone())?;
            houston_faults::fault!("C4").map_err(anyhow::Error::from)?;
            let running = system.start_worker(context.registry, &models)?;
            // Before it waits for Postgres: whoever wants it to stop must be heard then, too.
            tokio_util::task::TaskTracker::new().spawn(signals);
            running.registered().await;
            tell("working");
            running.ended().await.context("the worker ended by itself")?;
            system.close_quickly().await;
            Ok(ExitCode::SUCCESS)
        })
    }
}
