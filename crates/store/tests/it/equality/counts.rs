//! How often what happened.

use std::fmt;
use std::ops::AddAssign;

use super::sequence::Act;
use super::twin::Twin;

const DIRECT: &str = "direct starts";
const NAMES: [&str; 17] = [
    "posts",
    DIRECT,
    "refused posts",
    "claims",
    "refused claims",
    "plain steps",
    "steps with tools",
    "steps with records",
    "repeated steps",
    "fenced steps",
    "tasks",
    "plans",
    "pauses",
    "steps of plans",
    "refused steps of plans",
    "cancels",
    "deaths",
];

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    /// In the order of [`NAMES`].
    acts: [u64; NAMES.len()],
    /// Messages that could have started their run directly, but did not.
    missed: u64,
}

impl Counts {
    /// `learned`: what the caller learnt of the act.
    pub(super) fn count(&mut self, act: &Act, learned: &str, twin: &Twin) {
        self.missed += u64::from(matches!(act, Act::Post(post) if post.starts) && twin.has_missed);
        let name = match act {
            _ if learned == "there is no task" => return,
            Act::Post(_) if learned == "a task" => return,
            Act::Post(_) if learned.contains("started") => DIRECT,
            Act::Post(_) if learned.starts_with(|first: char| first.is_ascii_digit()) => "posts",
            Act::Post(_) => "refused posts",
            Act::Claim(_) if learned == "not claimed" => "refused claims",
            Act::Claim(_) => "claims",
            Act::Step(_) if learned == "not claimed" => return,
            Act::Step(_) if learned.starts_with("fenced") => "fenced steps",
            Act::Step(_) if learned.starts_with("plan changed") => "refused steps of plans",
            Act::Step(_) if learned.ends_with("already committed") => "repeated steps",
            Act::Step(_) if twin.is_plan => "steps of plans",
            Act::Step(shape) if shape.record.is_some() => "steps with records",
            Act::Step(shape) if !shape.tools.starts.is_empty() => "steps with tools",
            Act::Step(_) => "plain steps",
            Act::CreateTask if learned == "created" => "tasks",
            Act::MakePlan if learned == "created" => "plans",
            Act::Pause if learned == "Ok(())" => "pauses",
            Act::Cancel if learned == "true" => "cancels",
            Act::Die if learned != "0 died" => "deaths",
            Act::CreateTask | Act::MakePlan | Act::Pause | Act::Cancel | Act::Die | Act::Rest => return,
        };
        let place = NAMES.iter().position(|one| *one == name).unwrap();
        self.acts[place] += 1;
    }

    /// Whether all sorts of acts have happened, and most messages that could start their run did.
    pub(super) fn is_complete(&self) -> bool {
        let started =
            NAMES.iter().zip(self.acts).find(|(name, _)| **name == DIRECT).map_or(0, |(_, count)| count);
        self.acts.iter().all(|count| *count > 0) && self.missed * 4 < started
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> =
            NAMES.iter().zip(self.acts).map(|(name, count)| format!("{count} {name}")).collect();
        write!(f, "{}, {} late starts", all.join(", "), self.missed)
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.missed += other.missed;
        self.acts.iter_mut().zip(other.acts).for_each(|(sum, count)| *sum += count);
    }
}
