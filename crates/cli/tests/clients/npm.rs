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
