//! The protocol as functions of the database: what the rules in Rust are compared with.
//!
//! The functions are those of the last release of Houston that had them; `tests/oracle` has one file each. They work on the
//! same tables.

use chrono::{DateTime, Utc};
use houston_domain::error_message::ErrorMessage;
use houston_domain::event::{Committed, Event};
use houston_domain::frame::MessageBlock;
use houston_domain::id::{AgentableId, MessageId, RunId, RunToken, TenantId, UserId, WorkerId};
use houston_domain::model::Usage;
use houston_domain::run::RunStatus;
use houston_domain::step::{Ending, RunTransition, Step};
use houston_store::claim::{ClaimedRun, CrashPolicy, Fence};
use houston_store::step::{Commit, CommittedStep};
use houston_store::sweep::Due;
use houston_store::{Error, Fairness, Result, Store};
use serde_json::Value;
use sqlx::types::Json;
use sqlx::{AssertSqlSafe, PgExecutor, PgPool};
use uuid::Uuid;

/// Adds the functions to a database.
pub(crate) async fn install(pool: &PgPool) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle");
    for file in std::fs::read_dir(folder).unwrap() {
        let sql = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let sql = format!("set check_function_bodies = off; {sql}");
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(pool).await.unwrap();
    }
}

/// The result of `houston.commit_step`.
#[derive(sqlx::FromRow)]
struct Row {
    outcome: Option<String>,
    first_seq: Option<i64>,
    at: Option<DateTime<Utc>>,
    read_blocks: Option<Vec<Json<MessageBlock>>>,
    cancel_seq: Option<i64>,
    opened: Option<bool>,
    cancelled_by: Option<String>,
    waiting: Option<Vec<Uuid>>,
    waiting_kinds: Option<Vec<String>>,
}

/// The result of `houston.claim_run`.
#[derive(sqlx::FromRow)]
struct ClaimRow {
    epoch: i64,
    tenant_id: Uuid,
    user_id: Uuid,
    kind: String,
    title: String,
    description: String,
    parent_id: Option<Uuid>,
    run_id: Uuid,
    attempt: i32,
    iterations: i32,
    deaths: i32,
    claims: i32,
    failed_attempts: i32,
    cancel_seq: Option<i64>,
    usage: Vec<i64>,
    seq: i64,
    at: DateTime<Utc>,
    takeover: bool,
    error_content: Option<String>,
    error_metadata: Option<Value>,
}

/// Claims a run through the functions.
pub(crate) async fn claim(
    pool: &PgPool,
    store: &Store,
    agentable: AgentableId,
    (worker, token, next_message): (WorkerId, RunToken, MessageId),
    crashes: CrashPolicy,
) -> Result<Option<ClaimedRun>> {
    let fairness = store.fairness();
    let row: Option<ClaimRow> = sqlx::query_as(
        "select epoch, tenant_id, user_id, kind,
                   title, description, parent_id, run_id,
                   attempt, iterations, deaths,
                   claims, failed_attempts, cancel_seq, usage, seq, at,
                   takeover, error_content, error_metadata,
                   case when attempt = 1 and kind = any ($10)
                        then houston.turn_session($1, run_id, make_interval(secs => $11), $4) end as told
              from houston.claim_run($1, $2, $3, $4, $5, $6, $7, $8,
                   make_interval(secs => $9))",
    )
    .bind(agentable.0)
    .bind(worker.0)
    .bind(token.0)
    .bind(next_message.0)
    .bind(i32::from(fairness.max_running))
    .bind(i32::from(fairness.read_messages))
    .bind(i32::try_from(fairness.read_bytes).unwrap())
    .bind(crashes.max)
    .bind(crashes.grace.as_secs_f64())
    .bind(&store.runs().archiving().kinds)
    .bind(store.runs().archiving().settings.quiet().as_secs_f64())
    .fetch_optional(pool)
    .await?;
    Ok(row.map(|row| ClaimedRun {
        submission: None,
        traceparent: None,
        fence: Fence { agentable, epoch: row.epoch, token },
        tenant: TenantId(row.tenant_id),
        user: UserId(row.user_id),
        kind: row.kind,
        title: row.title,
        description: row.description,
        parent: row.parent_id.map(AgentableId),
        run: RunId(row.run_id),
        attempt: row.attempt,
        iterations: row.iterations,
        deaths: row.deaths,
        is_given_up: row.deaths >= crashes.max,
        claims: row.claims,
        failed_attempts: row.failed_attempts,
        cancel_seq: row.cancel_seq,
        usage: Usage {
            input_tokens: u64::try_from(row.usage[0]).unwrap(),
            output_tokens: u64::try_from(row.usage[1]).unwrap(),
            cache_read_tokens: u64::try_from(row.usage[2]).unwrap(),
            cache_write_tokens: u64::try_from(row.usage[3]).unwrap(),
            reasoning_tokens: u64::try_from(row.usage[4]).unwrap(),
            ..Usage::default()
        },
        error: row.error_content.zip(row.error_metadata).map(|(content, metadata)| ErrorMessage {
            id: ErrorMessage::id_of(RunId(row.run_id)),
            content,
            metadata,
        }),
        next_message,
        event: Committed {
            seq: row.seq,
            run_id: RunId(row.run_id),
            at: row.at,
            event: Event::AttemptStarted {
                attempt: row.attempt,
                iteration: u32::try_from(row.iterations).unwrap() + 1,
                next_message_id: next_message,
                takeover: row.takeover,
                resumed: false,
            },
            body: None,
        },
        posted: Vec::new(),
        booked: None,
        context: None,
    }))
}

/// The arguments of `houston.commit_step` that follow from a transition.
struct Parts<'a> {
    then: &'static str,
    read: bool,
    last: Option<&'a Event>,
    go_on: Option<&'a Event>,
    ending: Option<&'a Ending>,
    status: Option<&'static str>,
    retry_at: Option<DateTime<Utc>>,
}

impl<'a> Parts<'a> {
    fn of(transition: &'a RunTransition) -> Self {
        let mut parts = Parts {
            then: "go_on",
            read: false,
            last: None,
            go_on: None,
            ending: None,
            status: None,
            retry_at: None,
        };
        match transition {
            RunTransition::Continue { read, event } => {
                parts.read = *read;
                parts.go_on = event.as_ref();
            }
            RunTransition::Complete { event, continue_event, ending } => {
                parts.then = "finish";
                parts.last = Some(event);
                parts.go_on = Some(continue_event);
                parts.ending = Some(ending);
            }
            RunTransition::Terminate { event, ending } => {
                parts.then = "end";
                parts.last = Some(event);
                parts.ending = Some(ending);
            }
            RunTransition::Retry { event, at, counts, ending } => {
                parts.then = if *counts { "retry" } else { "hand_over" };
                parts.last = Some(event);
                parts.ending = Some(ending);
                parts.retry_at = Some(*at);
            }
            RunTransition::Wait { .. } => panic!("the oracle's runs do not wait"),
            RunTransition::Release { event } => {
                parts.then = "hand_over";
                parts.last = Some(event);
                parts.status = Some(RunStatus::Queued.as_str());
            }
        }
        if let Some(ending) = parts.ending {
            parts.status = Some(ending.status.as_str());
        }
        parts
    }
}

/// Commits a step through the functions.
#[expect(clippy::too_many_lines, reason = "one statement: its parameters are its length")]
pub(crate) async fn commit(
    connection: impl PgExecutor<'_>,
    fence: &Fence,
    step: &Step,
    fairness: Fairness,
) -> Result<Commit> {
    let parts = Parts::of(&step.transition);
    let roles: Vec<&str> = step.entries.iter().map(|entry| entry.role.as_str()).collect();
    let contents: Vec<_> = step.entries.iter().map(|entry| Json(&entry.content)).collect();
    let events: Vec<_> = step.events.iter().map(Json).collect();
    let event_messages: Vec<Option<Uuid>> =
        step.events.iter().map(|event| event.message_id().map(|id| id.0)).collect();
    let message_ids: Vec<Uuid> = step.messages.iter().map(|message| message.id.0).collect();
    let message_events: Vec<i32> =
        step.messages.iter().map(|message| i32::try_from(message.event + 1).unwrap_or(i32::MAX)).collect();
    let sources: Vec<&str> = step.messages.iter().map(|message| message.source.as_str()).collect();
    let types: Vec<&str> = step.messages.iter().map(|message| message.message_type.as_str()).collect();
    let texts: Vec<&str> = step.messages.iter().map(|message| message.content.as_str()).collect();
    let metadata: Vec<&Value> = step.messages.iter().map(|message| &message.metadata).collect();
    let calls: Vec<&str> = step.intents.iter().map(|intent| intent.call.as_str()).collect();
    let names: Vec<&str> = step.intents.iter().map(|intent| intent.name.as_str()).collect();
    let effects: Vec<&str> = step.intents.iter().map(|intent| intent.effect.as_str()).collect();
    let intent_cells: Vec<Uuid> = step.intents.iter().map(|intent| intent.cell.0).collect();
    let answered: Vec<&str> = step.responses.iter().map(|(call, _)| call.as_str()).collect();
    let responses: Vec<_> = step.responses.iter().map(|(_, response)| Json(response)).collect();
    let cells: Vec<Uuid> = step.cells.iter().map(|(id, _)| id.0).collect();
    let cell_metadata: Vec<&Value> = step.cells.iter().map(|(_, metadata)| metadata).collect();
    let usage = [
        step.usage.input_tokens,
        step.usage.output_tokens,
        step.usage.cache_read_tokens,
        step.usage.cache_write_tokens,
        step.usage.reasoning_tokens,
    ]
    .map(|tokens| i64::try_from(tokens).unwrap_or(i64::MAX));
    let row: Row = sqlx::query_as(
        "select outcome, first_seq, last_seq, at, read_blocks, cancel_seq, opened, cancelled_by, waiting,
            waiting_kinds, case when outcome = 'committed' and $23 in ('finish', 'end')
                           then houston.end_run($1, $38, (select read_seq from houston.run_locks where agentable_id = $1), $35)
                           end as ended,
            case when outcome in ('committed', 'went_on') and $39::jsonb is not null
                           then houston.count_call($1, $38, $4, at, $39) end as counted
          from houston.commit_step($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
               $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37)",
    )
    .bind(fence.agentable.0)
    .bind(fence.epoch)
    .bind(fence.token.0)
    .bind(step.write.0)
    .bind(&roles)
    .bind(&contents)
    .bind(&events)
    .bind(&event_messages)
    .bind(&message_ids)
    .bind(&message_events)
    .bind(&sources)
    .bind(&types)
    .bind(&texts)
    .bind(&metadata)
    .bind(&calls)
    .bind(&names)
    .bind(&effects)
    .bind(&intent_cells)
    .bind(&answered)
    .bind(&responses)
    .bind(&cells)
    .bind(&cell_metadata)
    .bind(parts.then)
    .bind(parts.read)
    .bind(parts.last.map(Json))
    .bind(parts.go_on.map(Json))
    .bind(parts.ending.map(|_| step.run.successor().0))
    .bind(parts.status)
    .bind(i32::try_from(step.iterations).unwrap_or(i32::MAX))
    .bind(usage)
    .bind(step.model.as_deref())
    .bind(parts.ending.and_then(|ending| ending.error_code.as_deref()))
    .bind(parts.ending.and_then(|ending| ending.error_message.as_deref()))
    .bind(parts.retry_at)
    .bind(i32::from(fairness.max_running))
    .bind(i32::from(fairness.read_messages))
    .bind(i32::try_from(fairness.read_bytes).unwrap())
    .bind(step.run.0)
    .bind(step.call.as_ref().map(Json))
    .fetch_one(connection)
    .await?;
    match row.outcome.as_deref() {
        Some("landed") => Ok(Commit::AlreadyCommitted),
        Some(outcome @ ("committed" | "went_on")) => {
            let continued = outcome == "went_on";
            let opened = row.opened.unwrap_or(false);
            let (first, at) = (row.first_seq.unwrap_or(0), row.at.unwrap_or_default());
            Ok(Commit::Done(CommittedStep {
                events: committed(step, (first, at), (continued, opened), row.cancelled_by),
                read: row
                    .read_blocks
                    .filter(|_| continued || parts.read)
                    .map_or_else(Vec::new, |blocks| blocks.into_iter().map(|block| block.0).collect()),
                continued,
                opened,
                cancel_seq: row.cancel_seq,
                waiting: row
                    .waiting
                    .unwrap_or_default()
                    .into_iter()
                    .zip(row.waiting_kinds.unwrap_or_default())
                    .map(|(id, kind)| Due { agentable: AgentableId(id), kind })
                    .collect(),
            }))
        }
        _ => Err(Error::Fenced),
    }
}

/// The step's events with their positions, without messages.
fn committed(
    step: &Step,
    (first, at): (i64, DateTime<Utc>),
    (continued, opened): (bool, bool),
    cancelled_by: Option<String>,
) -> Vec<Committed> {
    let parts = Parts::of(&step.transition);
    let last = if continued || parts.last.is_none() { parts.go_on } else { parts.last };
    let mut events: Vec<Committed> = step
        .events
        .iter()
        .chain(last)
        .zip(first..)
        .map(|(event, seq)| Committed { seq, run_id: step.run, at, event: event.clone(), body: None })
        .collect();
    if let (Some(by), Some(last)) = (cancelled_by, events.last_mut())
        && let Event::RunFinished { status, message, code, .. } = &mut last.event
    {
        (*status, *message, *code) = (RunStatus::Cancelled, None, Some(by));
    }
    if let (true, Some(_), Some(last)) = (opened, parts.ending, events.last()) {
        let seq = last.seq + 1;
        events.push(Committed {
            seq,
            run_id: step.run.successor(),
            at,
            event: Event::RunQueued {},
            body: None,
        });
    }
    events
}
