//! The release before and this one run side by side on one database, while one replaces the other.
//!
//! `cargo xtask test --previous-tag TAG` builds the release before, `--previous PATH` names its binary. Without either, this
//! binary takes both parts: that still shows that nothing is lost while every process is replaced, but not that the two releases
//! understand each other.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use houston_testkit::installation::TestInstallation;
use houston_testkit::process::Process;
use serde_json::{Value, json};

use crate::test_houston::{PATIENCE, TestHouston, environment, houston_command, serve};

/// The variable with the path of the release before.
const PREVIOUS: &str = "XTASK_PREVIOUS";

/// The processes of the release before.
struct Previous {
    api: SocketAddr,
    serve: Process,
    work: Process,
    key: String,
    client: reqwest::Client,
}

/// A command of the release before, with settings that every release has.
fn previous(servers: &TestInstallation) -> Command {
    #[expect(clippy::disallowed_methods, reason = "a test has no command line")]
    let path = std::env::var(PREVIOUS).ok().filter(|path| !path.is_empty());
    let mut command = path.map_or_else(houston_command, Command::new);
    command.env("DATABASE_URL", servers.database_url()).env("HOUSTON_REDIS_URL", servers.redis_url());
    // It is posted more than a person does.
    command.env("HOUSTON_RATES__REQUESTS__QUOTA", "0").env("HOUSTON_RATES__TOKENS__QUOTA", "0");
    command.env("HOUSTON_MODEL", "simulated").env("HOUSTON_LOG_FORMAT", "text");
    command
}

impl Previous {
    /// Migrates an empty database, and starts an API and a worker.
    fn start(servers: &TestInstallation) -> Self {
        let run = |arguments: &[&str]| {
            let output = previous(servers).args(arguments).output().unwrap();
            assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        };
        run(&["migrate"]);
        let key = run(&["key", "create", "--tenant", "test"]).trim().to_owned();
        let (api, serve) = serve(previous(servers));
        let work = Process::spawn(previous(servers).arg("work")).unwrap();
        work.wait_for_line(PATIENCE, |line| line == "working").unwrap();
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { api, serve, work, key, client }
    }

    async fn post(&self, path: &str, body: &Value) -> Value {
        let request = self.client.post(format!("http://{}{path}", self.api)).bearer_auth(&self.key);
        let sent =
            request.header("Content-Type", "application/json").body(body.to_string()).send().await.unwrap();
        let (status, text) = (sent.status(), sent.text().await.unwrap());
        assert!(status.is_success(), "{path}: {status} {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Waits until it is ready: on a busy machine it may find Postgres slow.
    async fn wait_until_ready(&self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.client.get(format!("http://{}/readyz", self.api)).send().await.unwrap();
            if answer.status() == 200 {
                return;
            }
            assert!(Instant::now() < deadline, "{}", answer.text().await.unwrap());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn goal(&self, name: &str) -> String {
        let user = self.post("/v1/users", &json!({ "name": name })).await;
        let goal = self.post("/v1/goals", &json!({"user_id": user["id"], "title": name})).await;
        goal["id"].as_str().unwrap().to_owned()
    }

    async fn say(&self, goal: &str, content: &str) -> Value {
        self.post(&format!("/v1/goals/{goal}/messages"), &json!({ "content": content })).await
    }

    fn stop(mut self) {
        for process in [&mut self.serve, &mut self.work] {
            process.terminate().unwrap();
            let ended = process.wait(Duration::from_secs(25)).unwrap();
            assert!(ended.success(), "{}", process.log());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn release_before_and_this_one_run_side_by_side() {
    let servers = TestInstallation::start_with_own_postgres(|_| async {}).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let previous = Previous::start(&servers);
    let goals = [previous.goal("Tokyo").await, previous.goal("Lima").await];
    let mut messages = vec![previous.say(&goals[0], "hello").await];
    let long = previous.goal("long").await;
    // Longer than all that follows, on a machine however busy.
    let handed_over = previous.say(&long, "/sim chunks=100000 delay_ms=50").await;

    // This release migrates under the processes of the one before, which go on.
    let migrated = environment(houston_command(), &servers, folder.path()).arg("migrate").output().unwrap();
    assert!(migrated.status.success(), "{}", String::from_utf8_lossy(&migrated.stderr));
    // Requests still go to its API: a cluster asks before it sends any.
    previous.wait_until_ready().await;
    messages.push(previous.say(&goals[1], "after the migration").await);
    let houston = TestHouston::over(servers, &[]);
    let _worker = houston.worker();
    for nth in 0..20 {
        let content = format!("message {nth}");
        messages.push(previous.say(&goals[0], &content).await);
        messages.push(houston.post(&goals[1], &content, &content).await);
    }
    let new = houston.goal("new").await;
    messages.push(previous.say(&new, "to a goal of this release").await);
    for message in &messages {
        assert_eq!(houston.wait_until_answered(message).await["status"], "answered");
    }
    let run = handed_over["run_id"].as_str().unwrap();
    let path = format!("/v1/runs/{run}");
    houston.wait_until(&path, "running", |run| run["status"] == "running").await;
    let worker_of_run = || houston.sql("select worker_id from houston.runs where status = 'running'");
    let before = worker_of_run();

    tokio::task::block_in_place(|| previous.stop());
    houston
        .wait_until(&path, "running at another worker", |_| !["", &before].contains(&&*worker_of_run()))
        .await;
    houston.cancel(run).await;
    houston.wait_until(&path, "cancelled", |run| run["status"] == "cancelled").await;
    let last = houston.post(&goals[0], "last", "and now?").await;
    assert_eq!(houston.wait_until_answered(&last).await["status"], "answered");
    let counted = houston.sql("select coalesce(sum(crash_count), 0) from houston.run_locks");
    assert_eq!(counted, "0", "no worker died");
}
