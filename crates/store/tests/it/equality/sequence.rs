//! What happens to the goals of a user, at random.

use houston_domain::agentable::DoubleTexting;
use houston_domain::run::RunStatus;
use proptest::prelude::*;

use super::GOALS;

/// A message.
#[derive(Debug, Clone)]
pub(crate) struct Post {
    pub(crate) double_texting: DoubleTexting,
    /// The idempotency key, one of a few.
    pub(crate) key: Option<u8>,
    /// Whether the request differs from the others with the same key.
    pub(crate) is_another_request: bool,
}

/// What happens to one of the goals, or to its task.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    Post(Post),
    /// The run of the goal creates its task.
    CreateTask,
    Claim,
    Cancel,
    /// The worker that drives it dies.
    Die,
    /// Nothing, for an hour.
    Rest,
    Step(Shape),
}

impl Act {
    /// Whether both are of the same sort, and may happen at once. Of several claims, it is undefined which get the last
    /// slots.
    pub(crate) fn goes_with(&self, other: &Self, sequence: &Sequence) -> bool {
        use Act::{Claim, Post, Step};
        match (self, other) {
            (Post(_), Post(_)) | (Step(_), Step(_)) => true,
            // A worker drives one run at most that killed its workers, and it is undefined which.
            (Claim, Claim) => usize::from(sequence.max_running) >= 2 * GOALS && !sequence.workers_die,
            _ => false,
        }
    }
}

/// What happens to the goals of one user.
#[derive(Debug, Clone)]
pub(crate) struct Sequence {
    pub(crate) max_running: u16,
    pub(crate) closes_sessions: bool,
    pub(crate) workers_die: bool,
    /// The number of the goal, or `GOALS` more for its task.
    pub(crate) acts: Vec<(usize, Act)>,
}

pub(crate) fn sequence() -> impl Strategy<Value = Sequence> {
    let settings = (prop_oneof![Just(2), Just(10)], any::<bool>(), any::<bool>(), prop::bool::weighted(0.4));
    settings.prop_flat_map(|(max_running, closes_sessions, workers_die, has_tasks)| {
        let of = if has_tasks { 2 * GOALS } else { GOALS };
        let acts = proptest::collection::vec((0..of, act(workers_die, has_tasks)), 5..60);
        acts.prop_map(move |acts| Sequence { max_running, closes_sessions, workers_die, acts })
    })
}

#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) end: End,
    pub(crate) entries: usize,
    pub(crate) messages: usize,
    pub(crate) call: Option<Option<&'static str>>,
    /// Starts a call, or answers the one that is open.
    pub(crate) calls_tool: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    Poll,
    Continue { read: bool },
    Complete,
    Terminate(RunStatus),
    Retry { counts: bool },
    Release,
}

fn act(workers_die: bool, has_tasks: bool) -> impl Strategy<Value = Act> {
    let texting = prop_oneof![
        4 => Just(DoubleTexting::Enqueue),
        1 => Just(DoubleTexting::Interrupt),
        1 => Just(DoubleTexting::Rollback),
        1 => Just(DoubleTexting::Reject),
    ];
    let key = prop::option::weighted(0.3, 0..2_u8);
    let post =
        (texting, key, prop::bool::weighted(0.1)).prop_map(|(double_texting, key, is_another_request)| {
            Post { double_texting, key, is_another_request }
        });
    let end = prop_oneof![
        1 => Just(End::Poll),
        3 => any::<bool>().prop_map(|read| End::Continue { read }),
        3 => Just(End::Complete),
        2 => prop_oneof![Just(RunStatus::MaxIterations), Just(RunStatus::Failed), Just(RunStatus::Cancelled)]
            .prop_map(End::Terminate),
        2 => any::<bool>().prop_map(|counts| End::Retry { counts }),
        1 => Just(End::Release),
    ];
    let call = proptest::option::of(proptest::option::of(prop_oneof![Just("0.25"), Just("0.000001")]));
    let tool = prop::bool::weighted(0.3);
    let shape =
        (end, 0..3_usize, 0..3_usize, call, tool).prop_map(|(end, entries, messages, call, calls_tool)| {
            Shape { end, entries, messages, call, calls_tool }
        });
    prop_oneof![
        4 => post.prop_map(Act::Post),
        3 => Just(if has_tasks { Act::CreateTask } else { Act::Claim }),
        5 => Just(Act::Claim),
        1 => Just(Act::Cancel),
        1 => Just(Act::Rest),
        2 => Just(if workers_die { Act::Die } else { Act::Claim }),
        6 => shape.prop_map(Act::Step)
    ]
}
