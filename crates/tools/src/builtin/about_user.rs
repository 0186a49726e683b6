//! What is known of the user, for all their agents: memories, the profile, custom instructions.

use houston_domain::id::MemoryId;
use houston_domain::knowledge::{KnowledgeKind, MAX_QUERY_CHARS, MAX_SENTENCE_BYTES};
use houston_domain::profile::{
    MAX_PROFILE_ENTRY_BYTES, Profile, ProfileChange, ProfileChangeError, ProfileList,
};
use houston_store::knowledge_item::{KnowledgeChange, KnowledgeItem};

use super::knowledge::excerpt;
use super::prelude::*;
use crate::untrusted::marked;

built_in! {
    ManageMemory: "manage_memory", Idempotent, capability Memory;
    ReadProfile: "read_profile", Read, capability Memory;
    UpdateProfile: "update_profile", Idempotent, capability Memory;
    ReadCustomInstructions: "read_custom_instructions", Read, capability Memory;
}

/// Memories are listed shortened: a page has about 5 KB.
const MAX_MEMORIES: u32 = 20;

/// Your memory of the user, shared by all their agents. save: keep a sentence, or correct one (with memory_id). recall:
/// find what fits a query, shortened. read: one in full. forget: delete one. <memories> has only the newest.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ManageMemory {
    action: Action,
    /// One sentence; for save.
    content: Option<String>,
    /// For read and forget; for save, the one it takes the place of.
    #[schemars(with = "Option<String>")]
    memory_id: Option<MemoryId>,
    /// What to look for, in a few words; for recall.
    query: Option<String>,
    /// How many at most; for recall; 5 when left out.
    #[schemars(range(min = 1, max = MAX_MEMORIES))]
    limit: Option<u32>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    Save,
    Recall,
    Read,
    Forget,
}

impl BuiltIn for ManageMemory {
    fn plan(self, context: &CallContext, _: &Outside) -> Result<Plan, Refusal> {
        let needs = |field: &str| invalid(format!("this action needs `{field}`"));
        let id = self.memory_id.ok_or_else(|| needs("memory_id"));
        let call = match self.action {
            Action::Save => {
                let content = self.content.ok_or_else(|| needs("content"))?;
                text("content", content.as_str(), MAX_SENTENCE_BYTES)?;
                MemoryCall::Save { content, instead_of: self.memory_id }
            }
            Action::Recall => {
                let query = self.query.ok_or_else(|| needs("query"))?;
                line("query", query.as_str(), MAX_QUERY_CHARS)?;
                MemoryCall::Recall { query, limit: limit(self.limit, 5, MAX_MEMORIES)? }
            }
            Action::Read => MemoryCall::Read(id?),
            Action::Forget => MemoryCall::Forget(id?),
        };
        Ok(Plan::record(call, context))
    }
}

#[derive(Debug)]
enum MemoryCall {
    Save { content: String, instead_of: Option<MemoryId> },
    Recall { query: String, limit: u32 },
    Read(MemoryId),
    Forget(MemoryId),
}

impl Access for MemoryCall {
    async fn apply(&self, _: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let (kind, name) = (KnowledgeKind::Memory, ManageMemory::NAME);
        let answer = |id: &MemoryId, text: Option<String>| {
            text.ok_or_else(|| not_found(id, &format!("{name} with `recall`")))
        };
        match self {
            Self::Save { content, instead_of: None } => {
                tx.create_item(kind, None, content).await?;
                Ok(format!("Saved {}.", MemoryId(tx.ids.row)))
            }
            Self::Save { content, instead_of: Some(id) } => {
                let change = KnowledgeChange { content: Some(content), ..KnowledgeChange::default() };
                let changed = tx.knowledge().change_item(kind, *id, change).await?;
                answer(id, changed.map(|_| format!("Corrected {id}.")))
            }
            Self::Recall { query, limit } => {
                let chars = tx.settings.knowledge_limits.excerpt_chars;
                let reads = format!("{name} with `read`");
                let found = tx.knowledge().best_matches(kind, query, *limit, chars).await?;
                let lines = found.into_iter().map(|found| excerpt::<MemoryId>(found, &reads, chars));
                let lines: Vec<String> = lines.collect();
                let none = "Nothing like it is in memory: try other words.".to_owned();
                Ok(if lines.is_empty() { none } else { lines.join("\n\n") })
            }
            Self::Read(id) => {
                let text = |memory: KnowledgeItem| {
                    untrusted::stored(memory.untrusted, &id.to_string(), memory.content)
                };
                answer(id, tx.knowledge().item(kind, *id).await?.map(text))
            }
            Self::Forget(id) => {
                let is_gone = tx.knowledge().delete_item(kind, *id).await?;
                answer(id, is_gone.then(|| format!("Forgot {id}.")))
            }
        }
    }
}

/// Read all of what is known of the user: facts, preferences, communication style, interests, aims. <user> has the
/// first of each.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadProfile {}

impl Access for ReadProfile {
    async fn apply(&self, _: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let (profile, _) = tx.knowledge().profile().await?;
        let lists = ProfileList::ALL.map(|list| list_text(&profile, list));
        Ok(lists.join("\n"))
    }
}

/// A list with its name, one entry a line. Entries that may be what strangers wrote come last, between marks.
fn list_text(profile: &Profile, list: ProfileList) -> String {
    let lines = |untrusted: bool| -> String {
        let entries = profile.list(list).iter().filter(|entry| profile.is_untrusted(entry) == untrusted);
        entries.map(|entry| format!("\n- {entry}")).collect()
    };
    let (own, theirs) = (lines(false), lines(true));
    let name = list.as_str();
    match theirs.trim_start() {
        "" if own.is_empty() => format!("{name}: nothing"),
        "" => format!("{name}:{own}"),
        theirs => format!("{name}:{own}\n{}", marked(ReadProfile::NAME, theirs)),
    }
}

/// Keep what is lasting about the user, one short sentence an entry. `new` alone adds an entry, `old` alone removes
/// one, both correct one. All agents of the user read it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UpdateProfile {
    /// facts: who they are; preferences: how they like things; communication_style: how to talk with them; interests; aims:
    /// what they want to reach.
    #[schemars(with = "String", extend("enum" = ProfileList::ALL.map(ProfileList::as_str)))]
    list: ProfileList,
    #[schemars(description = format!("An entry, exactly as {} returns it.", ReadProfile::NAME))]
    old: Option<String>,
    /// The entry as it should be.
    new: Option<String>,
}

impl UpdateProfile {
    fn change(&self) -> Result<ProfileChange> {
        text("old", self.old.as_deref(), MAX_PROFILE_ENTRY_BYTES)?;
        text("new", self.new.as_deref(), MAX_PROFILE_ENTRY_BYTES)?;
        Ok(match (self.old.clone(), self.new.clone()) {
            (None, Some(new)) => ProfileChange::Add(new),
            (Some(old), Some(new)) => ProfileChange::Replace { old, new },
            (Some(old), None) => ProfileChange::Remove(old),
            (None, None) => return Err(invalid("give `old`, `new` or both")),
        })
    }
}

impl Access for UpdateProfile {
    fn check(&self, _: &CallContext) -> Result<()> {
        self.change().map(drop)
    }

    async fn apply(&self, _: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let list = self.list;
        let mut knowledge = tx.knowledge();
        let mut profile = knowledge.lock_profile().await?;
        if let Err(error) = knowledge.change_profile(&mut profile, list, &self.change()?) {
            let text = match error {
                ProfileChangeError::Full { .. } => format!("{error}; replace or remove one"),
                ProfileChangeError::NoSuchEntry { .. } => {
                    format!("{error}: `old` must be exactly an entry that {} returns", ReadProfile::NAME)
                }
            };
            return Err(failed(ToolErrorCode::NotFound, text));
        }
        knowledge.write_profile(&profile).await?;
        Ok(list_text(&profile, list))
    }
}

// No tool writes them: text that an agent reads must not become a rule for all agents.
/// Read all custom instructions of the user in full. <custom_instructions> may have only some, and shortened.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadCustomInstructions {}

impl Access for ReadCustomInstructions {
    async fn apply(&self, _: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let all = tx.knowledge().texts(KnowledgeKind::CustomInstruction).await?;
        let none = "There are no custom instructions.".to_owned();
        Ok(if all.is_empty() { none } else { all.join("\n\n") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_says_how_the_profile_changes() {
        let text = |given: &str| Some(given.to_owned());
        let change = |old, new| UpdateProfile { list: ProfileList::Facts, old, new }.change().unwrap();
        assert_eq!(change(None, text("b")), ProfileChange::Add("b".to_owned()));
        let (old, new) = ("a".to_owned(), "b".to_owned());
        assert_eq!(change(text("a"), text("b")), ProfileChange::Replace { old, new });
        assert_eq!(change(text("a"), None), ProfileChange::Remove("a".to_owned()));
    }
}
