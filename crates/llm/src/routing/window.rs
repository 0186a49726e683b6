//! Sliding-window counter in constant memory.

use std::time::Duration;

/// Number of slots of the window: counts expire a tenth of the window at a time.
const SLOTS: usize = 10;

/// Number of events, and how many of them were marked (as failed, or as retries).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) all: u64,
    pub(crate) marked: u64,
}

/// Counts the events of the last 90 to 100 % of a time span. `now` is the reading of any monotonic clock.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    slot: Duration,
    slots: [Counts; SLOTS],
    /// The slot being written, numbered from the clock's zero.
    newest: u128,
}

impl Window {
    pub(crate) fn new(span: Duration) -> Self {
        let slot = (span / 10).max(Duration::from_millis(1));
        Self { slot, slots: [Counts::default(); SLOTS], newest: 0 }
    }

    pub(crate) fn add(&mut self, now: Duration, marked: bool) {
        self.advance(now);
        let slot = &mut self.slots[slot_index(self.newest)];
        slot.all += 1;
        slot.marked += u64::from(marked);
    }

    pub(crate) fn counts(&mut self, now: Duration) -> Counts {
        self.advance(now);
        self.slots.iter().fold(Counts::default(), |sum, slot| Counts {
            all: sum.all + slot.all,
            marked: sum.marked + slot.marked,
        })
    }

    fn advance(&mut self, now: Duration) {
        let current = now.as_nanos() / self.slot.as_nanos();
        let passed = current.saturating_sub(self.newest).min(SLOTS as u128);
        self.newest = self.newest.max(current);
        for back in 0..passed {
            self.slots[slot_index(self.newest - back)] = Counts::default();
        }
    }
}

fn slot_index(slot: u128) -> usize {
    usize::try_from(slot % SLOTS as u128).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compared with a list of all events: none younger than 90 % of the span is missing, none older than the
        /// span is counted.
        #[test]
        fn window_counts_match_recent_events(
            steps in proptest::collection::vec((0..3_000u64, any::<bool>()), 1..200)
        ) {
            let mut window = Window::new(Duration::from_secs(10));
            let (mut now, mut all) = (0, VecDeque::new());
            for (step, marked) in steps {
                now += step;
                window.add(Duration::from_millis(now), marked);
                all.push_back((now, marked));
                let within = |span: u64| all.iter().filter(|(at, _)| now - at < span).count() as u64;
                let counts = window.counts(Duration::from_millis(now));
                prop_assert!((within(9_000)..=within(10_000)).contains(&counts.all), "{counts:?}");
                prop_assert!(counts.marked <= counts.all);
            }
        }
    }
}
