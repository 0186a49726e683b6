//! What kills the processes that take it up: runs, which are tried in processes of their own, and deliveries of webhooks.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use houston_testkit::process::Process;
use houston_testkit::tool_ledger::ToolLedger;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

use crate::test_houston::{PATIENCE, TestHouston, beside_houston, environment, pause};

/// Deaths of workers after which a run is tried alone.
const DEATHS: usize = 3;

struct Installation {
    houston: TestHouston,
    folder: tempfile::TempDir,
}

impl Installation {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("agents")).unwrap();
        let goal = include_str!("../../../../jobs/agents/goal.toml");
        let goal = goal.replace("tools = [", "tools = [\"poison\", \"look\", ");
        std::fs::write(folder.path().join("agents/goal.toml"), goal).unwrap();
        Self { houston: TestHouston::start(), folder }
    }

    /// Starts a worker whose tool `poison` aborts its process.
    fn worker(&self) -> Process {
        let command = Command::new(beside_houston("examples/chaos_tools"));
        let mut command = environment(command, &self.houston.servers.lock().unwrap(), self.folder.path());
        command.arg("work").env("HOUSTON_JOBS", self.folder.path()).env("CHAOS_LEDGERS", self.folder.path());
        let process = Process::spawn(&mut command).unwrap();
        process.wait_for_line(PATIENCE, |line| line == "working").unwrap();
        process
    }

    /// How often a tool was executed.
    fn executions(&self, tool: &str) -> usize {
        ToolLedger::open(self.folder.path().join(tool)).unwrap().executions().unwrap().len()
    }

    async fn wait_for_executions(&self, tool: &str, count: usize) {
        let began = Instant::now();
        while self.executions(tool) < count {
            assert!(began.elapsed() < PATIENCE, "{tool} was executed {} times", self.executions(tool));
            pause(began).await;
        }
    }
}

async fn wait_for_end(worker: &mut Process) {
    let began = Instant::now();
    while worker.ended().unwrap().is_none() {
        assert!(began.elapsed() < PATIENCE, "it lives: {}", worker.log());
        pause(began).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn run_that_kills_workers_is_given_up_for_a_death_alone() {
    let installation = Installation::start();
    let (bad, good) = (installation.houston.goal("bad").await, installation.houston.goal("good").await);
    // It is driven whenever a worker dies, and commits nothing until its tool has ended.
    let look = r#"/sim tool=look args={"op":"o","ms":8000}"#;
    let mut worker = installation.worker();
    let innocent = installation.houston.post(&good, "good", look).await;
    installation.wait_for_executions("look", 1).await;
    let poison = installation.houston.post(&bad, "bad", r#"/sim tool=poison args={"op":"p"}"#).await;
    for _ in 0..DEATHS {
        wait_for_end(&mut worker).await;
        worker = installation.worker();
    }
    let failed = installation.houston.wait_until_answered(&poison).await;
    assert_eq!(failed["status"], "failed", "{failed} {}", worker.log());
    assert_eq!(worker.ended().unwrap(), None, "the worker outlives the trial");
    assert_eq!(installation.executions("poison"), DEATHS + 1, "{}", worker.log());
    let answered = installation.houston.wait_until_answered(&innocent).await;
    assert_eq!(answered["status"], "answered", "{answered} {}", worker.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn innocent_run_survives_any_number_of_deaths() {
    let installation = Installation::start();
    let goal = installation.houston.goal("innocent").await;
    let look = r#"/sim tool=look args={"op":"o","ms":8000}"#;
    let mut worker = installation.worker();
    let message = installation.houston.post(&goal, "1", look).await;
    // Each worker is killed while it drives the run, as it would be by another run that it drives. From the fourth on, a child
    // of it drives the run.
    for round in 1..=2 * DEATHS {
        installation.wait_for_executions("look", round).await;
        worker.kill().unwrap();
        worker = installation.worker();
    }
    let answered = installation.houston.wait_until_answered(&message).await;
    assert_eq!(answered["status"], "answered", "{answered} {}", worker.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn process_on_trial_hands_its_run_over_when_asked_to() {
    let installation = Installation::start();
    let goal = installation.houston.goal("moved").await;
    let mut worker = installation.worker();
    let message = installation.houston.post(&goal, "1", r#"/sim tool=look args={"op":"o","ms":8000}"#).await;
    for round in 1..=DEATHS {
        installation.wait_for_executions("look", round).await;
        worker.kill().unwrap();
        worker = installation.worker();
    }
    installation.wait_for_executions("look", DEATHS + 1).await;
    worker.terminate().unwrap();
    let status = worker.wait(Duration::from_secs(60)).unwrap();
    assert!(status.success(), "{status} {}", worker.log());
    let _other = installation.worker();
    let answered = installation.houston.wait_until_answered(&message).await;
    assert_eq!(answered["status"], "answered", "{answered}");
}

/// A receiver that counts its requests, and answers them if it should. Returns its address.
async fn receiver(answers: bool) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    let tracker = TaskTracker::new();
    let tasks = tracker.clone();
    tracker.spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let counted = Arc::clone(&counted);
            tasks.spawn(async move {
                let mut bytes = vec![0; 64 << 10];
                if socket.read(&mut bytes).await.unwrap_or_default() > 0 {
                    counted.fetch_add(1, Ordering::SeqCst);
                }
                if answers {
                    let answer = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
                    let _ = socket.write_all(answer).await;
                } else {
                    std::future::pending::<()>().await;
                }
            });
        }
    });
    (url, requests)
}

async fn wait_for_requests(requests: &AtomicUsize, count: usize) {
    let began = Instant::now();
    while requests.load(Ordering::SeqCst) < count {
        assert!(began.elapsed() < PATIENCE, "{} requests", requests.load(Ordering::SeqCst));
        pause(began).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn delivery_that_ends_its_processes_is_set_aside() {
    const SECRETS_KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let ((bad, asked), (good, _)) = (receiver(false).await, receiver(true).await);
    let hosts = format!("[\"{bad}\", \"{good}\"]");
    let variables = [("HOUSTON_SECRETS_KEY", SECRETS_KEY), ("HOUSTON_WEBHOOKS__HOSTS", hosts.as_str())];
    let houston = TestHouston::start_with(&variables);
    let mut hooks = Vec::new();
    for url in [&bad, &good] {
        let webhook = json!({"url": format!("{url}/hook"), "topics": ["run.finished"]});
        hooks.push(houston.create("/v1/webhooks", url, &webhook).await["id"].as_str().unwrap().to_owned());
    }
    let goal = houston.goal("told").await;
    let mut worker = houston.worker_with(&variables);
    let message = houston.post(&goal, "1", "hello").await;
    houston.wait_until_answered(&message).await;
    // The process ends while it sends the delivery, each time.
    for deaths in 1..=DEATHS {
        wait_for_requests(&asked, deaths).await;
        worker.kill().unwrap();
        houston.sql("update houston.open_deliveries set due_at = now() where claim is not null");
        worker = houston.worker_with(&variables);
    }
    let path = |hook: &str, state: &str| format!("/v1/webhooks/{hook}/deliveries?state={state}");
    let dead =
        houston.wait_until(&path(&hooks[0], "dead"), "set aside", |found| found["data"][0].is_object()).await;
    let delivery = &dead["data"][0];
    assert!(delivery["error"].as_str().unwrap().contains("each process that sent it ended"), "{delivery}");
    assert_eq!(asked.load(Ordering::SeqCst), DEATHS);
    // The others go on, and the owner may try it again.
    let told =
        houston.wait_until(&path(&hooks[1], "delivered"), "told", |found| found["data"][0].is_object()).await;
    assert_eq!(told["data"].as_array().unwrap().len(), 1);
    let again =
        format!("/v1/webhooks/{}/deliveries/{}/redeliver", hooks[0], delivery["id"].as_str().unwrap());
    let (status, body) = houston.ask(reqwest::Method::POST, &again).await;
    assert!(status < 300, "{status} {body}");
    wait_for_requests(&asked, DEATHS + 1).await;
}
