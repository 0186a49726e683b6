//! [`RecordTx`]: the rows that a tool call may read and write. Tools decide what happens and what the model reads; here
//! is only what Postgres holds.

use houston_domain::check_in::{CheckInLimits, CheckInRequest};
use houston_domain::id::{CheckInId, MessageId, ResultId, RunId, SessionId};
use houston_domain::knowledge::{KnowledgeKind, KnowledgeLimits, KnowledgeOwner, ListQuery};
use houston_domain::profile::{Profile, ProfileChange, ProfileChangeError, ProfileList};
use houston_domain::reach::ReachLimits;
use houston_domain::session::{SessionArchive, SessionSearch};
use houston_domain::task::TaskLimits;
use uuid::Uuid;

use super::{FencedTx, Owner};
use crate::check_in::{self, CheckInRefusal, PendingCheckIn, SetCheckIn};
use crate::error::Result;
use crate::excerpt::Excerpt;
use crate::knowledge_item::{self, KnowledgeChange, KnowledgeItem, NewKnowledgeItem};
use crate::session_search::{self, FoundSession, SessionEntry};
use crate::task::{NewTask, TaskCounts};
use crate::tool_result::StoredResult;
use crate::{profile, tool_result};

/// The tables of one tool call, in the fenced transaction of its step: what it writes is committed with the step, or not
/// at all. It sees the rows of its own agentable and user only.
#[derive(Debug)]
pub struct RecordTx<'t> {
    pub(super) tx: &'t mut FencedTx,
    pub(super) owner: Owner,
    pub(super) ids: RecordIds,
    pub(super) limits: RecordLimits,
}

/// The ids of what a tool call may create. They are the same when its transaction is repeated.
#[derive(Debug, Clone, Copy)]
pub struct RecordIds {
    /// A row: a note, a check-in, a task, …
    pub row: Uuid,
    /// The first run of a task.
    pub run: RunId,
    /// The first message of a task.
    pub message: MessageId,
}

impl RecordIds {
    /// The ids of `count` rows, rising, the first of which is [`Self::row`]. They have its shard.
    pub fn rows(self, count: usize) -> impl Iterator<Item = Uuid> {
        /// Bits of the shard, at the end.
        const SHARD_BITS: u32 = 16;
        let first = self.row.as_u128();
        (0..count as u128).map(move |nth| Uuid::from_u128(first.wrapping_add(nth << SHARD_BITS)))
    }
}

/// Limits from the settings.
#[derive(Debug, Clone, Copy)]
pub struct RecordLimits {
    /// Of tasks.
    pub tasks: TaskLimits,
    /// Of what it posts to other conversations.
    pub reach: ReachLimits,
    /// Of check-ins.
    pub check_ins: CheckInLimits,
    /// Approximate length of a page of a large result, in bytes.
    pub page_bytes: usize,
}

impl RecordTx<'_> {
    /// The ids of what the call creates.
    #[must_use]
    pub fn ids(&self) -> RecordIds {
        self.ids
    }

    /// Limits from the settings.
    #[must_use]
    pub fn limits(&self) -> RecordLimits {
        self.limits
    }

    /// How many knowledge items there may be, and how much of each a list contains.
    #[must_use]
    pub fn knowledge_limits(&self) -> KnowledgeLimits {
        self.tx.knowledge_limits
    }

    /// How much a search in closed sessions returns.
    #[must_use]
    pub fn session_settings(&self) -> SessionArchive {
        self.tx.session_settings
    }

    /// Work that the calls of this step have done so far, in a unit that only the tools that count it give a meaning.
    #[must_use]
    pub fn work_done(&self) -> u64 {
        self.tx.work
    }

    /// Counts work of this call.
    pub fn add_work(&mut self, work: u64) {
        self.tx.work = self.tx.work.saturating_add(work);
    }

    /// The agentable or the user that owns items of this kind.
    fn owner_of(&self, kind: KnowledgeKind) -> (KnowledgeKind, Uuid) {
        match kind.rules().owner {
            KnowledgeOwner::Agentable => (kind, self.owner.agentable.0),
            KnowledgeOwner::User => (kind, self.owner.user.0),
        }
    }

    /// Creates an item with [`RecordIds::row`] as its id.
    ///
    /// # Errors
    /// [`Error::Full`](crate::Error::Full) when there is the maximum number; nothing was written, and the transaction
    /// goes on. [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn create_item(
        &mut self,
        kind: KnowledgeKind,
        title: Option<&str>,
        content: &str,
    ) -> Result<()> {
        let (kind, owner) = self.owner_of(kind);
        let author = Some((self.owner.agentable, self.owner.run));
        let id = self.ids.row;
        let item = NewKnowledgeItem {
            id,
            kind,
            owner,
            author,
            title,
            content,
            untrusted: self.owner.untrusted,
            created_at: None,
        };
        let limits = self.tx.knowledge_limits;
        knowledge_item::insert(self.tx.connection(), self.owner.tenant, &item, &limits).await
    }

    /// The first `chars` characters of items, newest first: one more than `listing` asks for, if there are more.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement; so in all
    /// methods below.
    pub async fn excerpts<Id: Copy + Into<Uuid>>(
        &mut self,
        kind: KnowledgeKind,
        listing: &ListQuery<Id>,
        chars: i32,
    ) -> Result<Vec<Excerpt>> {
        let of = self.owner_of(kind);
        knowledge_item::excerpts(self.tx.connection(), self.owner.tenant, of, listing, chars).await
    }

    /// The first `chars` characters of the items that match `query` best: those with some of its words, or similar ones.
    pub async fn best_matches(
        &mut self,
        kind: KnowledgeKind,
        query: &str,
        limit: u32,
        chars: i32,
    ) -> Result<Vec<Excerpt>> {
        let of = self.owner_of(kind);
        knowledge_item::best_matches(self.tx.connection(), self.owner.tenant, of, query, limit, chars).await
    }

    /// The texts of all items, oldest first.
    pub async fn texts(&mut self, kind: KnowledgeKind) -> Result<Vec<String>> {
        let (of, limits) = (self.owner_of(kind), self.tx.knowledge_limits);
        knowledge_item::texts(self.tx.connection(), self.owner.tenant, of, &limits).await
    }

    /// An item; `None`: there is none with this id.
    pub async fn item(&mut self, kind: KnowledgeKind, id: impl Into<Uuid>) -> Result<Option<KnowledgeItem>> {
        let (kind, owner) = self.owner_of(kind);
        knowledge_item::find(self.tx.connection(), self.owner.tenant, Some(owner), (kind, id.into())).await
    }

    /// Changes an item, and returns it as it is then; `None`: there is none with this id.
    pub async fn change_item(
        &mut self,
        kind: KnowledgeKind,
        id: impl Into<Uuid>,
        change: KnowledgeChange<'_>,
    ) -> Result<Option<KnowledgeItem>> {
        let (kind, owner) = self.owner_of(kind);
        let (tenant, item) = (self.owner.tenant, (kind, id.into()));
        let change = KnowledgeChange { untrusted: self.owner.untrusted, ..change };
        knowledge_item::change(self.tx.connection(), tenant, Some(owner), item, change).await
    }

    /// Deletes an item. Returns whether it existed.
    pub async fn delete_item(&mut self, kind: KnowledgeKind, id: impl Into<Uuid>) -> Result<bool> {
        let (kind, owner) = self.owner_of(kind);
        knowledge_item::delete(self.tx.connection(), self.owner.tenant, Some(owner), (kind, id.into())).await
    }

    /// The user's profile.
    pub async fn profile(&mut self) -> Result<Profile> {
        let (profile, _) = profile::find(self.tx.connection(), self.owner.tenant, self.owner.user).await?;
        Ok(profile)
    }

    /// Changes a list of a profile, which [`Self::lock_profile`] has locked, as far as the limits allow. What a session writes
    /// that has read what strangers wrote is marked.
    ///
    /// # Errors
    /// [`ProfileChangeError`]; the profile is unchanged.
    pub fn change_profile(
        &self,
        profile: &mut Profile,
        list: ProfileList,
        change: &ProfileChange,
    ) -> std::result::Result<(), ProfileChangeError> {
        profile.change(list, change, self.tx.knowledge_limits.max_profile_entries, self.owner.untrusted)
    }

    /// The user's profile, locked until the step is committed.
    pub async fn lock_profile(&mut self) -> Result<Profile> {
        profile::lock(self.tx.connection(), self.owner.tenant, self.owner.user).await
    }

    /// Writes the profile that [`Self::lock_profile`] has locked.
    pub async fn write_profile(&mut self, profile: &Profile) -> Result<()> {
        let (tenant, user) = (self.owner.tenant, self.owner.user);
        profile::write(self.tx.connection(), tenant, user, profile).await.map(drop)
    }

    /// Closed sessions that match a search best.
    pub async fn find_sessions(&mut self, search: &SessionSearch) -> Result<Vec<FoundSession>> {
        let limit = self.tx.session_settings.search_sessions;
        session_search::find(self.tx.connection(), self.owner, search, limit).await
    }

    /// Entries of a closed session after a position: one more than [`SessionArchive::read_entries`], if there are more.
    pub async fn session_entries(&mut self, session: SessionId, after: i64) -> Result<Vec<SessionEntry>> {
        let limit = i64::from(self.tx.session_settings.read_entries) + 1;
        session_search::entries(self.tx.connection(), self.owner, (session, after), limit).await
    }

    /// A large result; `None`: there is none with this id that the agentable may read.
    pub async fn large_result(&mut self, id: ResultId) -> Result<Option<StoredResult>> {
        let Owner { tenant, agentable, .. } = self.owner;
        tool_result::find(self.tx.connection(), tenant, agentable, id).await
    }

    /// What limits the tasks of the agentable. No other transaction creates one until the step is committed.
    pub async fn task_counts(&mut self) -> Result<TaskCounts> {
        self.tx.task_counts(self.owner).await
    }

    /// Creates a task, open and awake; `depth` is that of its creator and one.
    pub async fn create_task(&mut self, task: &NewTask<'_>, depth: i32) -> Result<()> {
        let traceparent = self.tx.traceparent.clone();
        self.tx.insert_task(self.owner, task, depth, traceparent.as_deref()).await
    }

    /// Sets a check-in of the agentable, with [`RecordIds::row`] as its id.
    pub async fn set_check_in(
        &mut self,
        wanted: &CheckInRequest,
    ) -> Result<std::result::Result<SetCheckIn, CheckInRefusal>> {
        let (id, limits) = (CheckInId(self.ids.row), self.limits.check_ins);
        check_in::set_by_run(self.tx.connection(), self.owner, id, wanted, &limits).await
    }

    /// The pending check-ins of the agentable, oldest first, at most 100.
    pub async fn check_ins(&mut self) -> Result<Vec<PendingCheckIn>> {
        check_in::pending(self.tx.connection(), self.owner).await
    }

    /// Cancels a pending check-in of the agentable. Returns whether it existed.
    pub async fn cancel_check_in(&mut self, id: CheckInId) -> Result<bool> {
        let Owner { tenant, agentable, .. } = self.owner;
        check_in::delete(self.tx.connection(), tenant, Some(agentable), id).await
    }
}
