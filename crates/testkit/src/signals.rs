//! Runs a command until it ends or a signal arrives.

use std::process::ExitCode;

use anyhow::Result;
use tokio::signal::unix::{SignalKind, signal};

use crate::console::print_status;

/// Runs `command` to its end. SIGINT and SIGTERM drop it; the exit code is then 130 or 143. Errors are printed with the
/// prefix `program`.
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
        print_status(&format!("{program}: {error:#}"));
        ExitCode::FAILURE
    })
}

fn stopped(program: &str, code: u8) -> ExitCode {
    print_status(&format!("{program}: stopped, including all child processes"));
    ExitCode::from(code)
}
