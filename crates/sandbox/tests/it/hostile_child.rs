//! What the parent does with a child that breaks the protocol, as one that escaped its interpreter could.

use std::time::Duration;

use houston_sandbox::{Conversion, Error, Limits, NoTools, Outcome, Program, Run, Sandbox, Script};

use crate::runs::script;

/// A sandbox whose child is this program for `sh`, which may use built-in commands only.
fn shell(program: &str) -> Sandbox {
    Sandbox::new(Program::new("/bin/sh", ["-c", program, "child"]), 1)
}

async fn run(program: &str) -> Result<Run, Error> {
    run_within(Duration::from_secs(20), program).await
}

async fn run_within(time: Duration, program: &str) -> Result<Run, Error> {
    let limits = Limits { time, ..Limits::default() };
    shell(program).run(&Script { limits, ..script("return 1") }, &mut NoTools).await
}

/// A result of 1.
const END: &str = r#"{"end":{"result":{"value":1},"console":""}}"#;

#[tokio::test]
async fn missing_walls_are_an_error_and_nothing_runs() {
    let program = r#"echo '{"missing":["Landlock: too old"]}'; exit 3"#;
    let error = run(program).await.unwrap_err();
    assert!(matches!(&error, Error::Incomplete(missing) if missing == &["Landlock: too old"]), "{error}");
    assert!(error.to_string().contains("cannot be run safely on this machine: Landlock: too old"));
    assert!(matches!(shell(program).check().await, Err(Error::Incomplete(_))));
}

#[tokio::test]
async fn programs_that_are_no_sandbox_are_recognised() {
    let error = run("exit 2").await.unwrap_err();
    assert!(matches!(error, Error::NotASandbox(_)) && error.to_string().contains("code 2"), "{error}");
    // This test's own binary: it must not run tests again.
    let test = Sandbox::new(Program::this(), 1);
    assert!(matches!(test.check().await, Err(Error::NotASandbox(_) | Error::Protocol(_))));
    let missing = Sandbox::new(Program::new("/nonexistent/houston", [""; 0]), 1);
    assert!(matches!(missing.check().await, Err(Error::Start(_))));
}

#[tokio::test]
async fn floods_and_nonsense_end_the_child() {
    for (name, program) in [
        (
            "an endless line",
            "echo '\"ready\"'; while :; do printf 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'; done",
        ),
        ("endless lines", "echo '\"ready\"'; while :; do echo '\"ready\"'; done"),
        ("nonsense", "echo '\"ready\"'; echo 'what?'"),
        ("no walls", "echo '{\"calls\":[]}'"),
        ("no calls", "echo '\"ready\"'; while :; do echo '{\"calls\":[]}'; done"),
        (
            "a tool that was not offered",
            "echo '\"ready\"'; echo '{\"calls\":[{\"tool\":\"x\",\"input\":{}}]}'; read answer",
        ),
        ("a converter's message", "echo '\"ready\"'; echo '{\"text\":{\"text\":\"x\",\"cut\":false}}'"),
    ] {
        let error = run(program).await.expect_err(name);
        assert!(matches!(error, Error::Protocol(_)), "{name}: {error}");
    }
}

#[tokio::test]
async fn large_values_are_refused() {
    let big = r#"x=xxxxxxxxxxxxxxxx; i=0; while [ $i -lt 15 ]; do x=$x$x; i=$((i+1)); done; echo '"ready"'"#;
    let end = |result: &str, console: &str| {
        format!(r#"{big}; echo "{{\"end\":{{\"result\":{result},\"console\":\"{console}\"}}}}""#)
    };
    for program in [end(r#"{\"value\":\"$x\"}"#, ""), end(r#"{\"value\":1}"#, "$x")] {
        let error = run(&program).await.unwrap_err();
        assert!(matches!(error, Error::Protocol(_)), "{error}");
    }
    let deep = r#"x='[[[[[[[['; x=$x$x$x$x$x$x$x$x; x=$x$x$x$x; echo '"ready"'; echo "{\"end\":{\"result\":{\"value\":$x"; read more"#;
    assert!(matches!(run(deep).await.unwrap_err(), Error::Protocol(_)));
}

#[tokio::test]
async fn children_that_hang_are_killed() {
    let time = Duration::from_millis(300);
    // It does not listen, it hangs at the beginning or after its walls, it closes its output and stays.
    let (listens, closes_input, begins, closes_output) = tokio::join!(
        run_within(time, "echo '\"ready\"'; while :; do :; done"),
        run_within(time, "exec 2>&1; echo '\"ready\"'; exec <&-; while :; do :; done"),
        run("while :; do :; done"),
        run_within(time, "echo '\"ready\"'; exec >&-; while :; do :; done"),
    );
    assert_eq!(listens.unwrap().outcome, Outcome::TimedOut(time));
    assert_eq!(closes_input.unwrap().outcome, Outcome::TimedOut(time));
    assert!(matches!(begins.unwrap_err(), Error::NotASandbox(_)));
    assert_eq!(closes_output.unwrap().outcome, Outcome::Died { signal: None });
}

#[tokio::test]
async fn what_follows_the_end_is_not_read() {
    let program = format!("echo '\"ready\"'; echo '{END}'; while :; do echo '{END}'; done");
    assert_eq!(run(&program).await.unwrap().outcome.text(), "1");
}

#[tokio::test]
async fn deaths_are_reported_by_their_cause() {
    let died = run("echo '\"ready\"'; kill -31 $$").await.unwrap();
    assert_eq!(died.outcome, Outcome::Died { signal: Some(31) });
    assert!(died.outcome.text().contains("too deeply"), "{}", died.outcome.text());
    let out_of_time = run("echo '\"ready\"'; kill -24 $$").await.unwrap();
    assert_eq!(out_of_time.outcome, Outcome::TimedOut(Duration::from_secs(20)));
}

#[tokio::test]
async fn converters_answer_no_more_than_they_may() {
    let convert = |program: &'static str| async move {
        shell(program).convert(Conversion::HtmlToMarkdown, b"<p>x</p>", 3).await
    };
    let longer = convert("echo '\"ready\"'; echo '{\"text\":{\"text\":\"xxxx\",\"cut\":false}}'").await;
    assert!(matches!(longer, Err(Error::Protocol(_))), "{longer:?}");
    let other = convert("echo '\"ready\"'; echo '\"ready\"'").await;
    assert!(matches!(other, Err(Error::Protocol(_))), "{other:?}");
}

#[tokio::test]
async fn a_child_gets_nothing_of_its_parent() {
    let program = "echo '\"ready\"'; set > /dev/null; \
        echo \"{\\\"end\\\":{\\\"result\\\":{\\\"value\\\":\\\"$PATH|$HOME|$USER|$CARGO|$TZ|$(pwd)\\\"},\\\"console\\\":\\\"\\\"}}\"";
    let text = run(program).await.unwrap().outcome.text();
    assert!(text.ends_with("||||UTC|/\"") || text.ends_with("|||UTC|/\""), "{text}");
    assert!(!text.contains("cargo"), "{text}");
}

#[tokio::test]
async fn dropping_a_run_kills_its_child() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let program = format!("echo $$ > {}; echo '\"ready\"'; while :; do :; done", file.display());
    let sandbox = shell(&program);
    let script =
        Script { limits: Limits { time: Duration::from_secs(30), ..Limits::default() }, ..script("") };
    let pid = {
        let mut host = NoTools;
        let run = sandbox.run(&script, &mut host);
        tokio::pin!(run);
        loop {
            let wait = tokio::time::sleep(Duration::from_millis(20));
            tokio::select! {
                ended = &mut run => panic!("{ended:?}"),
                () = wait => {}
            }
            match std::fs::read_to_string(&file) {
                Ok(pid) if pid.ends_with('\n') => break pid.trim().to_owned(),
                _ => {}
            }
        }
    };
    // The kernel lists a process until it has been waited for, too.
    while std::path::Path::new("/proc").join(&pid).exists() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
