//! Runs of the small program.

use std::time::Duration;

use houston_sandbox::{Limits, NoTools, Program, Run, Sandbox, Script};

/// The small program.
pub(crate) fn program() -> Program {
    Program::new(env!("CARGO_BIN_EXE_houston-sandbox"), [""; 0])
}

/// A sandbox whose children are the small program.
pub(crate) fn sandbox() -> Sandbox {
    Sandbox::new(program(), 4)
}

/// A script that has time on a slow machine, too.
pub(crate) fn script(code: &str) -> Script {
    let limits = Limits { time: Duration::from_secs(30), ..Limits::default() };
    Script { limits, now_ms: 1_700_000_000_000, seed: 7, ..Script::new(code) }
}

/// The script with little time.
pub(crate) fn impatient(script: Script) -> Script {
    let limits = Limits { time: Duration::from_millis(100), ..script.limits };
    Script { limits, ..script }
}

pub(crate) async fn run(code: &str) -> Run {
    sandbox().run(&script(code), &mut NoTools).await.unwrap()
}

/// The text of what a script returns.
pub(crate) async fn value(code: &str) -> String {
    let outcome = run(code).await.outcome;
    assert!(outcome.is_value(), "{code}: {}", outcome.text());
    outcome.text()
}
