//! Child processes: signals, output, readiness, and cleanup on drop.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::Duration;

use houston_testkit::process::{Process, Signal};

const PATIENCE: Duration = Duration::from_secs(10);

fn shell(script: &str) -> Process {
    let mut command = Command::new("/bin/sh");
    Process::spawn(command.args(["-c", script]).env("GREETING", "hello").env_remove("HOME")).unwrap()
}

/// The state in `/proc/<pid>/stat`: `R`, `S`, `T`, …; `None` if there is no such process.
fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

#[test]
fn lines_are_read_and_waited_for() {
    let mut process = shell("echo $GREETING; echo \"home: $HOME\" >&2; read never; echo end; exit 3");
    assert_eq!(process.wait_for_line(PATIENCE, |line| line.starts_with("hel")).unwrap(), "hello");
    process.wait_for_line(PATIENCE, |line| line == "home:").unwrap();
    assert_eq!(process.wait(PATIENCE).unwrap().code(), Some(3));
    let error = process.wait_for_line(PATIENCE, |line| line == "nothing").unwrap_err().to_string();
    assert!(error.contains("in vain") && error.contains("hello"), "{error}");
    assert!(process.terminate().is_err(), "the process has ended");
}

#[test]
fn signals_arrive() {
    let mut process = shell("trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.01; done");
    process.wait_for_line(PATIENCE, |line| line == "ready").unwrap();
    process.signal(Signal::STOP).unwrap();
    let end = std::time::Instant::now() + PATIENCE;
    while state(process.pid()) != Some('T') {
        assert!(std::time::Instant::now() < end, "the process is not stopped");
    }
    process.signal(Signal::CONT).unwrap();
    process.terminate().unwrap();
    assert!(process.wait(PATIENCE).unwrap().success());
    process.wait_for_line(PATIENCE, |line| line == "asked").unwrap();
    assert!(process.ended().unwrap().is_some());
}

#[test]
fn kill_is_immediate_and_drop_leaves_no_process() {
    let mut process = shell("trap '' TERM INT; echo ready; while :; do sleep 0.01; done");
    process.wait_for_line(PATIENCE, |line| line == "ready").unwrap();
    process.signal(Signal::INT).unwrap();
    assert_eq!(process.kill().unwrap().signal(), Some(9));

    let process = shell("exec sleep 600");
    let pid = process.pid();
    drop(process);
    assert_eq!(state(pid), None);
}

#[test]
fn readiness_is_waited_for_over_http() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        for status in ["503 Service Unavailable", "200 OK"] {
            let mut socket = listener.accept().unwrap().0;
            assert!(socket.read(&mut [0; 512]).unwrap() > 0);
            // In one write: the client closes the connection once it has read the status.
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
            socket.write_all(answer.as_bytes()).unwrap();
        }
    });
    let mut process = shell("exec sleep 600");
    process.wait_for_ready(address, "/readyz", PATIENCE).unwrap();
    server.join().unwrap();

    let mut process = shell("echo no; exit 1");
    let error = process.wait_for_ready(address, "/readyz", PATIENCE).unwrap_err();
    assert!(error.to_string().contains("it ended"), "{error}");
}
