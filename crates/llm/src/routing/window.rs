//! Counts over the time just past, in bounded room.

use std::time::Duration;

/// Into how many slots the time is cut: a count is forgotten a tenth of the window at a time.
const SLOTS: usize = 10;

/// How many there were, and how many of them were marked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) all: u64,
    pub(crate) marked: u64,
}

/// What happened in the last nine to ten tenths of a span of time. `now` is any clock that never goes back.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    slot: Duration,
    slots: [Counts; SLOTS],
    /// Which slot, counted from the clock's zero, is written to.
    newest: u128,
}

impl Window {
    pub(crate) fn new(span: Duration) -> Self {
        let slot = (span / 10).max(Duration::from_millis(1));
        Self { slot, slots: [Counts::default(); SLOTS], newest: 0 }
    }

    pub(crate) fn add(&mut self, now: Duration, marked: bool) {
        self.advance(now);
        let slot = &mut self.slots[place(self.newest)];
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
            self.slots[place(self.newest - back)] = Counts::default();
        }
    }
}

fn place(slot: u128) -> usize {
    usize::try_from(slot % SLOTS as u128).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a list of all that happened: nothing younger than nine tenths is forgotten, nothing older
        /// than the span is counted.
        #[test]
        fn counts_are_those_of_the_time_just_past(
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
