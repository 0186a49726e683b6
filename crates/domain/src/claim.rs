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
    /// Whether workers died while they held the run.
    pub has_deaths: bool,
    /// Number of attempts so far.
    pub attempts: i32,
    /// Whether the cancellation of the run was requested.
    pub cancel_requested: bool,
    /// Whether the agentable has a reason to run.
    pub is_awake: bool,
    /// The first unread messages, in order: at least one more than the limits allow, if there are as many.
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
    /// Whether the claim closes the session, or reports a closed one. The quiet time ends when the message arrived, not when
    /// a worker claimed the run.
    fn turns_over(&self) -> bool {
        let was_quiet =
            |at: DateTime<Utc>| (self.requested_at - at).to_std().is_ok_and(|passed| passed >= self.quiet);
        self.close_requested || self.has_unreported || self.last_entry_at.is_some_and(was_quiet)
    }
}

/// Whether a worker may start a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It may not, and nothing is written.
    Refused,
    /// It may, and the run reads these messages.
    Started(Start),
    /// `houston.claim_run` decides: something happened before, such as an earlier attempt, a death, or a cancel, or a
    /// session is to be closed.
    Disturbed,
}

/// What the first attempt of a run changes, besides taking the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// Number of messages that become the first entry.
    pub read: usize,
    /// The position of the last of them.
    pub read_to: i64,
    /// Whether more messages are left for a later read.
    pub has_more: bool,
    /// Whether the session begins with this run.
    pub opens_session: bool,
}

/// Decides about a claim. `free_slots`: how many more runs of the user may be held.
#[must_use]
pub fn decide(of: &Claimable, free_slots: i32, limits: ReadLimits) -> Decision {
    let is_held = of.holder == Holder::Alive;
    if !of.worker_is_alive || is_held || !of.run_open || !of.is_due || free_slots < 1 {
        return Decision::Refused;
    }
    let was_tried = of.holder == Holder::Dead || of.has_deaths || of.attempts > 0;
    let turns_over = of.session.as_ref().is_some_and(OpenSession::turns_over);
    if was_tried || of.cancel_requested || turns_over || !of.is_awake {
        return Decision::Disturbed;
    }
    let read = limits.count(&of.unread);
    match of.unread[..read].last() {
        Some(last) if of.unread[..read].iter().all(|unread| unread.is_for_run) => Decision::Started(Start {
            read,
            read_to: last.seq,
            has_more: read < of.unread.len(),
            opens_session: of.session.is_some_and(|session| !session.is_scheduled),
        }),
        _ => Decision::Disturbed,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::Source;

    const LIMITS: ReadLimits = ReadLimits { messages: 3, bytes: 10 };

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
            has_deaths: false,
            attempts: 0,
            cancel_requested: false,
            is_awake: true,
            unread: (1..).zip(lengths).map(|(seq, bytes)| unread(seq, *bytes)).collect(),
            session: None,
        }
    }

    fn started(of: &Claimable) -> Start {
        match decide(of, 1, LIMITS) {
            Decision::Started(start) => start,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn first_attempt_reads_as_much_as_the_limits_allow() {
        let of = |lengths: &[usize]| {
            let start = started(&posted(lengths));
            (start.read, start.read_to, start.has_more)
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
            assert_eq!(decide(&of, 1, LIMITS), Decision::Refused, "{of:?}");
        }
        assert_eq!(decide(&posted(&[1]), 0, LIMITS), Decision::Refused, "the user has enough runs");
    }

    #[test]
    fn run_with_a_history_is_left_to_the_database() {
        let disturbed: [Change; 7] = [
            |of| of.holder = Holder::Dead,
            |of| of.has_deaths = true,
            |of| of.attempts = 1,
            |of| of.cancel_requested = true,
            |of| of.is_awake = false,
            |of| of.unread.clear(),
            |of| of.unread[1].is_for_run = false,
        ];
        for change in disturbed {
            let mut of = posted(&[1, 1]);
            change(&mut of);
            assert_eq!(decide(&of, 1, LIMITS), Decision::Disturbed, "{of:?}");
        }
    }

    #[test]
    fn session_that_is_over_or_unreported_is_left_to_the_database() {
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
        let of = |session| decide(&Claimable { session: Some(session), ..posted(&[1]) }, 1, LIMITS);
        assert_eq!(of(session(Some(60))), Decision::Disturbed);
        assert_eq!(of(OpenSession { close_requested: true, ..session(Some(1)) }), Decision::Disturbed);
        assert_eq!(of(OpenSession { has_unreported: true, ..session(None) }), Decision::Disturbed);
        for (scheduled, opens) in [(true, false), (false, true)] {
            let session = OpenSession { is_scheduled: scheduled, ..session(Some(59)) };
            let start = started(&Claimable { session: Some(session), ..posted(&[1]) });
            assert_eq!(start.opens_session, opens);
        }
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
                prop_assert_eq!(start.read_to, *read.last().unwrap());
                left = of.unread.len();
                prop_assert_eq!(start.has_more, left > 0);
            }
            prop_assert!(read.iter().copied().eq(1..=i64::try_from(lengths.len()).unwrap()));
        }
    }
}
