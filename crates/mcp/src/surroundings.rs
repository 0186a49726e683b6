//! What the servers of a process share: [`Surroundings`], what they get of the machine, and [`Shared`], what limits and ends them.

use std::ffi::OsString;
use std::path::PathBuf;

use houston_web::Tls;
use tokio::sync::{OnceCell, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::StartError;

/// What servers get of the machine that they run on.
pub struct Surroundings {
    /// `PATH`.
    pub path: Option<OsString>,
    /// The folder with a home for each server.
    pub homes: PathBuf,
    /// The environment of Houston: the value of a variable that a server's settings name.
    pub variable: fn(&str) -> Option<String>,
}

/// What the servers of a process share.
pub(crate) struct Shared {
    pub(crate) surroundings: Surroundings,
    /// How many processes may be starting at once.
    pub(crate) starts: Semaphore,
    /// The tasks that keep processes.
    pub(crate) tracker: TaskTracker,
    /// Cancelled to end all processes.
    pub(crate) stop: CancellationToken,
    /// The certificates to trust, read when the first server over HTTP is asked.
    tls: OnceCell<Tls>,
}

impl Shared {
    pub(crate) fn new(surroundings: Surroundings, starts: usize) -> Self {
        Self {
            surroundings,
            starts: Semaphore::new(starts),
            tracker: TaskTracker::new(),
            stop: CancellationToken::new(),
            tls: OnceCell::new(),
        }
    }

    /// # Errors
    /// [`StartError::Tls`].
    pub(crate) async fn tls(&self) -> Result<Tls, StartError> {
        let read = async || {
            // Reading them takes long enough to hold up other tasks.
            let read = tokio::task::spawn_blocking(Tls::system).await;
            read.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
        };
        let tls = self.tls.get_or_try_init(read).await;
        tls.cloned().map_err(StartError::Tls)
    }
}
