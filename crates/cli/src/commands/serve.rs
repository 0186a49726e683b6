//! `houston serve`: serves the API, without a worker.

use std::sync::Arc;

use anyhow::anyhow;
use clap::Args;
use houston_store::api_key::ApiKey;

use super::{Context, Result, runtime};
use crate::explain::Explainer;
use crate::metrics_listener::MetricsListener;
use crate::output::print_stderr;
use crate::system::{Listeners, System};
use crate::{connect, lifecycle};

/// Serve the API.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Address to listen on, `address:port` (also HOUSTON_SERVER__ADDRESS)
    #[arg(long)]
    address: Option<String>,
    /// If DATABASE_URL or HOUSTON_REDIS_URL is not set, use the embedded servers of the folder, and create them if they
    /// do not exist
    #[arg(long)]
    embedded: bool,
}

impl Serve {
    pub(crate) fn run(self, mut context: Context) -> Result<()> {
        if let Some(address) = self.address {
            context.loaded.settings.server.address = address;
        }
        let addresses = connect::find(&context.loaded.settings, &context.folder, self.embedded)?;
        runtime()?.block_on(async {
            let (stores, export) = context.reach(&addresses, !addresses.embedded.is_empty()).await?;
            if addresses.has_own_database() {
                context.use_key_of_folder()?;
            }
            let keys = stores.home().operator().list_api_keys().await?;
            if !keys.iter().any(ApiKey::is_valid) {
                return Err(anyhow!("there is no valid API key: create one with `houston key create`").into());
            }
            let explainer = Arc::new(Explainer::new(context.loaded.clone(), context.registry));
            let system = System::new(context.loaded, &stores, &addresses.cells)?;
            let listeners = Listeners::open(&system.loaded).await?;
            print_stderr(&format!("serving on {}", listeners.url()?));
            let metrics = MetricsListener::bind(&system.loaded.settings).await?;
            metrics.serve(&system, true, None);
            let console = system.console();
            if let (Some(_), Some(_)) = (&console, &listeners.console) {
                print_stderr(&format!("the console is on {}", listeners.console_url()?));
            }
            lifecycle::stop_on_signals(system.stop.clone())?;
            lifecycle::report_to_systemd(&system.stop);
            system.serve(listeners, console, &explainer).await;
            tokio::join!(system.close_quickly(), export.stop());
            Ok(())
        })
    }
}
