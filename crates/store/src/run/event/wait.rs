//! Waits in an event stream: what a run waited for at a position, and where it began to wait.

use houston_domain::id::{AgentableId, MessageId, QuestionId};
use houston_domain::question::{NewQuestion, Question};

use crate::error::Result;
use crate::handle::TenantStore;
use crate::question::question_row;

impl TenantStore<'_> {
    /// The questions that were open when a run of the agentable began to wait with the event at position `seq`, the oldest
    /// first. None if that event is another one.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn questions_at_wait(self, agentable: AgentableId, seq: i64) -> Result<Vec<NewQuestion>> {
        let asked = sqlx::query!(
            r#"-- store::event::wait::questions_at_wait
            select q.id, q.kind, q.subject, q.text, q.schema, q.default_value, q.expires_at, q.state, q.answer, q.answered_by,
                   q.created_at, q.closed_at, q.approval,
                   replace(a.data ->> 'message_id', 'msg_', '')::uuid as message_id
              from houston.events w
              join houston.runs r on r.id = w.run_id
              join houston.events a on a.agentable_id = $1 and a.seq >= r.first_seq and a.seq < $2
              join houston.questions q on q.agentable_id = $1
                                      and q.id = replace(a.data ->> 'question_id', 'question_', '')::uuid
             where w.tenant_id = $3 and w.agentable_id = $1 and w.seq = $2 and w.data ->> 'type' = 'run_waiting'
               and a.data ->> 'type' = 'question_asked'
               and not exists (select from houston.events c
                                where c.agentable_id = $1 and c.seq > a.seq and c.seq < $2
                                  and c.data ->> 'type' = 'question_closed'
                                  and c.data ->> 'question_id' = a.data ->> 'question_id')
             order by a.seq"#,
            agentable.0,
            seq,
            self.tenant.0
        )
        .fetch_all(&self.pool)
        .await?;
        let questions = asked.into_iter().map(|row| NewQuestion {
            message_id: row.message_id.map(MessageId),
            ..question_row!(row).into_question().asked
        });
        Ok(questions.collect())
    }

    /// The questions about calls of the agentable's latest run that these thread messages (tool cells) show, open or closed.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn questions_of_calls(
        self,
        agentable: AgentableId,
        cells: &[MessageId],
    ) -> Result<Vec<(MessageId, Question)>> {
        let cells: Vec<String> = cells.iter().map(ToString::to_string).collect();
        let rows = sqlx::query!(
            r#"-- store::event::wait::questions_of_calls
            select q.id, q.kind, q.subject, q.text, q.schema, q.default_value, q.expires_at, q.state, q.answer, q.answered_by,
                   q.created_at, q.closed_at, q.approval,
                   replace(coalesce(a.data ->> 'message_id', a.data -> 'approval' ->> 'message_id'), 'msg_', '')::uuid
                       as "cell!"
              from (select first_seq from houston.runs where tenant_id = $1 and agentable_id = $2
                     order by first_seq desc limit 1) r
              join houston.events a on a.agentable_id = $2 and a.seq >= r.first_seq
              join houston.questions q on q.tenant_id = $1 and q.agentable_id = $2
                                      and q.id = replace(a.data ->> 'question_id', 'question_', '')::uuid
             where a.tenant_id = $1 and a.data ->> 'type' = 'question_asked'
               and coalesce(a.data ->> 'message_id', a.data -> 'approval' ->> 'message_id') = any ($3)
             order by a.seq"#,
            self.tenant.0,
            agentable.0,
            &cells
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.into_iter().map(|row| (MessageId(row.cell), question_row!(row).into_question())).collect())
    }

    /// The position of the event with which the latest run of the agentable began to wait before position `seq`, if it had not
    /// gone on by then.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn wait_before(self, agentable: AgentableId, seq: i64) -> Result<Option<i64>> {
        let waits = sqlx::query_scalar!(
            r#"-- store::event::wait::before
            select w.seq
              from (select e.seq, e.data ->> 'type' as type
                      from houston.runs r
                      join houston.events e on e.agentable_id = $1 and e.seq >= r.first_seq and e.seq < $2
                     where r.id = (select id from houston.runs
                                    where tenant_id = $3 and agentable_id = $1 and first_seq < $2
                                    order by first_seq desc limit 1)
                       and e.data ->> 'type' in ('run_waiting', 'attempt_started')
                     order by e.seq desc limit 1) w
             where w.type = 'run_waiting'"#,
            agentable.0,
            seq,
            self.tenant.0
        );
        Ok(waits.fetch_optional(&self.pool).await?)
    }

    /// The position of the event that closed a question of the agentable, if it is closed.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn closed_at(self, agentable: AgentableId, question: QuestionId) -> Result<Option<i64>> {
        let seq = sqlx::query_scalar!(
            r#"-- store::event::wait::closed_at
            select c.seq
              from houston.questions q
              join houston.runs r on r.id = q.run_id
              join houston.events c on c.agentable_id = $1 and c.seq >= r.first_seq
             where q.tenant_id = $3 and q.agentable_id = $1 and q.id = $2 and c.data ->> 'type' = 'question_closed'
               and c.data ->> 'question_id' = $4
             limit 1"#,
            agentable.0,
            question.0,
            self.tenant.0,
            question.to_string()
        );
        Ok(seq.fetch_optional(&self.pool).await?)
    }
}
