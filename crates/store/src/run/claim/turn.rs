//! Sessions at the beginning of a run: closing the one that is over, and reporting closed ones in the event stream.

use houston_domain::claim::Turn;
use houston_domain::event::Event;
use houston_domain::id::SessionId;
use houston_domain::session::CompletionReason;
use sqlx::PgConnection;
use sqlx::types::Json;

use super::ClaimedRun;
use crate::error::Result;
use crate::session::fold;

/// The open session of a run that begins.
pub(super) struct Session {
    /// The position of its last entry; `None` if it has none.
    pub(super) last_entry: Option<i64>,
    /// The reason of a request to close it.
    pub(super) close_reason: Option<String>,
    /// The id that it gets when it is closed.
    pub(super) id: SessionId,
    /// Seconds without messages after which the sweep closes the next one.
    pub(super) quiet: f64,
}

/// Writes the turn of a run that was claimed in the same transaction.
pub(super) async fn turn(
    connection: &mut PgConnection,
    run: &ClaimedRun,
    turn: Turn,
    session: &Session,
) -> Result<()> {
    let agentable = run.fence.agentable.0;
    if let (true, Some(last)) = (turn.closes, session.last_entry) {
        let requested = session.close_reason.as_deref().map(CompletionReason::from_name);
        let reason = requested.unwrap_or(CompletionReason::SessionTimeout);
        fold(connection, run.fence.agentable, last, reason, session.id).await?;
    }
    if turn.schedules {
        sqlx::query!(
            "-- store::claim::turn::schedule
            insert into houston.session_states as s (agentable_id, tenant_id, look_at)
            values ($1, $2, clock_timestamp() + make_interval(secs => $3))
            on conflict (agentable_id) do update set look_at = excluded.look_at, close_reason = null",
            agentable,
            run.tenant.0,
            session.quiet
        )
        .execute(&mut *connection)
        .await?;
    }
    if turn.reports { report(connection, run).await } else { Ok(()) }
}

/// Writes the events of the closed sessions that were not reported yet, after the event of the attempt.
async fn report(connection: &mut PgConnection, run: &ClaimedRun) -> Result<()> {
    let rows = sqlx::query!(
        "-- store::claim::turn::unreported
        select c.id, c.number, c.completion_reason, c.started_at, c.completed_at
          from houston.session_states s
          join houston.sessions c on c.agentable_id = s.agentable_id and c.number > s.reported_number
         where s.agentable_id = $1 order by c.number",
        run.fence.agentable.0
    )
    .fetch_all(&mut *connection)
    .await?;
    let events: Vec<Json<Event>> = rows
        .into_iter()
        .map(|row| {
            Json(Event::SessionArchived {
                session_id: SessionId(row.id),
                number: i64::from(row.number),
                reason: CompletionReason::from_name(&row.completion_reason),
                started_at: row.started_at,
                completed_at: row.completed_at,
            })
        })
        .collect();
    sqlx::query!(
        "-- store::claim::turn::report
        with locks as (
            update houston.run_locks set last_seq = $4::bigint + cardinality($5::jsonb[]) where agentable_id = $1),
        reported as (
            update houston.session_states set reported_number = last_number where agentable_id = $1)
        insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, data)
        select $1, $4::bigint + e.nth, $2, $3, $6, e.data from unnest($5::jsonb[]) with ordinality as e (data, nth)",
        run.fence.agentable.0,
        run.tenant.0,
        run.run.0,
        run.event.seq,
        &events as &[Json<Event>],
        run.fence.epoch
    )
    .execute(connection)
    .await?;
    Ok(())
}
