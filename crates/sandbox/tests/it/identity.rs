//! Who a child is.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A child is neither root nor has it a capability, whoever has started it.
#[test]
fn child_is_nobody_and_may_nothing() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_houston-sandbox"))
        .args(["script", "--cpu-seconds", "5", "--output", "1000"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let status = || fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let began = Instant::now();
    // All walls stand once the filter of system calls does.
    while !status().contains("Seccomp:\t2") {
        assert!(began.elapsed() < Duration::from_secs(30), "{}", status());
        std::thread::sleep(Duration::from_millis(5));
    }
    let status = status();
    let line =
        |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
        assert_eq!(line(set), "0000000000000000", "{set}");
    }
    if rustix::process::geteuid().is_root() {
        for ids in ["Uid:", "Gid:"] {
            assert!(line(ids).split_whitespace().all(|id| id == "65534"), "{ids} {}", line(ids));
        }
        assert_eq!(line("Groups:"), "");
    }
    drop(child.stdin.take());
    child.kill().unwrap();
    child.wait().unwrap();
}
