//! Units of systemd with `Type=notify`: processes say that they are ready when they are, and that they stop.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use houston_testkit::process::Process;

use crate::test_houston::{PATIENCE, TestHouston};

const STOP: Duration = Duration::from_secs(30);

/// The socket that a process writes to, and its name as a variable.
fn listen(folder: &Path, role: &str) -> (UnixDatagram, String) {
    let path = folder.join(format!("{role}.notify"));
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    (socket, path.display().to_string())
}

fn next(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 64];
    let count = socket.recv(&mut bytes).unwrap();
    String::from_utf8(bytes[..count].to_vec()).unwrap()
}

/// Stops a process that has said that it is ready.
fn stops(socket: &UnixDatagram, process: &mut Process) {
    process.terminate().unwrap();
    assert_eq!(next(socket), "STOPPING=1");
    assert!(process.wait(STOP).unwrap().success(), "{}", process.log());
}

#[test]
fn worker_is_ready_for_systemd_once_it_may_claim() {
    let houston = TestHouston::start();
    let (socket, address) = listen(houston.folder.path(), "work");
    let mut worker = houston.worker_with(&[("NOTIFY_SOCKET", &address)]);
    assert_eq!(next(&socket), "READY=1");
    let alive = houston.sql("select count(*) from houston.workers where alive_until > clock_timestamp()");
    assert_eq!(alive, "1", "its lease is stored");
    stops(&socket, &mut worker);
}

#[test]
fn api_is_ready_for_systemd_once_it_listens() {
    let houston = TestHouston::start();
    let (socket, address) = listen(houston.folder.path(), "serve");
    let mut command = houston.command();
    command.args(["serve", "--address", "127.0.0.1:0"]).env("NOTIFY_SOCKET", &address);
    let mut serve = Process::spawn(&mut command).unwrap();
    assert_eq!(next(&socket), "READY=1");
    let address = serve.wait_for_address(PATIENCE).unwrap();
    serve.wait_for_ready(address, "/livez", PATIENCE).unwrap();
    stops(&socket, &mut serve);
}
