//! A test installation of real processes: one `serve` and any number of `work`, on temporary servers.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use houston_domain::api_key::{RANDOM_BYTES, SecretKind};
use houston_domain::clock::SystemClock;
use houston_domain::id::Ids;
use houston_domain::scope::Scopes;
use houston_store::api_key::NewApiKey;
use houston_testkit::database::TestDatabase;
use houston_testkit::installation::{TestInstallation, cell_count};
use houston_testkit::model_server::ModelServer;
use houston_testkit::process::Process;
use serde_json::{Value, json};

use crate::shards::ids_in_wrong_shards;

/// The longest time a test waits for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct TestHouston {
    // Ends before its servers.
    pub(crate) _serve: Process,
    pub(crate) servers: Mutex<TestInstallation>,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) key: String,
    pub(crate) address: SocketAddr,
    client: reqwest::Client,
}

/// The path of the binary that has the tool `ring_bell`.
fn with_bell() -> PathBuf {
    beside_houston("examples/custom_tool")
}

/// The path of another program that is built with `houston`.
pub(crate) fn beside_houston(name: &str) -> PathBuf {
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_houston"));
    let example = binary.parent().unwrap().join(name);
    assert!(example.exists(), "{} is missing: build the examples", example.display());
    example
}

pub(crate) fn houston_command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_houston"))
}

/// Waits until it is time for another look at what has been waited for since `began`: an eighth of that time. Each look takes
/// processor time from what is waited for.
pub(crate) async fn pause(began: Instant) {
    let eighth = began.elapsed() / 8;
    tokio::time::sleep(eighth.clamp(Duration::from_millis(10), Duration::from_millis(100))).await;
}

/// Starts an API in this environment and waits until it is ready.
pub(crate) fn serve(mut command: Command) -> (SocketAddr, Process) {
    let mut process = Process::spawn(command.args(["serve", "--address", "127.0.0.1:0"])).unwrap();
    let address = process.wait_for_address(PATIENCE).unwrap();
    process.wait_for_ready(address, "/readyz", PATIENCE).unwrap();
    (address, process)
}

impl TestHouston {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(variables: &[(&str, &str)]) -> Self {
        if cell_count() > 1 {
            return Self::over(cells(|| TestInstallation::start(migrate)), variables);
        }
        // The key is in the template: that saves each test a process.
        Self::with_key(
            TestDatabase::shared_from("template_houston_key", migrate_and_add_key)
                .and_then(TestInstallation::over)
                .unwrap(),
            key(),
            variables,
        )
    }

    /// An installation with two cells, however many this test run uses.
    pub(crate) fn with_two_cells(variables: &[(&str, &str)]) -> Self {
        let start = || TestInstallation::start(migrate).unwrap();
        Self::over(start().with_cells(vec![start()]), variables)
    }

    /// Like [`Self::with_two_cells`], for tests that stop a Postgres, or move users: that waits for all transactions of a
    /// server.
    pub(crate) fn with_two_postgres(variables: &[(&str, &str)]) -> Self {
        let start = || TestInstallation::start_with_own_postgres(migrate).unwrap();
        Self::over(start().with_cells(vec![start()]), variables)
    }

    pub(crate) fn own_postgres_with(variables: &[(&str, &str)]) -> Self {
        Self::over(cells(|| TestInstallation::start_with_own_postgres(migrate)), variables)
    }

    pub(crate) fn over(servers: TestInstallation, variables: &[(&str, &str)]) -> Self {
        let mut command = houston_command();
        command.envs(servers.environment()).args(["key", "create", "--tenant", "test"]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let key = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        Self::with_key(servers, key, variables)
    }

    fn with_key(servers: TestInstallation, key: String, variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        jobs(folder.path());
        let mut command = environment(houston_command(), &servers, folder.path());
        command.envs(variables.iter().copied());
        let (address, serve) = serve(command);
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { servers: Mutex::new(servers), folder, key, address, client, _serve: serve }
    }

    /// Starts a worker and waits until it may claim.
    pub(crate) fn worker(&self) -> Process {
        self.worker_with(&[])
    }

    pub(crate) fn worker_with(&self, variables: &[(&str, &str)]) -> Process {
        let mut command = self.command();
        command.arg("work").env("BELL_LEDGER", self.ledger()).envs(variables.iter().copied());
        let process = Process::spawn(&mut command).unwrap();
        process.wait_for_line(PATIENCE, |line| line == "working").unwrap();
        process
    }

    /// Starts a worker with this model.
    pub(crate) fn worker_of(&self, model: &ModelServer) -> Process {
        self.worker_with(&[
            ("HOUSTON_MODEL", "local/scripted"),
            ("HOUSTON_LOCAL_URL", &model.url()),
            // However long a busy machine takes until the model goes on, or its worker is killed.
            ("HOUSTON_ORCHESTRATOR__MODEL__FIRST_BYTE_TIMEOUT_S", "200"),
            ("HOUSTON_ORCHESTRATOR__MODEL__IDLE_TIMEOUT_S", "200"),
        ])
    }

    /// Starts a worker without waiting.
    pub(crate) fn spawn_worker(&self) -> Process {
        let mut command = environment(houston_command(), &self.servers.lock().unwrap(), self.folder.path());
        Process::spawn(command.arg("work")).unwrap()
    }

    /// Starts another API server and waits until it is ready.
    pub(crate) fn serve(&self) -> (SocketAddr, Process) {
        serve(environment(houston_command(), &self.servers.lock().unwrap(), self.folder.path()))
    }

    pub(crate) fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> String {
        let mut command = environment(houston_command(), &self.servers.lock().unwrap(), self.folder.path());
        let output = command.args(arguments).envs(variables.iter().copied()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// A `psql` command that runs these statements.
    pub(crate) fn psql(&self, sql: &str) -> Command {
        self.servers.lock().unwrap().psql(sql)
    }

    /// Runs statements; returns their rows as text.
    pub(crate) fn sql(&self, sql: &str) -> String {
        self.servers.lock().unwrap().sql(sql).unwrap()
    }

    /// Runs statements in the cell that has this id; returns their rows as text.
    pub(crate) fn sql_of(&self, id: &str, sql: &str) -> String {
        self.servers.lock().unwrap().sql_of(id, sql).unwrap()
    }

    /// Posts to an API server of the installation.
    pub(crate) async fn post_to(&self, url: &str, body: &Value) -> Value {
        serde_json::from_str(&self.posted(url, body).await).unwrap_or_default()
    }

    /// Posts to the API, and reads the whole answer, as a stream that ends.
    pub(crate) async fn post_for_text(&self, path: &str, body: &Value) -> String {
        self.posted(&self.url(path), body).await
    }

    async fn posted(&self, url: &str, body: &Value) -> String {
        let request = self.client.post(url).bearer_auth(&self.key).header("Content-Type", "application/json");
        let response = request.body(body.to_string()).send().await.unwrap();
        let (status, text) = (response.status(), response.text().await.unwrap());
        assert!(status.is_success(), "{url}: {status} {text}");
        text
    }

    /// A command with the settings of the workers.
    pub(crate) fn command(&self) -> Command {
        environment(Command::new(with_bell()), &self.servers.lock().unwrap(), self.folder.path())
    }

    /// Opens an event stream at an API server of the installation.
    pub(crate) async fn open(&self, url: &str) -> reqwest::Response {
        self.client.get(url).bearer_auth(&self.key).send().await.unwrap()
    }

    pub(crate) fn ledger(&self) -> PathBuf {
        self.folder.path().join("bell")
    }

    /// Lets the bell stop, however many seconds it was to ring.
    pub(crate) fn stop_bell(&self) {
        std::fs::write(self.ledger().with_extension("stop"), "").unwrap();
    }

    /// How often the tool `ring_bell` has started.
    pub(crate) fn rings(&self) -> usize {
        std::fs::read_to_string(self.ledger()).unwrap_or_default().lines().count()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Reads a resource, again while a busy machine does not answer in time.
    pub(crate) async fn get(&self, path: &str) -> Value {
        let mut answer = self.ask(reqwest::Method::GET, path).await;
        while answer.0 == 503 {
            answer = self.ask(reqwest::Method::GET, path).await;
        }
        answer.1
    }

    /// Posts with an idempotency key, and repeats it like a client until it is accepted.
    pub(crate) async fn create(&self, path: &str, key: &str, body: &Value) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let request = self.client.post(self.url(path)).bearer_auth(&self.key);
            let request = request.header("Idempotency-Key", key).header("Content-Type", "application/json");
            let sent = request.body(body.to_string()).send().await;
            match sent {
                Ok(response) if response.status().is_success() => return json(response).await,
                Ok(response) if response.status().as_u16() < 500 => {
                    panic!("{path}: {} {}", response.status(), response.text().await.unwrap())
                }
                _ => tokio::time::sleep(Duration::from_millis(100)).await,
            }
            assert!(Instant::now() < deadline, "{path} was never accepted");
        }
    }

    pub(crate) async fn goal(&self, name: &str) -> String {
        let user = self.create("/v1/users", &format!("user {name}"), &json!({"name": name})).await;
        let body = json!({"user_id": user["id"], "title": name});
        let goal = self.create("/v1/goals", &format!("goal {name}"), &body).await;
        goal["id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn post(&self, goal: &str, key: &str, content: &str) -> Value {
        self.create(&format!("/v1/goals/{goal}/messages"), key, &json!({"content": content})).await
    }

    /// Sends a request without a body; returns the status and the body.
    pub(crate) async fn ask(&self, method: reqwest::Method, path: &str) -> (u16, Value) {
        let response =
            self.client.request(method, self.url(path)).bearer_auth(&self.key).send().await.unwrap();
        (response.status().as_u16(), json(response).await)
    }

    pub(crate) async fn send(&self, method: reqwest::Method, path: &str, body: &Value) -> (u16, Value) {
        let request = self.client.request(method, self.url(path)).bearer_auth(&self.key);
        let request = request.header("Content-Type", "application/json").body(body.to_string());
        let response = request.send().await.unwrap();
        (response.status().as_u16(), json(response).await)
    }

    pub(crate) async fn cancel(&self, run: &str) {
        let (status, body) = self.ask(reqwest::Method::POST, &format!("/v1/runs/{run}/cancel")).await;
        assert!(status < 300, "{status} {body}");
    }

    /// Polls a resource until the predicate holds; `what` is for the panic message.
    pub(crate) async fn wait_until(&self, path: &str, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let response = self.client.get(self.url(path)).bearer_auth(&self.key).send().await;
            let mut last = Value::Null;
            if let Ok(response) = response {
                last = json(response).await;
                if is_it(&last) {
                    return last;
                }
            }
            assert!(began.elapsed() < PATIENCE, "timed out waiting for {what} at {path}: {last}");
            pause(began).await;
        }
    }

    /// Waits until a posted message is answered or failed.
    pub(crate) async fn wait_until_answered(&self, message: &Value) -> Value {
        let path = format!("/v1/messages/{}", message["id"].as_str().unwrap());
        self.wait_until(&path, "answered", |found| {
            found["status"] == "answered" || found["status"] == "failed"
        })
        .await
    }

    /// The agent's texts in a thread, oldest first.
    pub(crate) async fn agent_texts(&self, goal: &str) -> Vec<String> {
        let mut texts = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = self.get(&format!("/v1/goals/{goal}/messages?limit=100{cursor}")).await;
            for message in page["data"].as_array().unwrap() {
                if message["source"] == "agent" && message["message_type"] == "text" {
                    texts.push(message["content"].as_str().unwrap().to_owned());
                }
            }
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        texts.reverse();
        texts
    }

    /// Reads an event stream to its clean end, and reconnects when it breaks. Returns the text messages a client ends
    /// up with, and the types of all events.
    pub(crate) async fn watch(&self, path: &str) -> ReceivedStream {
        self.watch_with(path, |_| {}).await
    }

    /// Like [`Self::watch`]; calls `on_event` with every event.
    pub(crate) async fn watch_with(&self, path: &str, mut on_event: impl FnMut(&Value)) -> ReceivedStream {
        let mut received = ReceivedStream::default();
        let deadline = Instant::now() + PATIENCE;
        let mut last_id = String::new();
        loop {
            let mut request = self.client.get(self.url(path)).bearer_auth(&self.key);
            if !last_id.is_empty() {
                request = request.header("Last-Event-ID", &last_id);
            }
            if let Ok(mut response) = request.send().await {
                if response.status().as_u16() == 204 {
                    return received;
                }
                let mut pending = String::new();
                loop {
                    match response.chunk().await {
                        Ok(Some(bytes)) => pending.push_str(std::str::from_utf8(&bytes).unwrap()),
                        Ok(None) => return received,
                        Err(_) => break,
                    }
                    while let Some(end) = pending.find("\n\n") {
                        let frame: String = pending.drain(..end + 2).collect();
                        for line in frame.lines() {
                            if let Some(id) = line.strip_prefix("id: ") {
                                id.clone_into(&mut last_id);
                            } else if let Some(data) = line.strip_prefix("data: ") {
                                let event = serde_json::from_str(data).unwrap();
                                received.take(&event);
                                on_event(&event);
                            }
                        }
                    }
                }
            }
            assert!(Instant::now() < deadline, "the stream never ended: {received:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for TestHouston {
    /// Whatever a test did: each id that was stored for a user has the user's shard.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let wrong = ids_in_wrong_shards(self.servers.get_mut().unwrap());
            assert!(wrong.is_empty(), "ids in other shards than their user's: {wrong:?}");
        }
    }
}

/// An installation with as many cells as this test run uses.
fn cells(start: impl Fn() -> std::io::Result<TestInstallation>) -> TestInstallation {
    let others = (1..cell_count()).map(|_| start().unwrap()).collect();
    start().unwrap().with_cells(others)
}

async fn migrate(url: String) {
    let config =
        houston_store::Config { url, connections: houston_store::Sizes::ones(), acquire_timeout: PATIENCE };
    let store = houston_store::Store::open(&config).unwrap();
    store.migrate().await.unwrap();
    store.close().await;
}

/// The key of the tenant `test`.
fn key() -> String {
    SecretKind::Key.secret([7; RANDOM_BYTES])
}

/// Migrates, and does what `houston key create --tenant test` does.
async fn migrate_and_add_key(url: String) {
    migrate(url.clone()).await;
    let config =
        houston_store::Config { url, connections: houston_store::Sizes::ones(), acquire_timeout: PATIENCE };
    let store = houston_store::Store::open(&config).unwrap();
    let ids = Ids::new(Arc::new(SystemClock));
    let tenant = store.operator().ensure_tenant(ids.next(), "test").await.unwrap();
    let (id, key) = (ids.next(), key());
    let (scopes, user, expires_at, issuer) = (Scopes::ADMIN, None, None, None);
    let new = NewApiKey { id, name: "key", key: &key, scopes, user, expires_at, issuer };
    store.operator().create_api_key(tenant, &new).await.unwrap();
    store.close().await;
}

async fn json(response: reqwest::Response) -> Value {
    serde_json::from_slice(&response.bytes().await.unwrap_or_default()).unwrap_or_default()
}

/// What a client has received from an event stream.
#[derive(Debug, Default)]
pub(crate) struct ReceivedStream {
    pub(crate) texts: Vec<(String, String)>,
    pub(crate) types: Vec<String>,
    /// The contents of `ACTIVITY_SNAPSHOT` events, in order.
    pub(crate) errors: Vec<Value>,
    open: Option<String>,
}

impl ReceivedStream {
    fn take(&mut self, event: &Value) {
        let kind = event["type"].as_str().unwrap().to_owned();
        let id = || event["messageId"].as_str().unwrap().to_owned();
        match kind.as_str() {
            "TEXT_MESSAGE_START" => {
                assert_eq!(self.open, None, "two messages are open");
                self.open = Some(id());
                self.texts.push((id(), String::new()));
            }
            "TEXT_MESSAGE_CONTENT" => {
                assert_eq!(self.open, Some(id()), "text for a message that is not open");
                self.texts.last_mut().unwrap().1.push_str(event["delta"].as_str().unwrap());
            }
            "TEXT_MESSAGE_END" => assert_eq!(self.open.take(), Some(id())),
            "MESSAGES_SNAPSHOT" => {
                let kept: Vec<&Value> = event["messages"].as_array().unwrap().iter().collect();
                self.texts.retain(|(text, _)| kept.iter().any(|message| message["id"] == text.as_str()));
            }
            "ACTIVITY_SNAPSHOT" => self.errors.push(event["content"].clone()),
            "RUN_FINISHED" => assert_eq!(self.open, None, "a message is open at the end"),
            _ => {}
        }
        self.types.push(kind);
    }
}

/// Writes agent types that may call `ring_bell`.
fn jobs(folder: &Path) {
    std::fs::create_dir_all(folder.join("agents")).unwrap();
    let goal = include_str!("../../../../jobs/agents/goal.toml");
    let goal = goal.replace("tools = [", "tools = [\"ring_bell\", ");
    std::fs::write(folder.join("agents/goal.toml"), goal).unwrap();
}

/// Sets the environment of a process of the installation.
pub(crate) fn environment(mut command: Command, servers: &TestInstallation, folder: &Path) -> Command {
    command.envs(servers.environment()).env("HOUSTON_MODEL", "simulated").env("HOUSTON_LOG_FORMAT", "text");
    // Only the example binary has the tool that these agent types name.
    if command.get_program() == with_bell().as_os_str() {
        command.env("HOUSTON_JOBS", folder);
    }
    command
}
