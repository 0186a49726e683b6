//! Commands of the system under bwrap. Where it does not work, the tests say so and pass: `cargo xtask test` installs it.

use std::time::{Duration, Instant};

use houston_sandbox::{MAX_SHELL_OUTPUT, Shell, ShellEnd, ShellRun};

const TIME: Duration = Duration::from_secs(20);

/// A shell that works here.
async fn shell() -> Option<Shell> {
    let reason = match Shell::find(2) {
        Ok(shell) => match shell.check().await {
            Ok(()) => return Some(shell),
            Err(error) => error.to_string(),
        },
        Err(error) => error.to_string(),
    };
    eprintln!("SKIPPED: {reason}");
    None
}

async fn run(shell: &Shell, command: &str) -> ShellRun {
    shell.run(command, "", TIME).await.unwrap()
}

#[tokio::test]
async fn command_reads_its_input_and_says_how_it_ended() {
    let Some(shell) = shell().await else { return };
    let sorted = shell.run("sort | tee a | head -2; ls; exit 3", "b\nc\na\n", TIME).await.unwrap();
    assert_eq!((sorted.end, sorted.output.as_str()), (ShellEnd::Code(3), "a\nb\na\n"));
    let next = run(&shell, "ls -A; echo $HOME; pwd").await;
    assert_eq!((next.end, next.output.as_str()), (ShellEnd::Code(0), "/work\n/work\n"), "nothing is kept");
    let signalled = run(&shell, "kill -9 $$").await;
    assert_eq!(signalled.end, ShellEnd::Code(137));
}

#[tokio::test]
async fn nothing_but_programs_can_be_read_and_nothing_else_written() {
    let Some(shell) = shell().await else { return };
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&secret, "CANARY").unwrap();
    let path = secret.path().display();
    let here = std::env::current_dir().unwrap();
    for command in [
        format!("cat {path}"),
        format!("cat /proc/1/root{path}"),
        format!("cat /proc/*/root{path}"),
        format!("ls {}", here.display()),
        "cat /etc/passwd".to_owned(),
        "cat /etc/shadow".to_owned(),
        "ls /root".to_owned(),
        "ls /home".to_owned(),
        "ls /var".to_owned(),
        "ls /sys".to_owned(),
        "cat /proc/kcore".to_owned(),
        "touch /usr/bin/x".to_owned(),
        "touch /x".to_owned(),
        "touch /etc/x".to_owned(),
        "mkdir /y".to_owned(),
        "mount -t tmpfs none /usr".to_owned(),
        "mount -o remount,rw /usr".to_owned(),
        "unshare -U true".to_owned(),
        "mknod m c 1 1".to_owned(),
        "date -s 2001-01-01".to_owned(),
        "echo '|/tmp/x' > /proc/sys/kernel/core_pattern".to_owned(),
        "echo h > /proc/sysrq-trigger".to_owned(),
        "echo x > /proc/sys/kernel/hostname".to_owned(),
    ] {
        let run = run(&shell, &command).await;
        assert!(matches!(run.end, ShellEnd::Code(1..)), "{command}: {run:?}");
        assert!(!run.output.contains("CANARY"), "{command}: {run:?}");
    }
    let environment = run(&shell, "env | sort | cut -d= -f1").await.output;
    assert_eq!(environment, "HOME\nLANG\nPATH\nPWD\n", "{environment}");
}

#[tokio::test]
async fn no_network_can_be_reached() {
    let Some(shell) = shell().await else { return };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let devices = run(&shell, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '").await.output;
    assert_eq!(devices, "lo\n", "a loopback of its own");
    // bash opens sockets by itself; where there is none, the command fails as well.
    let reached = run(&shell, &format!("bash -c 'echo x > /dev/tcp/127.0.0.1/{port}'")).await;
    assert!(matches!(reached.end, ShellEnd::Code(1..)), "{reached:?}");
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

/// The command lines of all processes of this machine.
fn command_lines() -> impl Iterator<Item = String> {
    let folders = std::fs::read_dir("/proc").unwrap().flatten();
    let arguments = folders.filter_map(|folder| std::fs::read(folder.path().join("cmdline")).ok());
    arguments.map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " "))
}

/// Whether a process sleeps for so long, or is bwrap that starts one.
fn is_running(seconds: &str) -> bool {
    command_lines().any(|line| line.contains(&format!("sleep {seconds}")))
}

/// Whether the process that sleeps for so long has begun.
fn has_begun(seconds: &str) -> bool {
    command_lines().any(|line| line.trim_end() == format!("sleep {seconds}"))
}

async fn wait_until_gone(seconds: &str) {
    let began = Instant::now();
    while is_running(seconds) {
        assert!(began.elapsed() < TIME, "{seconds} is still running");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn all_processes_die_in_time_at_the_end_and_when_dropped() {
    let Some(shell) = shell().await else { return };
    let slow = shell
        .run("sleep 7101.25 & setsid sleep 7101.25 & sleep 7101.25", "", Duration::from_secs(1))
        .await
        .unwrap();
    assert_eq!(slow.end, ShellEnd::TimedOut);
    wait_until_gone("7101.25").await;
    let left = run(&shell, "setsid sleep 7102.25 >/dev/null 2>&1 & echo begun").await;
    assert_eq!((left.end, left.output.as_str()), (ShellEnd::Code(0), "begun\n"));
    wait_until_gone("7102.25").await;
    let begun = async {
        let began = Instant::now();
        // While bwrap still starts, its child does not yet die with it.
        while !has_begun("7103.25") {
            assert!(began.elapsed() < TIME, "it does not begin");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    // The other future is dropped.
    tokio::select! {
        run = shell.run("sleep 7103.25", "", TIME) => panic!("{run:?}"),
        () = begun => {}
    }
    wait_until_gone("7103.25").await;
}

#[tokio::test]
async fn commands_dropped_while_they_start_leave_no_process() {
    let Some(shell) = shell().await else { return };
    for nth in 0..200_u32 {
        let run = shell.run("sleep 7104.25", "", TIME);
        // Dropped after a time of its own: at once, and at each moment of the start.
        let _ = tokio::time::timeout(Duration::from_micros(u64::from(nth) * 60), run).await;
    }
    // All that are still there die; one that had been forgotten would sleep for two hours.
    wait_until_gone("7104.25").await;
}

#[tokio::test]
async fn floods_and_bombs_are_stopped() {
    let Some(shell) = shell().await else { return };
    for command in ["yes", "yes >&2"] {
        let flood = run(&shell, command).await;
        assert_eq!(flood.end, ShellEnd::Flooded, "{command}");
        assert!(flood.output.len().max(flood.errors.len()) == MAX_SHELL_OUTPUT, "{command}");
    }
    let full = run(&shell, "head -c 100000000 /dev/zero > big; stat -c %s big").await;
    let written: u64 = full.output.trim().parse().unwrap();
    assert!(written <= 64 << 20, "{full:?}");
    let memory = run(&shell, "head -c 3000000000 /dev/zero | tail -c 2000000000 | wc -c").await;
    assert!(memory.output.trim() != "2000000000", "{memory:?}");
}
