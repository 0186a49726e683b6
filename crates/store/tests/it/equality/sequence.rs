//! What happens to the goals of a user, at random.

use houston_domain::agentable::DoubleTexting;
use houston_domain::run::RunStatus;
use houston_domain::tool_call::EffectClass;
use proptest::prelude::*;

use super::GOALS;
use super::plans::{PlanShape, plan_shape};
use super::record::{Record, record};

/// A message.
#[derive(Debug, Clone)]
pub(super) struct Post {
    pub(super) double_texting: DoubleTexting,
    /// The idempotency key, one of a few.
    pub(super) key: Option<u8>,
    /// Whether the request differs from the others with the same key.
    pub(super) is_another_request: bool,
    /// Whether a worker of the process has a slot for its run.
    pub(super) starts: bool,
    /// Whether it is posted by the function that applications call, in the database without batches.
    pub(super) by_function: bool,
}

/// A claim.
#[derive(Debug, Clone)]
pub(super) struct Claim {
    /// Whether the worker has died.
    pub(super) is_dead: bool,
    /// Whether what the run starts from is read and compared.
    pub(super) reads: bool,
}

/// What happens to one of the goals, or to its task.
#[derive(Debug, Clone)]
pub(super) enum Act {
    Post(Post),
    /// The run of the goal creates its task.
    CreateTask,
    /// A request makes a plan for the goal, in the place of its task.
    MakePlan,
    /// Pauses the plan, or lets it go on.
    Pause,
    Claim(Claim),
    Cancel,
    /// The worker that drives it dies.
    Die,
    /// Nothing, for an hour.
    Rest,
    Step(Shape),
}

impl Act {
    /// Whether both are of the same sort, and may happen at once. Of several claims, it is undefined which get the last
    /// slots; a message starts its run at once only if none of the others does.
    pub(super) fn goes_with(&self, other: &Self, sequence: &Sequence) -> bool {
        use Act::{Claim, MakePlan, Post, Step};
        match (self, other) {
            (MakePlan, MakePlan) => true,
            (Post(one), Post(other)) => !one.starts && !other.starts,
            (Step(one), Step(other)) => one.record.is_none() && other.record.is_none(),
            // A worker drives one run at most that killed its workers, and it is undefined which.
            (Claim(_), Claim(_)) => usize::from(sequence.max_running) >= 2 * GOALS && !sequence.workers_die,
            _ => false,
        }
    }
}

/// What happens to the goals of one user.
#[derive(Debug, Clone)]
pub(super) struct Sequence {
    pub(super) max_running: u16,
    pub(super) closes_sessions: bool,
    pub(super) workers_die: bool,
    /// The number of the goal, or `GOALS` more for its task.
    pub(super) acts: Vec<(usize, Act)>,
}

/// What is below the goals of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Below {
    Nothing,
    Tasks,
    /// All plans are made first.
    Plans,
}

pub(super) fn sequence() -> impl Strategy<Value = Sequence> {
    let max_running = prop_oneof![Just(2), Just(10)];
    let below = prop_oneof![5 => Just(Below::Nothing), 3 => Just(Below::Tasks), 3 => Just(Below::Plans)];
    let settings = (1..=GOALS, max_running, any::<bool>(), any::<bool>(), below);
    settings.prop_flat_map(|(goals, max_running, closes_sessions, workers_die, below)| {
        let of_those = match below {
            Below::Nothing => 0.0,
            Below::Tasks => 0.4,
            Below::Plans => 0.6,
        };
        let of = (0..goals, prop::bool::weighted(of_those));
        let of = of.prop_map(|(goal, is_below)| goal + if is_below { GOALS } else { 0 });
        let length = prop_oneof![6 => 5..20_usize, 1 => 20..60_usize];
        let acts = length.prop_flat_map(move |length| {
            prop::collection::vec((of.clone(), act(workers_die, below)), length)
        });
        acts.prop_map(move |mut acts| {
            if below == Below::Plans {
                acts.splice(..0, (0..goals).map(|goal| (goal + GOALS, Act::MakePlan)));
            }
            Sequence { max_running, closes_sessions, workers_die, acts }
        })
    })
}

/// A step.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    pub(super) end: End,
    pub(super) entries: usize,
    pub(super) messages: usize,
    pub(super) call: Option<Option<&'static str>>,
    pub(super) tools: Tools,
    /// What its tools write into Houston's own tables, in the same transaction.
    pub(super) record: Option<Record>,
    /// What it changes if it is of a plan.
    pub(super) plan: PlanShape,
    pub(super) fence: FenceOf,
    /// Whether it is sent a second time.
    pub(super) repeats: bool,
}

/// The calls of tools in a step.
#[derive(Debug, Clone)]
pub(super) struct Tools {
    /// Whether the calls that earlier steps started are answered, and whether they succeeded.
    pub(super) answers: Option<bool>,
    /// The calls that start, and whether they are answered by the same step.
    pub(super) starts: Vec<(EffectClass, bool)>,
}

/// The claim under which a step is sent.
#[derive(Debug, Clone, Copy)]
pub(super) enum FenceOf {
    Present,
    /// The claim before, if there was one.
    Earlier,
    /// Another claim with the same epoch, as after a failover.
    Other,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    Poll,
    Continue { read: bool },
    Complete,
    Terminate(RunStatus),
    Retry { counts: bool },
    Release,
}

fn post() -> impl Strategy<Value = Post> {
    let texting = prop_oneof![
        4 => Just(DoubleTexting::Enqueue),
        1 => Just(DoubleTexting::Interrupt),
        1 => Just(DoubleTexting::Rollback),
        1 => Just(DoubleTexting::Reject),
    ];
    let key = prop::option::weighted(0.3, 0..2_u8);
    (texting, key, prop::bool::weighted(0.1), prop::bool::weighted(0.3), any::<bool>()).prop_map(
        |(double_texting, key, is_another_request, starts, by_function)| Post {
            double_texting,
            key,
            is_another_request,
            starts,
            by_function,
        },
    )
}

fn tools() -> impl Strategy<Value = Tools> {
    let effect = prop_oneof![
        Just(EffectClass::Read),
        Just(EffectClass::Idempotent),
        Just(EffectClass::Checkable),
        Just(EffectClass::Effect)
    ];
    let some = prop::collection::vec((effect, any::<bool>()), 1..4);
    let starts = prop::option::weighted(0.25, some).prop_map(Option::unwrap_or_default);
    (prop::option::weighted(0.6, prop::bool::weighted(0.7)), starts)
        .prop_map(|(answers, starts)| Tools { answers, starts })
}

fn shape() -> impl Strategy<Value = Shape> {
    let end = prop_oneof![
        1 => Just(End::Poll),
        3 => any::<bool>().prop_map(|read| End::Continue { read }),
        3 => Just(End::Complete),
        2 => prop_oneof![Just(RunStatus::MaxIterations), Just(RunStatus::Failed), Just(RunStatus::Cancelled)]
            .prop_map(End::Terminate),
        2 => any::<bool>().prop_map(|counts| End::Retry { counts }),
        1 => Just(End::Release),
    ];
    let call = prop::option::of(prop::option::of(prop_oneof![Just("0.25"), Just("0.000001")]));
    let fence =
        prop_oneof![18 => Just(FenceOf::Present), 1 => Just(FenceOf::Earlier), 1 => Just(FenceOf::Other)];
    let record = prop::option::weighted(0.2, record());
    let texts = (0..3_usize, 0..3_usize);
    (end, texts, call, tools(), record, plan_shape(), fence, prop::bool::weighted(0.1)).prop_map(
        |(end, (entries, messages), call, tools, record, plan, fence, repeats)| Shape {
            end,
            entries,
            messages,
            call,
            tools,
            record,
            plan,
            fence,
            repeats,
        },
    )
}

fn act(workers_die: bool, below: Below) -> impl Strategy<Value = Act> {
    let claim = (prop::bool::weighted(0.05), prop::bool::weighted(0.3))
        .prop_map(|(is_dead, reads)| Act::Claim(Claim { is_dead, reads }));
    let claim = claim.boxed();
    let step = shape().prop_map(Act::Step).boxed();
    let of_those = match below {
        Below::Nothing => step.clone(),
        Below::Tasks => Just(Act::CreateTask).boxed(),
        Below::Plans => prop_oneof![3 => step.clone(), 1 => Just(Act::Pause)].boxed(),
    };
    let death = if workers_die { Just(Act::Die).boxed() } else { claim.clone() };
    prop_oneof![
        4 => post().prop_map(Act::Post),
        2 => of_those,
        5 => claim,
        1 => Just(Act::Cancel),
        1 => Just(Act::Rest),
        1 => death,
        7 => step
    ]
}
