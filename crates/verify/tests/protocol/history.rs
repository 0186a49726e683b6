//! The history in the model, and the rules of providers for it.

/// A bit set of message numbers, or of the calls of a turn.
pub(crate) type Set = u8;

/// The set `0..count`.
pub(crate) fn first(count: usize) -> Set {
    (0..count).fold(0, |set, nth| set | 1 << nth)
}

/// A history entry. As in `domain`, consecutive user entries form one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Entry {
    /// Messages of the user.
    User { messages: Set },
    /// Tool calls of the model.
    Calls { run: u8, calls: Set },
    /// The results of all calls of a turn.
    Results { calls: Set },
    /// The model's answer, which ends the run.
    Answer { run: u8 },
}

/// Whether a provider accepts the history: it begins with the user, has no two assistant turns in a row, and every call
/// has exactly one result, in the next entry. Open calls at the end are a valid prefix. These are the rules of
/// `houston_domain::history::validate`.
pub(crate) fn is_valid(history: &[Entry]) -> bool {
    let (mut open, mut user_spoke) = (0, false);
    for entry in history {
        match *entry {
            Entry::User { messages } => {
                if messages == 0 || open != 0 {
                    return false;
                }
                user_spoke = true;
            }
            Entry::Results { calls } => {
                if open == 0 || calls != open {
                    return false;
                }
                open = 0;
                user_spoke = true;
            }
            Entry::Calls { calls, .. } => {
                if !user_spoke || open != 0 {
                    return false;
                }
                open = calls;
                user_spoke = false;
            }
            Entry::Answer { .. } => {
                if !user_spoke || open != 0 {
                    return false;
                }
                user_spoke = false;
            }
        }
    }
    true
}

/// Whether no message is in the history twice.
pub(crate) fn reads_once(history: &[Entry]) -> bool {
    let mut read = 0;
    history.iter().all(|entry| match *entry {
        Entry::User { messages } => {
            let again = read & messages != 0;
            read |= messages;
            !again
        }
        _ => true,
    })
}

/// Whether every answer follows an unanswered message, so that none is answered twice.
pub(crate) fn answers_once(history: &[Entry]) -> bool {
    let mut unanswered = 0;
    history.iter().all(|entry| match *entry {
        Entry::User { messages } => {
            unanswered |= messages;
            true
        }
        Entry::Answer { .. } => std::mem::take(&mut unanswered) != 0,
        _ => true,
    })
}

/// The calls of the last entry, which have no results yet.
pub(crate) fn open_calls(history: &[Entry]) -> Set {
    match history.last() {
        Some(Entry::Calls { calls, .. }) => *calls,
        _ => 0,
    }
}

/// Whether run `of` has had its turn with tools.
pub(crate) fn has_called(history: &[Entry], of: u8) -> bool {
    history.iter().any(|entry| matches!(entry, Entry::Calls { run, .. } if *run == of))
}
