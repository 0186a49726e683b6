//! What agents know: notes and learnings of one agentable; profile, custom instructions, memories and feed of its
//! user. The first of them stand in each prompt, shortened; tools read the rest.
//!
//! # Bounds
//! What may be stored is a constant here, the same for the API and for tools; what enters a prompt is
//! [`PromptLimits`], from `jobs/orchestrator.toml`.

use serde::{Deserialize, Serialize};

use crate::id::{FeedItemId, LearningId, MemoryId, NoteId};

/// Characters of the title of a note or feed item: one line.
pub const MAX_TITLE_CHARS: usize = 200;
/// Bytes of a note, or of a feed item: some twenty pages.
pub const MAX_DOCUMENT_BYTES: usize = 64 * 1024;
/// Bytes of a learning, a memory or a custom instruction: a sentence, or a paragraph at most.
pub const MAX_SENTENCE_BYTES: usize = 2_000;
/// Bytes of one entry of a profile.
pub const MAX_PROFILE_ENTRY_BYTES: usize = 500;
/// Entries of each list of a profile.
pub const MAX_PROFILE_ENTRIES: usize = 50;
/// Characters of what a search looks for.
pub const MAX_QUERY_CHARS: usize = 500;
/// Notes of one agentable. A bound, not a quota: who creates several at once may pass it by some.
pub const MAX_NOTES: i64 = 1_000;
/// Learnings of one agentable.
pub const MAX_LEARNINGS: i64 = 500;
/// Memories of one user: a search looks at all of them.
pub const MAX_MEMORIES: i64 = 1_000;
/// Custom instructions of one user: all are to be followed at once.
pub const MAX_CUSTOM_INSTRUCTIONS: i64 = 50;
/// Feed items of one user.
pub const MAX_FEED_ITEMS: i64 = 10_000;

/// What stands in every prompt of a user's agents: how many of each, and how many characters of one. What is longer
/// or beyond is fetched by tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromptLimits {
    /// Entries of each list of the profile, the first.
    pub profile_entries: i32,
    /// Characters of each.
    pub profile_chars: i32,
    /// Custom instructions, the oldest.
    pub custom_instructions: i32,
    /// Characters of each.
    pub custom_instruction_chars: i32,
    /// Memories, the newest.
    pub memories: i32,
    /// Characters of each.
    pub memory_chars: i32,
    /// Characters of each learning.
    pub learning_chars: i32,
}

impl Default for PromptLimits {
    fn default() -> Self {
        Self {
            profile_entries: 10,
            profile_chars: 200,
            custom_instructions: 20,
            custom_instruction_chars: 1_000,
            memories: 10,
            memory_chars: 200,
            learning_chars: 500,
        }
    }
}

/// One of the lists a profile is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProfileList {
    /// Who they are.
    Facts,
    /// How they like things.
    Preferences,
    /// How they want to be talked with.
    CommunicationStyle,
    /// What they care about.
    Interests,
    /// What they want to reach.
    Aims,
}

impl ProfileList {
    /// All of them, in the order of the prompt.
    pub const ALL: [Self; 5] =
        [Self::Facts, Self::Preferences, Self::CommunicationStyle, Self::Interests, Self::Aims];

    /// The name in the database, the API and the prompt.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Facts => "facts",
            Self::Preferences => "preferences",
            Self::CommunicationStyle => "communication_style",
            Self::Interests => "interests",
            Self::Aims => "aims",
        }
    }
}

/// What is known of a user, in short sentences.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Profile {
    /// Who they are.
    pub facts: Vec<String>,
    /// How they like things.
    pub preferences: Vec<String>,
    /// How they want to be talked with.
    pub communication_style: Vec<String>,
    /// What they care about.
    pub interests: Vec<String>,
    /// What they want to reach.
    pub aims: Vec<String>,
}

impl Profile {
    /// One of its lists.
    #[must_use]
    pub fn list(&self, list: ProfileList) -> &Vec<String> {
        match list {
            ProfileList::Facts => &self.facts,
            ProfileList::Preferences => &self.preferences,
            ProfileList::CommunicationStyle => &self.communication_style,
            ProfileList::Interests => &self.interests,
            ProfileList::Aims => &self.aims,
        }
    }

    /// The same, to be changed.
    pub fn list_mut(&mut self, list: ProfileList) -> &mut Vec<String> {
        match list {
            ProfileList::Facts => &mut self.facts,
            ProfileList::Preferences => &mut self.preferences,
            ProfileList::CommunicationStyle => &mut self.communication_style,
            ProfileList::Interests => &mut self.interests,
            ProfileList::Aims => &mut self.aims,
        }
    }

    /// Makes a change.
    ///
    /// # Errors
    /// [`CannotChange`]; then nothing is changed.
    pub fn change(&mut self, list: ProfileList, change: &ProfileChange) -> Result<(), CannotChange> {
        let entries = self.list_mut(list);
        let place = |entry: &String| entries.iter().position(|known| known.trim() == entry.trim());
        match change {
            ProfileChange::Add(entry) if place(entry).is_some() => {}
            ProfileChange::Add(_) if entries.len() >= MAX_PROFILE_ENTRIES => {
                return Err(CannotChange::Full { list: list.as_str() });
            }
            ProfileChange::Add(entry) => entries.push(entry.clone()),
            ProfileChange::Replace { old, new } => {
                let at = place(old).ok_or(CannotChange::NotThere { list: list.as_str() })?;
                entries[at].clone_from(new);
            }
            ProfileChange::Remove(old) => {
                let at = place(old).ok_or(CannotChange::NotThere { list: list.as_str() })?;
                entries.remove(at);
            }
        }
        Ok(())
    }
}

/// What happens to one list of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProfileChange {
    /// One entry more, unless it is there.
    Add(String),
    /// Another text for an entry.
    Replace {
        /// The entry as it stands.
        old: String,
        /// The new one.
        new: String,
    },
    /// One entry less.
    Remove(String),
}

/// A change of a profile that cannot be made; the model reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CannotChange {
    /// No such entry.
    #[error("`{list}` has no such entry: `old` must be an entry to the letter, as read_profile shows it")]
    NotThere {
        /// Of which list.
        list: &'static str,
    },
    /// No room.
    #[error("`{list}` has {MAX_PROFILE_ENTRIES} entries, and more are not allowed: replace or remove one")]
    Full {
        /// Which list.
        list: &'static str,
    },
}

/// One page of a list that a tool reads, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing<Id> {
    /// Only what has these words, or some like them.
    pub query: Option<String>,
    /// How many at most.
    pub limit: u32,
    /// Only what is older than this one.
    pub before: Option<Id>,
}

/// What a tool does with what agents know, in the fenced transaction of its step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Knowledge {
    /// Titles and beginnings of notes.
    ListNotes(Listing<NoteId>),
    /// One note in full.
    ReadNote(NoteId),
    /// Changes a note: what is given.
    UpdateNote {
        /// Which one.
        id: NoteId,
        /// One line.
        title: Option<String>,
        /// Markdown.
        content: Option<String>,
    },
    /// Deletes a note.
    DeleteNote(NoteId),
    /// Learnings in full: they are short.
    ListLearnings(Listing<LearningId>),
    /// The whole profile.
    ReadProfile,
    /// Changes one list of the profile.
    UpdateProfile {
        /// Which list.
        list: ProfileList,
        /// What happens to it.
        change: ProfileChange,
    },
    /// All custom instructions in full.
    ReadCustomInstructions,
    /// Remembers something of the user.
    SaveMemory {
        /// A sentence.
        content: String,
        /// The memory it takes the place of.
        instead_of: Option<MemoryId>,
    },
    /// Beginnings of the memories that fit best.
    RecallMemories {
        /// What to look for.
        query: String,
        /// How many at most.
        limit: u32,
    },
    /// One memory in full.
    ReadMemory(MemoryId),
    /// Forgets a memory.
    ForgetMemory(MemoryId),
    /// Puts something into the user's feed.
    CreateFeedItem {
        /// One line.
        title: String,
        /// Markdown.
        content: String,
    },
    /// Titles and beginnings of feed items.
    ListFeedItems(Listing<FeedItemId>),
    /// One feed item in full.
    ReadFeedItem(FeedItemId),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_changed_entry_by_entry_and_stays_as_it_was_when_it_cannot() {
        let mut profile = Profile::default();
        let add = |text: &str| ProfileChange::Add(text.to_owned());
        for list in ProfileList::ALL {
            profile.change(list, &add(list.as_str())).unwrap();
            profile.change(list, &add(list.as_str())).unwrap();
            assert_eq!(profile.list(list), &[list.as_str().to_owned()], "added once");
        }
        let facts = ProfileList::Facts;
        let replace = |old: &str| ProfileChange::Replace { old: old.into(), new: "lives in Graz".into() };
        profile.change(facts, &replace(" facts ")).unwrap();
        assert_eq!(profile.facts, ["lives in Graz"]);
        for wrong in [replace("facts"), ProfileChange::Remove("facts".into())] {
            assert_eq!(profile.change(facts, &wrong), Err(CannotChange::NotThere { list: "facts" }));
        }
        profile.change(facts, &ProfileChange::Remove("lives in Graz".into())).unwrap();
        assert!(profile.facts.is_empty());
        for nth in 0..MAX_PROFILE_ENTRIES {
            profile.change(facts, &add(&nth.to_string())).unwrap();
        }
        assert_eq!(profile.change(facts, &add("more")), Err(CannotChange::Full { list: "facts" }));
        assert_eq!(profile.facts.len(), MAX_PROFILE_ENTRIES);
    }
}
