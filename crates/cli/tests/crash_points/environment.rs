//! What all cases share: one Postgres with a database per case, one Redis with a database number per case, one model.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use houston_testkit::model_server::ModelServer;
use houston_testkit::servers::TestServers;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::model;

/// How many cases run at once, each with a Redis database of its own. They wait more than they compute.
const AT_ONCE: usize = 12;

pub(crate) struct Environment {
    pub(crate) servers: TestServers,
    pub(crate) model: ModelServer,
    pub(crate) key: String,
    psql: PathBuf,
    slots: Arc<Semaphore>,
    free: Mutex<Vec<usize>>,
    creating: tokio::sync::Mutex<()>,
}

/// The databases of one case.
pub(crate) struct CaseEnvironment {
    shared: Arc<Environment>,
    redis: usize,
    pub(crate) database_url: String,
    pub(crate) redis_url: String,
    _slot: OwnedSemaphorePermit,
}

/// This program, which also runs as Houston.
pub(crate) fn houston() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("HOUSTON_") {
            command.env_remove(name);
        }
    }
    command.env_remove("DATABASE_URL").env_remove("FAILPOINTS");
    command
}

impl Environment {
    pub(crate) async fn prepare() -> Arc<Self> {
        // Enough for three processes of each case, each with the connections that it opens before its first request.
        let servers = TestServers::start_with(|config| config.max_connections = 600).unwrap();
        let run = |arguments: &[&str]| {
            let mut command = houston();
            command.env("DATABASE_URL", servers.database_url()).env("HOUSTON_REDIS_URL", servers.redis_url());
            let output = command.args(arguments).output().unwrap();
            assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        };
        run(&["migrate"]);
        let key = run(&["key", "create", "--tenant", "test"]).trim().to_owned();
        let beside = std::fs::read_link(format!("/proc/{}/exe", servers.postgres_pid().unwrap()))
            .ok()
            .and_then(|postgres| Some(postgres.parent()?.join("psql")))
            .filter(|psql| psql.is_file());
        Arc::new(Self {
            servers,
            model: ModelServer::start(model::script()).await.unwrap(),
            key,
            psql: beside.unwrap_or_else(|| "psql".into()),
            slots: Arc::new(Semaphore::new(AT_ONCE)),
            free: Mutex::new((1..=AT_ONCE).collect()),
            creating: tokio::sync::Mutex::default(),
        })
    }

    /// Creates the databases of a case, once fewer than [`AT_ONCE`] cases run.
    pub(crate) async fn case_environment(self: &Arc<Self>, name: &str) -> CaseEnvironment {
        let slot = Arc::clone(&self.slots).acquire_owned().await.unwrap();
        let redis = self.free.lock().unwrap().pop().unwrap();
        let database = name.to_lowercase().replace('-', "_");
        // Postgres cannot copy one template twice at a time.
        let _alone = self.creating.lock().await;
        let whole = self.servers.database_url();
        let of = |name: &str| whole.replacen("/houston?", &format!("/{name}?"), 1);
        self.sql(&of("postgres"), &format!("create database {database} template houston strategy file_copy"));
        CaseEnvironment {
            redis,
            database_url: of(&database),
            redis_url: format!("{}?db={redis}", self.servers.redis_url()),
            shared: Arc::clone(self),
            _slot: slot,
        }
    }

    fn sql(&self, url: &str, sql: &str) -> String {
        let mut psql = Command::new(&self.psql);
        psql.args(["--no-psqlrc", "--tuples-only", "--no-align", "--quiet", "-v", "ON_ERROR_STOP=1"]);
        let output =
            tokio::task::block_in_place(|| psql.args(["--dbname", url, "--command", sql]).output().unwrap());
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

impl CaseEnvironment {
    pub(crate) fn shared(&self) -> &Environment {
        &self.shared
    }

    /// Runs one statement; returns its rows as text.
    pub(crate) fn sql(&self, sql: &str) -> String {
        self.shared.sql(&self.database_url, sql)
    }

    /// Runs one Redis command; returns the reply as text.
    pub(crate) fn redis(&self, arguments: &[&str]) -> String {
        let socket = self.shared.servers.redis_url().trim_start_matches("redis+unix://");
        let mut client = Command::new("redis-cli");
        client.args(["-s", socket, "-n", &self.redis.to_string()]).args(arguments);
        let output = tokio::task::block_in_place(|| client.output().unwrap());
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// How many model calls contained the question of this case.
    pub(crate) fn model_calls(&self, question: &str) -> usize {
        let exchanges = self.shared.model.journal().exchanges();
        exchanges.iter().filter(|exchange| String::from_utf8_lossy(&exchange.body).contains(question)).count()
    }
}

impl Drop for CaseEnvironment {
    fn drop(&mut self) {
        self.shared.free.lock().unwrap().push(self.redis);
    }
}

/// Writes agent types that may use the tools of the tests.
pub(crate) fn jobs(folder: &Path) {
    std::fs::create_dir_all(folder.join("agents")).unwrap();
    let kinds = [
        ("goal", include_str!("../../../../jobs/agents/goal.toml")),
        ("plan", include_str!("../../../../jobs/agents/plan.toml")),
    ];
    for (kind, text) in kinds {
        let text = text.replace("tools = [", "tools = [\"send_letter\", \"set_label\", \"look_up\", ");
        std::fs::write(folder.join(format!("agents/{kind}.toml")), text).unwrap();
    }
}
