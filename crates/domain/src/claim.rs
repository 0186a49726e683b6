//! Deciding whether a worker may start a run, and what the run reads first.
//!
//! The decision is made from rows that were read without a lock. The transaction that writes it checks that the row of
//! the agentable's lock has not changed since, and writes nothing otherwise.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::unread::{ReadLimits, Unread};

/// What is stored about an agentable whose open run a worker wants to claim.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimable {
    /// Whether the lease of the worker that asks is valid.
    pub worker_is_alive: bool,
    /// Who holds the agentable's lock.
    pub holder: Holder,
    /// Whether a run is open.
    pub run_open: bool,
    /// Whether the next attempt is due.
    pub is_due: bool,
    /// Number of workers that died while they held the run, without the present holder.
    pub deaths: usize,
    /// Number of attempts so far.
    pub attempts: i32,
    /// Whether the cancellation of the run was requested.
    pub cancel_requested: bool,
    /// Whether the agentable has a reason to run.
    pub is_awake: bool,
    /// Whether the run waits for something from outside, and not until a time that has passed.
    pub is_waiting: bool,
    /// The first unread messages, in order: at least one more than the limits allow, if there are as many. Those that
    /// were posted after a request to cancel are left out: the next run reads them.
    pub unread: Vec<Unread>,
    /// The open session; `None` if sessions of this kind are not closed.
    pub session: Option<OpenSession>,
}

/// Who holds the lock of an agentable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// No worker.
    None,
    /// A worker whose lease is valid.
    Alive,
    /// A worker whose lease has expired.
    Dead,
}

/// The entries after the last closed session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenSession {
    /// When the latest entry of an earlier run was written; `None` if there is none.
    pub last_entry_at: Option<DateTime<Utc>>,
    /// When the run was opened.
    pub requested_at: DateTime<Utc>,
    /// How long a session must be without messages before it is closed.
    pub quiet: Duration,
    /// Whether closing it was requested.
    pub close_requested: bool,
    /// Whether a closed session was not reported in the event stream yet.
    pub has_unreported: bool,
    /// Whether the sweep looks at it.
    pub is_scheduled: bool,
}

impl OpenSession {
    /// What a run that begins does with the session. The quiet time ends when the message arrived, not when a worker
    /// claimed the run.
    fn turn(&self) -> Turn {
        let was_quiet =
            |at: DateTime<Utc>| (self.requested_at - at).to_std().is_ok_and(|passed| passed >= self.quiet);
        let closes = self.last_entry_at.is_some_and(|at| self.close_requested || was_quiet(at));
        Turn {
            closes,
            schedules: closes || self.close_requested || !self.is_scheduled,
            reports: closes || self.has_unreported,
            settles_request: self.close_requested,
        }
    }
}

/// What a run that begins does with the open session and with those that were closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Turn {
    /// Whether the session is closed, so that its entries are not sent to the model again.
    pub closes: bool,
    /// Whether the sweep is to look at the open session.
    pub schedules: bool,
    /// Whether closed sessions are reported in the event stream. They are reported here because a stream has no events
    /// between two runs (AG-UI).
    pub reports: bool,
    /// Whether a request to close the session is settled.
    pub settles_request: bool,
}

impl Turn {
    /// Whether nothing but the schedule changes.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        !self.closes && !self.reports && !self.settles_request
    }
}

/// What is stored about an agentable that a message is posted to, while a worker of the same process has a free slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PostTarget {
    /// Whether a run is open.
    pub run_open: bool,
    /// Whether a worker holds the lock.
    pub is_held: bool,
    /// Whether the agentable has a reason to run already.
    pub is_awake: bool,
    /// Whether any agentable of the user waits for a worker.
    pub user_waits: bool,
    /// Whether a team answers: its router's choice is stored with the run.
    pub has_team: bool,
}

impl PostTarget {
    /// Whether the message may be posted and its run claimed in one commit. Otherwise the message is posted alone, so that
    /// it joins the open run, or waits for its turn among what the user has waiting.
    #[must_use]
    pub fn starts_at_once(&self) -> bool {
        !self.run_open && !self.is_held && !self.is_awake && !self.user_waits && !self.has_team
    }
}

/// When a run is given up because its workers die.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrashLimit {
    /// Consecutive deaths after which the run is given up.
    pub deaths: usize,
}

/// Whether a worker may start a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It may not, and nothing is written.
    Refused,
    /// It may.
    Started(Start),
    /// The run is to be given up because of the death that is found now. It waits first: the worker that seems to have
    /// died may be alive, and then takes its death back.
    Doubted,
}

/// What a claim changes, besides taking the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// Number of messages that become the first entry; 0 for a later attempt, which finds that entry in the history and
    /// reads newer messages at its next step.
    pub read: usize,
    /// The position of the last of them.
    pub read_to: Option<i64>,
    /// Whether more messages are left for a later read.
    pub has_more: bool,
    /// Whether the agentable has a reason to run after the claim.
    pub stays_awake: bool,
    /// Whether some of the messages that are read were posted for another run.
    pub moves_messages: bool,
    /// Whether the run will be given up at its next death. It is unknown which run kills a worker, because all its runs
    /// die with it. So a worker drives one such run at most: if it dies, the cause is known.
    pub is_suspect: bool,
    /// Number of workers that died while they held the run.
    pub deaths: usize,
    /// What happens to sessions.
    pub turn: Turn,
}

impl Start {
    /// Whether the claim changes only rows of its own agentable, so that it can be written with others.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        !self.moves_messages && !self.is_suspect && self.turn.is_plain()
    }
}

/// Decides about a claim. `free_slots`: how many more runs of the user may be held.
#[must_use]
pub fn decide(of: &Claimable, free_slots: i32, limits: ReadLimits, crashes: CrashLimit) -> Decision {
    let is_held = of.holder == Holder::Alive;
    let still_waits = of.is_waiting && !of.is_awake;
    if !of.worker_is_alive || is_held || !of.run_open || !of.is_due || still_waits || free_slots < 1 {
        return Decision::Refused;
    }
    let died_now = of.holder == Holder::Dead;
    let deaths = of.deaths + usize::from(died_now);
    if died_now && deaths >= crashes.deaths {
        return Decision::Doubted;
    }
    let unread = if of.is_awake { of.unread.as_slice() } else { &[] };
    let count = limits.count(unread);
    let has_more = count < unread.len();
    let is_first = of.attempts == 0;
    let read = if is_first { &unread[..count] } else { &[] };
    Decision::Started(Start {
        read: read.len(),
        read_to: read.last().map(|last| last.seq),
        has_more,
        stays_awake: of.cancel_requested || has_more || (!is_first && count > 0),
        moves_messages: read.iter().any(|unread| !unread.is_for_run),
        is_suspect: deaths > 0 && deaths + 1 == crashes.deaths,
        deaths,
        turn: of.session.filter(|_| is_first).map_or_else(Turn::default, |session| session.turn()),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::Source;

    const LIMITS: ReadLimits = ReadLimits { messages: 3, bytes: 10 };
    const CRASHES: CrashLimit = CrashLimit { deaths: 3 };

    fn unread(seq: i64, bytes: usize) -> Unread {
        let content = "x".repeat(bytes);
        Unread { seq, source: Source::User, metadata_type: None, content, is_for_run: true }
    }

    fn posted(lengths: &[usize]) -> Claimable {
        Claimable {
            worker_is_alive: true,
            holder: Holder::None,
            run_open: true,
            is_due: true,
            deaths: 0,
            attempts: 0,
            cancel_requested: false,
            is_awake: true,
            is_waiting: false,
            unread: (1..).zip(lengths).map(|(seq, bytes)| unread(seq, *bytes)).collect(),
            session: None,
        }
    }

    fn started(of: &Claimable) -> Start {
        match decide(of, 1, LIMITS, CRASHES) {
            Decision::Started(start) => start,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn first_attempt_reads_as_much_as_the_limits_allow() {
        let of = |lengths: &[usize]| {
            let start = started(&posted(lengths));
            (start.read, start.read_to.unwrap(), start.has_more)
        };
        assert_eq!(of(&[1]), (1, 1, false));
        assert_eq!(of(&[1, 1, 1]), (3, 3, false));
        assert_eq!(of(&[1, 1, 1, 1]), (3, 3, true), "three messages at most");
        assert_eq!(of(&[5, 5, 1]), (2, 2, true), "ten bytes at most");
        assert_eq!(of(&[50, 1]), (1, 1, true), "a longer message is read alone");
        assert_eq!(of(&[1, 50]), (1, 1, true));
    }

    type Change = fn(&mut Claimable);

    #[test]
    fn run_that_must_not_start_is_refused() {
        let refused: [Change; 4] = [
            |of| of.worker_is_alive = false,
            |of| of.holder = Holder::Alive,
            |of| of.run_open = false,
            |of| of.is_due = false,
        ];
        for change in refused {
            let mut of = posted(&[1]);
            change(&mut of);
            assert_eq!(decide(&of, 1, LIMITS, CRASHES), Decision::Refused, "{of:?}");
        }
        assert_eq!(decide(&posted(&[1]), 0, LIMITS, CRASHES), Decision::Refused, "the user has enough runs");
    }

    #[test]
    fn message_starts_its_run_at_once_only_when_nothing_waits() {
        let idle = PostTarget {
            run_open: false,
            is_held: false,
            is_awake: false,
            user_waits: false,
            has_team: false,
        };
        assert!(idle.starts_at_once());
        let busy: [fn(&mut PostTarget); 5] = [
            |of| of.run_open = true,
            |of| of.is_held = true,
            |of| of.is_awake = true,
            |of| of.user_waits = true,
            |of| of.has_team = true,
        ];
        for change in busy {
            let mut of = idle;
            change(&mut of);
            assert!(!of.starts_at_once(), "{of:?}");
        }
    }

    #[test]
    fn later_attempt_leaves_messages_to_its_next_step() {
        let of = Claimable { attempts: 1, ..posted(&[1, 1]) };
        let start = started(&of);
        assert_eq!((start.read, start.read_to, start.stays_awake), (0, None, true));
        let nothing = Claimable { attempts: 1, is_awake: false, ..posted(&[]) };
        assert!(!started(&nothing).stays_awake);
    }

    #[test]
    fn request_to_cancel_keeps_the_agentable_awake() {
        let of = Claimable { cancel_requested: true, ..posted(&[1]) };
        assert!(started(&of).stays_awake, "the run ends before it would fall asleep");
        assert!(!started(&posted(&[1])).stays_awake);
    }

    #[test]
    fn messages_of_another_run_are_moved() {
        let mut of = posted(&[1, 1]);
        of.unread[1].is_for_run = false;
        let start = started(&of);
        assert!(start.moves_messages && !start.is_plain());
        of.unread[1].is_for_run = true;
        assert!(started(&of).is_plain());
    }

    #[test]
    fn run_that_kills_its_workers_is_doubted_before_it_is_given_up() {
        let of = |deaths, holder| Claimable { deaths, holder, attempts: 1, ..posted(&[1]) };
        let start = |deaths, holder| started(&of(deaths, holder));
        assert_eq!((start(0, Holder::Dead).deaths, start(0, Holder::Dead).is_suspect), (1, false));
        assert_eq!((start(1, Holder::Dead).deaths, start(1, Holder::Dead).is_suspect), (2, true));
        assert!(start(2, Holder::None).is_suspect);
        assert_eq!(decide(&of(2, Holder::Dead), 1, LIMITS, CRASHES), Decision::Doubted);
        // After the doubt it is claimed to be given up, so it needs no worker of its own.
        assert_eq!((start(3, Holder::None).deaths, start(3, Holder::None).is_suspect), (3, false));
    }

    #[test]
    fn run_that_waits_is_claimed_only_when_it_is_awake() {
        let waiting = Claimable { is_waiting: true, is_awake: false, attempts: 1, ..posted(&[]) };
        assert_eq!(decide(&waiting, 1, LIMITS, CRASHES), Decision::Refused, "a hint alone is no reason");
        assert_eq!(
            started(&Claimable { is_waiting: false, ..waiting.clone() }).read,
            0,
            "its time has passed"
        );
        let woken = Claimable { is_awake: true, ..waiting };
        assert!(!started(&woken).stays_awake);
        let session = OpenSession {
            last_entry_at: Some(DateTime::UNIX_EPOCH),
            requested_at: DateTime::UNIX_EPOCH + Duration::from_secs(9_000),
            quiet: Duration::from_secs(60),
            close_requested: true,
            has_unreported: false,
            is_scheduled: true,
        };
        let late = started(&Claimable { session: Some(session), ..woken });
        assert_eq!(late.turn, Turn::default(), "its session is not closed under it");
    }

    #[test]
    fn session_is_closed_when_it_was_quiet_or_a_close_was_requested() {
        let quiet = Duration::from_secs(60);
        let requested_at = DateTime::UNIX_EPOCH;
        let session = |ago: Option<u64>| OpenSession {
            last_entry_at: ago.map(|ago| requested_at - Duration::from_secs(ago)),
            requested_at,
            quiet,
            close_requested: false,
            has_unreported: false,
            is_scheduled: true,
        };
        let of = |session| started(&Claimable { session: Some(session), ..posted(&[1]) }).turn;
        let closed = of(session(Some(60)));
        assert!(closed.closes && closed.reports && closed.schedules);
        assert!(of(OpenSession { close_requested: true, ..session(Some(1)) }).closes);
        let nothing = of(OpenSession { close_requested: true, ..session(None) });
        assert!(!nothing.closes && nothing.schedules && nothing.settles_request, "there are no entries");
        let unreported = of(OpenSession { has_unreported: true, ..session(None) });
        assert!(unreported.reports && !unreported.closes && !unreported.is_plain());
        for (is_scheduled, schedules) in [(true, false), (false, true)] {
            let turn = of(OpenSession { is_scheduled, ..session(Some(59)) });
            assert!(turn.schedules == schedules && turn.is_plain());
        }
        let again = Claimable { session: Some(session(Some(60))), attempts: 1, ..posted(&[1]) };
        assert_eq!(started(&again).turn, Turn::default(), "a later attempt goes on with the session");
    }

    #[test]
    fn frames_are_what_houston_wrote_without_task_instructions() {
        let of = |source, kind: Option<&str>| {
            Unread { source, metadata_type: kind.map(Into::into), ..unread(1, 1) }.is_frame()
        };
        assert!(of(Source::System, None) && of(Source::System, Some("task_ended")));
        assert!(!of(Source::System, Some("task_started")) && !of(Source::User, Some("task_ended")));
    }

    proptest! {
        #[test]
        fn each_message_is_read_once_in_order(lengths in proptest::collection::vec(0..15_usize, 1..30)) {
            let mut of = posted(&lengths);
            let (mut read, mut left) = (Vec::new(), of.unread.len());
            while left > 0 {
                let start = started(&of);
                prop_assert!(start.read >= 1 && start.read <= LIMITS.messages);
                let texts: usize = of.unread[..start.read].iter().map(|unread| unread.content.len()).sum();
                prop_assert!(start.read == 1 || texts <= LIMITS.bytes);
                read.extend(of.unread.drain(..start.read).map(|unread| unread.seq));
                prop_assert_eq!(start.read_to, read.last().copied());
                left = of.unread.len();
                prop_assert_eq!(start.has_more, left > 0);
            }
            prop_assert!(read.iter().copied().eq(1..=i64::try_from(lengths.len()).unwrap()));
        }
    }
}
