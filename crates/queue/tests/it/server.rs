//! A Redis server for one test: its own process, on a socket in its own directory.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use houston_domain::clock::{Clock, SystemClock};
use houston_queue::Redis;

/// Time limit of every wait in these tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Server {
    dir: tempfile::TempDir,
    child: Child,
}

impl Server {
    pub(crate) async fn start() -> Self {
        // Not below TMPDIR: the path of a socket must be short.
        let dir = tempfile::Builder::new().prefix("houston-queue-").tempdir_in("/tmp").unwrap();
        let child = spawn(&dir);
        let server = Self { dir, child };
        server.answers().await;
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("redis+unix://{}/redis.sock", self.dir.path().display())
    }

    pub(crate) fn redis(&self) -> Redis {
        self.redis_at(Arc::new(SystemClock))
    }

    pub(crate) fn redis_at(&self, clock: Arc<dyn Clock>) -> Redis {
        Redis::open(&self.url(), "test", clock).unwrap()
    }

    /// Runs one command on a new connection.
    pub(crate) async fn ask<T: redis::FromRedisValue>(&self, command: &[&str]) -> T {
        let client = redis::Client::open(self.url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let mut asked = redis::cmd(command[0]);
        asked.arg(&command[1..]);
        asked.query_async(&mut connection).await.unwrap()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) async fn restart(&mut self) {
        self.kill();
        self.child = spawn(&self.dir);
        self.answers().await;
    }

    /// Sends a signal to the server: `STOP` or `CONT`.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
    }

    async fn answers(&self) {
        let client = redis::Client::open(self.url()).unwrap();
        eventually("redis answers", async || client.get_multiplexed_async_connection().await.is_ok()).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(dir: &tempfile::TempDir) -> Child {
    let socket = dir.path().join("redis.sock");
    Command::new("redis-server")
        .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"])
        .arg(&socket)
        .arg("--dir")
        .arg(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Repeats `condition` until it is true.
pub(crate) async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !condition().await {
        assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
