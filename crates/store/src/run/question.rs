//! Questions of runs: asked and closed with a step, closed from outside, read by the run. Those about budgets also tell what people
//! have added to them.
//!
//! The caller that closes a question holds the lock row of its agentable, and takes that row first.

use std::borrow::Cow;

use houston_domain::event::Event;
use houston_domain::id::{AgentableId, QuestionId, RunId};
use houston_domain::question::approval::{Approval, answer_schema, arguments};
use houston_domain::question::{
    ClosedQuestion, NewQuestion, OWN_PREFIX, Question, QuestionChanges, QuestionState, budget,
};
use houston_domain::step::Step;
use serde::Serialize;
use serde_json::{Value, json};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::handle::RunStore;
use crate::settings::Fairness;
use crate::statement::{Statement as _, uuids};

/// The unread messages of an agentable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnreadMessages {
    /// Their number.
    pub count: i32,
    /// Whether one of them is from the user.
    pub from_user: bool,
}

impl RunStore {
    /// The questions of a run, the oldest first.
    pub async fn questions_of(&self, agentable: AgentableId, run: RunId) -> Result<Vec<Question>> {
        let rows = sqlx::query!(
            "-- store::question::of_run
            select id, kind, subject, text, schema, default_value, expires_at, state, answer, answered_by, created_at,
                   closed_at, approval
              from houston.questions where agentable_id = $1 and run_id = $2 order by id",
            agentable.0,
            run.0
        )
        .map(|row| question_row!(row));
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// What the driver of a run remembers, and the questions of the run, the oldest first.
    pub async fn driven(&self, agentable: AgentableId, run: RunId) -> Result<(Option<Value>, Vec<Question>)> {
        let questions = self.questions_of(agentable, run).await?;
        let state = sqlx::query_scalar!(
            "-- store::question::driver_state
            select driver_state from houston.runs where id = $1",
            run.0
        )
        .fetch_optional(&self.pool)
        .await?;
        Ok((state.flatten(), questions))
    }

    /// The unread messages of an agentable.
    pub async fn unread(&self, agentable: AgentableId) -> Result<UnreadMessages> {
        let row = sqlx::query_as!(
            UnreadMessages,
            r#"-- store::question::unread
            select k.unread as count,
                   exists (select from houston.messages m
                            where m.agentable_id = k.agentable_id and m.seq > k.read_seq and m.source = 'user')
                   as "from_user!"
              from houston.run_locks k where k.agentable_id = $1"#,
            agentable.0
        );
        Ok(row.fetch_optional(&self.pool).await?.unwrap_or_default())
    }

    /// Closes questions whose time has passed, at most `limit`, and wakes their runs. Returns how many it closed; those
    /// whose agentable another transaction is writing are left to the next call.
    pub async fn expire_questions(&self, limit: i64) -> Result<usize> {
        // In most cases this read of an index decides, outside of a transaction.
        let is_due = sqlx::query_scalar!(
            r#"-- store::question::is_due
            select exists (select from houston.questions
                            where state = 'open' and expires_at <= statement_timestamp()) as "due!""#
        )
        .fetch_one(&self.pool)
        .await?;
        if !is_due {
            return Ok(0);
        }
        let mut tx = self.pool.begin().await?;
        let due = sqlx::query_scalar!(
            "-- store::question::due
            select q.id
              from (select id, agentable_id from houston.questions
                     where state = 'open' and expires_at <= statement_timestamp() order by expires_at limit $1) q
              join houston.run_locks l on l.agentable_id = q.agentable_id
               for no key update of l skip locked",
            limit
        )
        .fetch_all(&mut *tx)
        .await?;
        let closed = close(&mut tx, &due, QuestionState::Expired, None, None).await?;
        report(&mut tx, &closed, self.fairness).await?;
        tx.commit().await?;
        Ok(closed.len())
    }
}

/// Whether one of these questions is not open any more. The caller holds the lock of their agentable.
pub(crate) async fn has_closed(connection: &mut PgConnection, questions: &[QuestionId]) -> Result<bool> {
    if questions.is_empty() {
        return Ok(false);
    }
    let open = sqlx::query_scalar!(
        r#"-- store::question::count_open
        select count(*) as "open!" from houston.questions where id = any ($1) and state = 'open'"#,
        &uuids(questions)
    )
    .fetch_one(connection)
    .await?;
    Ok(usize::try_from(open).unwrap_or(0) < questions.len())
}

/// Writes the questions of a step, and closes those that it supersedes; `closes_all`: also all others of its run, which
/// ends. Returns the step with the events that report this. The caller holds the lock of the agentable.
///
/// # Errors
/// [`Error::Answered`] when a person has answered a question of Houston itself that the step supersedes: the decision would
/// be lost.
pub(crate) async fn write<'s>(
    connection: &mut PgConnection,
    agentable: AgentableId,
    step: &'s Step,
    closes_all: bool,
) -> Result<Cow<'s, Step>> {
    if step.questions.is_none() && !closes_all {
        return Ok(Cow::Borrowed(step));
    }
    let QuestionChanges { asked, superseded } = step.questions.as_deref().cloned().unwrap_or_default();
    let mut closed = Vec::new();
    if !superseded.is_empty() {
        let ids = uuids(&superseded);
        closed.extend(close(connection, &ids, QuestionState::Superseded, None, None).await?);
        // A plan that was changed by an answer is not written: what it decided without the answer is void.
        if closed.len() < ids.len() && step.plan.is_none() && was_decided(connection, &ids).await? {
            return Err(Error::Answered);
        }
    }
    if closes_all {
        let open = sqlx::query_scalar!(
            "-- store::question::open_of_run
            select id from houston.questions where agentable_id = $1 and run_id = $2 and state = 'open'",
            agentable.0,
            step.run.0
        )
        .fetch_all(&mut *connection)
        .await?;
        closed.extend(close(connection, &open, QuestionState::Cancelled, None, None).await?);
    }
    insert(connection, agentable, step.run, &asked).await?;
    let mut step = step.clone();
    step.events.extend(closed.into_iter().map(|closed| closed.event));
    step.events.extend(asked.into_iter().map(|question| Event::QuestionAsked(Box::new(question))));
    Ok(Cow::Owned(step))
}

/// Whether a person has answered one of these questions that Houston itself asked.
async fn was_decided(connection: &mut PgConnection, questions: &[Uuid]) -> Result<bool> {
    let decided = sqlx::query_scalar!(
        r#"-- store::question::was_decided
        select exists (select from houston.questions
                        where id = any ($1) and state = 'answered'
                          and (approval is not null or starts_with(subject, $2))) as "decided!""#,
        questions,
        OWN_PREFIX
    );
    Ok(decided.fetch_one(connection).await?)
}

async fn insert(
    connection: &mut PgConnection,
    agentable: AgentableId,
    run: RunId,
    questions: &[NewQuestion],
) -> Result<()> {
    if questions.is_empty() {
        return Ok(());
    }
    let rows = questions.iter().map(|question| {
        let NewQuestion { id, kind, subject, text, default_value, expires_at, .. } = question;
        let (approval, schema) = StoredApproval::of(question);
        json!({"id": id.0, "kind": kind, "subject": subject, "text": text, "schema": schema,
               "default_value": default_value, "expires_at": expires_at, "approval": approval})
    });
    sqlx::query!(
        "-- store::question::insert
        with run as (update houston.runs set asked = true where id = $2)
        insert into houston.questions (id, tenant_id, user_id, agentable_id, run_id, kind, subject, text, schema,
                                       default_value, expires_at, approval)
        select q.id, k.tenant_id, k.user_id, k.agentable_id, $2, q.kind, q.subject, q.text, q.schema, q.default_value,
               q.expires_at, q.approval
          from houston.run_locks k
         cross join jsonb_to_recordset($3) as q (id uuid, kind text, subject text, text text, schema jsonb,
                                                 default_value jsonb, expires_at timestamptz, approval jsonb)
         where k.agentable_id = $1",
        agentable.0,
        run.0,
        Value::from_iter(rows)
    )
    .run(connection)
    .await
}

/// A question that was closed now, with the event that reports it.
#[derive(Debug, Serialize)]
pub(crate) struct Closed {
    agentable_id: Uuid,
    run_id: Uuid,
    event: Event,
}

/// Closes those of the questions that are open. The caller holds the locks of their agentables.
pub(crate) async fn close(
    connection: &mut PgConnection,
    questions: &[Uuid],
    state: QuestionState,
    answer: Option<&Value>,
    answered_by: Option<&str>,
) -> Result<Vec<Closed>> {
    let closed = sqlx::query!(
        "-- store::question::close
        with t as materialized (select clock_timestamp() as at)
        update houston.questions set state = $2, answer = $3, answered_by = $4, closed_at = t.at
          from t where id = any ($1) and state = 'open'
        returning id, agentable_id, run_id",
        questions,
        state.as_str(),
        answer,
        answered_by
    )
    .map(|row| Closed {
        agentable_id: row.agentable_id,
        run_id: row.run_id,
        event: Event::QuestionClosed(ClosedQuestion {
            id: QuestionId(row.id),
            state,
            answer: answer.cloned(),
        }),
    });
    Ok(closed.fetch_all(connection).await?)
}

/// Reports questions that were closed from outside of their runs, and wakes those that are open. Workers are notified at
/// commit. The caller holds the locks of the agentables.
pub(crate) async fn report(
    connection: &mut PgConnection,
    closed: &[Closed],
    fairness: Fairness,
) -> Result<()> {
    if closed.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        r#"-- store::question::report
        with i as materialized (
            select i.agentable_id, i.run_id, i.event, row_number() over (partition by i.agentable_id) as nth,
                   count(*) over (partition by i.agentable_id) as count
              from jsonb_to_recordset($1) as i (agentable_id uuid, run_id uuid, event jsonb)),
        l as materialized (
            select i.*, k.tenant_id, k.user_id, k.last_seq, k.holder is null as is_free
              from i join houston.run_locks k
                on k.agentable_id = i.agentable_id and k.run_id = i.run_id and k.run_open),
        t as materialized (select clock_timestamp() as at),
        locks as (
            update houston.run_locks k
               set last_seq = l.last_seq + l.count,
                   waiting_since = case when k.wake then k.waiting_since else t.at end,
                   next_attempt_at = case when k.wake then k.next_attempt_at end, wake = true
              from l cross join t where k.agentable_id = l.agentable_id and l.nth = 1),
        events as (
            insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, data, created_at)
            select l.agentable_id, l.last_seq + l.nth, l.tenant_id, l.run_id, 0, l.event, t.at from l cross join t),
        plans as (
            -- A plan reads the answer before it writes its next step.
            update houston.plans p set changes = p.changes + 1 from l where p.agentable_id = l.agentable_id and l.nth = 1)
        select case when l.is_free and houston.free_slots(l.user_id, l.agentable_id, $2) > 0
                    then pg_notify('houston', format('1 post %s', l.agentable_id))::text end as notified
          from l where l.nth = 1"#,
        Json(closed) as Json<&[Closed]>,
        fairness.running()
    )
    .fetch_all(connection)
    .await?;
    Ok(())
}

/// An approval as it is stored. Of the schema of its answer only that of the tool's arguments is: the rest is the same for
/// all, and most of a row.
#[derive(Debug, Serialize)]
pub(crate) struct StoredApproval<'a> {
    #[serde(flatten)]
    approval: &'a Approval,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<&'a Value>,
}

impl<'a> StoredApproval<'a> {
    /// The approval of a question, and the schema of the question if that does not follow from it.
    pub(crate) fn of(question: &'a NewQuestion) -> (Option<Self>, Option<&'a Value>) {
        let (approval, schema) = (question.approval.as_deref(), question.schema.as_ref());
        let follows = |arguments: &&Value| {
            approval.is_some_and(|approval| Some(&answer_schema(arguments, approval.lasting)) == schema)
        };
        let arguments = schema.and_then(arguments).filter(follows);
        let stored = approval.map(|approval| Self { approval, arguments });
        (stored, if arguments.is_none() { schema } else { None })
    }

    /// The schema of a question with this approval.
    pub(crate) fn schema(approval: Option<&Value>) -> Option<Value> {
        let approval = approval?;
        let lasting = approval.get("lasting").and_then(Value::as_bool).unwrap_or_default();
        Some(answer_schema(approval.get("arguments")?, lasting))
    }
}

/// The `Question` of a query's row that has its columns, among others.
macro_rules! question_row {
    ($r:ident) => {{
        use houston_domain::question::{NewQuestion, Question, QuestionKind, QuestionState};
        Question {
            asked: NewQuestion {
                id: houston_domain::id::QuestionId($r.id),
                kind: QuestionKind::from_name(&$r.kind).unwrap_or(QuestionKind::Input),
                subject: $r.subject,
                text: $r.text,
                schema: $r.schema.or_else(|| $crate::question::StoredApproval::schema($r.approval.as_ref())),
                default_value: $r.default_value,
                expires_at: $r.expires_at,
                approval: $r.approval.and_then(|approval| serde_json::from_value(approval).ok()),
                message_id: None,
            },
            state: QuestionState::from_name(&$r.state).unwrap_or(QuestionState::Cancelled),
            answer: $r.answer,
            answered_by: $r.answered_by,
            created_at: $r.created_at,
            closed_at: $r.closed_at,
        }
    }};
}
pub(crate) use question_row;

impl RunStore {
    /// The budget questions that Houston has asked for the runs of an agentable, the oldest first, with their runs.
    pub async fn budget_questions(&self, agentable: AgentableId) -> Result<Vec<(RunId, Question)>> {
        let questions = sqlx::query!(
            "-- store::question::budget::of_agentable
            select run_id, id, kind, subject, text, schema, default_value, expires_at, state, answer, answered_by,
                   created_at, closed_at, approval
              from houston.questions
             where agentable_id = $1 and kind = 'budget' and starts_with(subject, $2) order by id",
            agentable.0,
            budget::PREFIX
        )
        .map(|row| (RunId(row.run_id), question_row!(row)));
        Ok(questions.fetch_all(&self.pool).await?)
    }
}

#[cfg(test)]
mod tests {
    use houston_domain::id::MessageId;
    use serde_json::json;

    use houston_domain::question::QuestionKind;

    use super::*;

    fn question(schema: Value, lasting: bool) -> NewQuestion {
        let approval = Approval {
            tool: "delete_note".into(),
            input: json!({"id": 1}),
            why: "it deletes something for good".into(),
            message_id: Some(MessageId(Uuid::nil())),
            preview: None,
            lasting,
            pin: None,
        };
        NewQuestion {
            id: QuestionId(Uuid::nil()),
            kind: QuestionKind::Approval,
            subject: None,
            text: "Delete note?".into(),
            schema: Some(schema),
            default_value: None,
            expires_at: None,
            approval: Some(Box::new(approval)),
            message_id: None,
        }
    }

    #[test]
    fn schema_of_an_approval_follows_from_that_of_the_arguments() {
        let arguments = json!({"type": "object", "properties": {"id": {"type": "integer"}}});
        for lasting in [true, false] {
            let question = question(answer_schema(&arguments, lasting), lasting);
            let (stored, schema) = StoredApproval::of(&question);
            assert_eq!(schema, None);
            let stored = serde_json::to_value(stored.unwrap()).unwrap();
            assert_eq!(StoredApproval::schema(Some(&stored)), question.schema);
            assert_eq!(
                serde_json::from_value::<Approval>(stored).unwrap(),
                **question.approval.as_ref().unwrap()
            );
        }
    }

    #[test]
    fn another_schema_is_stored_whole() {
        for other in [json!({"type": "boolean"}), answer_schema(&json!({}), true)] {
            let question = question(other.clone(), false);
            let (stored, schema) = StoredApproval::of(&question);
            assert_eq!(schema, Some(&other));
            assert_eq!(StoredApproval::schema(Some(&serde_json::to_value(stored.unwrap()).unwrap())), None);
        }
    }
}
