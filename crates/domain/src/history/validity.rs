//! Which histories a provider accepts: turns alternate, and every tool call has its result in the next user turn.

use std::collections::{HashMap, HashSet};

use super::{Block, Entry, Role, tool_uses};

/// Why a provider would refuse a history.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The first entry is the model's.
    #[error("the history begins with the model")]
    BeginsWithAssistant,
    /// Two entries of the model in a row.
    #[error("entry {index}: the model speaks twice in a row")]
    AssistantTwice {
        /// Which entry, from 0.
        index: usize,
    },
    /// An entry without a block.
    #[error("entry {index} is empty")]
    Empty {
        /// Which entry, from 0.
        index: usize,
    },
    /// A tool call without a result in the next user turn.
    #[error("entry {index}: tool call `{id}` has no result in the next user turn")]
    Unanswered {
        /// Which entry, from 0.
        index: usize,
        /// The call's id.
        id: String,
    },
    /// A result nobody asked for, or a second one for the same call.
    #[error("entry {index}: result for `{id}` answers no open tool call")]
    Stray {
        /// Which entry, from 0.
        index: usize,
        /// The id it names.
        id: String,
    },
    /// Something stands before the results of the user turn that must begin with them.
    #[error("entry {index}: tool results must come first in their turn")]
    ResultsNotFirst {
        /// Which entry, from 0.
        index: usize,
    },
    /// A block that does not belong to the entry's role.
    #[error("entry {index}: a {role} entry may not hold this block", role = role.as_str())]
    WrongRole {
        /// Which entry, from 0.
        index: usize,
        /// Whose entry it is.
        role: Role,
    },
    /// The same call id twice in one entry.
    #[error("entry {index}: tool call id `{id}` is used twice")]
    DuplicateCall {
        /// Which entry, from 0.
        index: usize,
        /// The id.
        id: String,
    },
}

impl Fault {
    /// Which entry is at fault, from 0.
    #[must_use]
    pub fn index(&self) -> usize {
        match self {
            Self::BeginsWithAssistant => 0,
            Self::AssistantTwice { index }
            | Self::Empty { index }
            | Self::Unanswered { index, .. }
            | Self::Stray { index, .. }
            | Self::ResultsNotFirst { index }
            | Self::WrongRole { index, .. }
            | Self::DuplicateCall { index, .. } => *index,
        }
    }
}

/// What has a role and blocks: an entry, alone or with what is stored beside it.
pub trait Turn {
    /// Who speaks.
    fn role(&self) -> Role;
    /// What is said, in order.
    fn content(&self) -> &[Block];
}

impl Turn for Entry {
    fn role(&self) -> Role {
        self.role
    }

    fn content(&self) -> &[Block] {
        &self.content
    }
}

/// Checks that a provider accepts `entries` with a new message behind them: as [`validate`], and no call is open.
///
/// # Errors
/// The first [`Fault`] found.
pub fn validate_complete<T: Turn>(entries: &[T]) -> Result<(), Fault> {
    validate(entries)?;
    let complete = complete(entries);
    match entries.get(complete).and_then(|entry| open_call(entry, &entries[complete + 1..])) {
        Some(id) => Err(Fault::Unanswered { index: complete, id: id.to_owned() }),
        None => Ok(()),
    }
}

/// How many of the first entries are complete: all, or those before the last turn of the model, while one of its calls
/// has no result.
#[must_use]
pub fn complete<T: Turn>(entries: &[T]) -> usize {
    let last = entries.iter().rposition(|entry| entry.role() == Role::Assistant);
    last.filter(|last| open_call(&entries[*last], &entries[last + 1..]).is_some()).unwrap_or(entries.len())
}

/// A call of `asking` that none of the entries after it answers.
fn open_call<'e, T: Turn>(asking: &'e T, after: &[T]) -> Option<&'e str> {
    let answered: HashSet<&str> = after
        .iter()
        .flat_map(Turn::content)
        .filter_map(|block| match block {
            Block::ToolResult { tool_use_id, .. } => Some(tool_use_id.as_str()),
            _ => None,
        })
        .collect();
    tool_uses(asking.content()).find(|id| !answered.contains(id))
}

/// Calls that have no result yet. Looking one up takes the same time however many there are: clients import histories.
#[derive(Default)]
struct Open<'e> {
    /// In the order in which they were made; those that are answered are `None`.
    calls: Vec<Option<&'e str>>,
    places: HashMap<&'e str, usize>,
    /// All before it are answered.
    first: usize,
}

impl<'e> Open<'e> {
    fn of(calls: impl Iterator<Item = &'e str>) -> Self {
        let calls: Vec<Option<&str>> = calls.map(Some).collect();
        let places = calls.iter().enumerate().filter_map(|(place, id)| Some(((*id)?, place))).collect();
        Self { calls, places, first: 0 }
    }

    /// The first that is open.
    fn first(&self) -> Option<&'e str> {
        self.calls.get(self.first).copied().flatten()
    }

    /// Closes a call; false when it is not open.
    fn answer(&mut self, id: &str) -> bool {
        let Some(call) = self.places.remove(id).and_then(|place| self.calls.get_mut(place)) else {
            return false;
        };
        *call = None;
        while self.calls.get(self.first).is_some_and(Option::is_none) {
            self.first += 1;
        }
        true
    }
}

/// Checks that a provider accepts `entries`, where consecutive user entries count as one turn (each wire joins
/// them). A history that ends in open tool calls is a valid *prefix*: the results are what must come next.
///
/// # Errors
/// The first [`Fault`] found.
pub fn validate<T: Turn>(entries: &[T]) -> Result<(), Fault> {
    let mut open = Open::default();
    let mut previous = None;
    for (index, entry) in entries.iter().enumerate() {
        if entry.content().is_empty() {
            return Err(Fault::Empty { index });
        }
        match entry.role() {
            Role::Assistant => {
                match previous {
                    None => return Err(Fault::BeginsWithAssistant),
                    Some(Role::Assistant) => return Err(Fault::AssistantTwice { index }),
                    Some(Role::User) => {}
                }
                if let Some(id) = open.first() {
                    return Err(Fault::Unanswered { index: index - 1, id: id.to_owned() });
                }
                open = assistant_calls(index, entry)?;
            }
            Role::User => answer(index, entry, &mut open)?,
        }
        previous = Some(entry.role());
    }
    Ok(())
}

/// The calls an assistant entry opens.
fn assistant_calls<T: Turn>(index: usize, entry: &T) -> Result<Open<'_>, Fault> {
    let mut seen = HashSet::new();
    for block in entry.content() {
        match block {
            Block::ToolResult { .. } => return Err(Fault::WrongRole { index, role: entry.role() }),
            Block::ToolUse { id, .. } if !seen.insert(id.as_str()) => {
                return Err(Fault::DuplicateCall { index, id: id.clone() });
            }
            _ => {}
        }
    }
    Ok(Open::of(tool_uses(entry.content())))
}

/// Closes the open calls that a user entry answers.
fn answer<T: Turn>(index: usize, entry: &T, open: &mut Open<'_>) -> Result<(), Fault> {
    let mut other_seen = false;
    for block in entry.content() {
        match block {
            Block::ToolResult { tool_use_id, .. } => {
                if other_seen {
                    return Err(Fault::ResultsNotFirst { index });
                }
                if !open.answer(tool_use_id) {
                    return Err(Fault::Stray { index, id: tool_use_id.clone() });
                }
            }
            Block::Text { .. } => {
                if let Some(id) = open.first() {
                    return Err(Fault::Unanswered { index, id: id.to_owned() });
                }
                other_seen = true;
            }
            _ => return Err(Fault::WrongRole { index, role: entry.role() }),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call(id: &str) -> Block {
        Block::ToolUse { id: id.into(), name: "create_note".into(), input: json!({}), raw: None }
    }

    fn result(id: &str) -> Block {
        Block::ToolResult { tool_use_id: id.into(), content: "ok".into(), is_error: false }
    }

    #[test]
    fn a_turn_with_two_tools_is_accepted_at_every_prefix() {
        let history = [
            Entry::user(vec![Block::text("hi")]),
            Entry::assistant(vec![call("a"), call("b")]),
            Entry::user(vec![result("a"), result("b")]),
            Entry::user(vec![Block::text("and?")]),
            Entry::assistant(vec![Block::text("done")]),
        ];
        for end in 0..=history.len() {
            assert_eq!(validate(&history[..end]), Ok(()));
        }
    }

    #[test]
    fn what_providers_refuse_is_refused() {
        let hi = || Entry::user(vec![Block::text("hi")]);
        let asks = || Entry::assistant(vec![call("a"), call("b")]);
        let cases: Vec<(Vec<Entry>, Fault)> = vec![
            (vec![Entry::assistant(vec![Block::text("x")])], Fault::BeginsWithAssistant),
            (vec![hi(), Entry::assistant(vec![])], Fault::Empty { index: 1 }),
            (vec![hi(), asks(), hi()], Fault::Unanswered { index: 2, id: "a".into() }),
            (
                vec![hi(), asks(), Entry::user(vec![result("a")]), Entry::assistant(vec![Block::text("x")])],
                Fault::Unanswered { index: 2, id: "b".into() },
            ),
            (
                vec![hi(), asks(), Entry::user(vec![result("a"), result("a")])],
                Fault::Stray { index: 2, id: "a".into() },
            ),
            (
                vec![hi(), Entry::assistant(vec![call("a"), call("a")])],
                Fault::DuplicateCall { index: 1, id: "a".into() },
            ),
            (vec![hi(), asks(), asks()], Fault::AssistantTwice { index: 2 }),
        ];
        for (history, fault) in cases {
            assert_eq!(validate(&history), Err(fault));
        }
    }

    #[test]
    fn many_calls_are_matched_in_any_order() {
        let ids: Vec<String> = (0..100_000).map(|nth| nth.to_string()).collect();
        let history = [
            Entry::user(vec![Block::text("hi")]),
            Entry::assistant(ids.iter().map(|id| call(id)).collect()),
            Entry::user(ids.iter().rev().map(|id| result(id)).collect()),
        ];
        assert_eq!(validate_complete(&history), Ok(()));
    }

    #[test]
    fn blocks_keep_their_shape_in_storage() {
        let entry = Entry::assistant(vec![Block::text("a"), call("c")]);
        let stored = serde_json::to_value(&entry.content).unwrap();
        assert_eq!(
            stored,
            json!([{"type": "text", "text": "a"},
                   {"type": "tool_use", "id": "c", "name": "create_note", "input": {}}])
        );
    }
}
