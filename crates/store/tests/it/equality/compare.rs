//! One sequence, in both databases.

use std::collections::HashMap;

use futures_util::future::join_all;

use super::counts::Counts;
use super::laws::assert_laws;
use super::rows::{rows, without_ids};
use super::sequence::{Act, Sequence};
use super::twin::Twin;
use super::{GOALS, Pair, Scene};

/// Acts of the same sort that follow each other, on different goals. They happen at once.
fn groups(sequence: &Sequence) -> Vec<Vec<(usize, &Act)>> {
    let mut groups: Vec<Vec<(usize, &Act)>> = Vec::new();
    for (nth, act) in &sequence.acts {
        match groups.last_mut() {
            Some(group)
                if act.goes_with(group[0].1, sequence)
                    // A task and its goal change each other's rows.
                    && group.iter().all(|(earlier, _)| earlier % GOALS != nth % GOALS) =>
            {
                group.push((*nth, act));
            }
            _ => groups.push(vec![(*nth, act)]),
        }
    }
    groups
}

/// What is compared of what a caller learns, if several acts happen at once.
fn comparable(learned: &str, several: bool, act: &Act) -> String {
    match act {
        // How many agentables may run next depends on the order in which the slots become free, and whether a message needs
        // a hint on the other messages.
        Act::Step(_) | Act::Post(_) if several => {
            let rest = learned.lines().map(|line| line.rsplit_once(' ').map_or(line, |(rest, _)| rest));
            without_ids(&rest.collect::<Vec<_>>().join("\n"))
        }
        _ => without_ids(learned),
    }
}

pub(super) async fn same_rows(pair: &Pair, seed: u64, sequence: &Sequence) -> Counts {
    let settings = (sequence.max_running, sequence.closes_sessions);
    let batched = Scene { side: &pair.batched, store: &pair.batched.stores[&settings] };
    let single = Scene { side: &pair.single, store: &pair.single.stores[&settings] };
    let (mut of_batched, mut of_single) = tokio::join!(batched.twins(GOALS), single.twins(GOALS));
    let mut counts = Counts::default();
    for group in groups(sequence) {
        let mut twins: HashMap<usize, &mut Twin> = of_batched.iter_mut().enumerate().collect();
        let together = group.iter().map(|(nth, act)| {
            let twin = twins.remove(nth).unwrap();
            batched.act(twin, act)
        });
        let together = join_all(together.collect::<Vec<_>>()).await;
        let several = group.len() > 1;
        for ((nth, act), learned) in group.iter().zip(&together) {
            of_single[*nth].is_started = of_batched[*nth].is_started;
            let alone = single.act(&mut of_single[*nth], act).await;
            assert_eq!(
                comparable(learned, several, act),
                comparable(&alone, several, act),
                "seed {seed}, {nth}: {act:?}"
            );
            counts.count(act, &alone, &of_single[*nth]);
        }
    }
    assert_laws(&batched, &of_batched, seed).await;
    let nth = usize::try_from(seed).unwrap() % of_batched.len();
    let streams = tokio::join!(batched.stream(&of_batched[nth], seed), single.stream(&of_single[nth], seed));
    assert_eq!(streams.0, streams.1, "seed {seed}, the stream of {nth}");
    let (left, right) = tokio::join!(rows(&batched, &of_batched), rows(&single, &of_single));
    for (left, right) in left.iter().zip(&right) {
        assert_eq!(left, right, "seed {seed}");
    }
    assert_eq!(left.len(), right.len(), "seed {seed}");
    counts
}
