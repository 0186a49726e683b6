//! Slots: how many runs of a user are held at once, as numbers. A held run has a number that no other held run of its user
//! has, and a claim chooses among as many free numbers as runs may start: the lowest ones. While all held numbers are within
//! the limit, claims that do not see each other therefore never exceed it. Numbers above the limit are chosen only while
//! runs of dead workers hold some.

use std::collections::HashSet;

use crate::id::WorkerId;

/// A claim tries at most so many slots: only claims of other workers at the same moment take one away.
const MAX_TRIED: usize = 16;

/// The slots that the claims of one batch for one user may take, in the order in which to try them: a list for each claim,
/// which has no number in common with the others. `held`: the slots of the user's held runs. `free`: how many more runs may
/// be held, at least as many as `claims`. Each worker begins elsewhere, so that two workers seldom try the same slot.
pub fn choices(held: &[i32], free: usize, claims: usize, worker: WorkerId) -> Vec<Vec<i32>> {
    let held: HashSet<i32> = held.iter().copied().collect();
    let mut numbers: Vec<i32> = (1..).filter(|slot| !held.contains(slot)).take(free).collect();
    if !numbers.is_empty() {
        let start = worker.0.as_u128() % numbers.len() as u128;
        numbers.rotate_left(usize::try_from(start).unwrap_or(0));
    }
    let nth = |first| numbers.iter().copied().skip(first).step_by(claims.max(1)).take(MAX_TRIED).collect();
    (0..claims).map(nth).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    proptest! {
        #[test]
        fn claims_choose_among_as_many_numbers_as_are_free(
            held in prop::collection::hash_set(1..30, 0..12),
            free in 1_usize..40,
            percent in 0_usize..100,
            worker: u128,
        ) {
            let held: Vec<i32> = held.into_iter().collect();
            let claims = 1 + (free - 1) * percent / 99;
            let lists = choices(&held, free, claims, WorkerId(Uuid::from_u128(worker)));
            prop_assert_eq!(lists.len(), claims);
            prop_assert!(lists.iter().all(|list| !list.is_empty() && list.len() <= MAX_TRIED));
            let all: Vec<i32> = lists.concat();
            let different: HashSet<i32> = all.iter().copied().collect();
            prop_assert_eq!(different.len(), all.len());
            let lowest: Vec<i32> = (1..).filter(|slot| !held.contains(slot)).take(free).collect();
            prop_assert!(all.iter().all(|slot| lowest.contains(slot)));
        }
    }

    #[test]
    fn workers_begin_with_different_slots() {
        let first = |worker| choices(&[2], 3, 1, WorkerId(Uuid::from_u128(worker)));
        assert_eq!(first(0), [[1, 3, 4]]);
        assert_eq!(first(1), [[3, 4, 1]]);
        assert!(choices(&[], 0, 1, WorkerId(Uuid::nil())).concat().is_empty());
    }
}
