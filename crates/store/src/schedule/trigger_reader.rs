//! The reader of triggers: notes each event that a trigger wants to hear, in the transaction that moves its position. So no
//! event is missed, and none is heard twice. What triggers want is evaluated before that transaction begins.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{MutexGuard, PoisonError};

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use houston_domain::event::Event;
use houston_domain::id::{AgentableId, ProcessId, RunId, TenantId, TriggerId, UserId};
use houston_domain::message::Source;
use houston_domain::plan::ExpressionError;
use houston_domain::quarantine::MAX_DEATHS;
use houston_domain::trigger::effect::{Firing, MAX_FIRINGS};
use houston_domain::trigger::keyword::MAX_MESSAGE_WORK;
use houston_domain::trigger::{Cause, Chain, Rule, When};
use houston_meter::yielding;
use sqlx::types::Json;
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use crate::connections::Connections;
use crate::error::{Error, Result};
use crate::event::{EventPosition, OwnedEvent, OwnedPage};
use crate::handle::RunStore;
use crate::run::deaths::end_of_id;
use crate::statement::{Statement as _, uuids};

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
    user: (TenantId, UserId),
    agentable: AgentableId,
    when: When,
    since: DateTime<Utc>,
}

/// How much is read at once.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// About so many events.
    pub limit: i64,
    /// How long other processes leave the page to this one.
    pub turn: TimeDelta,
}

/// Makes sure that there is a reader, in the transaction that switches a trigger on. The lock of its row keeps the reader from
/// ending at the same time.
pub(crate) async fn ensure_reader(connection: &mut PgConnection) -> Result<()> {
    sqlx::query!(
        "-- store::trigger_reader::ensure
        insert into houston.readers (name, position) values ('triggers', pg_current_snapshot()::text)
            on conflict (name) do update set name = excluded.name"
    )
    .run(connection)
    .await
}

/// What the owner of a trigger reads that was set aside.
const SET_ASIDE: &str = "the process that evaluated it ended: after two times the trigger is switched off; switch it on to try again";

/// A trigger whose evaluation has ended a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Suspect {
    /// The trigger.
    pub id: TriggerId,
    /// Whether it was switched off: it has ended as many as it may.
    pub is_off: bool,
}

impl RunStore {
    /// Reads the next page of events and notes what triggers want to hear, unless another process is reading. No transaction
    /// is open while that is found out, and no connection is held.
    ///
    /// # Errors
    /// [`Error::Database`] when Postgres cannot be reached or refuses a statement. Then nothing was noted, and the next call reads
    /// the same page.
    pub async fn listen_for_triggers(&self, reading: Reading, now: DateTime<Utc>) -> Result<Listened> {
        let position = sqlx::query_scalar!(
            "-- store::trigger_reader::position
            select position from houston.readers where name = 'triggers'
               and (turn_until is null or turn_until < $1)",
            now
        );
        let Some(position) = position.fetch_optional(&self.pool).await? else { return Ok(Listened::Idle) };
        let tenants = hearing_tenants(&self.pool).await?;
        if tenants.is_empty() {
            self.end_trigger_reader().await?;
            return Ok(Listened::Idle);
        }
        let read = match position.parse::<EventPosition>() {
            Ok(position) => self.owned_events_since(&position, reading.limit, &tenants).await,
            Err(_) => Err(Error::UnknownPosition),
        };
        let OwnedPage { events, next, has_more } = match read {
            Err(Error::UnknownPosition) => {
                let present = self.event_position().await?;
                let is_moved = move_on(&self.pool, &position, &present).await?;
                return Ok(if is_moved { Listened::Restarted } else { Listened::Idle });
            }
            read => read?,
        };
        let listening = listening(&self.pool, &events).await?;
        if !listening.is_empty() {
            // Leaves the page at this position to this process for a while.
            let taken = sqlx::query!(
                "-- store::trigger_reader::turn
                update houston.readers set turn_until = $3
                 where name = 'triggers' and position = $1 and (turn_until is null or turn_until < $2)",
                position,
                now,
                now + reading.turn
            );
            if taken.execute(&self.pool).await?.rows_affected() != 1 {
                return Ok(Listened::Idle);
            }
        }
        let mut verdicts = self.verdicts((listening, events), &position, now, reading.turn).await?;
        let mut tx = self.pool.begin().await?;
        if !move_on(&mut *tx, &position, &next).await? {
            return Ok(Listened::Idle);
        }
        let mut failed = std::mem::take(&mut verdicts.failed);
        let count =
            if verdicts.heard.is_empty() { 0 } else { note(&mut tx, &verdicts, &mut failed, now).await? };
        note_failures(&mut tx, &failed).await?;
        tx.commit().await?;
        Ok(Listened::Read { heard: count, has_more })
    }

    /// Evaluates what triggers want. What is not plain could end the process: it is evaluated trigger by trigger, each with a
    /// mark of its own that stays then.
    async fn verdicts(
        &self,
        (listening, events): (Vec<Listening>, Vec<OwnedEvent>),
        position: &str,
        now: DateTime<Utc>,
        turn: TimeDelta,
    ) -> Result<Verdicts> {
        let (plain, others): (Vec<_>, Vec<_>) =
            (0..listening.len()).partition(|nth| listening[*nth].when.is_plain());
        let mut verdicts = Verdicts { listening, events, ..Verdicts::default() };
        let (trigger, process) = (None, self.process);
        let mut evaluation =
            Evaluation { position: Some(position), trigger, until: now + turn, turn, process };
        if !plain.is_empty() {
            verdicts = self.during(&mut evaluation, verdicts.after(plain, now)).await??;
        }
        for nth in others {
            evaluation.trigger = Some(verdicts.listening[nth].id);
            verdicts = self.during(&mut evaluation, verdicts.after(vec![nth], now)).await??;
        }
        Ok(verdicts)
    }

    /// Marks the trigger, and leaves the page to this process, for as long as `evaluating` takes.
    pub(super) async fn during<T>(
        &self,
        evaluation: &mut Evaluation<'_>,
        evaluating: impl Future<Output = T>,
    ) -> Result<T> {
        let mut evaluating = std::pin::pin!(evaluating);
        let every = evaluation.turn / 5;
        if let Some(trigger) = evaluation.trigger {
            self.marked().insert(trigger);
            evaluation.keep(&self.pool).await?;
        }
        let evaluated = loop {
            tokio::select! {
                evaluated = &mut evaluating => break evaluated,
                () = tokio::time::sleep(every.to_std().unwrap_or_default()) => {
                    evaluation.until += every;
                    // If Postgres is away, the result cannot be kept either.
                    let _ = evaluation.keep(&self.pool).await;
                }
            }
        };
        if evaluation.trigger.is_some() {
            self.unmark(evaluation.trigger).await?;
        }
        Ok(evaluated)
    }

    /// Removes the marks of this process that are left because it stops, or because Postgres could not be reached. Nothing may be
    /// evaluated meanwhile.
    ///
    /// # Errors
    /// [`Error::Database`] when Postgres cannot be reached or refuses the statement. Then the next call removes them.
    pub async fn unmark_triggers(&self) -> Result<()> {
        self.unmark(None).await
    }

    /// `survived`: the trigger whose evaluation has ended, and not the process. It is innocent of earlier deaths, too.
    async fn unmark(&self, survived: Option<TriggerId>) -> Result<()> {
        let marked: Vec<Uuid> = self.marked().iter().map(|trigger| trigger.0).collect();
        if marked.is_empty() {
            return Ok(());
        }
        sqlx::query!(
            "-- store::trigger_reader::unmark
            update houston.triggers
               set evaluated_until = null, evaluated_by = null, deaths = case when id = $2 then 0 else deaths end
             where id = any ($1)",
            &marked,
            survived.map(|trigger| trigger.0)
        )
        .execute(&self.pool)
        .await?;
        self.marked().clear();
        Ok(())
    }

    fn marked(&self) -> MutexGuard<'_, BTreeSet<TriggerId>> {
        self.marked_triggers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the deaths of processes that were evaluating a trigger, and sets aside what has caused two of them. A process that
    /// could not reach Postgres to say that it goes on is not dead while it has a worker.
    pub async fn settle_evaluations(&self, now: DateTime<Utc>) -> Result<Vec<Suspect>> {
        let settled = sqlx::query!(
            r#"-- store::trigger_reader::settle
            update houston.triggers t
               set evaluated_until = null, evaluated_by = null, deaths = t.deaths + 1, enabled = t.enabled and t.deaths + 1 < $2,
                   refused = t.refused + 1, refusal = $3
              from (select e.id from houston.triggers e
                     where e.evaluated_until < $1
                       and not exists (select from houston.workers w
                                        where right(w.id::text, 17) = e.evaluated_by and w.alive_until > $1)
                       for no key update of e skip locked) as l
             where t.id = l.id returning t.id, t.deaths"#,
            now,
            MAX_DEATHS,
            SET_ASIDE
        )
        .map(|row| Suspect { id: TriggerId(row.id), is_off: i32::from(row.deaths) >= MAX_DEATHS });
        Ok(settled.fetch_all(&self.pool).await?)
    }

    /// Ends the reader, unless a trigger has been switched on: that takes the lock of the row first.
    async fn end_trigger_reader(&self) -> Result<()> {
        let mut tx = self.pool.begin().await?;
        let found = sqlx::query_scalar!(
            "-- store::trigger_reader::lock
            select true from houston.readers where name = 'triggers' for update skip locked"
        );
        if found.fetch_optional(&mut *tx).await?.is_some() && hearing_tenants(&mut *tx).await?.is_empty() {
            sqlx::query!(
                "-- store::trigger_reader::end\ndelete from houston.readers where name = 'triggers'"
            )
            .execute(&mut *tx)
            .await?;
            tx.commit().await?;
        }
        Ok(())
    }
}

/// Moves the position, and ends the turn, if the position is still where it was. Returns whether it was.
async fn move_on(executor: impl PgExecutor<'_>, from: &str, to: &EventPosition) -> Result<bool> {
    let moved = sqlx::query!(
        "-- store::trigger_reader::move
        update houston.readers set position = $2, turn_until = null where name = 'triggers' and position = $1",
        from,
        to.to_string()
    );
    Ok(moved.execute(executor).await?.rows_affected() == 1)
}

/// What this process evaluates.
#[derive(Debug)]
pub(super) struct Evaluation<'p> {
    /// The page that other processes leave to it.
    pub(super) position: Option<&'p str>,
    /// The trigger that is marked.
    pub(super) trigger: Option<TriggerId>,
    /// When the process counts as dead, if it does not say that it goes on.
    pub(super) until: DateTime<Utc>,
    pub(super) turn: TimeDelta,
    /// The process that evaluates, if it has workers.
    pub(super) process: Option<ProcessId>,
}

impl Evaluation<'_> {
    /// Says that the process goes on.
    async fn keep(&self, pool: &Connections) -> Result<()> {
        if let Some(position) = self.position {
            sqlx::query!(
                "-- store::trigger_reader::keep
                update houston.readers set turn_until = $2 where name = 'triggers' and position = $1",
                position,
                self.until
            )
            .execute(pool)
            .await?;
        }
        if let Some(trigger) = self.trigger {
            sqlx::query!(
                "-- store::trigger_reader::mark
                update houston.triggers set evaluated_until = $2, evaluated_by = $3 where id = $1",
                trigger.0,
                self.until,
                self.process.map(end_of_id)
            )
            .execute(pool)
            .await?;
        }
        Ok(())
    }
}

/// The tenants with triggers that hear events.
async fn hearing_tenants(executor: impl PgExecutor<'_>) -> Result<Vec<Uuid>> {
    let tenants = sqlx::query_scalar!(
        "-- store::trigger_reader::tenants
        select distinct tenant_id from houston.triggers where enabled and next_at is null"
    );
    Ok(tenants.fetch_all(executor).await?)
}

/// The triggers that hear events, of the users whose events these are.
async fn listening(executor: impl PgExecutor<'_>, events: &[OwnedEvent]) -> Result<Vec<Listening>> {
    let mut users: Vec<Uuid> = events.iter().map(|event| event.owner.user.0).collect();
    users.sort_unstable();
    users.dedup();
    if users.is_empty() {
        return Ok(Vec::new());
    }
    let listening = sqlx::query!(
        r#"-- store::trigger_reader::listening
        select id, tenant_id, user_id, agentable_id, rule as "rule: Json<When>", created_at from houston.triggers
         where enabled and next_at is null and user_id = any ($1)"#,
        &users
    )
    .map(|row| Listening {
        id: TriggerId(row.id),
        user: (TenantId(row.tenant_id), UserId(row.user_id)),
        agentable: AgentableId(row.agentable_id),
        when: row.rule.0,
        since: row.created_at,
    });
    Ok(listening.fetch_all(executor).await?)
}

/// Work that the triggers of one user, and of one tenant, may do for one page: a quarter of a second and a second at worst.
const USER_WORK: u64 = 4 * MAX_MESSAGE_WORK;
const TENANT_WORK: u64 = 4 * USER_WORK;
/// Work of compiling a rule: a tenth of a millisecond, and three microseconds for each byte of its words and its expression.
const RULE_WORK: u64 = 32 * 1024;
const RULE_BYTE_WORK: u64 = 1024;
/// Work of evaluating a condition: five milliseconds at worst.
const CONDITION_WORK: u64 = 1024 * 1024;

/// Events for which a rule could not be evaluated.
#[derive(Default)]
pub(super) struct Failures {
    pub(super) count: i64,
    pub(super) last: Firing,
    /// Whether an evaluation took more than it may: the trigger is switched off.
    pub(super) is_off: bool,
}

/// Which triggers want to hear which events.
#[derive(Default)]
struct Verdicts {
    listening: Vec<Listening>,
    events: Vec<OwnedEvent>,
    /// Indexes of a trigger and of an event.
    heard: Vec<(usize, usize)>,
    /// Rules that could not be evaluated.
    failed: BTreeMap<TriggerId, Failures>,
    left: Left,
}

impl Verdicts {
    /// Evaluates the rules of these triggers too, on a thread of lower priority: on the runtime's threads they would delay
    /// everyone.
    async fn after(self, triggers: Vec<usize>, now: DateTime<Utc>) -> Result<Self> {
        match tokio::task::spawn_blocking(move || yielding(|| self.evaluated(&triggers, now))).await {
            Ok(verdicts) => Ok(verdicts),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime ends.
                Err(_) => Err(Error::Database(sqlx::Error::WorkerCrashed)),
            },
        }
    }

    /// One rule at a time, because each may take megabytes once it is compiled. A rule that a later version does not accept hears
    /// nothing.
    fn evaluated(mut self, triggers: &[usize], now: DateTime<Utc>) -> Self {
        let mut left = std::mem::take(&mut self.left);
        let mut of_users: HashMap<(TenantId, UserId), Vec<usize>> = HashMap::new();
        for (at, event) in self.events.iter().enumerate() {
            of_users.entry((event.tenant, event.owner.user)).or_default().push(at);
        }
        for nth in triggers {
            let one = &self.listening[*nth];
            let of_user = of_users.get(&one.user).into_iter().flatten().copied();
            let about: Vec<usize> = of_user.filter(|at| one.may_hear(&self.events[*at])).collect();
            let Some(last) = about.last() else { continue };
            let work = RULE_WORK + RULE_BYTE_WORK * one.when.pattern_bytes();
            let mut failures = Failures::default();
            if left.of(one.user) < work {
                failures.add(about.len(), &self.events[*last], SPENT.to_owned(), now);
            } else {
                left.spend(one.user, work);
                let Ok(rule) = one.when.rule() else { continue };
                for at in about {
                    let event = &self.events[at];
                    match hears(&rule, event, one.user, &mut left) {
                        Ok(true) => self.heard.push((*nth, at)),
                        Ok(false) => {}
                        Err((refusal, is_off)) => {
                            failures.is_off |= is_off;
                            failures.add(1, event, refusal, now);
                        }
                    }
                }
            }
            if failures.count > 0 {
                self.failed.insert(one.id, failures);
            }
        }
        self.left = left;
        // They are told in the order of the events.
        self.heard.sort_unstable_by_key(|(nth, at)| (*at, *nth));
        self
    }
}

impl Listening {
    /// Whether an event of its user is newer than itself, and of its kind.
    fn may_hear(&self, event: &OwnedEvent) -> bool {
        let is_kind = !matches!(self.when, When::Keyword { .. }) || said_by_user(event).is_some();
        is_kind && self.since <= event.event.at
    }
}

impl Failures {
    fn add(&mut self, count: usize, event: &OwnedEvent, refusal: String, now: DateTime<Utc>) {
        self.count += i64::try_from(count).unwrap_or(i64::MAX);
        self.last = Firing { refusal: Some(refusal), ..Firing::about(&cause(event), now) };
    }
}

/// Why a trigger did not hear events.
const SPENT: &str = "the triggers of this user or tenant took too much work for so many events at once";

/// The work that is left to users and tenants.
#[derive(Default)]
struct Left {
    /// By the id of a user or a tenant.
    spent: HashMap<Uuid, u64>,
}

impl Left {
    fn of(&self, (tenant, user): (TenantId, UserId)) -> u64 {
        let left = |id, most: u64| most.saturating_sub(self.spent.get(&id).copied().unwrap_or_default());
        left(user.0, USER_WORK).min(left(tenant.0, TENANT_WORK))
    }

    fn spend(&mut self, (tenant, user): (TenantId, UserId), work: u64) {
        for id in [tenant.0, user.0] {
            *self.spent.entry(id).or_default() += work;
        }
    }
}

/// Whether the topic, the owner or the words are wanted, and the condition holds; or why that cannot be said, and whether the
/// trigger is to be switched off.
fn hears(
    rule: &Rule,
    event: &OwnedEvent,
    user: (TenantId, UserId),
    left: &mut Left,
) -> std::result::Result<bool, (String, bool)> {
    let spent = || (SPENT.to_owned(), false);
    match rule {
        Rule::Cron(_) => Ok(false),
        Rule::Event(rule) => {
            if !rule.chooses(event.event.event.topic(), &event.owner) || rule.condition.is_none() {
                return Ok(rule.chooses(event.event.event.topic(), &event.owner));
            }
            if left.of(user) < CONDITION_WORK {
                return Err(spent());
            }
            left.spend(user, CONDITION_WORK);
            rule.holds(&cause(event)).map_err(|error| {
                let is_over = matches!(error, ExpressionError::Budget(_));
                if is_over {
                    left.spend(user, USER_WORK);
                }
                (format!("condition: {error}"), is_over)
            })
        }
        Rule::Keyword(words) => {
            let Some(text) = said_by_user(event) else { return Ok(false) };
            let allowed = left.of(user).min(MAX_MESSAGE_WORK);
            let mut remains = allowed;
            let found = words.matches(text, &mut remains);
            left.spend(user, allowed - remains);
            found.map_err(|error| {
                if allowed < MAX_MESSAGE_WORK { spent() } else { (format!("regex: {error}"), false) }
            })
        }
    }
}

/// Counts what was refused, and says why. A trigger that is being changed in another transaction is left out: the change
/// may wait for the reader.
pub(super) async fn note_failures(
    connection: &mut PgConnection,
    failed: &BTreeMap<TriggerId, Failures>,
) -> Result<()> {
    for (id, Failures { count, last, is_off }) in failed {
        sqlx::query!(
            "-- store::trigger_reader::failed
            update houston.triggers t
               set refused = t.refused + $2, refusal = $3, enabled = t.enabled and not $6::boolean,
                   firings = (select jsonb_agg(f order by nth) from jsonb_array_elements($4::jsonb || t.firings)
                                     with ordinality as e (f, nth) where nth <= $5)
              from (select id from houston.triggers where id = $1 for no key update skip locked) as l where t.id = l.id",
            id.0,
            count,
            last.refusal,
            Json([last]) as Json<[&Firing; 1]>,
            MAX_FIRINGS,
            is_off
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

/// How many events that its triggers have heard may wait in a tenant. Past that they are refused, as the owners of the triggers read:
/// what has waited for so long would come too late.
const MAX_WAITING: i64 = 10_000;

fn backlog() -> String {
    format!(
        "backlog: {MAX_WAITING} events that triggers of this tenant have heard wait already; give them narrower rules"
    )
}

/// How many events that its triggers have heard wait in each of these tenants, up to the limit.
async fn waiting(connection: &mut PgConnection, tenants: Vec<Uuid>) -> Result<HashMap<Uuid, i64>> {
    let rows = sqlx::query!(
        r#"-- store::trigger_reader::waiting
        select t.id as "id!", (select count(*) from (select from houston.trigger_firings f
                                                      where f.tenant_id = t.id limit $2) as w) as "waiting!"
          from (select distinct u.id from unnest($1::uuid[]) as u (id)) as t"#,
        &tenants,
        MAX_WAITING
    );
    Ok(rows.fetch_all(connection).await?.into_iter().map(|row| (row.id, row.waiting)).collect())
}

/// Notes what was heard, but for what the triggers have caused themselves. Returns how many. The times are of the database, so
/// that what one reader notes is later than what another has noted before.
async fn note(
    connection: &mut PgConnection,
    verdicts: &Verdicts,
    failed: &mut BTreeMap<TriggerId, Failures>,
    now: DateTime<Utc>,
) -> Result<usize> {
    let heard = verdicts.heard.iter().map(|(nth, at)| (&verdicts.listening[*nth], &verdicts.events[*at]));
    let heard: Vec<_> = heard.collect();
    // What a user writes has no other cause, whichever run is open.
    let caused = heard.iter().filter(|(_, event)| said_by_user(event).is_none());
    let runs = caused.flat_map(|(_, event)| runs_of(event)).collect();
    let chains = chains(&mut *connection, runs).await?;
    let tenants = heard.iter().map(|(_, event)| event.tenant.0).collect();
    let mut waiting = waiting(&mut *connection, tenants).await?;
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
        let of_tenant = waiting.entry(event.tenant.0).or_default();
        if *of_tenant >= MAX_WAITING {
            failed.entry(listening.id).or_default().add(1, event, backlog(), now);
            continue;
        }
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
            &uuids(&chain.triggers),
            chain.depth
        )
        .execute(&mut *connection)
        .await?;
        count += usize::from(noted.rows_affected() == 1);
        *of_tenant += 1;
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
    let caused = sqlx::query!(
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
    .map(|row| {
        let tasks = row.tasks.into_iter().flatten().filter_map(|task| task.parse::<RunId>().ok());
        let own = row.trigger_chain.map(|chain| Chain {
            triggers: chain.into_iter().map(TriggerId).collect(),
            depth: row.trigger_depth.unwrap_or(1),
        });
        Caused { run: row.id, own, by: row.parent.into_iter().chain(tasks.map(|task| task.0)).collect() }
    });
    Ok(caused.fetch_all(connection).await?)
}
