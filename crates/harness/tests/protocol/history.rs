//! What the model of the protocol keeps of a history, and what a provider asks of it.

/// A set of small numbers: messages, or the calls of a turn.
pub(crate) type Set = u8;

/// The first `count` numbers.
pub(crate) fn first(count: usize) -> Set {
    (0..count).fold(0, |set, nth| set | 1 << nth)
}

/// One entry; as in the domain, consecutive user entries make one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Entry {
    /// Messages of the user.
    User { messages: Set },
    /// The model asks for tools.
    Calls { run: u8, calls: Set },
    /// The responses of a turn's calls.
    Results { calls: Set },
    /// The model's last word.
    Answer { run: u8 },
}

/// Whether a provider accepts it: begins with the user, no two assistant turns in a row, every call answered
/// exactly once, in the next entry. Open calls at the end are a valid prefix. The same rules as
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

/// Whether no message stands in it twice.
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

/// Whether every answer has a message it answers: none is answered twice.
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

/// The calls that wait for their results: what the last entry asks for.
pub(crate) fn open_calls(history: &[Entry]) -> Set {
    match history.last() {
        Some(Entry::Calls { calls, .. }) => *calls,
        _ => 0,
    }
}

/// Whether the run has had its turn of tools.
pub(crate) fn has_called(history: &[Entry], of: u8) -> bool {
    history.iter().any(|entry| matches!(entry, Entry::Calls { run, .. } if *run == of))
}
