//! What the kernel answers to code inside the walls that is not held by an interpreter.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

const SIGSYS: i32 = 31;

/// The example that makes the attempts.
fn attempts() -> Command {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_houston-sandbox"));
    let example = program.parent().unwrap().join("examples/attempts");
    assert!(example.exists(), "{} is missing: build the examples", example.display());
    let mut command = Command::new(example);
    command.env_clear().env("TZ", "UTC").current_dir("/").stdin(Stdio::null());
    command
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn no_attempt_gets_through() {
    let names = text(&attempts().output().unwrap());
    let names: Vec<&str> = names.lines().collect();
    assert!(names.len() > 55, "this test finds too few attempts: {names:?}");
    let (mut through, mut killed) = (Vec::new(), 0);
    for name in names {
        let output = attempts().arg(name).output().unwrap();
        let last = text(&output).lines().last().unwrap_or_default().to_owned();
        match output.status.signal() {
            Some(SIGSYS) => killed += 1,
            None if last.starts_with("refused") => {}
            _ if name == "nothing" => assert_eq!(last, "ok", "the walls do not hold an honest child"),
            _ => through.push(format!("{name}: {} {last}", output.status)),
        }
        assert!(text(&output).contains("environment [\"TZ\"]"), "{name}");
    }
    assert!(through.is_empty(), "{through:#?}");
    assert!(killed > 35, "only {killed} attempts were killed: do they reach the kernel?");
}
