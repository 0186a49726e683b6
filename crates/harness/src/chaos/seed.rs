//! SplitMix64: random numbers that are the same on every machine and with every library version.

use std::time::Duration;

/// A random number generator.
#[derive(Debug, Clone)]
pub(crate) struct Seed(u64);

impl Seed {
    /// The generator number `what` of a seed. Each user takes its own, so that its numbers do not depend on the others.
    pub(crate) fn of(seed: u64, what: u64) -> Self {
        let mut source = Self(seed ^ what.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Self(source.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number in `0..end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 16).unwrap_or(0) % end.max(1)
    }

    /// A number from `least` to `most`, both included.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + (self.next() >> 16) % (most - least + 1)
    }

    /// A duration from `least` to `most` ms.
    pub(crate) fn millis(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(self.between(least, most))
    }

    /// `true` with a probability of `often` in a thousand.
    pub(crate) fn permille(&mut self, often: u64) -> bool {
        self.between(1, 1000) <= often
    }

    pub(crate) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_gives_the_same_numbers() {
        let draw = |mut seed: Seed| (0..5).map(|_| seed.between(1, 1000)).collect::<Vec<_>>();
        assert_eq!(draw(Seed::of(7, 1)), draw(Seed::of(7, 1)));
        assert_ne!(draw(Seed::of(7, 1)), draw(Seed::of(7, 2)));
        assert_ne!(draw(Seed::of(7, 1)), draw(Seed::of(8, 1)));
    }
}
