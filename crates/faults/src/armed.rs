//! The faults that a crash point injects.
//!
//! The environment variable `FAILPOINTS` names crash points and faults, in the part of the syntax of the crate `fail` that
//! tests need: `FAILPOINTS='C10=1*return(kill)'`, `C7=3*off->1*return(pause)` for the fourth time, `C1=return(error)` for
//! each time, several with `;` between them. The faults:
//!
//! - `kill`: the process sends itself SIGKILL: no destructor runs, and no connection is closed properly.
//! - `pause`: the process sends itself SIGSTOP and sleeps until it gets SIGCONT, like a suspended virtual machine.
//! - `error`: the crash point fails as if the connection to Postgres broke there.
//! - `delay:<ms>`: the process continues after this many milliseconds; 10,000 if `<ms>` is not a number.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};

use crate::ConnectionBroken;

#[cfg(not(debug_assertions))]
compile_error!("a release has no crash points");

/// The environment variable with the faults.
const VARIABLE: &str = "FAILPOINTS";

/// The prefix of the line on stderr that reports each injected fault. Tests read it.
const MARK: &str = "fault injected";

/// How long a process that has sent itself a signal waits for it: another thread may receive it first.
const SIGNAL_ARRIVES_WITHIN: Duration = Duration::from_millis(200);

/// What happens at a crash point, one after the other.
type Steps = Vec<Step>;

/// What happens the next times that a crash point is passed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Step {
    /// How many times; `None`: from now on.
    left: Option<u32>,
    /// The fault; `None`: nothing happens.
    fault: Option<String>,
}

/// Injects the fault that the environment names for the crash point `point`. Called by [`fault!`](crate::fault!).
///
/// # Errors
/// [`ConnectionBroken`] if the environment asks for `error` at this crash point.
pub async fn inject(point: &str) -> Result<(), ConnectionBroken> {
    static SCENARIO: OnceLock<Mutex<BTreeMap<String, Steps>>> = OnceLock::new();
    let scenario = SCENARIO.get_or_init(|| Mutex::new(from_environment()));
    let next = || scenario.lock().unwrap_or_else(PoisonError::into_inner).get_mut(point).and_then(next);
    if let Some(delay) = next().map_or(Ok(None), |fault| happen(point, &fault))? {
        // Boxed: futures of runs contain this one, and their size is tested.
        Box::pin(tokio::time::sleep(delay)).await;
    }
    Ok(())
}

/// Makes the fault happen, but for a delay, which it returns.
fn happen(point: &str, fault: &str) -> Result<Option<Duration>, ConnectionBroken> {
    let _ = writeln!(std::io::stderr(), "{MARK}: {point} {fault}");
    match fault.split_once(':').unwrap_or((fault, "")) {
        ("kill", _) => send(Signal::KILL),
        ("pause", _) => send(Signal::STOP),
        ("error", _) => return Err(ConnectionBroken),
        ("delay", millis) => return Ok(Some(Duration::from_millis(millis.parse().unwrap_or(10_000)))),
        _ => refuse(&format!("unknown fault `{fault}`; allowed are kill, pause, error and delay:<ms>")),
    }
    Ok(None)
}

fn from_environment() -> BTreeMap<String, Steps> {
    let Some(value) = std::env::var_os(VARIABLE) else { return BTreeMap::new() };
    let value = value.to_string_lossy();
    parse(&value).unwrap_or_else(|part| {
        refuse(&format!("{VARIABLE}: `{part}` is not `<point>=[<times>*]off|return(<fault>)[->…]`"))
    })
}

/// The steps of each crash point, or the part that cannot be read.
fn parse(value: &str) -> Result<BTreeMap<String, Steps>, &str> {
    let points = value.split(';').map(str::trim).filter(|point| !point.is_empty());
    let of_point = |point| {
        let (name, steps) = str::split_once(point, '=').ok_or(point)?;
        Ok((name.trim().to_owned(), steps.split("->").map(step).collect::<Result<_, _>>()?))
    };
    points.map(of_point).collect()
}

fn step(text: &str) -> Result<Step, &str> {
    let (left, task) = match text.trim().split_once('*') {
        Some((times, task)) => (Some(times.parse().map_err(|_| text)?), task),
        None => (None, text.trim()),
    };
    let fault = match task.strip_prefix("return(").and_then(|fault| fault.strip_suffix(')')) {
        Some(fault) => Some(fault.to_owned()),
        None if task == "off" => None,
        None => return Err(text),
    };
    Ok(Step { left, fault })
}

/// The fault of the next passage.
fn next(steps: &mut Steps) -> Option<String> {
    let step = steps.iter_mut().find(|step| step.left != Some(0))?;
    step.left = step.left.map(|left| left - 1);
    step.fault.clone()
}

/// A test that asks for something else than it believes must not pass.
fn refuse(reason: &str) -> ! {
    let _ = writeln!(std::io::stderr(), "{reason}");
    std::process::exit(2)
}

/// Sends this process a signal that cannot be caught, and waits until it has arrived.
fn send(signal: Signal) {
    let _ = kill_process(getpid(), signal);
    std::thread::sleep(SIGNAL_ARRIVES_WITHIN);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_follow_each_other_and_the_last_ends() {
        let mut points = parse("C7=2*off->1*return(pause); C1=return(delay:5)").unwrap();
        let passed = |steps: &mut Steps| (0..4).map(|_| next(steps)).collect::<Vec<_>>();
        let fault = |name: &str| Some(name.to_owned());
        assert_eq!(passed(points.get_mut("C7").unwrap()), [None, None, fault("pause"), None]);
        assert_eq!(passed(points.get_mut("C1").unwrap()), vec![fault("delay:5"); 4]);
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for wrong in ["C1", "C1=kill", "C1=x*off", "C1=1*return(kill", "C1=1*off->"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
