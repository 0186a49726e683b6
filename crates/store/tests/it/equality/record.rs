//! Records: what tools write into Houston's own tables, in the transaction of their step. The functions' side writes them by
//! plain statements, so what is compared is whether they and the step are committed together, or neither.

use houston_domain::knowledge::{KnowledgeKind, KnowledgeLimits, KnowledgeOwner};
use houston_domain::step::Step;
use houston_store::claim::{ClaimedRun, Fence};
use houston_store::knowledge_item::KnowledgeChange;
use houston_store::record::{FencedTx, Owner, RecordIds};
use houston_store::step::Commit;
use houston_store::{Error, Result};
use proptest::prelude::*;
use sqlx::PgConnection;
use uuid::Uuid;

use super::twin::Twin;
use super::{Scene, oracle};

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
        if self.is_rust() {
            let mut tx = self.store.runs().begin_fenced(fence).await?;
            return match self.write(&mut tx, owner, change).await {
                Ok(()) => tx.commit(step).await,
                Err(()) => Err(Error::Fenced),
            };
        }
        let mut tx = self.pool().begin().await?;
        let holds = "select epoch from houston.run_locks
                      where agentable_id = $1 and epoch = $2 and run_token = $3 and holder is not null for update";
        let holds = sqlx::query(holds).bind(fence.agentable.0).bind(fence.epoch).bind(fence.token.0);
        holds.fetch_optional(&mut *tx).await?.ok_or(Error::Fenced)?;
        write_plainly(&mut tx, owner, change).await.map_err(|()| Error::Fenced)?;
        let done = oracle::commit(&mut *tx, fence, step, self.store.fairness()).await?;
        match done {
            Commit::Done(_) => tx.commit().await?,
            Commit::AlreadyCommitted => tx.rollback().await?,
        }
        Ok(done)
    }

    /// The error: the tool fails.
    async fn write(&self, tx: &mut FencedTx, owner: Owner, change: &Change) -> std::result::Result<(), ()> {
        let limits = self.side.test.rows(tx, owner).limits();
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
                rows.change_item(*kind, *id, change).await.unwrap();
                Ok(())
            }
            Change::Delete { kind, id } => {
                rows.delete_item(*kind, *id).await.unwrap();
                Ok(())
            }
            Change::Fact(fact) => {
                let mut profile = rows.lock_profile().await.unwrap();
                profile.facts.push(fact.clone());
                rows.write_profile(&profile).await.unwrap();
                Ok(())
            }
        }
    }
}

/// The same by plain statements.
async fn write_plainly(tx: &mut PgConnection, owner: Owner, change: &Change) -> std::result::Result<(), ()> {
    match change {
        Change::Create { kind, id, content, fails } => {
            let (rules, limits) = (kind.rules(), limits());
            let (of, user, author) = match rules.owner {
                KnowledgeOwner::Agentable => (Some(owner.agentable.0), None, None),
                KnowledgeOwner::User => (None, Some(owner.user.0), Some(owner.agentable.0)),
            };
            let create = "insert into houston.knowledge_items (id, tenant_id, kind, agentable_id, user_id, author_id, run_id,
                                                               title, content)
                          select $1, $2, $3, $4, $5, $6, $7, $8, $9
                           where (select count(*) from houston.knowledge_items k
                                   where k.kind = $3 and k.owner_id = coalesce($4, $5)) < $10";
            let create =
                sqlx::query(create).bind(id).bind(owner.tenant.0).bind(rules.stored).bind(of).bind(user);
            let create = create.bind(author).bind(owner.run.0).bind(title(*kind)).bind(content);
            create.bind(i64::from((rules.max)(&limits))).execute(tx).await.unwrap();
            if *fails { Err(()) } else { Ok(()) }
        }
        Change::Rewrite { id, content, .. } => {
            let change = "update houston.knowledge_items set content = $2, updated_at = now() where id = $1";
            sqlx::query(change).bind(id).bind(content).execute(tx).await.unwrap();
            Ok(())
        }
        Change::Delete { id, .. } => {
            sqlx::query("delete from houston.knowledge_items where id = $1")
                .bind(id)
                .execute(tx)
                .await
                .unwrap();
            Ok(())
        }
        Change::Fact(fact) => {
            let add = "insert into houston.profiles (user_id, tenant_id, facts) values ($1, $2, array[$3])
                       on conflict (user_id) do update set facts = profiles.facts || excluded.facts";
            let add = sqlx::query(add).bind(owner.user.0).bind(owner.tenant.0).bind(fact);
            add.execute(tx).await.unwrap();
            Ok(())
        }
    }
}
