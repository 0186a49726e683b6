//! A `houston dev` for tests, with the simulated model, a database and a Redis.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use houston_testkit::installation::TestInstallation;
use houston_testkit::process::Process;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);

/// A kind that shares a state with front ends.
const SHOPPER: &str = r#"
kind = "shopper"
conversational = true
archives = false
reply = "send_message"
tools = ["send_message", "create_note"]
titles = true

[prompt]
role = "You keep a shopping list."

[state]
initial = { items = [] }

[state.schema]
type = "object"
additionalProperties = false
properties.items = { type = "array", maxItems = 100, items = { type = "string" } }
properties.shop = { type = "object" }
"#;

/// Shows what the server has logged when a test fails.
impl Drop for Dev {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the log of houston dev:\n{}", self.process.log());
        }
    }
}

/// Settings with short intervals.
const QUICK: &[(&str, &str)] = &[
    ("HOUSTON_MODEL", "simulated"),
    ("HOUSTON_LOG", "warn"),
    ("HOUSTON_SERVER__RETRY_MS", "20"),
    // So often that each client meets them everywhere.
    ("HOUSTON_SERVER__HEARTBEAT_MS", "50"),
    // The page of the browser's test.
    ("HOUSTON_SERVER__CORS__ORIGINS", "[\"http://app.localhost:5173\"]"),
    ("HOUSTON_ORCHESTRATOR__SWEEP__EVERY_MS", "200"),
    ("HOUSTON_ORCHESTRATOR__RETRY__DELAYED__BASE_MS", "50"),
];

pub(crate) struct Dev {
    // Ends before its servers.
    process: Process,
    servers: TestInstallation,
    pub(crate) url: String,
    pub(crate) key: String,
    pub(crate) folder: tempfile::TempDir,
    /// A port of this machine to which webhooks may be sent.
    pub(crate) hooks: u16,
    environment: Vec<(&'static str, String)>,
}

impl Dev {
    pub(crate) fn start() -> Self {
        Self::start_with(Vec::new())
    }

    /// With more variables than the usual ones.
    pub(crate) fn start_with(environment: Vec<(&'static str, String)>) -> Self {
        let servers = TestInstallation::start(migrate).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let hooks = jobs(folder.path());
        let (process, url) = start(&servers, folder.path(), "127.0.0.1:0", &environment);
        let key = std::fs::read_to_string(folder.path().join("key")).unwrap().trim().to_owned();
        Self { process, servers, url, key, folder, hooks, environment }
    }

    /// Runs `houston chat …` in the folder of `houston dev`.
    pub(crate) fn chat(&self, arguments: &[&str], stdin: &str) -> Output {
        run(houston(self.folder.path()).arg("chat").args(arguments), stdin)
    }

    /// Gets a resource of the API.
    pub(crate) fn get(&self, path: &str) -> Value {
        let (status, body) = self.send("GET", path, "");
        assert_eq!(status, 200, "{path}: {}", text(&body));
        serde_json::from_slice(&body).unwrap()
    }

    /// Sends a request with this body; returns the status and the body of the answer.
    pub(crate) fn send(&self, method: &str, path: &str, body: impl Into<Vec<u8>>) -> (u16, Vec<u8>) {
        send(method, &format!("{}{path}", self.url), &format!("Bearer {}", self.key), body.into())
    }

    /// Posts JSON.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.send("POST", path, body.to_string());
        assert!((200..300).contains(&status), "{path}: {status} {}", text(&answer));
        serde_json::from_slice(&answer).unwrap()
    }

    /// What a command of `houston` prints that uses the same database.
    pub(crate) fn command(&self, arguments: &[&str]) -> String {
        let mut command = houston(self.folder.path());
        command.args(arguments).env("DATABASE_URL", self.servers.database_url());
        let output = run(command.env("HOUSTON_REDIS_URL", self.servers.redis_url()), "");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        text(&output.stdout).trim().to_owned()
    }

    /// The link that it has printed, which signs in to the console.
    pub(crate) fn console_link(&self) -> String {
        let line = self.process.wait_for_line(PATIENCE, |line| line.starts_with("  console  http")).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    }

    /// What Postgres answers.
    pub(crate) fn sql(&self, statements: &str) -> String {
        self.servers.sql(statements).unwrap().trim().to_owned()
    }

    /// A question of a new goal: whether a note may be deleted.
    pub(crate) fn open_question(&self) -> String {
        let user = self.post("/v1/users", &json!({"name": "Ann"}));
        let goal = json!({"user_id": user["id"], "title": "Notes"});
        let path = format!("/v1/goals/{}", self.post("/v1/goals", &goal)["id"].as_str().unwrap());
        let call = |tool: &str, args: Value| {
            let content = format!("/sim tool={tool} args={args}");
            self.post(&format!("{path}/messages"), &json!({"content": content}));
        };
        let first = |list: &str| {
            let end = std::time::Instant::now() + Duration::from_secs(60);
            loop {
                if let Some(id) = self.get(list)["data"][0]["id"].as_str() {
                    break id.to_owned();
                }
                assert!(std::time::Instant::now() < end, "{list} is empty");
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        call("create_note", json!({"title": "Tea", "content": "Buy tea."}));
        let note = first(&format!("{path}/notes"));
        call("delete_note", json!({"note_id": note}));
        first("/v1/questions")
    }

    /// Waits until the run of the demo's goal has ended.
    pub(crate) fn wait_until_idle(&self) {
        let demo = std::fs::read(self.folder.path().join("demo.json")).unwrap();
        let demo: Value = serde_json::from_slice(&demo).unwrap();
        let goal = demo["goal"].as_str().unwrap();
        let end = std::time::Instant::now() + PATIENCE;
        loop {
            let run = self.get(&format!("/v1/goals/{goal}"))["run_id"].as_str().unwrap().to_owned();
            let run = self.get(&format!("/v1/runs/{run}"));
            if run["ended_at"].is_string() {
                return;
            }
            assert!(std::time::Instant::now() < end, "the run never ended: {run}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills the process.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Kills the process in the midst of an answer, when `client` has said `text`, and starts it again. The client must end
    /// well.
    pub(crate) fn kill_while_it_answers(&mut self, mut client: Command) {
        let mut client = Process::spawn(&mut client).unwrap();
        client.wait_for_line(PATIENCE, |line| line == "text").unwrap();
        self.kill();
        self.start_again();
        assert_eq!(client.wait(PATIENCE).unwrap().code(), Some(0), "{}", client.log());
    }

    /// Starts it again at the same address.
    pub(crate) fn start_again(&mut self) {
        let address = &self.url["http://".len()..];
        (self.process, self.url) = start(&self.servers, self.folder.path(), address, &self.environment);
    }
}

fn start(
    servers: &TestInstallation,
    folder: &Path,
    address: &str,
    environment: &[(&'static str, String)],
) -> (Process, String) {
    let mut command = houston(folder);
    command
        .args(["dev", "--address", address])
        .env("DATABASE_URL", servers.database_url())
        .env("HOUSTON_REDIS_URL", servers.redis_url())
        .env("HOUSTON_JOBS", folder.join("jobs"))
        .envs(QUICK.iter().copied())
        .envs(environment.iter().cloned());
    let process = Process::spawn(&mut command).unwrap();
    let line = process.wait_for_line(PATIENCE, |line| line.starts_with("Houston is up at ")).unwrap();
    let url = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap().to_owned();
    (process, url)
}

/// Sends a request to an address of this machine.
pub(crate) fn send(method: &str, url: &str, authorization: &str, body: Vec<u8>) -> (u16, Vec<u8>) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut request = client.request(method.parse().unwrap(), url).header("Authorization", authorization);
    if body.starts_with(b"{") {
        request = request.header("Content-Type", "application/json");
    }
    let asking = async {
        let response = request.body(body).send().await.unwrap();
        (response.status().as_u16(), response.bytes().await.unwrap().to_vec())
    };
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(asking)
}

async fn migrate(url: String) {
    let config =
        houston_store::Config { url, connections: houston_store::Sizes::ones(), acquire_timeout: PATIENCE };
    let store = houston_store::Store::open(&config).unwrap();
    store.migrate().await.unwrap();
    store.close().await;
}

/// Writes a user agent without `send_message`, which therefore answers in plain text, and a port to which webhooks may be sent.
fn jobs(folder: &Path) -> u16 {
    let shipped = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap())
        .join("../../jobs/agents/user_agent.toml");
    let kind = std::fs::read_to_string(shipped).unwrap().replace("\"send_message\", ", "");
    assert!(!kind.contains("\"send_message\","), "{kind}");
    std::fs::create_dir_all(folder.join("jobs/agents")).unwrap();
    std::fs::write(folder.join("jobs/agents/user_agent.toml"), kind).unwrap();
    std::fs::write(folder.join("jobs/agents/shopper.toml"), SHOPPER).unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let webhooks = format!("hosts = [\"http://127.0.0.1:{free}\"]\npoll_ms = 50\nidle_s = 1\n");
    std::fs::write(folder.join("jobs/webhooks.toml"), webhooks).unwrap();
    free
}

/// The binary with this folder, without any other setting of the environment.
pub(crate) fn houston(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_houston"));
    command.arg("--folder").arg(folder).env("LOGNAME", "ann").env("TERM", "xterm");
    for name in
        ["DATABASE_URL", "HOUSTON_REDIS_URL", "HOUSTON_URL", "HOUSTON_API_KEY", "HOUSTON_JOBS", "NO_COLOR"]
    {
        command.env_remove(name);
    }
    command
}

pub(crate) fn run(command: &mut Command, stdin: &str) -> Output {
    use std::io::Write as _;
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The child may have closed its input without reading it.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    child.wait_with_output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}
