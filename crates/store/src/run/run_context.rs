//! What a run starts from: the history of the open session, and what the prompt says about the agentable and its user.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use houston_domain::client_offer::ClientOffer;
use houston_domain::frame::FrameMark;
use houston_domain::history::Entry;
use houston_domain::id::{
    AgentableId, CustomInstructionId, LearningId, MemoryId, NoteId, RunId, SessionId, TenantId,
};
use houston_domain::knowledge::PromptLimits;
use houston_domain::mode::Mode;
use houston_domain::profile::ProfileList;
use houston_domain::session::SessionArchive;
use houston_domain::skill::{SkillSource, SkillSummary};
use houston_domain::snippet::SnippetTool;
use houston_domain::tool_source::SourceSummary;
use serde::Deserialize;

use crate::error::Result;
use crate::excerpt::{Shortened, cut};
use crate::guards::StoredGuards;
use crate::handle::RunStore;
use crate::reach::PromptConversations;
use crate::run_context::batch::{ContextRequest, Contexts};
use crate::serving::Serving;

pub(crate) mod batch;
pub(crate) mod rows;

/// How much of what may be long a context has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ContextLimits {
    /// Notes, and as many learnings.
    pub notes: i64,
    /// Of the user's data.
    pub prompt: PromptLimits,
}

/// What a run starts from.
#[derive(Debug, Clone, Default)]
pub struct RunContext {
    /// The mark of Houston's frames in this session.
    pub mark: FrameMark,
    /// Entries of the open session, without those that were rolled back. Frames are signed with `mark`, which no
    /// user can know.
    pub history: Vec<Entry>,
    /// How many of the last entries belong to this run.
    pub run_entries: usize,
    /// The pauses between answers and what followed them, in seconds, as far as the history above has them.
    pub pauses: Vec<u32>,
    /// When the last entry was written, if it is an answer.
    pub answered_at: Option<DateTime<Utc>>,
    /// The summary that replaces the beginning of the session, if it was compressed.
    pub summary: Option<String>,
    /// How many of the first entries the summary replaces. Entries of this run are included: it must see what it
    /// did.
    pub summarised_entries: usize,
    /// Whether there are large results that `read_result` can return.
    pub has_results: bool,
    /// Notes of the agentable, newest first: id and title.
    pub notes: Vec<(NoteId, String)>,
    /// Learnings, oldest first.
    pub learnings: Vec<(LearningId, String)>,
    /// What the prompt says about the user.
    pub user: PromptUser,
    /// The snippets of the user that are tools, in the order of their names.
    pub snippet_tools: Vec<SnippetTool>,
    /// How the run was started, and for whom.
    pub setting: Setting,
    /// The guards of the tenant, the user, the agentable and, for a task, those above it; in the order of layers.
    pub guards: Vec<StoredGuards>,
    /// Where tools of the tenant's own, and then of the user's own, come from; `None`: nowhere.
    pub sources: Option<(TenantId, Vec<SourceSummary>)>,
    /// The agent that answers.
    pub serving: Serving,
    /// The last closed sessions, newest first, at most `prompt_summaries`.
    pub sessions: Vec<PromptSession>,
    /// Whether there is any closed session.
    pub has_sessions: bool,
    /// Stored skills of the tenant and of the user, enabled or not.
    pub skills: Vec<SkillSummary>,
    /// The other conversations of the user, if the kind reaches any.
    pub conversations: PromptConversations,
    /// Pending check-ins, the earliest first: time and reason.
    pub check_ins: Vec<(DateTime<Utc>, String)>,
    /// What the client of its latest message offers; boxed, because most have none.
    pub client: Option<Box<ClientOffer>>,
}

/// A closed session as prompts show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptSession {
    /// The session's id.
    pub id: SessionId,
    /// The day on which it began: `YYYY-MM-DD`, UTC.
    pub day: String,
    /// Its summary, shortened.
    pub summary: String,
    /// Whether what strangers wrote was read in it.
    pub untrusted: bool,
}

/// How a run was started, and for whom.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Setting {
    /// What started the run; `None`: a user's message.
    pub mode: Option<Mode>,
    /// The tools the agentable may call, out of those of its kind; `None`: all of them.
    pub tools: Option<Vec<String>>,
    /// Whether what the prompt has (the title, the summary, notes, learnings, memories), or the instructions of the task, was
    /// written after reading what strangers wrote.
    #[serde(default)]
    pub untrusted: bool,
    /// The agentable that created it, for a task.
    pub parent: Option<Parent>,
}

/// The agentable that created a task.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Parent {
    /// Its kind.
    pub kind: String,
    /// Its title, one line.
    pub title: String,
    /// Its description.
    pub description: String,
}

/// What a prompt says about the user, shortened; the model reads the rest with tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PromptUser {
    /// What agents call them.
    pub name: String,
    /// An IANA name, as in `Europe/Berlin`.
    pub time_zone: String,
    /// Their profile: the lists that are not empty.
    pub profile: Vec<(ProfileList, Shortened<()>)>,
    /// Whether a session wrote an entry of their profile which had read what strangers wrote.
    pub untrusted: bool,
    /// Their custom instructions, oldest first.
    pub custom_instructions: Shortened<CustomInstructionId>,
    /// Their memories, newest first.
    pub memories: Shortened<MemoryId>,
}

impl PromptUser {
    /// Adds one row of the context query.
    fn take(&mut self, limits: &PromptLimits, what: &str, id: uuid::Uuid, text: String) {
        let PromptLimits { custom_instructions, memories, profile_entries, .. } = *limits;
        match what {
            "user" => self.name = text,
            "time_zone" => self.time_zone = text,
            "instruction" => {
                let text = cut(text, limits.custom_instruction_chars);
                self.custom_instructions.push(custom_instructions, CustomInstructionId(id), text);
            }
            "memory" => self.memories.push(memories, MemoryId(id), cut(text, limits.memory_chars)),
            list => {
                let list = list.strip_suffix(UNTRUSTED).inspect(|_| self.untrusted = true).unwrap_or(list);
                let Some(list) = ProfileList::ALL.into_iter().find(|name| name.as_str() == list) else {
                    return;
                };
                let text = cut(text, limits.profile_chars);
                if self.profile.last().is_none_or(|(last, _)| *last != list) {
                    self.profile.push((list, Shortened::default()));
                }
                if let Some((_, entries)) = self.profile.last_mut() {
                    entries.push(profile_entries, (), text);
                }
            }
        }
    }
}

/// Seconds from one time to another.
fn pause(from: DateTime<Utc>, to: DateTime<Utc>) -> u32 {
    u32::try_from((to - from).num_seconds().max(0)).unwrap_or(u32::MAX)
}

impl RunContext {
    /// The pauses between answers and what followed them, in seconds, with the one that ends `now`.
    #[must_use]
    pub fn pauses_until(&mut self, now: DateTime<Utc>) -> Vec<u32> {
        let mut pauses = std::mem::take(&mut self.pauses);
        pauses.extend(self.answered_at.map(|answered| pause(answered, now)));
        pauses
    }

    /// Adds one row of the context query that is not a history entry. Rows are sorted by `what`: the mark and the
    /// compression come before the history, whose entries they concern.
    fn take(
        &mut self,
        limits: &PromptLimits,
        archive: &SessionArchive,
        (what, place): (&str, i64),
        id: uuid::Uuid,
        text: String,
    ) -> serde_json::Result<()> {
        match what {
            "#" => self.mark = FrameMark::new(&text),
            "compression" => self.summary = Some(text),
            "check_in" => {
                let wanted_at = DateTime::from_timestamp(place, 0).unwrap_or_default();
                self.check_ins.push((wanted_at, text));
            }
            "snippet_tool" => self.snippet_tools.push(serde_json::from_str(&text)?),
            "client" => self.client = Some(serde_json::from_str(&text)?),
            "conversations" => self.conversations = serde_json::from_str(&text)?,
            "setting" => self.setting = serde_json::from_str(&text)?,
            "sources" => {
                let more: Vec<SourceSummary> = serde_json::from_str(&text)?;
                let (_, sources) = self.sources.get_or_insert_with(|| (TenantId(id), Vec::new()));
                // The tenant's first, in whatever order the rows come: the prompt cache needs one.
                let at = if place == 0 { 0 } else { sources.len() };
                sources.splice(at..at, more);
            }
            "skill" => {
                let source = if place == 0 { SkillSource::Tenant } else { SkillSource::User };
                self.skills.push(SkillSummary { source, ..serde_json::from_str(&text)? });
            }
            "guards" => self.guards.push(StoredGuards::at(place, text)),
            "note" => self.notes.push((NoteId(id), text)),
            "learning" => self.learnings.push((LearningId(id), cut(text, limits.learning_chars))),
            "session" => self.know(archive, id, &text),
            "result" => self.has_results = true,
            what if Serving::is_of(what) => self.serving.take(what, id, &text),
            other => self.user.take(limits, other, id, text),
        }
        Ok(())
    }

    /// Adds a closed session: its day in the first ten characters, then its summary.
    fn know(&mut self, archive: &SessionArchive, id: uuid::Uuid, text: &str) {
        self.has_sessions = true;
        if self.sessions.len() < usize::try_from(archive.prompt_summaries).unwrap_or(0) {
            let (day, summary) = text.split_at_checked(10).unwrap_or((text, ""));
            let (mark, summary) = summary.split_at_checked(1).unwrap_or_default();
            let summary = cut(summary.to_owned(), archive.prompt_summary_chars);
            let (id, day) = (SessionId(id), day.to_owned());
            self.sessions.push(PromptSession { id, day, summary, untrusted: mark == UNTRUSTED });
        }
    }
}

/// What follows the day of a session in which something untrusted was read, and the names of the lists of a profile with an
/// entry that such a session wrote.
const UNTRUSTED: &str = "!";

impl RunStore {
    /// Everything `run` starts from, in one round trip: at most `notes` notes and as many learnings, and of the
    /// user's data what `limits` allow.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement,
    /// [`Error::Inconsistent`](crate::Error::Inconsistent) when a row cannot be decoded.
    pub async fn run_context(
        &self,
        agentable: AgentableId,
        run: RunId,
        notes: i64,
        limits: &PromptLimits,
    ) -> Result<RunContext> {
        let request = ContextRequest { agentable, run, notes, limits: *limits };
        if let Some(context) = self.batchers.contexts.submit(request).await {
            return context;
        }
        let contexts = Contexts { archive: self.archiving.settings, reach: Arc::clone(&self.reach) };
        let mut connection = self.pool.acquire().await?;
        let context = contexts.read(&mut connection, &[request]).await?.pop().flatten();
        context.unwrap_or_else(|| Ok(RunContext::default()))
    }
}
