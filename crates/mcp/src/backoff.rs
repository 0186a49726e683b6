//! How long a server is left alone after failures.

use std::time::Duration;

/// The first pause.
const FIRST: Duration = Duration::from_secs(1);
/// After so many failures in a row the server is off.
const MOST: u32 = 5;
/// How long it is off.
const OFF: Duration = Duration::from_mins(15);

/// A pause after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pause {
    /// How long nothing is started.
    pub(crate) wait: Duration,
    /// Whether the server is off: it has failed too often.
    pub(crate) is_off: bool,
}

/// The pause after the failure number `failures` in a row, counted from 1. `random` is from 0 to 1: workers do not start
/// again at the same moment.
pub(crate) fn pause(failures: u32, random: f64) -> Pause {
    if failures >= MOST {
        return Pause { wait: OFF, is_off: true };
    }
    let longest = FIRST.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1)));
    Pause { wait: longest.mul_f64(random.clamp(0.0, 1.0)), is_off: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_then_the_server_is_off() {
        let longest: Vec<u64> = (1..5).map(|failures| pause(failures, 1.0).wait.as_secs()).collect();
        assert_eq!(longest, [1, 2, 4, 8]);
        assert_eq!(pause(3, 0.0).wait, Duration::ZERO);
        assert_eq!(pause(5, 0.3), Pause { wait: OFF, is_off: true });
        assert_eq!(pause(u32::MAX, 0.3), Pause { wait: OFF, is_off: true });
    }
}
