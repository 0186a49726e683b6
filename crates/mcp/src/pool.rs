//! [`Pool`]: the servers of a process, and their tools.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use houston_tools::SharedTool;
use houston_web::Tls;
use tokio::sync::{OnceCell, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::StartError;
use crate::names;
use crate::pins::{Pin, Pins};
use crate::server::Server;
use crate::settings::McpSettings;
use crate::tool::McpTool;

/// The longest time of [`Pool::close`].
const CLOSE: Duration = Duration::from_secs(5);

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
        tls.cloned().map_err(|reason| StartError::Tls { reason })
    }
}

/// The servers of a process. Nothing is started before a tool is called.
#[derive(Clone)]
pub struct Pool {
    servers: BTreeMap<String, Offered>,
    shared: Arc<Shared>,
}

/// A server, and the tools that it offers.
#[derive(Clone)]
struct Offered {
    server: Arc<Server>,
    tools: Vec<SharedTool>,
}

impl Pool {
    /// The enabled servers, with the tools that were approved and are enabled.
    #[must_use]
    pub fn new(settings: &McpSettings, pins: &Pins, surroundings: Surroundings) -> Self {
        let shared = Arc::new(Shared::new(surroundings, settings.limits.starts));
        let enabled = settings.servers.iter().filter(|(_, server)| server.enabled);
        let servers = enabled.map(|(name, server)| {
            let pinned: BTreeMap<String, Pin> =
                pins.of(name).map(|(tool, pin)| (tool.to_owned(), pin.clone())).collect();
            let named = names::of_server(name, server, pins);
            let server = Server::new(name, server.clone(), settings.limits, pinned, Arc::clone(&shared));
            let server = Arc::new(server);
            let tool = |(tool, name): (String, String)| {
                let pin = pins.servers.get(server.name())?.get(&tool)?;
                Some(Arc::new(McpTool::new(Arc::clone(&server), &tool, name, pin)) as SharedTool)
            };
            let tools = named.into_iter().filter_map(tool).collect();
            (name.clone(), Offered { server: Arc::clone(&server), tools })
        });
        Self { servers: servers.collect(), shared }
    }

    /// Ends all processes, and waits for that, at most five seconds. One that does not leave by itself is killed after
    /// three.
    pub async fn close(&self) {
        self.shared.stop.cancel();
        self.shared.tracker.close();
        // A process that left its group could hold a pipe open.
        let _ = tokio::time::timeout(CLOSE, self.shared.tracker.wait()).await;
    }

    /// The server with this name, if it is enabled.
    #[must_use]
    pub fn server(&self, name: &str) -> Option<&Arc<Server>> {
        self.servers.get(name).map(|offered| &offered.server)
    }

    /// The tools of all servers.
    #[must_use]
    pub fn tools(&self) -> Vec<SharedTool> {
        self.servers.values().flat_map(|offered| offered.tools.iter().cloned()).collect()
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.servers.keys()).finish()
    }
}
