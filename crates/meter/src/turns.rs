//! [`Turns`]: which tenant gets a place next, of what is scarce.
//!
//! While several tenants ask, none of them has more than its share, and of those that wait the tenant with the fewest places
//! goes first. So a tenant with many requests waits for itself, and the others find a place. A tenant alone may have more.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use uuid::Uuid;

/// How long a tenant counts as active after it has asked for a place.
const ACTIVE: Duration = Duration::from_secs(1);

/// Places that tenants share.
#[derive(Debug)]
pub struct Turns {
    places: usize,
    share: usize,
    alone: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    taken: usize,
    of_tenants: HashMap<Uuid, usize>,
    /// Of each tenant in the order in which they came, with a number that says who came first.
    waiting: HashMap<Uuid, VecDeque<(u64, oneshot::Sender<Turn>)>>,
    came: u64,
    /// The two tenants that have asked last, the last one first.
    active: [Option<(Uuid, Instant)>; 2],
}

/// A place, until it is dropped.
#[derive(Debug)]
pub struct Turn {
    turns: Arc<Turns>,
    tenant: Uuid,
}

impl Turns {
    /// `places` in all. A tenant beside others has at most `share` of them; one that is alone has at most `alone`: what is left
    /// is for the first request of another.
    pub fn new(places: usize, share: usize, alone: usize) -> Arc<Self> {
        let share = share.max(1);
        Arc::new(Self { places: places.max(1), share, alone: alone.max(share), state: Mutex::default() })
    }

    /// Waits for a place.
    pub async fn take(self: &Arc<Self>, tenant: Uuid) -> Turn {
        loop {
            let turn = {
                let mut state = self.state();
                state.note(tenant, Instant::now());
                if state.may_take(tenant, self) {
                    return self.taken(&mut state, tenant);
                }
                let (send, turn) = oneshot::channel();
                state.came += 1;
                let came = state.came;
                state.waiting.entry(tenant).or_default().push_back((came, send));
                turn
            };
            // The sender is never dropped unused.
            if let Ok(turn) = turn.await {
                return turn;
            }
        }
    }

    fn taken(self: &Arc<Self>, state: &mut State, tenant: Uuid) -> Turn {
        state.taken += 1;
        *state.of_tenants.entry(tenant).or_default() += 1;
        Turn { turns: Arc::clone(self), tenant }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn note(&mut self, tenant: Uuid, now: Instant) {
        if self.active[0].is_some_and(|(last, _)| last != tenant) {
            self.active.swap(0, 1);
        }
        self.active[0] = Some((tenant, now));
    }

    fn of(&self, tenant: Uuid) -> usize {
        self.of_tenants.get(&tenant).copied().unwrap_or_default()
    }

    fn may_take(&self, tenant: Uuid, of: &Turns) -> bool {
        let is_other = |(other, at): (Uuid, Instant)| other != tenant && at.elapsed() < ACTIVE;
        let is_alone = !self.active.iter().copied().flatten().any(is_other);
        let most = if is_alone { of.alone } else { of.share };
        self.taken < of.places && self.of(tenant) < most
    }

    /// Removes the one that is next, if there is a place for it.
    fn next(&mut self, of: &Turns) -> Option<(Uuid, oneshot::Sender<Turn>)> {
        let may = self.waiting.iter().filter(|(tenant, _)| self.may_take(**tenant, of));
        let next =
            may.min_by_key(|(tenant, waiting)| (self.of(**tenant), waiting.front().map(|(came, _)| *came)));
        let tenant = *next?.0;
        let waiting = self.waiting.get_mut(&tenant)?;
        let first = waiting.pop_front();
        if waiting.is_empty() {
            self.waiting.remove(&tenant);
        }
        Some((tenant, first?.1))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut unused = Vec::new();
        let mut state = self.turns.state();
        state.taken = state.taken.saturating_sub(1);
        if let Some(held) = state.of_tenants.get_mut(&self.tenant) {
            *held -= 1;
            if *held == 0 {
                state.of_tenants.remove(&self.tenant);
            }
        }
        while let Some((tenant, next)) = state.next(&self.turns) {
            let turn = self.turns.taken(&mut state, tenant);
            if let Err(turn) = next.send(turn) {
                // Its caller no longer waits. The turn is dropped when the lock is free.
                unused.push(turn);
            }
        }
        drop(state);
        drop(unused);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    fn tenant(nth: u128) -> Uuid {
        Uuid::from_u128(nth)
    }

    #[tokio::test]
    async fn tenant_alone_has_more_places_than_beside_others() {
        let turns = Turns::new(5, 2, 5);
        let mut loud = Vec::new();
        for _ in 0..5 {
            loud.push(turns.take(tenant(1)).now_or_never().expect("a place"));
        }
        let mut other = Box::pin(turns.take(tenant(2)));
        assert!((&mut other).now_or_never().is_none(), "all places are taken");
        let mut more = Box::pin(turns.take(tenant(1)));
        assert!((&mut more).now_or_never().is_none());
        loud.pop();
        let other = (&mut other).now_or_never().expect("the place goes to the tenant that has none");
        for left in [3, 2] {
            loud.pop();
            assert!((&mut more).now_or_never().is_none(), "its share is two, and it has {left}");
        }
        loud.pop();
        let more = (&mut more).now_or_never().expect("it has one");
        drop((other, more, loud));
        assert_eq!(turns.state().taken, 0);
    }

    #[tokio::test]
    async fn place_is_kept_for_the_first_request_of_another() {
        let turns = Turns::new(3, 1, 2);
        let loud = [turns.take(tenant(1)).await, turns.take(tenant(1)).await];
        assert!(turns.take(tenant(1)).now_or_never().is_none());
        assert!(turns.take(tenant(2)).now_or_never().is_some());
        drop(loud);
    }

    #[tokio::test]
    async fn place_of_a_caller_that_went_away_goes_to_the_next() {
        let turns = Turns::new(1, 1, 1);
        let held = turns.take(tenant(1)).await;
        let mut gone = Box::pin(turns.take(tenant(2)));
        let mut waits = Box::pin(turns.take(tenant(3)));
        assert!((&mut gone).now_or_never().is_none());
        assert!((&mut waits).now_or_never().is_none());
        drop(gone);
        drop(held);
        assert!(waits.now_or_never().is_some());
        assert_eq!(turns.state().taken, 0);
    }
}
