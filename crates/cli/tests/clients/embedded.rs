//! `houston dev` with embedded servers, and commands beside it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use houston_testkit::process::{Process, Signal};
use serde_json::Value;

use crate::dev::{houston, run, text};

const PATIENCE: Duration = Duration::from_secs(120);

/// Starts `houston dev` and waits until it is up; returns the process and its address.
fn start(folder: &Path) -> (Process, String) {
    let mut command = houston(folder);
    command.args(["dev", "--address", "127.0.0.1:0"]).env("HOUSTON_MODEL", "simulated");
    // The tests may run under cargo, but this program is started directly.
    command.env_remove("CARGO").env_remove("CARGO_MANIFEST_DIR");
    let process = Process::spawn(&mut command).unwrap();
    let line = process.wait_for_line(PATIENCE, |line| line.starts_with("Houston is up at ")).unwrap();
    process.wait_for_line(PATIENCE, |line| line.contains("Ctrl-C stops it")).unwrap();
    let url = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap().to_owned();
    (process, url)
}

fn stop(mut process: Process) {
    process.signal(Signal::INT).unwrap();
    assert!(process.wait(PATIENCE).unwrap().success(), "{}", process.log());
}

fn list_goals(folder: &Path) -> Vec<String> {
    let output = run(houston(folder).args(["list", "goals", "--json"]), "");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
    listed["data"].as_array().unwrap().iter().map(|goal| goal["id"].as_str().unwrap().to_owned()).collect()
}

fn demo_goal(folder: &Path) -> String {
    let kept: Value = serde_json::from_slice(&std::fs::read(folder.join("demo.json")).unwrap()).unwrap();
    kept["goal"].as_str().unwrap().to_owned()
}

#[test]
fn commands_find_the_database_of_dev_running_or_not() {
    let folder = tempfile::tempdir().unwrap();
    let (dev, url) = start(folder.path());
    let goal = demo_goal(folder.path());
    assert_eq!(list_goals(folder.path()), [goal.as_str()]);
    let state = run(houston(folder.path()).args(["state", &goal]), "");
    assert_eq!(state.status.code(), Some(0), "{state:?}");
    assert_eq!(text(&state.stderr), "", "attaching to running servers prints nothing");

    // The printed commands can be pasted, and contain no key.
    let key = std::fs::read_to_string(folder.path().join("key")).unwrap().trim().to_owned();
    assert_eq!(std::fs::metadata(folder.path().join("key")).unwrap().permissions().mode() & 0o777, 0o600);
    let log = dev.log();
    assert!(!log.contains(&key), "{log}");
    assert!(log.contains(&format!("  {} --folder", env!("CARGO_BIN_EXE_houston"))), "{log}");
    let lines: Vec<&str> = log.lines().map(str::trim).collect();
    let post = lines.iter().find(|line| line.starts_with("curl") && line.contains("-d")).unwrap();
    let export = lines.iter().find(|line| line.starts_with("export")).unwrap();
    let mut shell = std::process::Command::new("sh");
    let pasted = shell.args(["-c", &format!("{export}\n{post}")]).env("no_proxy", "*").output().unwrap();
    assert!(text(&pasted.stdout).contains("\"run_id\""), "{pasted:?}");

    // A newer goal of the demo's user does not become the demo's goal.
    let user = lines.iter().find_map(|line| line.strip_prefix("user")).unwrap().trim();
    let other = run(
        std::process::Command::new("curl")
            .args([
                "-s",
                "--noproxy",
                "*",
                &format!("{url}/v1/goals"),
                "-H",
                &format!("Authorization: Bearer {key}"),
            ])
            .args(["-H", "Content-Type: application/json"])
            .args(["-d", &format!("{{\"user_id\": \"{user}\", \"title\": \"Another\"}}")]),
        "",
    );
    assert!(text(&other.stdout).contains("Another"), "{other:?}");
    stop(dev);

    assert_eq!(list_goals(folder.path()).len(), 2, "the data of a stopped dev is found, too");
    let (dev, _) = start(folder.path());
    assert_eq!(demo_goal(folder.path()), goal);
    stop(dev);
}
