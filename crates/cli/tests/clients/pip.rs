//! Clients from PyPI.

use crate::dev::Dev;
use crate::scripts::{python, succeed};

/// Runs the tests of the scripts, which share a Houston.
fn pytest(scripts: &[&str]) {
    let dev = Dev::start();
    let arguments = ["-m", "pytest", "-q", "-ra", "--color=no", "-p", "no:cacheprovider", "--durations=5"];
    succeed(python(&dev).args(arguments).args(scripts));
}

/// All that have no test of their own below.
#[test]
fn pip_clients_agree_with_the_thread() {
    pytest(&["--ignore=test_readme.py", "--ignore=test_slow.py"]);
}

/// Takes a minute, most of which it waits or compiles Kotlin.
#[test]
fn readme_of_the_api_does_what_it_says() {
    pytest(&["test_readme.py"]);
}

/// Takes half a minute: so long a write may wait.
#[test]
#[ignore = "waits for a minute; `cargo xtask test --long`, a part of `cargo xtask evidence`"]
fn clients_that_do_not_read_are_cut_off() {
    pytest(&["test_slow.py"]);
}

#[test]
fn stream_helper_survives_a_killed_server() {
    let mut dev = Dev::start();
    let mut command = python(&dev);
    command.arg("killed.py");
    dev.kill_while_it_answers(command);
}
