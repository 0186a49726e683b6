//! Percentiles.

use std::time::Duration;

/// Median and 99th percentile, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl Spread {
    /// The percentiles of `times`; 0 if there are none.
    pub(crate) fn of(times: impl IntoIterator<Item = Duration>) -> Self {
        let mut times: Vec<Duration> = times.into_iter().collect();
        times.sort_unstable();
        let at = |percent| round(rank(&times, percent).as_secs_f64() * 1000.0);
        Self { p50: at(50), p99: at(99) }
    }
}

/// The nearest rank at `percent` of sorted times: always an actual measurement. 0 if there are none.
pub(crate) fn rank<T: Copy + Default>(times: &[T], percent: usize) -> T {
    let rank = (times.len() * percent).div_ceil(100).max(1) - 1;
    times.get(rank).copied().unwrap_or_default()
}

/// Rounds to three decimals.
pub(crate) fn round(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measurements() {
        let times = (1..=200).rev().map(Duration::from_millis);
        assert_eq!(Spread::of(times), Spread { p50: 100.0, p99: 198.0 });
        assert_eq!(Spread::of([Duration::from_micros(1500)]), Spread { p50: 1.5, p99: 1.5 });
        assert_eq!(Spread::of([]), Spread { p50: 0.0, p99: 0.0 });
    }
}
