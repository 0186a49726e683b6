//! System messages: what Houston itself posts to an agent, and whether it is posted.

/// What happens to a system message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// It is posted. An open run reads it at its next step; otherwise it opens a run.
    Posted,
    /// It is added to the history for the next run.
    Noted,
    /// Nothing happens.
    Refused,
}

/// Decides about a system message. `opens_run`: it is there to open a run (a check-in, a feed), not to report something.
///
/// An archived agentable is started only by a message of a person. A message that is to open a run is refused while
/// another run is open.
#[must_use]
pub fn decide(run_open: bool, archived: bool, opens_run: bool) -> Delivery {
    match (run_open, opens_run) {
        (true, true) => Delivery::Refused,
        (false, true) if archived => Delivery::Refused,
        (false, false) if archived => Delivery::Noted,
        _ => Delivery::Posted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archived_agentables_are_not_started_and_lose_no_report() {
        assert_eq!(decide(false, true, true), Delivery::Refused);
        assert_eq!(decide(false, true, false), Delivery::Noted);
        assert_eq!(decide(true, true, false), Delivery::Posted, "the open run reads it");
    }

    #[test]
    fn second_run_is_not_opened() {
        assert_eq!(decide(true, false, true), Delivery::Refused);
        assert_eq!(decide(false, false, true), Delivery::Posted);
        assert_eq!(decide(true, false, false), Delivery::Posted);
    }
}
