//! Evaluations: requests of one line each, until the parent closes the pipe.

use std::io;

use serde_json::value::RawValue;

use super::pipes::Pipes;
use crate::protocol::Message;

pub(super) fn answer_all(pipes: &mut Pipes, evaluate: fn(&str) -> String) -> io::Result<()> {
    while let Some(request) = pipes.line()? {
        let answer = RawValue::from_string(evaluate(&request))?;
        pipes.send(&Message::Evaluated { answer, cpu_ms: cpu_ms() })?;
    }
    Ok(())
}

/// Milliseconds of CPU time that this process has used.
#[cfg(target_os = "linux")]
pub(super) fn cpu_ms() -> u64 {
    use rustix::time::{ClockId, clock_gettime};
    let used: std::time::Duration = clock_gettime(ClockId::ProcessCPUTime).try_into().unwrap_or_default();
    u64::try_from(used.as_millis()).unwrap_or(u64::MAX)
}

/// Elsewhere each child answers once.
#[cfg(not(target_os = "linux"))]
pub(super) fn cpu_ms() -> u64 {
    u64::MAX
}
