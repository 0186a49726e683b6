//! What becomes of a user's message that is posted by itself, decided from rows that were read under the lock of its agentable.
//!
//! A batch of posts writes those that nothing stands against, and leaves the others to this.

use crate::agentable::DoubleTexting;
use crate::id::RunId;

/// What is stored about the agentable that a message is posted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recipient {
    /// The run that is open.
    pub open_run: Option<RunId>,
    /// Number of unread messages of its user, in all agentables. It need not be counted beyond the limit.
    pub unread: i64,
}

/// What becomes of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It is stored, and opens a run.
    Opens,
    /// It is stored, and the open run reads it.
    Joins,
    /// It is stored, and the open run is cancelled: the next one reads it.
    Cancels(RunId),
    /// Nothing is stored.
    Refused(Refusal),
}

/// Why nothing is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such agentable.
    NotFound,
    /// So many messages of the user are unread.
    TooManyUnread(i64),
    /// This run is open.
    RunOpen(RunId),
}

/// Decides about a message. At most `max_unread` messages of one user may be unread; posts at the same moment may exceed the
/// limit slightly.
pub fn decide(recipient: Option<Recipient>, double_texting: DoubleTexting, max_unread: i64) -> Decision {
    let Some(Recipient { open_run, unread }) = recipient else { return Decision::Refused(Refusal::NotFound) };
    if unread >= max_unread {
        return Decision::Refused(Refusal::TooManyUnread(unread));
    }
    match (open_run, double_texting) {
        (None, _) => Decision::Opens,
        (Some(_), DoubleTexting::Enqueue) => Decision::Joins,
        (Some(run), DoubleTexting::Reject) => Decision::Refused(Refusal::RunOpen(run)),
        (Some(run), DoubleTexting::Interrupt | DoubleTexting::Rollback) => Decision::Cancels(run),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    const RUN: RunId = RunId(Uuid::from_u128(1));
    const ALL: [DoubleTexting; 4] =
        [DoubleTexting::Enqueue, DoubleTexting::Interrupt, DoubleTexting::Reject, DoubleTexting::Rollback];

    #[test]
    fn open_run_gets_what_double_texting_says() {
        let decided = ALL.map(|of| decide(Some(Recipient { open_run: Some(RUN), unread: 0 }), of, 1));
        let refused = Decision::Refused(Refusal::RunOpen(RUN));
        assert_eq!(decided, [Decision::Joins, Decision::Cancels(RUN), refused, Decision::Cancels(RUN)]);
        for of in ALL {
            assert_eq!(
                decide(Some(Recipient { open_run: None, unread: 0 }), of, 1),
                Decision::Opens,
                "{of:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn message_is_refused_at_the_limit_whatever_it_does(
            unread in 0..5_i64, max in 0..5_i64, is_open: bool, nth in 0..4_usize,
        ) {
            let recipient = Recipient { open_run: is_open.then_some(RUN), unread };
            let decided = decide(Some(recipient), ALL[nth], max);
            let is_full = decided == Decision::Refused(Refusal::TooManyUnread(unread));
            prop_assert_eq!(is_full, unread >= max);
            let missing = decide(None, ALL[nth], max);
            prop_assert_eq!(missing, Decision::Refused(Refusal::NotFound));
        }
    }
}
