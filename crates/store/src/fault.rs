//! Crash points: places where a test lets this process die, freeze, fail or dawdle. They exist only with the
//! feature `fault-injection`, which no release has; without it [`fault!`](crate::fault!) is `Ok(())` and nothing
//! of this file is compiled.
//!
//! Which place, how often and what is the process's environment, in the syntax of the `fail` crate:
//! `FAILPOINTS='C10=1*return(kill)'`, or `C7=3*off->1*return(pause)` for the fourth time. Places (the crash
//! points of the design's table) are named `C1` to `C16`; what may happen:
//!
//! - `kill`: SIGKILL to itself: no destructor runs, no connection is closed in order.
//! - `pause`: SIGSTOP to itself, until somebody sends SIGCONT: a virtual machine that was put to sleep.
//! - `error`: the place fails as if the connection to Postgres broke there.
//! - `delay:<ms>`: goes on so much later.

use std::io::Write as _;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};

use crate::error::{Error, Result};

/// What stderr says when a place is struck, before the place and the deed: the witness that a case is one.
pub const MARK: &str = "fault injected";

/// How long a process that has sent itself a stop waits for it, at most: the signal may go to another thread first.
const STOP_ARRIVES_WITHIN: Duration = Duration::from_millis(200);

/// Marks a place where a test may let the process break down: `houston_store::fault!("C10")?`.
///
/// Without the feature `fault-injection` it is `Ok(())`.
#[macro_export]
macro_rules! fault {
    ($place:literal) => {
        $crate::fault::strike($place).await
    };
}

/// Does what the environment says of `place`.
///
/// # Errors
/// A broken connection, when that is what it says.
pub async fn strike(place: &str) -> Result<()> {
    static ARMED: OnceLock<()> = OnceLock::new();
    // Forgotten, not dropped: its end would disarm every place.
    ARMED.get_or_init(|| std::mem::forget(fail::FailScenario::setup()));
    let Some(deed) = fail::eval(place, Option::unwrap_or_default) else { return Ok(()) };
    let _ = writeln!(std::io::stderr(), "{MARK}: {place} {deed}");
    match deed.split_once(':').unwrap_or((&deed, "")) {
        ("kill", _) => signal(Signal::KILL),
        ("pause", _) => signal(Signal::STOP),
        ("error", _) => {
            let broken = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
            return Err(Error::Database(sqlx::Error::Io(broken)));
        }
        ("delay", millis) => {
            tokio::time::sleep(Duration::from_millis(millis.parse().unwrap_or(10_000))).await
        }
        _ => {
            let _ = writeln!(std::io::stderr(), "no such deed: kill, pause, error, delay:<ms>");
            std::process::exit(2);
        }
    }
    Ok(())
}

/// Sends itself a signal that cannot be caught, and does nothing more before it has arrived.
fn signal(signal: Signal) {
    let _ = kill_process(getpid(), signal);
    std::thread::sleep(STOP_ARRIVES_WITHIN);
}
