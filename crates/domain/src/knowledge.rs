//! What agents know: notes and learnings of one agentable; profile, custom instructions, memories and feed of its
//! user. The first of them stand in each prompt, shortened; tools read the rest.
//!
//! # Bounds
//! How long one item may be is a constant here, the same for the API and for tools. How many there may be is
//! [`KnowledgeLimits`], from `jobs/knowledge.toml`; what enters a prompt is [`PromptLimits`], from
//! `jobs/orchestrator.toml`.

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
/// Characters of what a search looks for.
pub const MAX_QUERY_CHARS: usize = 500;

/// `jobs/knowledge.toml`: how many items agents may store, and how much of each a list shows. All processes should have
/// the same.
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

    /// Changes one list, which may have `max_entries` entries.
    ///
    /// # Errors
    /// [`ProfileChangeError`] when the list is full or has no such entry; then nothing is changed.
    pub fn change(
        &mut self,
        list: ProfileList,
        change: &ProfileChange,
        max_entries: u32,
    ) -> Result<(), ProfileChangeError> {
        let max = max_entries as usize;
        let entries = self.list_mut(list);
        let place = |entry: &String| entries.iter().position(|known| known.trim() == entry.trim());
        match change {
            ProfileChange::Add(entry) if place(entry).is_some() => {}
            ProfileChange::Add(_) if entries.len() >= max => {
                return Err(ProfileChangeError::Full { list: list.as_str(), max });
            }
            ProfileChange::Add(entry) => entries.push(entry.clone()),
            ProfileChange::Replace { old, new } => {
                let at = place(old).ok_or(ProfileChangeError::NoSuchEntry { list: list.as_str() })?;
                entries[at].clone_from(new);
            }
            ProfileChange::Remove(old) => {
                let at = place(old).ok_or(ProfileChangeError::NoSuchEntry { list: list.as_str() })?;
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
pub enum ProfileChangeError {
    /// No such entry.
    #[error("`{list}` has no such entry: `old` must be an entry to the letter, as read_profile shows it")]
    NoSuchEntry {
        /// Of which list.
        list: &'static str,
    },
    /// No room.
    #[error("`{list}` has {max} entries, and more are not allowed: replace or remove one")]
    Full {
        /// Which list.
        list: &'static str,
        /// How many entries it may have.
        max: usize,
    },
}

/// One page of a list that a tool reads, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListQuery<Id> {
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
    ListNotes(ListQuery<NoteId>),
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
    ListLearnings(ListQuery<LearningId>),
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
    ListFeedItems(ListQuery<FeedItemId>),
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
