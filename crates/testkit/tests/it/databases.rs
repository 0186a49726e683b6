//! Test databases on the shared server and on an own one.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use houston_testkit::database::TestDatabase;
use houston_testkit::installation::TestInstallation;

/// In place of migrations.
async fn migrate(url: String) {
    let status = Command::new("psql").args([&url, "-qc", "create table t (n int)"]).status().unwrap();
    assert!(status.success());
}

/// Uses its own template, since other crates of the same run fill `template_houston`.
fn database() -> TestDatabase {
    TestDatabase::shared_from("template_of_testkit", migrate).unwrap()
}

fn databases(database: &TestDatabase) -> String {
    database.sql("select string_agg(datname, ' ') from pg_database").unwrap()
}

/// Backend process id and data directory, separated by `|`.
fn server(database: &TestDatabase) -> String {
    database.sql("select pg_backend_pid(), setting from pg_settings where name = 'data_directory'").unwrap()
}

#[test]
fn databases_have_the_schema_and_separate_rows() {
    let (one, other) = (database(), database());
    one.sql("insert into t values (1)").unwrap();
    assert_eq!(one.sql("select count(*) from t").unwrap(), "1");
    assert_eq!(other.sql("select count(*) from t").unwrap(), "0");
    let folder = |database| server(database).split_once('|').unwrap().1.to_owned();
    assert_eq!(folder(&one), folder(&other), "both are on one server");
    let name = other.sql("select current_database()").unwrap();
    assert!(databases(&one).contains(&name));
    // The database is dropped although a client is connected.
    let mut sleeper = other.psql("select pg_sleep(600)").spawn().unwrap();
    drop(other);
    assert!(!databases(&one).contains(&name));
    assert!(!sleeper.wait().unwrap().success());
    assert!(one.server().is_err(), "the server is shared");
}

#[test]
fn panicking_test_leaves_no_database() {
    let watching = database();
    let panicking = std::thread::spawn(|| {
        let database = self::database();
        std::panic::panic_any(database.sql("select current_database()").unwrap());
    });
    let name = panicking.join().unwrap_err().downcast::<String>().unwrap();
    assert!(!databases(&watching).contains(name.as_str()));
}

#[test]
fn own_installation_is_killed_and_restarted() {
    let mut own = TestInstallation::start_with_own_postgres(migrate).unwrap();
    own.sql("insert into t values (1)").unwrap();
    own.kill_postgres().unwrap();
    own.sql("select 1").unwrap_err();
    own.restart_postgres().unwrap();
    assert_eq!(own.sql("select count(*) from t").unwrap(), "1");
    assert!(own.postgres_log().unwrap().contains("ready to accept connections"));
}

/// The runner is a shell that runs one test of this program as `cargo` would, and is then killed.
#[test]
fn shared_server_ends_with_its_runner() {
    let mut runner = Command::new("/bin/sh")
        .args(["-c", "\"$0\" --exact databases::databases_have_the_schema_and_separate_rows && read -r line"])
        .arg(std::env::current_exe().unwrap())
        .env("CARGO_MANIFEST_DIR", env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let folders = ["/dev/shm", "/tmp"].map(|parent| format!("{parent}/houston-tests-{}", runner.id()));
    let until = |what: &str, is_so: &dyn Fn() -> bool| {
        let end = Instant::now() + Duration::from_secs(60);
        while !is_so() {
            assert!(Instant::now() < end, "timeout: {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let url = || folders.iter().find_map(|folder| std::fs::read_to_string(format!("{folder}/server")).ok());
    until("the server is up", &|| url().is_some());
    let text = url().unwrap();
    let postmaster = Path::new("/proc").join(text.lines().nth(1).unwrap());
    assert!(postmaster.exists());
    runner.kill().unwrap();
    assert_eq!(runner.wait().unwrap().signal(), Some(9));
    let is_left = || postmaster.exists() || folders.iter().any(|folder| Path::new(folder).exists());
    until("nothing is left", &|| !is_left());
}
