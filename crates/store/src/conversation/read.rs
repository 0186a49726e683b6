//! Exporting a conversation in pages, from one snapshot of the database: messages and history, the files of its workspace, closed
//! questions and sessions, compressions, and the large results that the document's texts name.

use chrono::{DateTime, Utc};
use houston_domain::compression::CompressionReason;
use houston_domain::conversation::{
    ClosedSession, Conversation, ExportedApproval, ExportedCompression, ExportedFile, ExportedLearning,
    ExportedNote, ExportedQuestion, ExportedResult, FORMAT, HistoryEntry, SummarySource, ThreadMessage,
    VERSION,
};
use houston_domain::history::{Block, complete, validate_complete};
use houston_domain::id::TenantId;
use houston_domain::question::approval::Approval;
use houston_domain::question::{QuestionKind, QuestionState};
use houston_domain::session::CompletionReason;
use serde_json::{Map, Value};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use crate::agentable::Agentable;
use crate::error::{Error, Result};
use crate::handle::TenantStore;
use crate::history::role;
use crate::message::{message_type, source};
use crate::question::StoredApproval;
use crate::workspace_file::Workspace;

/// Rows of one page.
const PAGE: i64 = 1_000;
/// Notes per page: each has at most 64 KiB.
const NOTES_PAGE: i64 = 100;
/// Files per page: each has at most 1 MiB.
const FILES_PAGE: i64 = 10;
/// Large results per page: each has at most 2 MiB.
const RESULTS_PAGE: usize = 8;

/// What to read of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportOptions {
    /// The position of the last entry to read; `None`: the last complete turn.
    pub until: Option<i64>,
    /// Whether to include notes, learnings and files.
    pub knowledge: bool,
    /// Maximum bytes of all texts.
    pub max_bytes: usize,
}

/// Reads pages with the query until one is not full. `$each` adds what a row is to `$all`, and sets `$after`, a parameter of the
/// query, to what the page ends with.
macro_rules! read_pages {
    ($reader:ident, $page:expr, $after:ident = $first:expr, $query:expr, |$row:ident, $all:ident| $each:block) => {{
        let (mut $all, mut $after) = (Vec::new(), $first);
        loop {
            let rows = $query.fetch_all(&mut *$reader.connection).await?;
            let is_last = i64::try_from(rows.len()).is_ok_and(|count| count < $page);
            for $row in rows $each
            if is_last {
                break Ok($all);
            }
        }
    }};
}

/// Reads one conversation and counts its bytes.
struct Reader<'t> {
    connection: &'t mut PgConnection,
    tenant: TenantId,
    agentable: &'t Agentable,
    workspace: Workspace,
    bytes: usize,
    max_bytes: usize,
}

/// An entry with the columns that are not part of the document.
struct PositionedEntry {
    position: i64,
    first_seq: i64,
    entry: HistoryEntry,
}

/// The end of the thread that belongs to the last entry.
#[derive(Clone, Copy)]
struct End {
    /// The position of the first event of the last run.
    first_seq: i64,
    /// When the last entry was committed; `None`: the whole thread is read.
    at: Option<DateTime<Utc>>,
}

impl TenantStore<'_> {
    /// Exports a conversation of the tenant up to the position in `options`, sealed: thread, history with closed
    /// sessions, compressions and large results, notes, learnings and files, closed questions. Of an open run only complete
    /// turns and messages that were read are included. With a position, the document is what it would have been when
    /// that entry was the last one: its session is open.
    ///
    /// # Errors
    /// [`Error::NoSuchPosition`] when there is no entry at that position, [`Error::InsideTurn`] when a turn is
    /// incomplete there, [`Error::TooLarge`] when the texts exceed `max_bytes`, [`Error::NotFound`] when the agentable
    /// was erased.
    pub async fn conversation(self, agentable: &Agentable, options: &ExportOptions) -> Result<Conversation> {
        let mut tx = self.pool.begin_snapshot().await?;
        let mut reader = Reader {
            connection: &mut tx,
            tenant: self.tenant,
            agentable,
            workspace: self.workspace(self.tenant, agentable.id),
            bytes: 0,
            max_bytes: options.max_bytes,
        };
        let (session_position, read_seq) = reader.positions().await?;
        let (history, end) = reader.history(options.until).await?;
        let messages = reader.messages(read_seq, end).await?;
        let (mut notes, mut learnings, mut files) = (Vec::new(), Vec::new(), Vec::new());
        if options.knowledge {
            notes = reader.notes(end).await?;
            learnings = reader.learnings(end).await?;
            files = reader.files(end).await?;
        }
        let questions = reader.questions(end).await?;
        let positions = Positions::of(&history);
        let history: Vec<HistoryEntry> = history.into_iter().map(|entry| entry.entry).collect();
        let sessions = reader.sessions((options.until, session_position), &positions, &history).await?;
        let compressions = reader.compressions(&positions).await?;
        let mut conversation = Conversation {
            format: FORMAT.to_owned(),
            version: VERSION,
            kind: agentable.kind.clone(),
            title: agentable.title.clone(),
            description: agentable.description.clone(),
            tools: agentable.tools.clone(),
            messages,
            history,
            digests: None,
            notes,
            learnings,
            sessions,
            compressions,
            results: Vec::new(),
            questions,
            files,
            untrusted: reader.untrusted().await?,
            seal: None,
        };
        conversation.results = reader.results(&conversation).await?;
        conversation.seal = Some(seal(reader.connection, self.tenant, &conversation.digest()).await?);
        tx.commit().await?;
        Ok(conversation.with_digests())
    }
}

impl Reader<'_> {
    fn count(&mut self, bytes: usize) -> Result<()> {
        self.bytes += bytes;
        if self.bytes > self.max_bytes {
            return Err(Error::TooLarge { what: "conversation", limit: self.max_bytes });
        }
        Ok(())
    }

    /// Whether the agentable is marked, or a row of it whose mark its document does not have.
    async fn untrusted(&mut self) -> Result<bool> {
        let row = sqlx::query!(
            r#"-- store::conversation::read::untrusted
            select coalesce(bool_or(a.untrusted), false)
                   or exists (select from houston.sessions s where s.tenant_id = $1 and s.agentable_id = $2 and s.untrusted)
                   or exists (select from houston.knowledge_items k
                               where k.tenant_id = $1 and k.agentable_id = $2 and k.untrusted)
                   or exists (select from houston.workspace_files f
                               where f.tenant_id = $1 and f.agentable_id = $2 and f.untrusted)
                   or exists (select from houston.messages m where m.tenant_id = $1 and m.agentable_id = $2
                                 and m.metadata @> '{"untrusted": true}') as "untrusted!"
              from houston.agentables a where a.tenant_id = $1 and a.id = $2"#,
            self.tenant.0,
            self.agentable.id.0
        )
        .fetch_one(&mut *self.connection)
        .await?;
        Ok(row.untrusted)
    }

    /// The position after which the open session begins, and the `seq` up to which messages were read.
    async fn positions(&mut self) -> Result<(i64, i64)> {
        let lock = sqlx::query!(
            "-- store::conversation::read::lock
            select session_position, read_seq from houston.run_locks where tenant_id = $1 and agentable_id = $2",
            self.tenant.0,
            self.agentable.id.0
        )
        .fetch_optional(&mut *self.connection)
        .await?
        .ok_or(Error::NotFound { what: "agentable" })?;
        Ok((lock.session_position, lock.read_seq))
    }

    /// The entries up to `until`, and the end of the thread that belongs to them.
    async fn history(&mut self, until: Option<i64>) -> Result<(Vec<PositionedEntry>, End)> {
        let mut history = self.entries(until.unwrap_or(i64::MAX)).await?;
        let entries: Vec<_> = history.iter().map(|entry| entry.entry.entry()).collect();
        if let Some(position) = until {
            let last = history.last().map_or(0, |entry| entry.position);
            if position < 1 || position != last {
                return Err(Error::NoSuchPosition { position, last });
            }
            if let Err(fault) = validate_complete(&entries) {
                let before = fault.index().checked_sub(1).and_then(|at| history.get(at));
                return Err(Error::InsideTurn { position, before: before.map_or(0, |entry| entry.position) });
            }
        }
        let whole = history.len();
        history.truncate(complete(&entries));
        if until.is_none() && history.len() == whole {
            return Ok((history, End { first_seq: i64::MAX, at: None }));
        }
        let end = history.last().map_or(End { first_seq: 0, at: Some(DateTime::UNIX_EPOCH) }, |last| End {
            first_seq: last.first_seq,
            at: Some(last.entry.created_at),
        });
        Ok((history, end))
    }

    async fn entries(&mut self, until: i64) -> Result<Vec<PositionedEntry>> {
        read_pages!(
            self,
            PAGE,
            after = 0,
            sqlx::query!(
                r#"-- store::conversation::read::history
                select h.position as "position!", h.role as "role!", h.content as "content!: Json<Vec<Block>>",
                       h.created_at as "created_at!", octet_length(h.content::text) as "bytes!", coalesce(r.first_seq, 0) as "first_seq!"
                  from (select * from houston.entries e
                         where e.tenant_id = $1 and e.agentable_id = $2 and e.position > $3 and e.position <= $4
                           and not e.rolled_back
                         order by e.position limit $5) h
                  left join houston.runs r on r.id = h.run_id
                 order by h.position"#,
                self.tenant.0,
                self.agentable.id.0,
                after,
                until,
                PAGE
            ),
            |row, entries| {
                self.count(usize::try_from(row.bytes).unwrap_or(0))?;
                after = row.position;
                let (role, content) = (role(&row.role), row.content.0);
                let entry = HistoryEntry { role, content, created_at: row.created_at };
                entries.push(PositionedEntry { position: row.position, first_seq: row.first_seq, entry });
            }
        )
    }

    async fn messages(&mut self, read_seq: i64, end: End) -> Result<Vec<ThreadMessage>> {
        read_pages!(
            self,
            PAGE,
            after = 0,
            sqlx::query!(
                r#"-- store::conversation::read::messages
                select m.seq, m.source, m.message_type, m.content, m.metadata as "metadata: Json<Value>", m.created_at
                  from houston.messages m join houston.runs r on r.id = m.run_id
                 where m.tenant_id = $1 and m.agentable_id = $2 and m.seq > $3
                   and (not houston.is_for_agent(m.source) or m.seq <= $4)
                   and ($5::timestamptz is null or m.created_at <= $5) and r.first_seq <= $6
                 order by m.seq limit $7"#,
                self.tenant.0,
                self.agentable.id.0,
                after,
                read_seq,
                end.at,
                end.first_seq,
                PAGE
            ),
            |row, messages| {
                self.count(row.content.len())?;
                after = row.seq;
                messages.push(ThreadMessage {
                    source: source(&row.source),
                    message_type: message_type(&row.message_type),
                    content: row.content,
                    metadata: fields(row.metadata.0),
                    created_at: row.created_at,
                });
            }
        )
    }

    async fn notes(&mut self, end: End) -> Result<Vec<ExportedNote>> {
        read_pages!(
            self,
            NOTES_PAGE,
            after = Uuid::nil(),
            sqlx::query!(
                r#"-- store::conversation::read::notes
                select id, title as "title!", content, created_at, updated_at from houston.knowledge_items
                 where tenant_id = $1 and owner_id = $2 and kind = 'note' and id > $3
                   and ($4::timestamptz is null or created_at <= $4)
                 order by id limit $5"#,
                self.tenant.0,
                self.agentable.id.0,
                after,
                end.at,
                NOTES_PAGE
            ),
            |row, notes| {
                self.count(row.content.len())?;
                after = row.id;
                let (title, content) = (row.title, row.content);
                let (created_at, updated_at) = (row.created_at, row.updated_at);
                notes.push(ExportedNote { title, content, created_at, updated_at });
            }
        )
    }

    async fn learnings(&mut self, end: End) -> Result<Vec<ExportedLearning>> {
        let learnings = sqlx::query_as!(
            ExportedLearning,
            "-- store::conversation::read::learnings
            select content, created_at, updated_at from houston.knowledge_items
             where tenant_id = $1 and owner_id = $2 and kind = 'learning' and ($3::timestamptz is null or created_at <= $3)
             order by id",
            self.tenant.0,
            self.agentable.id.0,
            end.at
        )
        .fetch_all(&mut *self.connection)
        .await?;
        for learning in &learnings {
            self.count(learning.content.len())?;
        }
        Ok(learnings)
    }
}

/// The seal of a document of the tenant with this digest. It is keyed twice, so that nothing can be appended to what is hashed.
pub(super) async fn seal(
    connection: &mut PgConnection,
    tenant: TenantId,
    digest: &[u8; 32],
) -> Result<String> {
    let row = sqlx::query!(
        r#"-- store::conversation::read::seal
        select encode(sha256(i.frame_secret
                             || sha256(i.frame_secret || convert_to('conversation', 'UTF8') || uuid_send($1) || $2)),
                      'hex') as "seal!"
          from houston.installation i"#,
        tenant.0,
        digest
    )
    .fetch_one(connection)
    .await?;
    Ok(row.seal)
}

fn fields(metadata: Value) -> Map<String, Value> {
    match metadata {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

impl Reader<'_> {
    /// Files that are no texts are left out: a document cannot have them.
    async fn files_of_folder(&mut self, end: End) -> Result<Vec<ExportedFile>> {
        let mut files = Vec::new();
        let mut entries = self.workspace.list(&mut *self.connection, "", i64::MAX).await?;
        entries.retain(|entry| end.at.is_none_or(|at| *entry.created_at <= at));
        for page in entries.chunks(usize::try_from(FILES_PAGE).unwrap_or(1)) {
            let paths: Vec<&str> = page.iter().map(|entry| entry.path.as_str()).collect();
            let mut contents = self.workspace.contents(&mut *self.connection, &paths).await?;
            for entry in page {
                let Some(content) = contents.remove(&entry.path) else { continue };
                self.count(content.len())?;
                let (created_at, updated_at) = (*entry.created_at, *entry.updated_at);
                files.push(ExportedFile { path: entry.path.clone(), content, created_at, updated_at });
            }
        }
        Ok(files)
    }

    async fn files(&mut self, end: End) -> Result<Vec<ExportedFile>> {
        if self.workspace.is_folder() {
            return self.files_of_folder(end).await;
        }
        read_pages!(
            self,
            FILES_PAGE,
            after = String::new(),
            sqlx::query_as!(
                ExportedFile,
                "-- store::conversation::read::files::page
                select path, content, created_at, updated_at from houston.workspace_files
                 where tenant_id = $1 and agentable_id = $2 and path > $3
                   and ($4::timestamptz is null or created_at <= $4)
                 order by path limit $5",
                self.tenant.0,
                self.agentable.id.0,
                after,
                end.at,
                FILES_PAGE
            ),
            |file, files| {
                self.count(file.content.len())?;
                after.clone_from(&file.path);
                files.push(file);
            }
        )
    }
}

/// What an export has of an approval.
fn exported(approval: Value) -> Option<ExportedApproval> {
    let Approval { tool, input, why, .. } = serde_json::from_value(approval).ok()?;
    Some(ExportedApproval { tool, input, why })
}

impl Reader<'_> {
    /// The questions that were closed by the end of the thread. An open one belongs to a turn that is not complete.
    async fn questions(&mut self, end: End) -> Result<Vec<ExportedQuestion>> {
        read_pages!(
            self,
            PAGE,
            after = Uuid::nil(),
            sqlx::query!(
                r#"-- store::conversation::read::questions::questions
                select id, kind, subject, text, schema, default_value, expires_at, state, answer, answered_by, created_at,
                       closed_at as "closed_at!", approval,
                       octet_length(concat(text, schema::text, default_value::text, answer::text, approval::text)) as "bytes!"
                  from houston.questions
                 where tenant_id = $1 and agentable_id = $2 and id > $3 and state <> 'open'
                   and ($4::timestamptz is null or closed_at <= $4)
                 order by id limit $5"#,
                self.tenant.0,
                self.agentable.id.0,
                after,
                end.at,
                PAGE
            ),
            |row, questions| {
                self.count(usize::try_from(row.bytes).unwrap_or(0))?;
                after = row.id;
                questions.push(ExportedQuestion {
                    kind: QuestionKind::from_name(&row.kind).unwrap_or(QuestionKind::Input),
                    subject: row.subject,
                    text: row.text,
                    schema: row.schema.or_else(|| StoredApproval::schema(row.approval.as_ref())),
                    default_value: row.default_value,
                    expires_at: row.expires_at,
                    state: QuestionState::from_name(&row.state).unwrap_or(QuestionState::Cancelled),
                    answer: row.answer,
                    answered_by: row.answered_by,
                    created_at: row.created_at,
                    closed_at: row.closed_at,
                    approval: row.approval.and_then(exported),
                });
            }
        )
    }
}

/// Maps positions in the database to those in the document, which has no gaps.
struct Positions(Vec<i64>);

impl Positions {
    fn of(history: &[PositionedEntry]) -> Self {
        Self(history.iter().map(|entry| entry.position).collect())
    }

    /// How many entries of the document are at this position or before it.
    fn through(&self, position: i64) -> usize {
        self.0.partition_point(|entry| *entry <= position)
    }
}

impl Reader<'_> {
    /// The closed sessions. With `until`, those that were closed when that entry was the last one: its own session
    /// was open.
    async fn sessions(
        &mut self,
        (until, session_position): (Option<i64>, i64),
        positions: &Positions,
        history: &[HistoryEntry],
    ) -> Result<Vec<ClosedSession>> {
        let read: Result<Vec<ClosedSession>> = read_pages!(
            self,
            PAGE,
            after = 0,
            sqlx::query!(
                r#"-- store::conversation::read::past::sessions
                select number, last_position, started_at, completed_at, completion_reason, summary, summarised_by,
                       summary_due_at is not null as "pending!", message_count, token_count
                  from houston.sessions
                 where tenant_id = $1 and agentable_id = $2 and number > $3 and ($4::bigint is null or last_position < $4)
                 order by number limit $5"#,
                self.tenant.0,
                self.agentable.id.0,
                after,
                until,
                PAGE
            ),
            |row, sessions| {
                self.count(row.summary.len())?;
                after = row.number;
                let before: Option<&ClosedSession> = sessions.last();
                // Entries that were closed before sessions existed belong to the first one.
                let first_position = before.map_or(0, |before| before.last_position) + 1;
                let last_position = positions.through(row.last_position);
                if last_position < first_position {
                    // All its entries were rolled back.
                    continue;
                }
                // An import may contain sessions in any order of time; a document lists them in order.
                let started_at =
                    before.map_or(row.started_at, |before| row.started_at.max(before.completed_at));
                let source =
                    if row.summarised_by == "model" { SummarySource::Model } else { SummarySource::Extract };
                sessions.push(ClosedSession {
                    first_position,
                    last_position,
                    completion_reason: CompletionReason::from_name(&row.completion_reason)
                        .unwrap_or_default(),
                    summary: row.summary,
                    summary_source: if row.pending { SummarySource::Extract } else { source },
                    pending: row.pending,
                    message_count: row.message_count.and_then(|count| u32::try_from(count).ok()),
                    token_count: row.token_count.and_then(|count| u64::try_from(count).ok()),
                    started_at,
                    completed_at: row.completed_at.max(started_at),
                });
            }
        );
        let mut sessions = read?;
        let closed = positions.through(session_position);
        if sessions.is_empty() && closed > 0 && until.is_none() {
            sessions.push(ClosedSession::pending(1, &history[..closed]));
        }
        Ok(sessions)
    }

    /// The compressions whose whole range is part of the document and was not rolled back.
    async fn compressions(&mut self, positions: &Positions) -> Result<Vec<ExportedCompression>> {
        let last = positions.0.last().copied().unwrap_or(0);
        read_pages!(
            self,
            PAGE,
            after = Uuid::nil(),
            sqlx::query!(
                "-- store::conversation::read::past::compressions
                select c.id, c.through_position, c.summary, c.reason, c.entries_before, c.entries_after, c.tokens_before,
                       c.tokens_after, c.model, c.cost, c.created_at
                  from houston.compressions c
                 where c.tenant_id = $1 and c.agentable_id = $2 and c.id > $3 and c.through_position <= $4
                   and (c.through_position < c.run_position
                        or not exists (select from houston.history h where h.agentable_id = $2
                                          and h.position = c.run_position and h.rolled_back))
                 order by c.id limit $5",
                self.tenant.0,
                self.agentable.id.0,
                after,
                last,
                PAGE
            ),
            |row, compressions| {
                self.count(row.summary.len())?;
                after = row.id;
                let through_position = positions.through(row.through_position);
                if through_position == 0 {
                    continue;
                }
                let entries = |count: i32| u32::try_from(count).unwrap_or(0);
                let tokens = |count: i64| u64::try_from(count).unwrap_or(0);
                compressions.push(ExportedCompression {
                    through_position,
                    summary: row.summary,
                    reason: CompressionReason::from_name(&row.reason).unwrap_or_default(),
                    entries_before: entries(row.entries_before),
                    entries_after: entries(row.entries_after),
                    tokens_before: tokens(row.tokens_before),
                    tokens_after: tokens(row.tokens_after),
                    model: row.model,
                    cost: row.cost,
                    created_at: row.created_at,
                });
            }
        )
    }

    /// The large results that the texts name and the agentable may read: its own, its tasks', and those of the
    /// agentable that created it.
    async fn results(&mut self, conversation: &Conversation) -> Result<Vec<ExportedResult>> {
        let named: Vec<Uuid> = conversation.referenced_results().into_iter().map(|id| id.0).collect();
        let mut results = Vec::new();
        for ids in named.chunks(RESULTS_PAGE) {
            let rows = sqlx::query_as!(
                ExportedResult,
                r#"-- store::conversation::read::past::results
                select r.id as "id!", r.call_id as "call_id!", r.tool as "tool!", r.content as "content!",
                       r.created_at as "created_at!"
                  from unnest($3::uuid[]) as named (id)
                 cross join lateral (
                       select 1 as place, o.* from houston.tool_results o
                        where o.tenant_id = $1 and o.agentable_id = $2 and o.id = named.id
                        union all
                       select 2, b.* from houston.tool_results b
                        where b.tenant_id = $1 and b.parent_id = $2 and b.id = named.id
                        union all
                       select 3, p.* from houston.tool_results p
                        where p.tenant_id = $1 and p.id = named.id
                          and p.agentable_id = (select a.parent_id from houston.agentables a where a.id = $2)
                        order by place limit 1) as r
                 order by r.id"#,
                self.tenant.0,
                self.agentable.id.0,
                ids
            )
            .fetch_all(&mut *self.connection)
            .await?;
            for row in rows {
                self.count(row.content.len())?;
                results.push(row);
            }
        }
        Ok(results)
    }
}
