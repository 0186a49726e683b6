//! Closing sessions that are quiet: what the sweep does with a session that it looks at.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::CompletionReason;

/// Longest time until the next look at a session that is to be closed as soon as its run has ended.
const RUNNING: Duration = Duration::from_secs(10);

/// The open session of an agentable, read under its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuietSession {
    /// The time of the database.
    pub now: DateTime<Utc>,
    /// When the sweep is to look at it; `None`: it is not.
    pub look_at: Option<DateTime<Utc>>,
    /// The reason of a request to close it.
    pub requested: Option<CompletionReason>,
    /// Whether sessions of this kind are closed when they are quiet.
    pub archives: bool,
    /// Whether a run is open or held, which may write.
    pub is_running: bool,
    /// When its latest entry was written; `None` if it has none. Entries of a copied or imported conversation keep their
    /// times, and count from when the copy was created; otherwise the first message to a copy of an old conversation
    /// would close the copied session.
    pub written_at: Option<DateTime<Utc>>,
    /// How long a session must be without messages.
    pub quiet: Duration,
}

/// What the sweep does with a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuietCheck {
    /// Nothing: it is not due any more.
    NotDue,
    /// It looks again at this time.
    LookAgain(DateTime<Utc>),
    /// It looks no more.
    Forget,
    /// It closes the session.
    Close(CompletionReason),
}

impl QuietSession {
    /// Decides.
    pub fn check(&self) -> QuietCheck {
        if self.look_at.is_none_or(|at| at > self.now) {
            return QuietCheck::NotDue;
        }
        if self.is_running {
            let wait = if self.requested.is_some() { self.quiet.min(RUNNING) } else { self.quiet };
            return QuietCheck::LookAgain(self.now + wait);
        }
        let Some(written_at) = self.written_at else { return QuietCheck::Forget };
        match self.requested {
            Some(reason) => QuietCheck::Close(reason),
            None if !self.archives => QuietCheck::Forget,
            None if written_at + self.quiet > self.now => QuietCheck::LookAgain(written_at + self.quiet),
            None => QuietCheck::Close(CompletionReason::SessionTimeout),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Duration = Duration::from_secs(60);

    fn session(ago: u64) -> QuietSession {
        let now = DateTime::UNIX_EPOCH + Duration::from_secs(1_000);
        QuietSession {
            now,
            look_at: Some(now),
            requested: None,
            archives: true,
            is_running: false,
            written_at: Some(now - Duration::from_secs(ago)),
            quiet: QUIET,
        }
    }

    #[test]
    fn session_is_closed_after_the_quiet_time() {
        assert_eq!(session(60).check(), QuietCheck::Close(CompletionReason::SessionTimeout));
        let early = session(59);
        assert_eq!(early.check(), QuietCheck::LookAgain(early.now + Duration::from_secs(1)));
        assert_eq!(QuietSession { archives: false, ..session(60) }.check(), QuietCheck::Forget);
        assert_eq!(QuietSession { written_at: None, ..session(60) }.check(), QuietCheck::Forget);
    }

    #[test]
    fn requested_close_does_not_wait_for_the_quiet_time() {
        let requested =
            QuietSession { requested: Some(CompletionReason::Reset), archives: false, ..session(0) };
        assert_eq!(requested.check(), QuietCheck::Close(CompletionReason::Reset));
        let nothing = QuietSession { written_at: None, ..requested };
        assert_eq!(nothing.check(), QuietCheck::Forget);
    }

    #[test]
    fn session_with_a_run_is_looked_at_again() {
        let running = QuietSession { is_running: true, ..session(60) };
        assert_eq!(running.check(), QuietCheck::LookAgain(running.now + QUIET));
        let requested = QuietSession { requested: Some(CompletionReason::Reset), ..running };
        assert_eq!(requested.check(), QuietCheck::LookAgain(running.now + RUNNING));
    }

    #[test]
    fn session_that_is_not_due_is_left_alone() {
        let of = session(60);
        assert_eq!(QuietSession { look_at: None, ..of }.check(), QuietCheck::NotDue);
        let later = QuietSession { look_at: Some(of.now + Duration::from_secs(1)), ..of };
        assert_eq!(later.check(), QuietCheck::NotDue);
    }
}
