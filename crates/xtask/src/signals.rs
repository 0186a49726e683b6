//! Running a command until it ends, or until a signal asks it to.

use std::process::ExitCode;

use anyhow::Result;
use tokio::signal::unix::{SignalKind, signal};

use crate::console::tell;

/// Runs `command` to its end, or to the first SIGINT or SIGTERM, which drops it. An error is printed after `program`.
#[must_use]
pub fn run_until_stopped(program: &str, command: impl Future<Output = Result<ExitCode>>) -> ExitCode {
    let run = || -> Result<ExitCode> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        runtime.block_on(async {
            let mut interrupt = signal(SignalKind::interrupt())?;
            let mut terminate = signal(SignalKind::terminate())?;
            tokio::select! {
                result = Box::pin(command) => result,
                _ = interrupt.recv() => Ok(stopped(program, 130)),
                _ = terminate.recv() => Ok(stopped(program, 143)),
            }
        })
    };
    run().unwrap_or_else(|error| {
        tell(&format!("{program}: {error:#}"));
        ExitCode::FAILURE
    })
}

fn stopped(program: &str, code: u8) -> ExitCode {
    tell(&format!("{program}: stopped, and all it had started"));
    ExitCode::from(code)
}
