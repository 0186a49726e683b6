//! `houston doctor` on an installation with planted faults: it finds each, and says what to do.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::Command;

use houston_testkit::model_server::{Call, ModelServer, Reply};
use serde_json::{Value, json};

use crate::test_houston::{TestHouston, houston_command};

/// 32 bytes, in base64.
const SECRETS_KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

/// Sends a command to the Redis of the installation.
fn tell_redis(houston: &TestHouston, command: &str) {
    let url = houston.servers.lock().unwrap().redis_url().to_owned();
    let mut socket = UnixStream::connect(url.strip_prefix("redis+unix://").unwrap()).unwrap();
    socket.write_all(format!("{command}\r\n").as_bytes()).unwrap();
    let mut answer = [0; 3];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+OK", "{command}");
}

/// The command in the environment of the installation.
fn doctor(houston: &TestHouston) -> Command {
    let servers = houston.servers.lock().unwrap();
    let mut command = crate::test_houston::environment(houston_command(), &servers, houston.folder.path());
    command.arg("doctor").env_remove("HOUSTON_SECRETS_KEY");
    command
}

/// The exit code, and what was found.
fn found(command: &mut Command) -> (Option<i32>, Value) {
    let output = command.arg("--json").output().unwrap();
    let found = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output.status.code(), found)
}

/// Asserts that a check has this status, and that what to do contains `todo`.
#[track_caller]
fn assert_found(found: &Value, id: &str, status: &str, todo: &str) {
    let check = found["checks"].as_array().unwrap().iter().find(|check| check["id"] == id);
    let check = check.unwrap_or_else(|| panic!("no check `{id}` in {found:#}"));
    assert_eq!(check["status"], status, "{check}");
    assert!(check["todo"].as_str().unwrap_or_default().contains(todo), "{check}");
}

/// An installation whose operator has made these mistakes: work waits without a worker, a lane is paused, a webhook is off, a
/// database with another isolation, no rights for the role of requests, a Redis that evicts.
async fn planted() -> TestHouston {
    let houston = TestHouston::own_postgres_with(&[
        ("HOUSTON_SECRETS_KEY", SECRETS_KEY),
        ("HOUSTON_WEBHOOKS__HOSTS", "[\"http://127.0.0.1:9\"]"),
    ]);
    let goal = houston.goal("Tokyo").await;
    houston.post(&goal, "first", "Hello?").await;
    let webhook = json!({"url": "http://127.0.0.1:9/hook", "topics": ["message.posted"]});
    houston.create("/v1/webhooks", "webhook", &webhook).await;
    houston.sql(
        "update houston.run_locks set waiting_since = now() - interval '10 minutes',
                next_attempt_at = now() - interval '10 minutes' where wake;
         insert into houston.paused_lanes (lane) values ('interactive');
         update houston.webhooks set enabled = false, disabled_because = 'gone';
         do $$ begin
             execute format('alter database %I set default_transaction_isolation = %L', current_database(), 'serializable');
         end $$;
         revoke usage on schema houston from houston_api",
    );
    tell_redis(&houston, "CONFIG SET maxmemory-policy allkeys-lru");
    houston
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_finds_ten_planted_faults() {
    let houston = planted().await;
    // A key that the provider refuses.
    let model = ModelServer::start(|_: &Call| Reply::status(401)).await.unwrap();
    let mut command = doctor(&houston);
    command
        .env("HOUSTON_MODEL", "local/one")
        .env("HOUSTON_LOCAL_URL", model.url())
        .env("HOUSTON_ORCHESTRATOR__WORKER__DATABASE_CONNECTIONS", "200")
        .env("HOUSTON_WORKSPACES__ROOT", houston.folder.path().join("missing"));
    let (code, all) = found(&mut command);
    assert_eq!((code, &all["status"]), (Some(1), &json!("red")), "{all:#}");
    let planted = [
        ("providers", "red", "set a valid one"),
        ("connections", "red", "raise max_connections"),
        ("isolation", "red", "default_transaction_isolation"),
        ("workspaces", "red", "workspaces.toml"),
        ("secrets", "red", "HOUSTON_SECRETS_KEY"),
        ("work", "red", "houston work"),
        ("redis", "warn", "noeviction"),
        ("lanes", "warn", "houston queues resume interactive"),
        ("webhooks", "warn", "/replay"),
        ("row_security", "warn", "houston migrate"),
    ];
    for (id, status, todo) in planted {
        assert_found(&all, id, status, todo);
    }
    // The same for a person, with what to do below the table.
    let output = doctor(&houston).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("lanes: let them go on: houston queues resume interactive"), "{text}");
}

#[test]
fn doctor_says_why_servers_cannot_be_used() {
    let houston = TestHouston::own_postgres_with(&[]);
    tell_redis(&houston, "CONFIG SET requirepass secret");
    let (_, all) = found(&mut doctor(&houston));
    assert_found(&all, "redis", "red", "HOUSTON_REDIS_URL: redis://user:password@");

    let nowhere = "redis+unix:///nowhere/redis.sock";
    let (_, all) = found(doctor(&houston).env("HOUSTON_REDIS_URL", nowhere));
    assert_found(&all, "redis", "red", "start it");

    let url = houston.servers.lock().unwrap().database_url().replace("/houston?", "/nothing?");
    let (code, all) = found(doctor(&houston).env("DATABASE_URL", url));
    assert_eq!(code, Some(1), "{all:#}");
    assert_found(&all, "postgres", "red", "create the database");

    houston
        .sql("delete from houston.migrations where version = (select max(version) from houston.migrations)");
    assert_found(&found(&mut doctor(&houston)).1, "schema", "red", "run `houston migrate`");
    houston.sql(
        "insert into houston.migrations (version, description, success, checksum, execution_time)
         values (99991231000000, 'from the future', true, '', 0)",
    );
    assert_found(&found(&mut doctor(&houston)).1, "schema", "red", "newest binary");
}

#[test]
fn doctor_reports_invalid_settings_as_a_finding() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("orchestrator.toml"), "[worker]\nslots = \"many\"\n").unwrap();
    let mut command = houston_command();
    command.args(["doctor", "--jobs"]).arg(folder.path());
    let (code, all) = found(&mut command);
    assert_eq!((code, &all["status"]), (Some(2), &json!("red")), "{all:#}");
    assert_found(&all, "settings", "red", "correct the file");
    assert!(all["checks"][0]["detail"].as_str().unwrap().contains("slots"), "{all:#}");
}
