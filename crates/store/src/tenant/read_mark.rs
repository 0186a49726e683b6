//! How far users have read their threads, and what is unread: counted from the positions of messages when it is asked for.

use houston_domain::id::{AgentableId, MessageId, UserId};
use houston_domain::owner::Owner;
use houston_domain::read_mark::ReadMark;

use crate::error::{Error, Result};
use crate::handle::TenantStore;
use crate::statement::uuids;

/// The newest messages of a thread that are looked at: there may be more unread ones than are counted.
pub const COUNTED_MESSAGES: i64 = 100;
/// The newest threads of a user that are looked at.
pub const COUNTED_THREADS: i64 = 200;

/// Up to where a thread was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadUpTo {
    /// To its end.
    Latest,
    /// To this position; to its end, if there is no such position yet.
    Seq(i64),
    /// To this message, which is one of the thread.
    Message(MessageId),
}

macro_rules! mark {
    ($row:expr) => {
        ReadMark {
            owner: Owner { kind: $row.kind, id: AgentableId($row.id) },
            last_seq: $row.last_seq,
            read_seq: $row.read_seq,
            unread: $row.unread,
            read_at: $row.read_at.map(Into::into),
        }
    };
}

impl TenantStore<'_> {
    /// Moves the mark of a thread of the tenant forward. One that is further already stays.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such agentable, or the thread no such message.
    pub async fn mark_read(self, agentable: AgentableId, up_to: ReadUpTo) -> Result<()> {
        let (seq, message) = match up_to {
            ReadUpTo::Latest => (Some(i64::MAX), None),
            ReadUpTo::Seq(seq) => (Some(seq), None),
            ReadUpTo::Message(message) => (None, Some(message.0)),
        };
        let row = sqlx::query!(
            r#"-- store::read_mark::set
            with a as (
                select l.agentable_id, l.user_id, l.last_seq from houston.run_locks l
                 where l.tenant_id = $1 and l.agentable_id = $2),
            upto as (
                select a.agentable_id, a.user_id,
                       -- least() ignores null.
                       case when $3::bigint is not null then least($3, a.last_seq)
                            else (select m.seq from houston.messages m
                                   where m.tenant_id = $1 and m.agentable_id = $2 and m.id = $4) end as seq
                  from a),
            made as (
                insert into houston.read_marks as k (agentable_id, tenant_id, user_id, seq)
                select u.agentable_id, $1, u.user_id, u.seq from upto u where u.seq is not null
                    on conflict (agentable_id) do update set seq = excluded.seq, read_at = now()
                 where k.seq < excluded.seq)
            select exists (select from a) as "is_there!", exists (select from upto where seq is not null) as "has_message!""#,
            self.tenant.0,
            agentable.0,
            seq,
            message
        )
        .fetch_one(&self.pool)
        .await?;
        match (row.is_there, row.has_message) {
            (false, _) => Err(Error::NotFound { what: "agentable" }),
            (true, false) => Err(Error::NotFound { what: "message" }),
            (true, true) => Ok(()),
        }
    }

    /// How far these threads of the tenant were read. Those that do not exist are left out.
    pub async fn read_marks(self, agentables: &[AgentableId]) -> Result<Vec<ReadMark>> {
        let marks = sqlx::query!(
            r#"-- store::read_mark::of_agentables
            select a.id, a.kind, l.last_seq, coalesce(k.seq, 0) as "read_seq!", k.read_at as "read_at?", n.unread as "unread!"
              from houston.agentables a
              join houston.run_locks l on l.agentable_id = a.id
              left join houston.read_marks k on k.agentable_id = a.id and k.tenant_id = $1
             cross join lateral (
                   select count(*) filter (where m.source in ('agent', 'error') and m.message_type = 'text') as unread
                     from (select x.source, x.message_type from houston.messages x
                            where x.tenant_id = $1 and x.agentable_id = a.id and x.seq > coalesce(k.seq, 0)
                            order by x.seq desc limit $3) m) n
             where a.tenant_id = $1 and a.id = any ($2)"#,
            self.tenant.0,
            &uuids(agentables),
            COUNTED_MESSAGES
        )
        .map(|row| mark!(row));
        Ok(marks.fetch_all(&self.pool).await?)
    }

    /// The threads of a user with something unread, newest first, among the newest [`COUNTED_THREADS`] of these kinds; and
    /// whether the user has more threads than these.
    pub async fn unread_threads(self, user: UserId, kinds: &[&str]) -> Result<(Vec<ReadMark>, bool)> {
        let rows = sqlx::query!(
            r#"-- store::read_mark::of_user
            with threads as materialized (
                select a.id, a.kind, row_number() over (order by a.id desc) as nth
                  from houston.agentables a
                 where a.tenant_id = $1 and a.user_id = $2 and a.kind = any ($3)
                 order by a.id desc limit $4::bigint + 1)
            select t.id, t.kind, l.last_seq, coalesce(k.seq, 0) as "read_seq!", k.read_at as "read_at?", n.unread as "unread!",
                   exists (select from threads x where x.nth > $4::bigint) as "has_more!"
              from threads t
              join houston.run_locks l on l.agentable_id = t.id
              left join houston.read_marks k on k.agentable_id = t.id and k.tenant_id = $1
             cross join lateral (
                   select count(*) filter (where m.source in ('agent', 'error') and m.message_type = 'text') as unread
                     from (select x.source, x.message_type from houston.messages x
                            where x.tenant_id = $1 and x.agentable_id = t.id and x.seq > coalesce(k.seq, 0)
                            order by x.seq desc limit $5) m) n
             where t.nth <= $4::bigint and (l.last_seq > coalesce(k.seq, 0) or t.nth = 1)
             order by t.id desc"#,
            self.tenant.0,
            user.0,
            kinds as &[&str],
            COUNTED_THREADS,
            COUNTED_MESSAGES
        )
        .fetch_all(&self.pool)
        .await?;
        // The newest thread is always among the rows, to say whether there are more.
        let has_more = rows.first().is_some_and(|row| row.has_more);
        let marks = rows.into_iter().filter(|row| row.unread > 0).map(|row| mark!(row));
        Ok((marks.collect(), has_more))
    }
}
