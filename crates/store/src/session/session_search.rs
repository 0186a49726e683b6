//! Searching closed sessions and reading one of them.
//!
//! First come sessions with all words of the query, then those with all but the shortest, and so on; finally those with a
//! word similar to the longest. A word that is in most sessions is found among the newest sixty without reading the others.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use houston_domain::history::{Block, Role};
use houston_domain::id::SessionId;
use houston_domain::local_time::parse_zone;
use houston_domain::session::{Period, SessionSearch};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use crate::error::Result;
use crate::record::{Owner, RecordTx};

/// A closed session that a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSession {
    /// The session's id.
    pub id: SessionId,
    /// When its first entry was written.
    pub started_at: DateTime<Utc>,
    /// When it was closed.
    pub completed_at: DateTime<Utc>,
    /// Its summary.
    pub summary: String,
    /// Its messages, if they were counted.
    pub message_count: Option<i32>,
    /// Whether what strangers wrote was read in it.
    pub untrusted: bool,
}

/// An entry of a closed session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionEntry {
    /// Its position in the history.
    pub position: i64,
    /// Whose turn it is.
    pub role: Role,
    /// What it consists of.
    pub content: Vec<Block>,
}

/// What a search looks for, as texts of a `tsquery` for search vectors (`houston.session_vector`).
struct Wanted {
    /// The agentable as a word of all its sessions.
    agentable: String,
    /// The five longest words of the query, which are the most specific, the longest first.
    words: Vec<String>,
}

/// A lexeme as it is written in a `tsquery`.
fn quoted(lexeme: &str) -> String {
    format!("'{}'", lexeme.replace('\\', "\\\\").replace('\'', "''"))
}

/// The beginning by which a longer word is found in another form.
fn beginning(word: &str) -> Option<String> {
    (word.chars().count() > 5)
        .then(|| word.chars().take(5).fold("^".to_owned(), |begun, c| begun + &c.to_string()))
}

impl Wanted {
    /// Sessions that have each of the `count` longest words, or a word with the same beginning.
    fn longest(&self, count: usize) -> String {
        self.words[..count].iter().fold(quoted(&self.agentable), |query, word| {
            let begun = beginning(word).map(|begun| format!(" | {}", quoted(&begun))).unwrap_or_default();
            format!("{query} & ({}{begun})", quoted(word))
        })
    }

    /// Any word, for ranks.
    fn any(&self) -> String {
        let begun = self.words.iter().filter_map(|word| beginning(word));
        any(self.words.iter().cloned().chain(begun))
    }

    /// Sessions whose summary has three neighbouring trigrams of the longest word, and its trigrams for ranks; `None` if the word
    /// is short. After a typing error in a longer word, its first three letters or any five letters in a row still match. Two
    /// trigrams are in nearly every summary.
    fn similar(&self) -> Option<(String, String)> {
        let word = self.words.first().filter(|word| word.chars().count() >= 4)?;
        let padded: Vec<char> = format!("  {word} ").chars().collect();
        let trigrams: Vec<String> = padded
            .windows(3)
            .map(|letters| letters.iter().fold("~".to_owned(), |all, c| all + &c.to_string()))
            .collect();
        let runs = trigrams
            .windows(3)
            .map(|three| three.iter().map(|one| quoted(one)).collect::<Vec<_>>().join(" & "));
        let query = format!("{} & ({})", quoted(&self.agentable), runs.collect::<Vec<_>>().join(" | "));
        Some((query, any(trigrams.into_iter().collect::<BTreeSet<_>>())))
    }
}

/// A `tsquery` for any of the lexemes.
fn any(lexemes: impl IntoIterator<Item = String>) -> String {
    lexemes.into_iter().map(|lexeme| quoted(&lexeme)).collect::<Vec<_>>().join(" | ")
}

impl RecordTx<'_> {
    /// Closed sessions that match a search best.
    pub async fn find_sessions(&mut self, search: &SessionSearch) -> Result<Vec<FoundSession>> {
        let limit = self.tx.shared.archiving.settings.search_sessions;
        let (owner, connection) = (self.owner, self.tx.connection());
        let asked = sqlx::query!(
            r#"-- store::session_search::words
            select array(select l.word from unnest(tsvector_to_array(to_tsvector('simple', $3))) as l (word)
                          where length(l.word) >= 2 order by length(l.word) desc, l.word limit 5) as "words!",
                   u.time_zone, clock_timestamp() as "now!"
              from houston.users u where u.id = $1 and u.tenant_id = $2"#,
            owner.user.0,
            owner.tenant.0,
            search.query
        )
        .fetch_one(&mut *connection)
        .await?;
        if asked.words.is_empty() {
            return Ok(Vec::new());
        }
        let period = search.period(parse_zone(&asked.time_zone), asked.now);
        let wanted = Wanted { agentable: format!("@{}", owner.agentable.0), words: asked.words };
        let mut finder = Finder { connection, owner, period, found: Vec::new(), limit: i64::from(limit) };
        finder.find_newest(&wanted).await?;
        for count in (1..=wanted.words.len()).rev() {
            finder.find_matches(&wanted.longest(count), (&wanted.any(), 0.0), 40).await?;
        }
        if let Some((query, rank)) = wanted.similar() {
            finder.find_matches(&query, (&rank, 0.5), 60).await?;
        }
        Ok(finder.found)
    }
}

/// A search that goes on until it has found enough.
struct Finder<'a> {
    connection: &'a mut PgConnection,
    owner: Owner,
    period: Period,
    found: Vec<FoundSession>,
    limit: i64,
}

impl Finder<'_> {
    fn missing(&self) -> i64 {
        self.limit - i64::try_from(self.found.len()).unwrap_or(i64::MAX)
    }

    /// Finds those with all words among the newest.
    async fn find_newest(&mut self, wanted: &Wanted) -> Result<()> {
        let found = sqlx::query_as!(
            FoundSession,
            r#"-- store::session_search::newest
            with newest as materialized (
                select s.* from houston.sessions s
                 where s.tenant_id = $1 and s.agentable_id = $2 and s.completed_at >= coalesce($3, '-infinity'::timestamptz)
                   and s.started_at < coalesce($4, 'infinity'::timestamptz)
                 order by s.completed_at desc limit 60)
            select n.id, n.started_at, n.completed_at, n.summary, n.message_count, n.untrusted
              from newest n where n.search @@ $5::text::tsquery
             order by ts_rank(n.search, $6::text::tsquery) desc, n.completed_at desc limit $7"#,
            self.owner.tenant.0,
            self.owner.agentable.0,
            self.period.0,
            self.period.1,
            wanted.longest(wanted.words.len()),
            wanted.any(),
            self.limit
        )
        .fetch_all(&mut *self.connection)
        .await?;
        self.found.extend(found);
        Ok(())
    }

    /// Adds matches of the newest, by the index of their words, unless enough were found before. `share`: of the lexemes of `rank`,
    /// by which they are ranked, they must have at least that.
    async fn find_matches(&mut self, query: &str, (rank, share): (&str, f64), newest: i64) -> Result<()> {
        if self.missing() <= 0 {
            return Ok(());
        }
        let before: Vec<Uuid> = self.found.iter().map(|session| session.id.0).collect();
        let found = sqlx::query_as!(
            FoundSession,
            r#"-- store::session_search::matches
            with hits as materialized (
                select s.id, s.completed_at, s.started_at from houston.sessions s
                 where s.search @@ $1::text::tsquery and s.tenant_id = $2),
            newest as materialized (
                select h.id from hits h
                 where h.completed_at >= coalesce($3, '-infinity'::timestamptz)
                   and h.started_at < coalesce($4, 'infinity'::timestamptz) and h.id <> all ($5)
                 order by h.completed_at desc limit $6)
            select r.id, r.started_at, r.completed_at, r.summary, r.message_count, r.untrusted
              from (select s.*,
                           -- the share of the words that it has: for lexemes without positions ts_rank returns
                           -- 0.1 / 1.64493406685 each, divided by their number
                           ts_rank(s.search, $7::text::tsquery) * 16.4493406685 as share
                      from newest n join houston.sessions s on s.id = n.id) r
             where r.share >= $8
             order by r.share desc, r.completed_at desc limit $9"#,
            query,
            self.owner.tenant.0,
            self.period.0,
            self.period.1,
            &before,
            newest,
            rank,
            share,
            self.missing()
        )
        .fetch_all(&mut *self.connection)
        .await?;
        self.found.extend(found);
        Ok(())
    }
}

impl RecordTx<'_> {
    /// Entries of a closed session after a position: one more than the setting `read_entries`, if there are more.
    pub async fn session_entries(&mut self, session: SessionId, after: i64) -> Result<Vec<SessionEntry>> {
        let limit = i64::from(self.tx.shared.archiving.settings.read_entries) + 1;
        let entries = sqlx::query!(
            r#"-- store::session_search::read
            select h.position as "position!", h.role as "role!", h.content as "content!: Json<Vec<Block>>"
              from houston.sessions s
              join houston.entries h on h.agentable_id = s.agentable_id and h.position between s.first_position and s.last_position
             where s.tenant_id = $1 and s.agentable_id = $2 and s.id = $3 and h.position > $4 and not h.rolled_back
             order by h.position limit $5"#,
            self.owner.tenant.0,
            self.owner.agentable.0,
            session.0,
            after,
            limit
        )
        .map(|row| SessionEntry {
            position: row.position,
            role: if row.role == "assistant" { Role::Assistant } else { Role::User },
            content: row.content.0,
        });
        Ok(entries.fetch_all(self.tx.connection()).await?)
    }
}
