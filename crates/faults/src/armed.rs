//! The faults that a crash point injects.
//!
//! The environment variable `FAILPOINTS` names crash points and faults, in the syntax of the `fail` crate:
//! `FAILPOINTS='C10=1*return(kill)'`, or `C7=3*off->1*return(pause)` for the fourth time. The faults:
//!
//! - `kill`: the process sends itself SIGKILL: no destructor runs, and no connection is closed properly.
//! - `pause`: the process sends itself SIGSTOP and sleeps until it gets SIGCONT, like a suspended virtual machine.
//! - `error`: the crash point fails as if the connection to Postgres broke there.
//! - `delay:<ms>`: the process continues after this many milliseconds; 10,000 if `<ms>` is not a number.

use std::io::Write as _;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};

use crate::ConnectionBroken;

/// The prefix of the line on stderr that reports each injected fault. Tests read it.
const MARK: &str = "fault injected";

/// How long a process that has sent itself a signal waits for it: another thread may receive it first.
const SIGNAL_ARRIVES_WITHIN: Duration = Duration::from_millis(200);

/// See [`crate::inject`].
pub(crate) async fn inject(point: &str) -> Result<(), ConnectionBroken> {
    static SCENARIO: OnceLock<()> = OnceLock::new();
    // Never dropped: dropping the scenario would disarm all crash points.
    SCENARIO.get_or_init(|| std::mem::forget(fail::FailScenario::setup()));
    let Some(action) = fail::eval(point, Option::unwrap_or_default) else { return Ok(()) };
    let _ = writeln!(std::io::stderr(), "{MARK}: {point} {action}");
    match action.split_once(':').unwrap_or((&action, "")) {
        ("kill", _) => send(Signal::KILL),
        ("pause", _) => send(Signal::STOP),
        ("error", _) => return Err(ConnectionBroken),
        ("delay", millis) => {
            tokio::time::sleep(Duration::from_millis(millis.parse().unwrap_or(10_000))).await;
        }
        _ => {
            let _ = writeln!(
                std::io::stderr(),
                "unknown fault `{action}`; allowed are kill, pause, error and delay:<ms>"
            );
            std::process::exit(2);
        }
    }
    Ok(())
}

/// Sends this process a signal that cannot be caught, and waits until it has arrived.
fn send(signal: Signal) {
    let _ = kill_process(getpid(), signal);
    std::thread::sleep(SIGNAL_ARRIVES_WITHIN);
}
