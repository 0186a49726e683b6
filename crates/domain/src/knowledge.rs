//! What agents know: notes and learnings of one agentable; profile, custom instructions, memories and feed of its
//! user. Each prompt contains some of them, shortened; tools read the rest.
//!
//! # Bounds
//! How long one item may be is a constant here, the same for the API and for tools. How many there may be is
//! [`KnowledgeLimits`], from `jobs/knowledge.toml`; what enters a prompt is [`PromptLimits`], from
//! `jobs/orchestrator.toml`.

use serde::{Deserialize, Serialize};

use crate::id::{FeedItemId, LearningId, MemoryId, NoteId};

/// Maximum length of the title of a note or feed item, in characters: one line.
pub const MAX_TITLE_CHARS: usize = 200;
/// Maximum length of a note or a feed item, in bytes: some twenty pages.
pub const MAX_DOCUMENT_BYTES: usize = 64 * 1024;
/// Maximum length of a learning, a memory or a custom instruction, in bytes: a paragraph.
pub const MAX_SENTENCE_BYTES: usize = 2_000;
/// Maximum length of one entry of a profile, in bytes.
pub const MAX_PROFILE_ENTRY_BYTES: usize = 500;
/// Maximum length of a search query, in characters.
pub const MAX_QUERY_CHARS: usize = 500;

/// `jobs/knowledge.toml`: how many items agents may store, and how much of each a list contains. All processes
/// should have the same file.
///
/// ```toml
/// max_notes = 1_000
/// max_learnings = 500
/// max_memories = 1_000
/// max_custom_instructions = 50
/// max_feed_items = 10_000
/// max_profile_entries = 50
/// excerpt_chars = 200
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnowledgeLimits {
    /// Notes of one agentable. Calls that create notes at the same moment may exceed it by a few.
    pub max_notes: u32,
    /// Learnings of one agentable.
    pub max_learnings: u32,
    /// Memories of one user.
    pub max_memories: u32,
    /// Custom instructions of one user.
    pub max_custom_instructions: u32,
    /// Feed items of one user.
    pub max_feed_items: u32,
    /// Entries of each of the five lists of a profile.
    pub max_profile_entries: u32,
    /// Characters of each text in a list that a tool returns; other tools read the whole text.
    pub excerpt_chars: i32,
}

impl Default for KnowledgeLimits {
    fn default() -> Self {
        Self {
            max_notes: 1_000,
            max_learnings: 500,
            max_memories: 1_000,
            max_custom_instructions: 50,
            max_feed_items: 10_000,
            max_profile_entries: 50,
            excerpt_chars: 200,
        }
    }
}

/// `[context.prompt]` of `jobs/orchestrator.toml`: what every prompt of a user's agents contains, that is, how many
/// items of each type, and how many characters of each item. Tools fetch the rest.
///
/// ```toml
/// [context.prompt]
/// profile_entries = 10
/// profile_chars = 200
/// custom_instructions = 20
/// custom_instruction_chars = 1_000
/// memories = 10
/// memory_chars = 200
/// learning_chars = 500
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromptLimits {
    /// Entries of each list of the profile, starting with the first.
    pub profile_entries: i32,
    /// Characters of each profile entry.
    pub profile_chars: i32,
    /// Custom instructions, starting with the oldest.
    pub custom_instructions: i32,
    /// Characters of each custom instruction.
    pub custom_instruction_chars: i32,
    /// Memories, starting with the newest.
    pub memories: i32,
    /// Characters of each memory.
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

/// A list of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProfileList {
    /// Who the user is.
    Facts,
    /// How they like things done.
    Preferences,
    /// How they want to be addressed.
    CommunicationStyle,
    /// What they care about.
    Interests,
    /// What they want to achieve.
    Aims,
}

impl ProfileList {
    /// All lists, in the order of the prompt.
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

/// What is known about a user, in short sentences.
///
/// ```json
/// {"facts": ["lives in Graz"], "preferences": ["window seats"], "communication_style": [], "interests": [], "aims": []}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Profile {
    /// Who the user is.
    pub facts: Vec<String>,
    /// How they like things done.
    pub preferences: Vec<String>,
    /// How they want to be addressed.
    pub communication_style: Vec<String>,
    /// What they care about.
    pub interests: Vec<String>,
    /// What they want to achieve.
    pub aims: Vec<String>,
}

impl Profile {
    /// The given list.
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

    /// The given list, mutable.
    pub fn list_mut(&mut self, list: ProfileList) -> &mut Vec<String> {
        match list {
            ProfileList::Facts => &mut self.facts,
            ProfileList::Preferences => &mut self.preferences,
            ProfileList::CommunicationStyle => &mut self.communication_style,
            ProfileList::Interests => &mut self.interests,
            ProfileList::Aims => &mut self.aims,
        }
    }

    /// Changes one list, which may have `max_entries` entries.
    ///
    /// # Errors
    /// [`ProfileChangeError`] when the list is full or has no such entry; the profile is unchanged.
    pub fn change(
        &mut self,
        list: ProfileList,
        change: &ProfileChange,
        max_entries: u32,
    ) -> Result<(), ProfileChangeError> {
        let max = max_entries as usize;
        let entries = self.list_mut(list);
        let position = |entry: &String| entries.iter().position(|existing| existing.trim() == entry.trim());
        match change {
            ProfileChange::Add(entry) if position(entry).is_some() => {}
            ProfileChange::Add(_) if entries.len() >= max => {
                return Err(ProfileChangeError::Full { list: list.as_str(), max });
            }
            ProfileChange::Add(entry) => entries.push(entry.clone()),
            ProfileChange::Replace { old, new } => {
                let at = position(old).ok_or(ProfileChangeError::NoSuchEntry { list: list.as_str() })?;
                entries[at].clone_from(new);
            }
            ProfileChange::Remove(old) => {
                let at = position(old).ok_or(ProfileChangeError::NoSuchEntry { list: list.as_str() })?;
                entries.remove(at);
            }
        }
        Ok(())
    }
}

/// A change of one list of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProfileChange {
    /// Adds an entry, unless it exists already.
    Add(String),
    /// Replaces the text of an entry.
    Replace {
        /// The current entry.
        old: String,
        /// The new entry.
        new: String,
    },
    /// Removes an entry.
    Remove(String),
}

/// Why a profile cannot be changed. The model reads the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProfileChangeError {
    /// The list has no such entry.
    #[error("`{list}` has no such entry: `old` must be exactly an entry that read_profile returns")]
    NoSuchEntry {
        /// The name of the list.
        list: &'static str,
    },
    /// The list is full.
    #[error("`{list}` is full: it may have {max} entries; replace or remove one")]
    Full {
        /// The name of the list.
        list: &'static str,
        /// Maximum number of entries.
        max: usize,
    },
}

/// One page of a list that a tool reads, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListQuery<Id> {
    /// Only items that contain these words or similar ones; `None`: all items.
    pub query: Option<String>,
    /// Maximum number of items.
    pub limit: u32,
    /// Only items older than this one.
    pub before: Option<Id>,
}

/// What a tool reads or changes of what agents know; executed in the fenced transaction of its step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KnowledgeAction {
    /// Lists titles and beginnings of notes.
    ListNotes(ListQuery<NoteId>),
    /// Reads a complete note.
    ReadNote(NoteId),
    /// Changes the given fields of a note.
    UpdateNote {
        /// The note.
        id: NoteId,
        /// The new title: one line.
        title: Option<String>,
        /// The new content, Markdown.
        content: Option<String>,
    },
    /// Deletes a note.
    DeleteNote(NoteId),
    /// Lists complete learnings, which are short.
    ListLearnings(ListQuery<LearningId>),
    /// Reads the whole profile.
    ReadProfile,
    /// Changes one list of the profile.
    UpdateProfile {
        /// The list.
        list: ProfileList,
        /// The change.
        change: ProfileChange,
    },
    /// Reads all custom instructions completely.
    ReadCustomInstructions,
    /// Stores a memory about the user.
    SaveMemory {
        /// One sentence.
        content: String,
        /// The memory it replaces.
        instead_of: Option<MemoryId>,
    },
    /// Searches memories and lists the beginnings of the best matches.
    RecallMemories {
        /// The words to search for.
        query: String,
        /// Maximum number of memories.
        limit: u32,
    },
    /// Reads a complete memory.
    ReadMemory(MemoryId),
    /// Deletes a memory.
    ForgetMemory(MemoryId),
    /// Adds an item to the user's feed.
    CreateFeedItem {
        /// The title: one line.
        title: String,
        /// Markdown.
        content: String,
    },
    /// Lists titles and beginnings of feed items.
    ListFeedItems(ListQuery<FeedItemId>),
    /// Reads a complete feed item.
    ReadFeedItem(FeedItemId),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_profile_changes_leave_the_profile_unchanged() {
        let mut profile = Profile::default();
        let add = |text: &str| ProfileChange::Add(text.to_owned());
        for list in ProfileList::ALL {
            profile.change(list, &add(list.as_str()), 50).unwrap();
            profile.change(list, &add(list.as_str()), 50).unwrap();
            assert_eq!(profile.list(list), &[list.as_str().to_owned()], "added once");
        }
        let facts = ProfileList::Facts;
        let replace = |old: &str| ProfileChange::Replace { old: old.into(), new: "lives in Graz".into() };
        profile.change(facts, &replace(" facts "), 50).unwrap();
        assert_eq!(profile.facts, ["lives in Graz"]);
        for wrong in [replace("facts"), ProfileChange::Remove("facts".into())] {
            assert_eq!(
                profile.change(facts, &wrong, 50),
                Err(ProfileChangeError::NoSuchEntry { list: "facts" })
            );
        }
        profile.change(facts, &ProfileChange::Remove("lives in Graz".into()), 50).unwrap();
        assert!(profile.facts.is_empty());
        for nth in 0..50 {
            profile.change(facts, &add(&nth.to_string()), 50).unwrap();
        }
        assert_eq!(
            profile.change(facts, &add("more"), 50),
            Err(ProfileChangeError::Full { list: "facts", max: 50 })
        );
        assert_eq!(profile.facts.len(), 50);
        assert_eq!(profile.change(facts, &add("more"), 51), Ok(()), "the limit is the caller's");
    }

    #[test]
    fn defaults_equal_the_shipped_knowledge_limits() {
        let shipped: KnowledgeLimits = toml::from_str(include_str!("../../../jobs/knowledge.toml")).unwrap();
        assert_eq!(shipped, KnowledgeLimits::default());
    }
}
