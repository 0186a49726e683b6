//! Clients from PyPI.

use crate::dev::Dev;
use crate::scripts::{python, succeed};

/// One test, so that they share a Houston.
#[test]
fn pip_clients_agree_with_the_thread() {
    let dev = Dev::start();
    let arguments = ["-m", "pytest", "-q", "-ra", "--color=no", "-p", "no:cacheprovider", "--durations=5"];
    println!("{}", succeed(python(&dev).args(arguments)));
}

#[test]
fn stream_helper_survives_a_killed_server() {
    let mut dev = Dev::start();
    let mut command = python(&dev);
    command.arg("killed.py");
    dev.kill_while_it_answers(command);
}
