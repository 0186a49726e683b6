//! What happens at a crash point.
//!
//! Which place, how often and what is read from the environment, in the syntax of the `fail` crate:
//! `FAILPOINTS='C10=1*return(kill)'`, or `C7=3*off->1*return(pause)` for the fourth time. What may happen:
//!
//! - `kill`: SIGKILL to itself: no destructor runs, no connection is closed in order.
//! - `pause`: SIGSTOP to itself, until somebody sends SIGCONT: a virtual machine that was put to sleep.
//! - `error`: the place fails as if the connection to Postgres broke there.
//! - `delay:<ms>`: goes on so much later.

use std::io::Write as _;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};

use crate::Broken;

/// How each line on stderr begins that says which place was struck and how. Tests read it.
const MARK: &str = "fault injected";

/// How long a process that has sent itself a signal waits for it, at most: it may go to another thread first.
const SIGNAL_ARRIVES_WITHIN: Duration = Duration::from_millis(200);

/// See [`crate::strike`].
pub(crate) async fn strike(place: &str) -> Result<(), Broken> {
    static SCENARIO: OnceLock<()> = OnceLock::new();
    // Forgotten, not dropped: its end would disarm every place.
    SCENARIO.get_or_init(|| std::mem::forget(fail::FailScenario::setup()));
    let Some(action) = fail::eval(place, Option::unwrap_or_default) else { return Ok(()) };
    let _ = writeln!(std::io::stderr(), "{MARK}: {place} {action}");
    match action.split_once(':').unwrap_or((&action, "")) {
        ("kill", _) => send(Signal::KILL),
        ("pause", _) => send(Signal::STOP),
        ("error", _) => return Err(Broken),
        ("delay", millis) => {
            tokio::time::sleep(Duration::from_millis(millis.parse().unwrap_or(10_000))).await;
        }
        _ => {
            let _ = writeln!(std::io::stderr(), "unknown action `{action}`: kill, pause, error, delay:<ms>");
            std::process::exit(2);
        }
    }
    Ok(())
}

/// Sends this process a signal that cannot be caught, and does nothing more before it has arrived.
fn send(signal: Signal) {
    let _ = kill_process(getpid(), signal);
    std::thread::sleep(SIGNAL_ARRIVES_WITHIN);
}
