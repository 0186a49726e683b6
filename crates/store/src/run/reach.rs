//! The other conversations of a user, as an agent reaches them: listing, reading, posting; making and changing them. Every query is for the tenant and the user of the run, and for the kinds that its own kind reaches.

use chrono::{DateTime, Utc};
use houston_domain::id::AgentableId;
pub use houston_domain::message::Delivery;
use houston_domain::reach::{AgentPost, MadeCounts, PostCounts};
use houston_domain::run::RunStatus;
use houston_domain::settable::StatusChange;
use serde::{Deserialize, Deserializer};
use uuid::Uuid;

use crate::cancel::{self, ARCHIVED};
use crate::error::{Error, Result};
use crate::record::RecordTx;
use crate::statement::Statement as _;
use crate::system_message::{NewSystemMessage, deliver, lock};

/// Which kinds the agents of a kind reach: pairs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reach {
    pub(crate) kinds: Vec<String>,
    pub(crate) reached: Vec<String>,
}

impl Reach {
    /// The reach of kinds: each with those that it reaches.
    pub fn new<'k>(kinds: impl IntoIterator<Item = (&'k str, &'k [String])>) -> Self {
        let pairs = |(kind, reached): (&'k str, &'k [String])| {
            reached.iter().map(move |other| (kind.to_owned(), other.clone()))
        };
        let (kinds, reached) = kinds.into_iter().flat_map(pairs).unzip();
        Self { kinds, reached }
    }
}

/// A conversation, as lists and prompts show it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Conversation {
    /// The agentable's id.
    #[serde(deserialize_with = "id_of_row")]
    pub id: AgentableId,
    /// Its kind.
    pub kind: String,
    /// Its title; may be empty.
    pub title: String,
    /// Its stored status.
    pub status: Option<String>,
    run: Option<String>,
    /// Whether strangers may have put words into the title.
    pub untrusted: bool,
}

/// An id as Postgres writes it in JSON: without the prefix that it has in requests.
fn id_of_row<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<AgentableId, D::Error> {
    Uuid::deserialize(deserializer).map(AgentableId)
}

impl Conversation {
    /// The status of its open or latest run.
    pub fn run(&self) -> Option<RunStatus> {
        self.run.as_deref().and_then(RunStatus::from_name)
    }

    /// Whether it is archived: agents do not wake it.
    pub fn is_archived(&self) -> bool {
        self.status.as_deref() == Some(ARCHIVED)
    }
}

/// The conversations of its user that a prompt shows.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct PromptConversations {
    /// The newest that are not archived.
    pub newest: Vec<Conversation>,
    /// How many there are that are not archived; counted up to [`COUNTED`] of each kind.
    pub open: i64,
    /// How many are archived, among those counted.
    pub archived: i64,
}

/// Of each kind, the conversations that a prompt counts: the newest.
pub const COUNTED: i64 = 100;

/// A message of a thread, as an agent of another conversation reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadMessage {
    /// Its position.
    pub seq: i64,
    /// Who wrote it: `user`, `agent` or `system`.
    pub source: String,
    /// The beginning of the text.
    pub text: String,
    /// Length of the whole text, in characters.
    pub chars: i32,
    /// Whether strangers may have put words into it.
    pub untrusted: bool,
    /// When it was written.
    pub at: DateTime<Utc>,
}

/// Reads conversations `a`, between the name of the query and what they are, and the rest of it.
macro_rules! query_conversations {
    ($before:literal, $from:literal, $after:literal $(, $parameter:expr)* $(,)?) => {
        sqlx::query_as!(
            Conversation,
            $before + r#"
            select a.id, a.kind, a.title, a.status, a.untrusted, r.status as "run?"
              from "# + $from + "
              left join houston.run_locks k on k.agentable_id = a.id
              left join houston.runs r on r.id = k.run_id
             " + $after
            $(, $parameter)*
        )
    };
}

impl RecordTx<'_> {
    /// Conversations of the user of these kinds, newest first, older than `before` if given. `archived`: archived ones as well.
    pub async fn conversations(
        &mut self,
        kinds: &[String],
        archived: bool,
        before: Option<AgentableId>,
        limit: i64,
    ) -> Result<Vec<Conversation>> {
        let conversations = query_conversations!(
            "-- store::reach::list",
            "unnest($3::text[]) as v (kind)
             cross join lateral (
                   select * from houston.agentables o
                    where o.user_id = $2 and o.kind = v.kind and o.tenant_id = $1 and o.id <> $4
                      and ($5::uuid is null or o.id < $5) and ($6 or o.status is distinct from $8)
                    order by o.id desc limit $7) a",
            "order by a.id desc limit $7",
            self.owner.tenant.0,
            self.owner.user.0,
            kinds,
            self.owner.agentable.0,
            before.map(|before| before.0),
            archived,
            limit,
            ARCHIVED
        );
        Ok(conversations.fetch_all(self.tx.connection()).await?)
    }

    /// A conversation of the user; `None`: there is none with this id among these kinds.
    pub async fn conversation(&mut self, kinds: &[String], id: AgentableId) -> Result<Option<Conversation>> {
        let row = query_conversations!(
            "-- store::reach::find",
            "houston.agentables a",
            "where a.id = $4 and a.tenant_id = $1 and a.user_id = $2 and a.kind = any ($3) and a.id <> $5",
            self.owner.tenant.0,
            self.owner.user.0,
            kinds,
            id.0,
            self.owner.agentable.0
        );
        Ok(row.fetch_optional(self.tx.connection()).await?)
    }

    /// What was said in a conversation that [`Self::conversation`] has returned, before a position, newest first: at most
    /// `limit` messages, each with its first `chars` characters.
    pub async fn thread(
        &mut self,
        of: AgentableId,
        before: Option<i64>,
        limit: i64,
        chars: i32,
    ) -> Result<Vec<ReadMessage>> {
        let rows = sqlx::query_as!(
            ReadMessage,
            r#"-- store::reach::thread
            select m.seq, m.source, left(m.content, $5) as "text!", char_length(m.content) as "chars!", m.created_at as at,
                   (m.metadata @> '{"untrusted": true}'
                    or m.source = 'system' and strpos(m.content, '<untrusted source="') > 0) as "untrusted!"
              from houston.messages m
             where m.agentable_id = $2 and m.tenant_id = $1 and m.message_type = 'text'
               and m.source in ('user', 'agent', 'system') and not m.metadata @> '{"rolled_back": true}'
               and m.seq < coalesce($3, 9223372036854775807)
             order by m.seq desc limit $4"#,
            self.owner.tenant.0,
            of.0,
            before,
            limit,
            chars
        );
        Ok(rows.fetch_all(self.tx.connection()).await?)
    }

    /// The kind of the run's own agentable, and what counts against the limits of a message.
    pub async fn post_counts(&mut self) -> Result<(String, PostCounts)> {
        let (owner, most) = (self.owner, self.limits.reach.max_posts_per_hour);
        let row = sqlx::query!(
            r#"-- store::reach::counts
            select a.kind, (select count(*) from houston.agent_messages p where p.from_run = $3) as "of_this_run!",
                   (select count(*) from (
                           select from houston.agent_messages p
                            where p.user_id = $2 and p.created_at > clock_timestamp() - interval '1 hour' limit $5) h)
                       as "of_this_hour!",
                   coalesce((select max(p.hops)
                               from houston.runs r
                               join houston.messages m on m.agentable_id = r.agentable_id and m.seq >= r.first_seq
                                                      and m.run_id = r.id and m.source = 'system'
                               join houston.agent_messages p on p.message_id = m.id
                              where r.id = $3), 0) as "hops!"
              from houston.agentables a where a.id = $4 and a.tenant_id = $1"#,
            owner.tenant.0,
            owner.user.0,
            owner.run.0,
            owner.agentable.0,
            most
        )
        .fetch_optional(self.tx.connection())
        .await?
        .ok_or(Error::NotFound { what: "agentable" })?;
        let counts =
            PostCounts { of_this_run: row.of_this_run, of_this_hour: row.of_this_hour, hops: row.hops };
        Ok((row.kind, counts))
    }

    /// Posts a message to a conversation that [`Self::conversation`] has returned, with [`RecordIds::message`] as its id. Its
    /// agent is woken when the step is committed. `own_kind`: the kind of the run's own agentable; `hops`: how many agents the
    /// message has passed, its author included.
    ///
    /// [`RecordIds::message`]: crate::record::RecordIds::message
    pub async fn post_to(
        &mut self,
        own_kind: &str,
        to: AgentableId,
        text: &str,
        hops: i32,
    ) -> Result<Delivery> {
        let (owner, ids, fairness) = (self.owner, self.ids, self.tx.shared.fairness);
        let connection = self.tx.connection();
        let row = lock(connection, to).await?.ok_or(Error::NotFound { what: "agentable" })?;
        let from = owner.agentable.public_id(own_kind);
        let post = AgentPost { from: &from, text, untrusted: owner.untrusted, hops };
        let (content, metadata) = (post.frame(), post.metadata());
        let system = NewSystemMessage::report(to, (ids.message, ids.run), &content, &metadata);
        let delivery = deliver(connection, &row, &system, fairness).await?;
        sqlx::query!(
            "-- store::reach::post
            insert into houston.agent_messages (message_id, tenant_id, user_id, from_run, agentable_id, hops)
            values ($1, $2, $3, $4, $5, $6)",
            ids.message.0,
            owner.tenant.0,
            owner.user.0,
            owner.run.0,
            to.0,
            hops
        )
        .execute(connection)
        .await?;
        Ok(delivery)
    }
}

/// A change to a conversation; `None` leaves the value as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConversationChange {
    /// The new title, one line.
    pub title: Option<String>,
    /// The new description.
    pub description: Option<String>,
    /// The new status.
    pub status: Option<StatusChange>,
}

impl RecordTx<'_> {
    /// What counts against the limits of a conversation that the run makes.
    pub async fn made_counts(&mut self) -> Result<MadeCounts> {
        let (owner, most) = (self.owner, self.limits.reach.max_made_per_hour);
        let counts = sqlx::query_as!(
            MadeCounts,
            r#"-- store::reach::make::counts
            select (select count(*) from houston.made_conversations m where m.from_run = $3 and m.tenant_id = $1)
                       as "of_this_run!",
                   (select count(*) from (
                           select from houston.made_conversations m
                            where m.tenant_id = $1 and m.user_id = $2
                              and m.created_at > clock_timestamp() - interval '1 hour' limit $4) h) as "of_this_hour!""#,
            owner.tenant.0,
            owner.user.0,
            owner.run.0,
            most
        );
        Ok(counts.fetch_one(self.tx.connection()).await?)
    }

    /// Makes a conversation of the user with [`RecordIds::row`](crate::record::RecordIds::row) as its id. `status`: its first stored
    /// one; `title`: one line.
    pub async fn make_conversation(
        &mut self,
        (kind, status): (&str, Option<&str>),
        title: &str,
        description: &str,
    ) -> Result<()> {
        sqlx::query!(
            "-- store::reach::make::insert
            with made as (
                insert into houston.agentables (id, tenant_id, user_id, kind, title, description, status, untrusted)
                values ($1, $2, $3, $4, $5, $6, $7, $8)),
            lock as (
                insert into houston.run_locks (agentable_id, tenant_id, user_id) values ($1, $2, $3))
            insert into houston.made_conversations (agentable_id, tenant_id, user_id, from_run) values ($1, $2, $3, $9)",
            self.ids.row,
            self.owner.tenant.0,
            self.owner.user.0,
            kind,
            title,
            description,
            status,
            self.owner.untrusted,
            self.owner.run.0
        )
        .run(self.tx.connection())
        .await
    }

    /// Changes a conversation that [`Self::conversation`] has returned.
    pub async fn change_conversation(&mut self, id: AgentableId, change: &ConversationChange) -> Result<()> {
        let (owner, connection) = (self.owner, self.tx.connection());
        // Archiving takes the lock row first, then that of the agentable.
        if change.status == Some(StatusChange::Archive) {
            cancel::archive(connection, id).await?;
        }
        let (sets_status, status) = match &change.status {
            Some(StatusChange::Store(status)) => (true, status.as_deref()),
            Some(StatusChange::Archive) | None => (false, None),
        };
        let describes = change.title.is_some() || change.description.is_some();
        // A title set here withdraws a pending request to find one.
        sqlx::query!(
            "-- store::reach::make::change
            with asked as (delete from houston.title_requests where agentable_id = $3 and tenant_id = $1
                                                               and $4::text is not null)
            update houston.agentables a
               set title = coalesce($4, a.title), description = coalesce($5, a.description),
                   status = case when $6 then $7 else a.status end, untrusted = a.untrusted or $8
             where a.tenant_id = $1 and a.user_id = $2 and a.id = $3",
            owner.tenant.0,
            owner.user.0,
            id.0,
            change.title,
            change.description,
            sets_status,
            status,
            describes && owner.untrusted
        )
        .run_or(connection, Error::NotFound { what: "agentable" })
        .await
    }
}
