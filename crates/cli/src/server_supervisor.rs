//! [`ServerSupervisor`]: keeps embedded servers running.

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use houston_embedded::Servers;

/// Checks the embedded servers every second and restarts those that died.
pub(crate) struct ServerSupervisor {
    stop: std::sync::mpsc::Sender<()>,
    watching: std::thread::JoinHandle<Vec<Servers>>,
}

impl ServerSupervisor {
    /// Starts to check them. `report` gets a line for each server that died.
    pub(crate) fn start(mut servers: Vec<Servers>, report: impl Fn(&str) + Send + 'static) -> Self {
        let (stop, stopped) = std::sync::mpsc::channel();
        let watching = std::thread::spawn(move || {
            while stopped.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                for servers in &mut servers {
                    match servers.revive() {
                        Ok(revived) => revived
                            .iter()
                            .for_each(|server| report(&format!("{server} died and was restarted"))),
                        Err(error) => {
                            report(&format!("an embedded server died and cannot be restarted: {error}"))
                        }
                    }
                }
            }
            servers
        });
        Self { stop, watching }
    }

    /// Stops the servers, unless another process owns them. Blocks.
    ///
    /// # Errors
    /// When one does not stop.
    pub(crate) fn stop(self) -> anyhow::Result<()> {
        drop(self.stop);
        let servers =
            self.watching.join().map_err(|_| anyhow!("the supervisor of the embedded servers panicked"))?;
        for servers in servers {
            servers.stop().context("the embedded servers did not stop cleanly")?;
        }
        Ok(())
    }
}
