//! What agents know: notes and learnings of one agentable; profile, custom instructions, memories and feed of its
//! user. Each prompt contains some of them, shortened; tools read the rest.
//!
//! # Kinds
//! Notes, learnings, memories, custom instructions and feed items are [`KnowledgeKind`]s: texts with an owner, with the
//! same operations. [`KnowledgeKind::rules`] is what differs between them.
//!
//! # Bounds
//! How long one item may be is a constant here, the same for the API and for tools. How many there may be is
//! [`KnowledgeLimits`], from `jobs/knowledge.toml`; what enters a prompt is [`PromptLimits`], from
//! `jobs/orchestrator.toml`.

use crate::custom_table::TableLimits;
use crate::setting::positive;
use crate::skill::SkillLimits;
use crate::workspace::FileLimits;

/// Maximum length of the title of a note or feed item, in characters: one line.
pub const MAX_TITLE_CHARS: usize = 200;
/// Maximum length of a note or a feed item, in bytes: some twenty pages.
pub const MAX_DOCUMENT_BYTES: usize = 64 * 1024;
/// Maximum length of a learning, a memory or a custom instruction, in bytes: a paragraph.
pub const MAX_SENTENCE_BYTES: usize = 2_000;
/// Maximum length of a search query, in characters.
pub const MAX_QUERY_CHARS: usize = 500;

names! {
    /// A kind of what agents know.
    #[derive(Hash)]
    pub enum KnowledgeKind {
        /// A document that an agent or a person keeps for an agentable.
        Note = "note",
        /// What an agent learnt about its user or its aim: a sentence.
        Learning = "learning",
        /// A fact about a user that all their agents should remember: a sentence.
        Memory = "memory",
        /// A rule of a user for all their agents. Only the API writes it.
        CustomInstruction = "custom_instruction",
        /// A document that an agent writes for a user without being asked.
        FeedItem = "feed_item",
    }
}

/// Whose an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KnowledgeOwner {
    /// Of one agentable.
    Agentable,
    /// Of a user.
    User,
}

/// What an item consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KnowledgeForm {
    /// A title and a text of at most [`MAX_DOCUMENT_BYTES`].
    Document,
    /// A text of at most [`MAX_SENTENCE_BYTES`].
    Sentence,
}

/// What differs between the kinds.
#[derive(Debug, Clone, Copy)]
pub struct KnowledgeRules {
    /// One item: `feed item`.
    pub name: &'static str,
    /// Several items: `feed items`.
    pub plural: &'static str,
    /// The items that [`max`](Self::max) counts: `feed items of a user`.
    pub of_owner: &'static str,
    /// Whose they are.
    pub owner: KnowledgeOwner,
    /// What they consist of.
    pub form: KnowledgeForm,
    /// Maximum number of items of one owner.
    pub max: fn(&KnowledgeLimits) -> u32,
}

impl KnowledgeForm {
    /// Maximum length of the text, in bytes.
    pub fn max_bytes(self) -> usize {
        match self {
            Self::Document => MAX_DOCUMENT_BYTES,
            Self::Sentence => MAX_SENTENCE_BYTES,
        }
    }
}

impl KnowledgeKind {
    /// What differs between the kinds.
    pub fn rules(self) -> KnowledgeRules {
        use KnowledgeForm::{Document, Sentence};
        use KnowledgeOwner::{Agentable, User};

        let (names, owner, form, max): (_, _, _, fn(&KnowledgeLimits) -> u32) = match self {
            Self::Note => {
                (["note", "notes", "notes of an agentable"], Agentable, Document, |of| of.max_notes)
            }
            Self::Learning => {
                let names = ["learning", "learnings", "learnings of an agentable"];
                (names, Agentable, Sentence, |of| of.max_learnings)
            }
            Self::Memory => {
                (["memory", "memories", "memories of a user"], User, Sentence, |of| of.max_memories)
            }
            Self::CustomInstruction => {
                let names = ["custom instruction", "custom instructions", "custom instructions of a user"];
                (names, User, Sentence, |of| of.max_custom_instructions)
            }
            Self::FeedItem => {
                (["feed item", "feed items", "feed items of a user"], User, Document, |of| of.max_feed_items)
            }
        };
        let [name, plural, of_owner] = names;
        KnowledgeRules { name, plural, of_owner, owner, form, max }
    }
}

settings! {
    /// `jobs/knowledge.toml`: how many items agents may store, and how much of each a list contains. All processes
    /// should have the same file.
    ///
    /// ```toml
    /// max_notes = 1_000
    /// max_learnings = 500
    /// max_memories = 1_000
    /// max_custom_instructions = 50
    /// max_feed_items = 10_000
    /// max_snippets = 200
    /// max_todos = 1_000
    /// max_profile_entries = 50
    /// excerpt_chars = 200
    ///
    /// [files]
    /// max_files = 1_000
    /// max_bytes = 16_777_216
    ///
    /// [skills]
    /// max_of_tenant = 100
    /// max_of_user = 50
    ///
    /// [tables]
    /// max_tables = 50
    /// max_fields = 40
    /// max_records = 10_000
    /// max_record_bytes = 16_384
    /// max_bytes = 4_194_304
    /// ```
    pub struct KnowledgeLimits {
        /// Notes of one agentable. Calls that create notes at the same moment may exceed it by a few.
        pub max_notes: u32 = 1_000, "positive";
        /// Learnings of one agentable.
        pub max_learnings: u32 = 500, "positive";
        /// Memories of one user.
        pub max_memories: u32 = 1_000, "positive";
        /// Custom instructions of one user.
        pub max_custom_instructions: u32 = 50, "positive";
        /// Feed items of one user.
        pub max_feed_items: u32 = 10_000, "positive";
        /// Snippets of one user.
        pub max_snippets: u32 = 200, "positive";
        /// Todos of one user, those that are done among them.
        pub max_todos: u32 = 1_000;
        /// Entries of each of the five lists of a profile.
        pub max_profile_entries: u32 = 50, "positive";
        /// Characters of each text in a list that a tool returns; other tools read the whole text.
        pub excerpt_chars: i32 = 200, "positive";
        /// Files of one workspace.
        pub files: FileLimits = FileLimits::default();
        /// Skills of tenants and users.
        pub skills: SkillLimits = SkillLimits::default();
        /// Custom tables of one user.
        pub tables: TableLimits = TableLimits::default();
    }
}

settings! {
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
    pub struct PromptLimits {
        /// Entries of each list of the profile, starting with the first.
        pub profile_entries: i32 = 10;
        /// Characters of each profile entry.
        pub profile_chars: i32 = 200;
        /// Custom instructions, starting with the oldest.
        pub custom_instructions: i32 = 20;
        /// Characters of each custom instruction.
        pub custom_instruction_chars: i32 = 1_000;
        /// Memories, starting with the newest.
        pub memories: i32 = 10;
        /// Characters of each memory.
        pub memory_chars: i32 = 200;
        /// Characters of each learning.
        pub learning_chars: i32 = 500;
        /// Conversations of the user that kinds with `reaches` read, starting with the newest.
        pub conversations: i32 = 20;
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_equal_the_shipped_knowledge_limits() {
        let shipped: KnowledgeLimits = toml::from_str(include_str!("../../../jobs/knowledge.toml")).unwrap();
        assert_eq!(shipped, KnowledgeLimits::default());
    }
}
