//! Records: what tools write into Houston's own tables, in the transaction of their step: both are committed, or neither.

use houston_domain::knowledge::{KnowledgeKind, KnowledgeLimits, KnowledgeOwner};
use houston_domain::step::Step;
use houston_store::claim::{ClaimedRun, Fence};
use houston_store::knowledge_item::KnowledgeChange;
use houston_store::record::{FencedTx, Owner, RecordIds};
use houston_store::step::Commit;
use houston_store::{Error, Result};
use proptest::prelude::*;
use uuid::Uuid;

use super::Scene;
use super::twin::Twin;

/// What a tool does.
#[derive(Debug, Clone)]
pub(super) enum Record {
    Create(KnowledgeKind),
    /// Changes the latest item of the agentable.
    Change,
    /// Deletes it.
    Delete,
    /// Adds a fact to the user's profile.
    Fact,
    /// Creates a note, but fails before its step is committed.
    Fail,
}

pub(super) fn record() -> impl Strategy<Value = Record> {
    prop_oneof![
        2 => Just(Record::Create(KnowledgeKind::Note)),
        1 => Just(Record::Create(KnowledgeKind::Learning)),
        1 => Just(Record::Create(KnowledgeKind::Memory)),
        1 => Just(Record::Create(KnowledgeKind::FeedItem)),
        1 => Just(Record::Change),
        1 => Just(Record::Delete),
        1 => Just(Record::Fact),
        1 => Just(Record::Fail),
    ]
}

/// So low that sequences reach them.
pub(super) fn limits() -> KnowledgeLimits {
    KnowledgeLimits { max_notes: 2, max_memories: 3, ..KnowledgeLimits::default() }
}

/// What a tool does, with its ids and texts.
#[derive(Debug)]
pub(super) enum Change {
    Create { kind: KnowledgeKind, id: Uuid, content: String, fails: bool },
    Rewrite { kind: KnowledgeKind, id: Uuid, content: String },
    Delete { kind: KnowledgeKind, id: Uuid },
    Fact(String),
}

const TITLE: &str = "Hotels";

/// The title of items of this kind.
fn title(kind: KnowledgeKind) -> Option<&'static str> {
    matches!(kind, KnowledgeKind::Note | KnowledgeKind::FeedItem).then_some(TITLE)
}

impl Scene<'_> {
    pub(super) fn change(&self, twin: &mut Twin, record: &Record) -> Change {
        let (nth, latest) = (twin.items.len(), twin.items.last().copied());
        let content = format!("item {nth} of {}", twin.nth);
        let (kind, fails) = match (record, latest) {
            (Record::Create(kind), _) => (*kind, false),
            (Record::Fail, _) => (KnowledgeKind::Note, true),
            (Record::Change, Some((kind, id))) => {
                return Change::Rewrite { kind, id, content: format!("{content}, again") };
            }
            (Record::Delete, Some((kind, id))) => return Change::Delete { kind, id },
            (Record::Change | Record::Delete | Record::Fact, _) => return Change::Fact(content),
        };
        // Items of the same millisecond keep their order.
        let mut id = self.ids().beside::<Uuid>(twin.worker.0).into_bytes();
        id[6] &= 0xf0;
        id[7] = u8::try_from(nth).unwrap();
        let id = Uuid::from_bytes(id);
        twin.items.push((kind, id));
        Change::Create { kind, id, content, fails }
    }

    /// Commits a step together with what its tool writes.
    pub(super) async fn commit_with_record(
        &self,
        claimed: &ClaimedRun,
        fence: &Fence,
        step: &Step,
        change: &Change,
    ) -> Result<Commit> {
        let owner = Owner {
            tenant: claimed.tenant,
            user: claimed.user,
            agentable: fence.agentable,
            run: claimed.run,
            untrusted: false,
        };
        let mut tx = self.store.runs().begin_fenced(fence).await?;
        match self.write(&mut tx, owner, change).await {
            Ok(()) => tx.commit(step).await,
            Err(()) => Err(Error::Fenced),
        }
    }

    /// Asserts that what a tool writes is there if its step was committed, and is not if it was not; unless its owner has as
    /// many items as are allowed.
    pub(super) async fn assert_written(&self, claimed: &ClaimedRun, change: &Change, is_committed: bool) {
        let (kind, id, content) = match change {
            Change::Create { kind, id, content, .. } => (*kind, *id, Some(content)),
            Change::Rewrite { kind, id, content } => (*kind, *id, Some(content)),
            Change::Delete { kind, id } => (*kind, *id, None),
            Change::Fact(fact) => {
                let has =
                    "select exists (select from houston.profiles where user_id = $1 and $2 = any (facts))";
                let has = sqlx::query_scalar(has).bind(claimed.user.0).bind(fact);
                let has: bool = has.fetch_one(self.pool()).await.unwrap();
                return assert!(has || !is_committed, "{change:?}");
            }
        };
        let rules = kind.rules();
        let owner = match rules.owner {
            KnowledgeOwner::Agentable => claimed.fence.agentable.0,
            KnowledgeOwner::User => claimed.user.0,
        };
        let found = "select (select content from houston.knowledge_items where id = $1),
                            (select count(*) from houston.knowledge_items where kind = $2 and owner_id = $3)";
        let found = sqlx::query_as(found).bind(id).bind(kind.as_str()).bind(owner);
        let (stored, count): (Option<String>, i64) = found.fetch_one(self.pool()).await.unwrap();
        let is_full = count >= i64::from((rules.max)(&limits()));
        let is_right = match change {
            Change::Create { fails: true, .. } => !is_committed && stored.is_none(),
            Change::Create { .. } if is_committed => {
                stored.as_ref() == content || stored.is_none() && is_full
            }
            Change::Create { .. } => stored.is_none(),
            // An item that could not be created, or was deleted, is not changed.
            Change::Rewrite { .. } => !is_committed || stored.is_none() || stored.as_ref() == content,
            Change::Delete { .. } | Change::Fact(_) => !is_committed || stored.is_none(),
        };
        assert!(is_right, "{change:?}, {is_committed}: {stored:?}");
    }

    /// The error: the tool fails.
    async fn write(&self, tx: &mut FencedTx, owner: Owner, change: &Change) -> std::result::Result<(), ()> {
        let limits = self.side.test.rows(tx, owner).limits;
        let row = match change {
            Change::Create { id, .. } => *id,
            _ => self.ids().next(),
        };
        let mut rows =
            tx.rows(owner, RecordIds { row, run: self.ids().next(), message: self.ids().next() }, limits);
        match change {
            Change::Create { kind, content, fails, .. } => {
                match rows.create_item(*kind, title(*kind), content).await {
                    Ok(()) | Err(Error::Full { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
                if *fails { Err(()) } else { Ok(()) }
            }
            Change::Rewrite { kind, id, content } => {
                let change = KnowledgeChange { content: Some(content), ..KnowledgeChange::default() };
                rows.knowledge().change_item(*kind, *id, change).await.unwrap();
                Ok(())
            }
            Change::Delete { kind, id } => {
                rows.knowledge().delete_item(*kind, *id).await.unwrap();
                Ok(())
            }
            Change::Fact(fact) => {
                let mut knowledge = rows.knowledge();
                let mut profile = knowledge.lock_profile().await.unwrap();
                profile.facts.push(fact.clone());
                knowledge.write_profile(&profile).await.unwrap();
                Ok(())
            }
        }
    }
}
