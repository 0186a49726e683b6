//! Since when workers have taken what waits in a lane. Only that time makes waiting work late or stale: what waits while no
//! worker is there, or while its lane is paused, waits for an operator.

use chrono::{DateTime, TimeDelta, Utc};

/// What is known of one lane at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneService {
    /// The current time, by the database's clock.
    pub now: DateTime<Utc>,
    /// Since when some worker that claims has lived without a gap in its lease; `None`: none lives.
    pub worker_since: Option<DateTime<Utc>>,
    /// Whether the lane is paused.
    pub is_paused: bool,
    /// When the lane was resumed last.
    pub resumed_at: Option<DateTime<Utc>>,
}

impl LaneService {
    /// Since when what waits in the lane could have been taken; `None`: it cannot be taken now.
    pub fn since(&self) -> Option<DateTime<Utc>> {
        let worker_since = self.worker_since.filter(|_| !self.is_paused)?;
        Some(self.resumed_at.map_or(worker_since, |resumed| resumed.max(worker_since)))
    }

    /// How long something that has waited since `since` could have been taken; `None`: it cannot be taken now.
    pub fn waited(&self, since: DateTime<Utc>) -> Option<TimeDelta> {
        Some((self.now - self.since()?.max(since)).max(TimeDelta::zero()))
    }

    /// Whether the lane was served all of the last `time`: only then may something be given up that has waited for as long.
    pub fn was_served_for(&self, time: TimeDelta) -> bool {
        self.since().is_some_and(|since| self.now - since >= time)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(minute: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::minutes(minute)
    }

    #[test]
    fn only_time_in_which_work_could_be_taken_counts() {
        // Now is minute 1000, work has waited since minute 100. Worker since, paused, resumed at: minutes counted.
        for (worker, is_paused, resumed, counted) in [
            (Some(0), false, None, Some(900)),
            (Some(0), true, None, None),
            (Some(0), true, Some(50), None),
            (Some(0), false, Some(50), Some(900)),
            (Some(0), false, Some(400), Some(600)),
            (Some(0), false, Some(1000), Some(0)),
            // The machine's clock of a former primary was ahead.
            (Some(0), false, Some(1001), Some(0)),
            (None, false, None, None),
            (None, false, Some(400), None),
            (None, true, None, None),
            (Some(990), false, None, Some(10)),
            (Some(990), false, Some(400), Some(10)),
            (Some(990), false, Some(995), Some(5)),
            (Some(990), true, Some(995), None),
            (Some(100), false, Some(100), Some(900)),
            (Some(1001), false, None, Some(0)),
        ] {
            let lane = LaneService {
                now: at(1000),
                worker_since: worker.map(at),
                is_paused,
                resumed_at: resumed.map(at),
            };
            let case = format!("{worker:?} {is_paused} {resumed:?}");
            assert_eq!(lane.waited(at(100)), counted.map(TimeDelta::minutes), "{case}");
            for minutes in [1, 5, 120, 360] {
                let may_be_stale = counted.is_some_and(|counted| counted >= minutes);
                assert_eq!(
                    lane.was_served_for(TimeDelta::minutes(minutes)),
                    may_be_stale,
                    "{case} {minutes}"
                );
            }
        }
    }

    proptest! {
        /// Compared with minutes counted one by one: of each it is known whether a worker lived and the lane was paused.
        #[test]
        fn no_minute_counts_before_the_last_break(
            minutes in proptest::collection::vec((any::<bool>(), any::<bool>()), 1..200), waits_since in 0..200usize
        ) {
            let broken = |(lives, is_paused): &(bool, bool)| !lives || *is_paused;
            let until = minutes.len() - 1;
            let begins = |is: &dyn Fn(&(bool, bool)) -> bool| {
                is(&minutes[until]).then(|| minutes.iter().rposition(|one| !is(one)).map_or(0, |last| last + 1))
            };
            let is_paused = minutes[until].1;
            let resumed = minutes.iter().rposition(|(_, is_paused)| *is_paused).filter(|_| !is_paused);
            let minute = |nth: usize| at(i64::try_from(nth).unwrap());
            let lane = LaneService {
                now: minute(until + 1),
                worker_since: begins(&|(lives, _)| *lives).map(minute),
                is_paused,
                resumed_at: resumed.map(|last| minute(last + 1)),
            };
            let counted = minutes.iter().enumerate().rev().take_while(|(nth, one)| *nth >= waits_since && !broken(one));
            let counted = i64::try_from(counted.count()).unwrap();
            let waited = lane.waited(minute(waits_since)).map_or(0, |waited| waited.num_minutes());
            prop_assert_eq!(waited, counted);
            prop_assert_eq!(lane.since().is_none(), broken(&minutes[until]));
        }
    }
}
