//! Clients from npm.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::dev::Dev;
use crate::scripts::{folder, node, succeed};

/// One test, so that they share a Houston.
#[test]
fn npm_clients_agree_with_the_thread() {
    let dev = Dev::start();
    let report = succeed(node(&dev).args(["--test", "--test-reporter=spec", "--test-concurrency=3"]));
    // `node --test` succeeds when it finds no tests.
    for script in std::fs::read_dir(folder()).unwrap().map(|file| file.unwrap().path()) {
        let Some(name) = script.file_name().unwrap().to_str().unwrap().strip_suffix(".test.mjs") else {
            continue;
        };
        assert!(report.contains(&format!("✔ {name}: ")), "no test of {name} ran:\n{report}");
    }
}

#[test]
fn http_agent_survives_a_killed_server_with_one_post() {
    let mut dev = Dev::start();
    let mut command = node(&dev);
    command.arg("killed.mjs");
    dev.kill_while_it_answers(command);
}

/// Alone: it seeds what other clients would meet, and looks at everything.
#[test]
#[ignore = "a browser computes for two minutes; `cargo xtask test --long`, a part of `cargo xtask evidence`"]
fn console_is_right_on_every_screen() {
    let dev = Dev::start();
    // What a check has found may quote the error of a server, and the name of a key is that of a person who signed in.
    dev.sql(
        "insert into houston.health_changes (check_id, at, status, detail)
         values ('redis', now() - interval '2 hours', 'warn', 'check <img src=x onerror=document.title=''hacked''>'),
                ('redis', now() - interval '1 hour', 'ok', 'answers');
         update houston.api_keys set name = 'key <img src=x onerror=document.title=''hacked''>'",
    );
    let report = succeed(node(&dev).args(["--test", "screens.mjs"]));
    assert!(report.contains("screens: every screen"), "no test ran:\n{report}");
}

/// A free port.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
#[ignore = "a browser computes for a minute; `cargo xtask test --long`, a part of `cargo xtask evidence`"]
fn people_sign_in_with_an_identity_provider() {
    let (console, provider) = (free_port(), free_port());
    let (url, secret) = (format!("http://127.0.0.1:{console}"), "a s&cret+of=the client".to_owned());
    let groups = "[{group=\"ops\",role=\"operator\",tenant=\"demo\"},{group=\"staff\",role=\"viewer\",tenant=\"demo\"}]";
    let variables = [
        ("HOUSTON_CONSOLE__ADDRESS", format!("127.0.0.1:{console}")),
        ("HOUSTON_CONSOLE__OIDC__ISSUER", format!("http://127.0.0.1:{provider}")),
        ("HOUSTON_CONSOLE__OIDC__CLIENT_ID", "houston".to_owned()),
        ("HOUSTON_CONSOLE__OIDC__PUBLIC_URL", url.clone()),
        ("HOUSTON_CONSOLE__OIDC__SCOPES", "[\"email\",\"groups\"]".to_owned()),
        ("HOUSTON_CONSOLE__OIDC__GROUPS", groups.to_owned()),
        ("HOUSTON_CONSOLE_OIDC_SECRET", secret.clone()),
    ];
    let dev = Dev::start_with(variables.into());
    let mut command = node(&dev);
    command.args(["--test", "oidc.mjs"]).env("PROVIDER_PORT", provider.to_string()).env("CONSOLE_URL", url);
    let report = succeed(command.env("HOUSTON_CONSOLE_OIDC_SECRET", secret));
    assert!(report.contains("oidc: a code is used once"), "no test ran:\n{report}");
}

/// A run in whose first model call its worker was killed, and then the process that tried it alone, once it was given up; with its
/// goal.
fn killing_run(dev: &mut Dev, provider: u16) -> (String, String) {
    // Connections are made, and nothing is answered.
    let silent = std::net::TcpListener::bind(("127.0.0.1", provider)).unwrap();
    let text = |of: &Value, name: &str| of[name].as_str().unwrap().to_owned();
    let user = text(&dev.post("/v1/users", &json!({"name": "Gil"})), "id");
    let goal = text(&dev.post("/v1/goals", &json!({"user_id": user, "title": "Gil"})), "id");
    let message = json!({"content": "Who are you?"});
    let run = text(&dev.post(&format!("/v1/goals/{goal}/messages"), &message), "run_id");
    wait_for_status(dev, &run, "running");
    dev.kill();
    dev.start_again();
    // Connections are accepted by the system, and the child waits for an answer, until it is killed as a poisoned run would.
    kill_trial(dev);
    wait_for_status(dev, &run, "dead_lettered");
    drop(silent);
    (goal, run)
}

/// Kills the process that drives one run alone, once it has claimed it.
fn kill_trial(dev: &Dev) {
    let end = Instant::now() + Duration::from_secs(60);
    let claimed = "select count(*) from houston.run_locks l join houston.workers w on w.id = l.holder where w.slots = 1";
    loop {
        if dev.sql(claimed).trim() == "1" {
            break;
        }
        assert!(Instant::now() < end, "no process tries the run alone");
        std::thread::sleep(Duration::from_millis(20));
    }
    let parent = dev.pid().to_string();
    for process in std::fs::read_dir("/proc").unwrap().map(|process| process.unwrap().path()) {
        let read = |name: &str| std::fs::read_to_string(process.join(name)).unwrap_or_default();
        // The parent is the second field after the name, which is in parentheses.
        let stat = read("stat");
        let is_child = stat.rsplit(')').next().and_then(|rest| rest.split(' ').nth(2)) == Some(&parent);
        if is_child && read("cmdline").contains("--only") {
            let id = process.file_name().unwrap().to_str().unwrap().parse().unwrap();
            rustix::process::kill_process(
                rustix::process::Pid::from_raw(id).unwrap(),
                rustix::process::Signal::KILL,
            )
            .unwrap();
            return;
        }
    }
    panic!("the process that tries the run alone is gone");
}

fn wait_for_status(dev: &Dev, run: &str, status: &str) {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let found = dev.get(&format!("/v1/runs/{run}"));
        if found["status"] == status {
            return;
        }
        assert!(Instant::now() < end, "the run never was {status}: {found}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
#[ignore = "a browser computes for a minute; `cargo xtask test --long`, a part of `cargo xtask evidence`"]
fn operator_mends_a_broken_provider() {
    let free = free_port();
    let variables = [
        ("HOUSTON_MODEL", "openai/gpt-5-mini".to_owned()),
        ("OPENAI_BASE_URL", format!("http://127.0.0.1:{free}/v1")),
        ("OPENAI_API_KEY", "sk-broken".to_owned()),
        // What fails is tried again later, and then given up.
        ("HOUSTON_ORCHESTRATOR__RETRY__IMMEDIATE__ATTEMPTS", "0".to_owned()),
        // A message that kills its worker once is given up.
        ("HOUSTON_ORCHESTRATOR__LEASE__MAX_CRASHES", "1".to_owned()),
        ("HOUSTON_ORCHESTRATOR__LEASE__DOUBT_MS", "200".to_owned()),
    ];
    let mut dev = Dev::start_with(variables.into());
    let (goal, run) = killing_run(&mut dev, free);
    let mut command = node(&dev);
    command.args(["--test", "operator.mjs"]).env("PROVIDER_PORT", free.to_string());
    command.env("GIVEN_UP_GOAL", goal).env("GIVEN_UP_RUN", run);
    let report = succeed(&mut command);
    assert!(report.contains("operator: a refused key"), "no test ran:\n{report}");
}
