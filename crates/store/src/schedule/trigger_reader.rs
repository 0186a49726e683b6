//! The reader of triggers: notes each event that a trigger wants to hear, in the transaction that moves its position. So no
//! event is missed, and none is heard twice.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, SecondsFormat, Utc};
use houston_domain::event::Event;
use houston_domain::id::{AgentableId, RunId, TenantId, TriggerId, UserId};
use houston_domain::message::Source;
use houston_domain::trigger::effect::{Firing, MAX_FIRINGS};
use houston_domain::trigger::{Cause, Chain, Rule, When};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::event::EventPosition;
use crate::handle::RunStore;
use crate::owned_event::OwnedEvent;

/// How far back the cause of a run is followed: a task, its parent, the task whose end opened the parent's run, …
const MAX_HOPS: usize = 8;

/// What one read has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listened {
    /// Nothing: no trigger hears events, or another process reads.
    Idle,
    /// The position was of another database: it is now at the present end of the events.
    Restarted,
    /// A page was read.
    Read {
        /// Events that triggers have heard.
        heard: usize,
        /// Whether more events may be visible already.
        has_more: bool,
    },
}

/// A trigger that hears events.
struct Listening {
    id: TriggerId,
    agentable: AgentableId,
    rule: Rule,
    since: DateTime<Utc>,
}

/// Those of a user of a tenant.
type ByUser = HashMap<(TenantId, UserId), Vec<Listening>>;

/// Makes sure that there is a reader, in the transaction that switches a trigger on. The lock of its row keeps the reader from
/// ending at the same time.
pub(crate) async fn ensure_reader(connection: &mut PgConnection) -> Result<()> {
    sqlx::query!(
        "-- store::trigger_reader::ensure
        insert into houston.readers (name, position) values ('triggers', pg_current_snapshot()::text)
            on conflict (name) do update set name = excluded.name"
    )
    .execute(connection)
    .await?;
    Ok(())
}

impl RunStore {
    /// Reads the next page of about `limit` events and notes what triggers want to hear, unless another process is reading.
    ///
    /// # Errors
    /// [`Error::Database`] when Postgres cannot be reached or refuses a statement, [`Error::Inconsistent`] when an event
    /// cannot be decoded. Then nothing was noted, and the next call reads the same page.
    pub async fn listen_for_triggers(&self, limit: i64, now: DateTime<Utc>) -> Result<Listened> {
        let mut tx = self.pool.begin().await?;
        let position = sqlx::query_scalar!(
            "-- store::trigger_reader::take
            select position from houston.readers where name = 'triggers' for no key update skip locked"
        )
        .fetch_optional(&mut *tx)
        .await?;
        let Some(position) = position else { return Ok(Listened::Idle) };
        let tenants = hearing_tenants(&mut tx).await?;
        if tenants.is_empty() {
            sqlx::query!(
                "-- store::trigger_reader::end\ndelete from houston.readers where name = 'triggers'"
            )
            .execute(&mut *tx)
            .await?;
            tx.commit().await?;
            return Ok(Listened::Idle);
        }
        let read = match position.parse::<EventPosition>() {
            Ok(position) => self.owned_events_since(&position, limit, &tenants).await,
            Err(_) => Err(Error::UnknownPosition),
        };
        let page = match read {
            Err(Error::UnknownPosition) => {
                let present = self.event_position().await?;
                move_to(&mut tx, &present).await?;
                tx.commit().await?;
                return Ok(Listened::Restarted);
            }
            read => read?,
        };
        let listening = listening(&mut tx, &page.events).await?;
        let (heard, failed) = heard_of(&listening, &page.events, now).await;
        let count = if heard.is_empty() { 0 } else { note(&mut tx, &heard).await? };
        note_failures(&mut tx, &failed).await?;
        move_to(&mut tx, &page.next).await?;
        tx.commit().await?;
        Ok(Listened::Read { heard: count, has_more: page.has_more })
    }
}

async fn move_to(connection: &mut PgConnection, position: &EventPosition) -> Result<()> {
    sqlx::query!(
        "-- store::trigger_reader::move\nupdate houston.readers set position = $1 where name = 'triggers'",
        position.to_string()
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// The tenants with triggers that hear events.
async fn hearing_tenants(connection: &mut PgConnection) -> Result<Vec<Uuid>> {
    let tenants = sqlx::query_scalar!(
        "-- store::trigger_reader::tenants
        select distinct tenant_id from houston.triggers where enabled and next_at is null"
    );
    Ok(tenants.fetch_all(connection).await?)
}

/// The triggers that hear events, of the users whose events these are. One whose rule a later version does not accept hears
/// nothing.
async fn listening(connection: &mut PgConnection, events: &[OwnedEvent]) -> Result<ByUser> {
    let mut users: Vec<Uuid> = events.iter().map(|event| event.owner.user.0).collect();
    users.sort_unstable();
    users.dedup();
    if users.is_empty() {
        return Ok(ByUser::new());
    }
    let rows = sqlx::query!(
        r#"-- store::trigger_reader::listening
        select id, tenant_id, user_id, agentable_id, rule as "rule: Json<When>", created_at from houston.triggers
         where enabled and next_at is null and user_id = any ($1)"#,
        &users
    )
    .fetch_all(connection)
    .await?;
    let mut all = ByUser::new();
    for row in rows {
        let Ok(rule) = row.rule.0.rule() else { continue };
        let listening = Listening {
            id: TriggerId(row.id),
            agentable: AgentableId(row.agentable_id),
            rule,
            since: row.created_at,
        };
        all.entry((TenantId(row.tenant_id), UserId(row.user_id))).or_default().push(listening);
    }
    Ok(all)
}

/// What was heard, and conditions that failed: how often, and the last time.
type Heard<'t> = (Vec<(&'t Listening, &'t OwnedEvent)>, BTreeMap<TriggerId, (i64, Firing)>);

/// The triggers that want to hear each event. A condition takes some milliseconds at most, and others get their turn after each.
async fn heard_of<'t>(listening: &'t ByUser, events: &'t [OwnedEvent], now: DateTime<Utc>) -> Heard<'t> {
    let (mut heard, mut failed) = (Vec::new(), BTreeMap::new());
    for event in events {
        let of_user = listening.get(&(event.tenant, event.owner.user)).into_iter().flatten();
        for one in of_user.filter(|one| one.since <= event.event.at && hears(&one.rule, event)) {
            let Rule::Event(rule) = &one.rule else {
                heard.push((one, event));
                continue;
            };
            if !rule.has_condition() {
                heard.push((one, event));
                continue;
            }
            let cause = cause(event);
            match rule.holds(&cause) {
                Ok(true) => heard.push((one, event)),
                Ok(false) => {}
                Err(error) => {
                    let refusal = Some(format!("condition: {error}"));
                    let (count, last) = failed.entry(one.id).or_insert((0, Firing::default()));
                    *count += 1;
                    *last = Firing { refusal, ..Firing::about(&cause, now) };
                }
            }
            tokio::task::yield_now().await;
        }
    }
    (heard, failed)
}

/// Whether the topic, the owner or the words are wanted.
fn hears(rule: &Rule, event: &OwnedEvent) -> bool {
    match rule {
        Rule::Cron(_) => false,
        Rule::Event(rule) => rule.chooses(event.event.event.topic(), &event.owner),
        Rule::Keyword(words) => said_by_user(event).is_some_and(|text| words.matches(text)),
    }
}

/// Counts conditions that failed, and says why. A trigger that is being changed is left out: the change
/// may wait for the reader.
async fn note_failures(
    connection: &mut PgConnection,
    failed: &BTreeMap<TriggerId, (i64, Firing)>,
) -> Result<()> {
    for (id, (count, last)) in failed {
        sqlx::query!(
            "-- store::trigger_reader::failed
            update houston.triggers t
               set refused = t.refused + $2, refusal = $3,
                   firings = (select jsonb_agg(f order by nth) from jsonb_array_elements($4::jsonb || t.firings)
                                     with ordinality as e (f, nth) where nth <= $5)
              from (select id from houston.triggers where id = $1 for no key update skip locked) as l where t.id = l.id",
            id.0,
            count,
            last.refusal,
            Json([last]) as Json<[&Firing; 1]>,
            MAX_FIRINGS
        )
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

/// What a user wrote, if the event is that.
fn said_by_user(event: &OwnedEvent) -> Option<&str> {
    let is_message = matches!(event.event.event, Event::MessagePosted { .. });
    let body = event.event.body.as_ref().filter(|body| is_message && body.source == Source::User)?;
    Some(&body.content)
}

/// Notes what was heard, but for what the triggers have caused themselves. Returns how many. The times are of the database, so
/// that what one reader notes is later than what another has noted before.
async fn note(connection: &mut PgConnection, heard: &[(&Listening, &OwnedEvent)]) -> Result<usize> {
    // What a user writes has no other cause, whichever run is open.
    let caused = heard.iter().filter(|(_, event)| said_by_user(event).is_none());
    let runs = caused.flat_map(|(_, event)| runs_of(event)).collect();
    let chains = chains(&mut *connection, runs).await?;
    let mut count = 0;
    for (listening, event) in heard {
        let chain = match said_by_user(event) {
            Some(_) => Chain::default(),
            None => runs_of(event)
                .filter_map(|run| chains.get(&run).cloned())
                .fold(Chain::default(), |chain, other| chain.with(other)),
        };
        if chain.then(listening.id).is_none() {
            continue;
        }
        let triggers: Vec<Uuid> = chain.triggers.iter().map(|trigger| trigger.0).collect();
        let noted = sqlx::query!(
            "-- store::trigger_reader::note
            insert into houston.trigger_firings (trigger_id, tenant_id, agentable_id, parent_id, seq, topic, cause, chain, depth,
                                                 created_at)
            values ($1, $2, $3, $4, $5, $6, $7, $8, $9, clock_timestamp()) on conflict do nothing",
            listening.id.0,
            event.tenant.0,
            listening.agentable.0,
            event.owner.agentable.0,
            event.event.seq,
            event.event.event.topic(),
            Json(cause(event)) as Json<Cause>,
            &triggers,
            chain.depth
        )
        .execute(&mut *connection)
        .await?;
        count += usize::from(noted.rows_affected() == 1);
    }
    Ok(count)
}

/// The runs that have caused an event: its own, and that of the task whose end it is, or reports. An open run may read it that
/// has nothing to do with the task.
fn runs_of(event: &OwnedEvent) -> impl Iterator<Item = RunId> {
    let task = match (&event.event.event, &event.event.body) {
        (Event::TaskEnded { task_run_id, .. }, _) => Some(*task_run_id),
        (Event::MessagePosted { .. }, Some(body)) if body.source == Source::System => {
            let text = |name: &str| body.metadata.get(name).and_then(serde_json::Value::as_str);
            let run = text("run_id").filter(|_| text("type") == Some("task_ended"));
            run.and_then(|run| run.parse().ok())
        }
        _ => None,
    };
    [event.event.run_id].into_iter().chain(task)
}

fn cause(event: &OwnedEvent) -> Cause {
    let cause = Cause {
        at: event.event.at.to_rfc3339_opts(SecondsFormat::Secs, true),
        topic: Some(event.event.event.topic().to_owned()),
        agentable: Some(event.owner.agentable.public_id(&event.owner.kind)),
        kind: Some(event.owner.kind.clone()),
        ..Cause::default()
    };
    let cause = cause.with_data(event.event.event.outline());
    match said_by_user(event) {
        Some(text) => cause.with_content(text),
        None => cause,
    }
}

/// A run, the triggers that caused it, and the runs that did: that of the parent, when it began a task, and those of the tasks
/// whose ends opened it.
struct Caused {
    run: Uuid,
    own: Option<Chain>,
    by: Vec<Uuid>,
}

/// The triggers that have caused these runs.
async fn chains(connection: &mut PgConnection, runs: Vec<RunId>) -> Result<BTreeMap<RunId, Chain>> {
    let mut found: HashMap<Uuid, Caused> = HashMap::new();
    let mut open: Vec<Uuid> = runs.iter().map(|run| run.0).collect();
    for _ in 0..MAX_HOPS {
        open.sort_unstable();
        open.dedup();
        open.retain(|run| !found.contains_key(run));
        if open.is_empty() {
            break;
        }
        let next = causes(&mut *connection, &open).await?;
        // What a trigger has caused directly is complete: the chain has all before it.
        open = next.iter().filter(|one| one.own.is_none()).flat_map(|one| one.by.iter().copied()).collect();
        found.extend(next.into_iter().map(|one| (one.run, one)));
    }
    Ok(runs.into_iter().map(|run| (run, chain_of(&found, run.0, MAX_HOPS))).collect())
}

fn chain_of(found: &HashMap<Uuid, Caused>, run: Uuid, hops: usize) -> Chain {
    let Some(caused) = found.get(&run).filter(|_| hops > 0) else { return Chain::default() };
    let own = caused.own.clone().unwrap_or_default();
    caused.by.iter().fold(own, |chain, by| chain.with(chain_of(found, *by, hops - 1)))
}

async fn causes(connection: &mut PgConnection, runs: &[Uuid]) -> Result<Vec<Caused>> {
    let rows = sqlx::query!(
        r#"-- store::trigger_reader::causes
        select r.id, r.trigger_chain, r.trigger_depth,
               (select p.id from houston.runs p where p.agentable_id = a.parent_id and p.created_at <= r.created_at
                 order by p.first_seq desc limit 1) as "parent?",
               array(select m.metadata ->> 'run_id' from houston.messages m
                      where m.agentable_id = r.agentable_id and m.seq between r.first_seq and r.first_seq + 2
                        and m.source = 'system' and m.metadata ->> 'type' = 'task_ended') as "tasks!: Vec<Option<String>>"
          from houston.runs r join houston.agentables a on a.id = r.agentable_id where r.id = any ($1)"#,
        runs
    )
    .fetch_all(connection)
    .await?;
    let caused = rows.into_iter().map(|row| {
        let tasks = row.tasks.into_iter().flatten().filter_map(|task| task.parse::<RunId>().ok());
        let own = row.trigger_chain.map(|chain| Chain {
            triggers: chain.into_iter().map(TriggerId).collect(),
            depth: row.trigger_depth.unwrap_or(1),
        });
        Caused { run: row.id, own, by: row.parent.into_iter().chain(tasks.map(|task| task.0)).collect() }
    });
    Ok(caused.collect())
}
