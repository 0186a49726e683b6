//! What waits in a lane, from the work of its kinds.

use chrono::{DateTime, Utc};

use crate::agentable::Urgency;

/// The work of the agentables of one kind at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindWork {
    /// The kind.
    pub kind: String,
    /// Since when the oldest of the queued waits.
    pub oldest: Option<DateTime<Utc>>,
    /// How much it is; without the age of the oldest, which depends on when one looks.
    pub work: LaneWork,
}

/// The work of one lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LaneWork {
    /// Agentables that could be claimed now, if their user and a worker have a free slot.
    pub queued: i64,
    /// Those of them whose users have a free slot: as many more slots would be taken at once.
    pub claimable: i64,
    /// Seconds for which the oldest of the queued has waited; 0 if there is none.
    pub oldest_age_s: i64,
    /// Agentables whose next attempt is due later.
    pub retrying: i64,
    /// Agentables that a limit of tokens has put off.
    pub put_off: i64,
    /// Runs that workers hold.
    pub running: i64,
    /// Those of them whose worker is dead: they are not at work until another one takes them over.
    pub orphaned: i64,
    /// Agentables with an open question.
    pub asking: i64,
    /// Whether more waits than was counted.
    pub is_capped: bool,
}

impl LaneWork {
    /// The work of the lane of this urgency. Kinds that the caller does not know are in the interactive lane, as for the sweep;
    /// what runs of them counts in each lane, so that none counts as drained while some of its runs may be at work.
    pub fn of<'k>(
        urgency: Urgency,
        kinds: impl IntoIterator<Item = &'k KindWork>,
        urgency_of: impl Fn(&str) -> Option<Urgency>,
        now: DateTime<Utc>,
    ) -> Self {
        kinds.into_iter().fold(Self::default(), |lane, of| match urgency_of(&of.kind) {
            found if found.unwrap_or_default() == urgency => {
                let oldest_age_s = of.oldest.map_or(0, |oldest| (now - oldest).num_seconds().max(0));
                lane.with(Self { oldest_age_s, ..of.work })
            }
            None => {
                let (running, orphaned) = (lane.running + of.work.running, lane.orphaned + of.work.orphaned);
                Self { running, orphaned, ..lane }
            }
            Some(_) => lane,
        })
    }

    /// The work of two cells together.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            queued: self.queued + other.queued,
            claimable: self.claimable + other.claimable,
            oldest_age_s: self.oldest_age_s.max(other.oldest_age_s),
            retrying: self.retrying + other.retrying,
            put_off: self.put_off + other.put_off,
            running: self.running + other.running,
            orphaned: self.orphaned + other.orphaned,
            asking: self.asking + other.asking,
            is_capped: self.is_capped || other.is_capped,
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    fn work(kind: &str, queued: i64, oldest_s: i64) -> KindWork {
        KindWork {
            kind: kind.to_owned(),
            oldest: Some(DateTime::UNIX_EPOCH + TimeDelta::seconds(oldest_s)),
            work: LaneWork {
                queued,
                claimable: queued - 1,
                retrying: 1,
                running: 2,
                orphaned: 1,
                ..LaneWork::default()
            },
        }
    }

    #[test]
    fn lane_has_the_work_of_its_kinds_and_of_unknown_ones() {
        let kinds = [work("goal", 3, 90), work("task", 5, 10), work("of_a_newer_release", 1, 60)];
        let urgency_of = |kind: &str| match kind {
            "goal" => Some(Urgency::Interactive),
            "task" => Some(Urgency::Background),
            _ => None,
        };
        let now = DateTime::UNIX_EPOCH + TimeDelta::seconds(100);
        let lane = |urgency| LaneWork::of(urgency, &kinds, urgency_of, now);
        let (people, others) = (lane(Urgency::Interactive), lane(Urgency::Background));
        assert_eq!((people.queued, people.oldest_age_s, people.running), (4, 40, 4));
        assert_eq!((others.queued, others.oldest_age_s, others.claimable), (5, 90, 4));
        assert_eq!((others.running, others.orphaned), (4, 2), "runs of unknown kinds may be of any lane");
        assert_eq!(people.with(others).retrying, 3);
        let early = LaneWork::of(Urgency::Background, &kinds, urgency_of, DateTime::UNIX_EPOCH);
        assert_eq!(early.oldest_age_s, 0, "a clock that is behind gives no negative age");
    }
}
