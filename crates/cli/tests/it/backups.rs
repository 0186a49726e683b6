//! A dump that is taken under load restores to an installation that works: on another server, with an empty Redis.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};

use houston_testkit::event_stream::EVENTS;
use houston_testkit::installation::TestInstallation;
use houston_testkit::model_server::{Call, ModelServer, Reply};
use serde_json::Value;

use crate::faults::answer;
use crate::test_houston::{TestHouston, environment, houston_command};

/// Messages that are posted to each goal before the dump begins.
const BEFORE: usize = 10;
const GOALS: usize = 4;
/// The message whose run is open while the dump is taken.
const UNFINISHED: &str = "Take your time.";

/// A program of Postgres's clients: that of the server, as `psql` is.
fn client(houston: &TestHouston, name: &str) -> PathBuf {
    let psql = houston.psql("select 1");
    Some(Path::new(psql.get_program()).with_file_name(name))
        .filter(|path| path.is_file())
        .unwrap_or(name.into())
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Posts to every goal, in turn, until `stop`; returns how many messages.
async fn load(houston: &TestHouston, goals: &[String], stop: &AtomicBool) -> usize {
    let mut nth = BEFORE * GOALS;
    while !stop.load(Ordering::Relaxed) {
        houston.post(&goals[nth % GOALS], &nth.to_string(), &format!("during {nth}")).await;
        nth += 1;
    }
    nth - BEFORE * GOALS
}

/// What `deploy/README.md` says: roles first, because they are not part of a dump; then the dump, and `houston migrate`.
fn restore(from: &TestHouston, dump: &Path, to: &TestInstallation) {
    to.sql("create role houston_api; create role houston_app").unwrap();
    let mut pg_restore = Command::new(client(from, "pg_restore"));
    pg_restore.args(["--exit-on-error", "--no-owner", "--dbname", to.database_url()]).arg(dump);
    succeed(&mut pg_restore);
    let folder = from.folder.path();
    succeed(environment(houston_command(), to, folder).arg("migrate"));
    let doctor = succeed(environment(houston_command(), to, folder).args(["doctor", "--json"]));
    let found: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    for id in ["postgres", "schema", "row_security", "api_keys", "redis"] {
        let check = found["checks"].as_array().unwrap().iter().find(|check| check["id"] == id).unwrap();
        assert_eq!(check["status"], "ok", "{check}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dump_under_load_restores_to_a_working_installation() {
    let houston = TestHouston::own_postgres_with(&[]);
    let is_first = AtomicBool::new(true);
    // The first call for this message is never answered.
    let model = ModelServer::start(move |call: &Call| {
        let is_held = call.last_user_text().contains(UNFINISHED) && is_first.swap(false, Ordering::Relaxed);
        if is_held { Reply::hang() } else { answer() }
    });
    let model = model.await.unwrap();
    let _worker = houston.worker_of(&model);
    let mut goals = Vec::new();
    for nth in 0..GOALS {
        goals.push(houston.goal(&format!("goal {nth}")).await);
    }
    let quiet = houston.goal("quiet").await;
    houston.wait_until_answered(&houston.post(&quiet, "quiet 1", "hello").await).await;
    let open = houston.goal("open").await;
    let unfinished = houston.post(&open, "open 1", UNFINISHED).await;
    let run = format!("/v1/runs/{}", unfinished["run_id"].as_str().unwrap());
    houston.wait_until(&run, "running", |run| run["status"] == "running").await;
    let mut accepted = Vec::new();
    for nth in 0..BEFORE * GOALS {
        accepted.push(houston.post(&goals[nth % GOALS], &nth.to_string(), &format!("before {nth}")).await);
    }

    let (stop, dump) = (AtomicBool::new(false), houston.folder.path().join("houston.dump"));
    let mut pg_dump = Command::new(client(&houston, "pg_dump"));
    let url = houston.servers.lock().unwrap().database_url().to_owned();
    pg_dump.args(["--format=custom", "--dbname", &url, "--file"]).arg(&dump);
    let dumping = async {
        tokio::task::spawn_blocking(move || succeed(&mut pg_dump)).await.unwrap();
        stop.store(true, Ordering::Relaxed);
    };
    let (during, ()) = tokio::join!(load(&houston, &goals, &stop), dumping);
    assert!(during > 0, "messages are accepted while the dump is taken");

    let servers = TestInstallation::start_with_own_postgres(|_| async {}).unwrap();
    restore(&houston, &dump, &servers);
    let restored = TestHouston::over(servers, &[]);
    let gaps = format!(
        "select count(*) from (select agentable_id from ({EVENTS}) e group by 1 having count(*) <> max(seq)) g"
    );
    assert_eq!(restored.sql(&gaps), "0", "positions of events have no gap");
    let thread = format!("/v1/goals/{quiet}/messages");
    assert_eq!(restored.get(&thread).await, houston.get(&thread).await);
    let _worker = restored.worker_of(&model);
    for message in &accepted {
        assert_eq!(restored.wait_until_answered(message).await["status"], "answered");
    }
    assert_eq!(restored.wait_until_answered(&unfinished).await["status"], "answered", "the open run goes on");
    assert_eq!(
        restored.get(&run).await["attempt"],
        2,
        "a worker of the restored installation has taken it over"
    );
    assert_eq!(restored.sql(&gaps), "0");
    let next = restored.post(&quiet, "quiet 2", "and now?").await;
    assert_eq!(restored.wait_until_answered(&next).await["status"], "answered");
}
