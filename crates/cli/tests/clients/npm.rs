//! Clients from npm.

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
fn console_is_right_on_every_screen() {
    let dev = Dev::start();
    let report = succeed(node(&dev).args(["--test", "screens.mjs"]));
    assert!(report.contains("screens: every screen"), "no test ran:\n{report}");
}

#[test]
fn operator_mends_a_broken_provider() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let variables = [
        ("HOUSTON_MODEL", "openai/gpt-5-mini".to_owned()),
        ("OPENAI_BASE_URL", format!("http://127.0.0.1:{free}/v1")),
        ("OPENAI_API_KEY", "sk-broken".to_owned()),
    ];
    let dev = Dev::start_with(variables.into());
    let mut command = node(&dev);
    command.args(["--test", "operator.mjs"]).env("PROVIDER_PORT", free.to_string());
    let report = succeed(&mut command);
    assert!(report.contains("operator: a refused key"), "no test ran:\n{report}");
}
