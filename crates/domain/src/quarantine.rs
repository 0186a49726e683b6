//! What processes die with, apart from runs (see [`death`](crate::death)): triggers, deliveries, summaries. Whoever takes one up
//! leaves a mark on it, and what finds the mark of a process that has ended counts a death.
//!
//! All that a process has in hand dies with it, so one death says little. What one process has died with is taken up beside
//! nothing else of that kind; after [`MAX_DEATHS`] it is taken up a last time, alone. If that process dies, too, it is set aside and
//! shown to its owner, who may try it again. So what kills its process does so a limited number of times, its neighbours go on,
//! and two that kill together do not hide each other.

/// How many processes may die with something before it is taken up alone, for the last time. A trigger is always evaluated alone.
pub const MAX_DEATHS: i32 = 2;

/// What a process has in hand already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InHand {
    /// Nothing.
    Nothing,
    /// Only what no process has died with.
    Fresh,
    /// Something that a process has died with.
    Suspect,
    /// Something that is taken up for the last time, alone.
    Alone,
}

impl InHand {
    /// By how many processes have died with each thing that is in hand.
    pub fn of(deaths: impl IntoIterator<Item = i32>) -> Self {
        match deaths.into_iter().max() {
            None => Self::Nothing,
            Some(MAX_DEATHS..) => Self::Alone,
            Some(1..) => Self::Suspect,
            Some(_) => Self::Fresh,
        }
    }

    /// Whether more may be taken up. `waits_alone` is that of what was sorted last.
    pub fn takes_more(self, waits_alone: bool) -> bool {
        match self {
            Self::Nothing => true,
            Self::Fresh | Self::Suspect => !waits_alone,
            Self::Alone => false,
        }
    }
}

/// What becomes of what was taken up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sorted<T> {
    /// It is begun now.
    pub now: Vec<T>,
    /// It is given back, and taken up later.
    pub later: Vec<T>,
    /// It is set aside.
    pub set_aside: Vec<T>,
    /// Whether something of [`later`](Self::later) must be alone: nothing new should be taken up before what is in hand has ended.
    pub waits_alone: bool,
}

/// Sorts what was taken up by how many processes have died with it. Nothing is taken up unless [`InHand::takes_more`].
pub fn sorted<T>(taken: Vec<T>, deaths: impl Fn(&T) -> i32, in_hand: InHand) -> Sorted<T> {
    let (set_aside, mut taken): (Vec<T>, Vec<T>) =
        taken.into_iter().partition(|one| deaths(one) > MAX_DEATHS);
    let last = taken.iter().position(|one| deaths(one) == MAX_DEATHS);
    if let (Some(last), InHand::Nothing) = (last, in_hand) {
        let now = vec![taken.remove(last)];
        return Sorted { now, later: taken, set_aside, waits_alone: false };
    }
    let mut has_suspect = in_hand == InHand::Suspect;
    let (now, later) = taken.into_iter().partition(|one| match deaths(one) {
        MAX_DEATHS => false,
        0 => true,
        _ => !std::mem::replace(&mut has_suspect, true),
    });
    Sorted { now, later, set_aside, waits_alone: last.is_some() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum State {
        Waiting,
        InHand,
        Done,
        SetAside,
    }

    #[derive(Debug, Clone)]
    struct Item {
        is_poison: bool,
        deaths: i32,
        state: State,
    }

    fn in_hand(items: &[Item]) -> InHand {
        InHand::of(items.iter().filter(|item| item.state == State::InHand).map(|item| item.deaths))
    }

    /// A process takes up to `limit` of what waits, from `first` on. Returns whether something waits to be alone.
    fn take(items: &mut [Item], first: usize, limit: usize) -> bool {
        let hand = in_hand(items);
        let waiting = (0..items.len()).map(|nth| (nth + first) % items.len());
        let taken: Vec<usize> =
            waiting.filter(|nth| items[*nth].state == State::Waiting).take(limit).collect();
        let sorted = sorted(taken, |nth| items[*nth].deaths, hand);
        sorted.now.iter().for_each(|nth| items[*nth].state = State::InHand);
        sorted.set_aside.iter().for_each(|nth| items[*nth].state = State::SetAside);
        sorted.waits_alone
    }

    /// One that is in hand ends, or ends the process with all that it has in hand.
    fn end(items: &mut [Item], nth: usize) {
        if items[nth].state != State::InHand {
            return;
        }
        if !items[nth].is_poison {
            items[nth].state = State::Done;
            return;
        }
        for item in items.iter_mut().filter(|item| item.state == State::InHand) {
            item.state = State::Waiting;
            item.deaths += 1;
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn each_poison_and_nothing_else_is_set_aside(
            poison in proptest::collection::vec(proptest::bool::weighted(0.3), 1..12),
            limit in 1..6_usize,
            schedule in proptest::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..200),
        ) {
            let item = |&is_poison: &bool| Item { is_poison, deaths: 0, state: State::Waiting };
            let mut items: Vec<Item> = poison.iter().map(item).collect();
            let mut waits_alone = false;
            let ends = schedule.len();
            let fair = (0..items.len() * 40).map(|nth| (nth % poison.len(), nth % 2 == 0));
            let schedule = schedule.into_iter().map(|(nth, takes)| (nth.index(poison.len()), takes));
            for (round, (nth, takes)) in schedule.chain(fair).enumerate() {
                if takes && in_hand(&items).takes_more(waits_alone) {
                    waits_alone = take(&mut items, nth, limit);
                } else {
                    end(&mut items, nth);
                }
                // From here on, what is in hand ends before more is taken up.
                if round >= ends && takes {
                    (0..items.len()).for_each(|nth| end(&mut items, nth));
                }
            }
            for item in &items {
                let expected = if item.is_poison { State::SetAside } else { State::Done };
                prop_assert_eq!(item.state, expected, "{:?}", items);
                prop_assert!(item.deaths <= MAX_DEATHS + 1, "{:?}", items);
            }
        }
    }
}
