//! Chance that is the same on every machine and with every version of every library: SplitMix64.

use std::time::Duration;

/// A source of chance.
#[derive(Debug, Clone)]
pub(crate) struct Seed(u64);

impl Seed {
    /// Another source for something else, so that the one does not change with what the other is asked.
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

    /// From 0 to `end`, without it.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 16).unwrap_or(0) % end.max(1)
    }

    /// From `least` to `most`, both included, in whatever unit they are.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + (self.next() >> 16) % (most - least + 1)
    }

    /// A time between two, in ms.
    pub(crate) fn millis(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(self.between(least, most))
    }

    /// Whether something happens that happens so often of a thousand.
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
    fn the_same_seed_brings_the_same_chance() {
        let draw = |mut seed: Seed| (0..5).map(|_| seed.between(1, 1000)).collect::<Vec<_>>();
        assert_eq!(draw(Seed::of(7, 1)), draw(Seed::of(7, 1)));
        assert_ne!(draw(Seed::of(7, 1)), draw(Seed::of(7, 2)));
        assert_ne!(draw(Seed::of(7, 1)), draw(Seed::of(8, 1)));
    }
}
