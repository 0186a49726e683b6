//! Questions as the API sees them: reading and answering.

use houston_domain::guard::{Grant, GrantScope};
use houston_domain::id::{AgentableId, QuestionId, RunId, UserId};
use houston_domain::question::OWN_PREFIX;
use houston_domain::question::approval::{Approval, granted};
use houston_domain::question::{Question, QuestionKind, QuestionState};
use serde_json::Value;
use sqlx::PgConnection;
use sqlx::types::Json;

use crate::error::{Error, Result};
use crate::grants;
use crate::handle::{OperatorStore, TenantStore};
use crate::question::{close, question_row, report};

/// A question with who asks it.
#[derive(Debug, Clone, PartialEq)]
pub struct AskedQuestion {
    /// The question.
    pub question: Question,
    /// The user the agent works for.
    pub user: UserId,
    /// The agentable whose run asks.
    pub agentable: AgentableId,
    /// Its kind.
    pub kind: String,
    /// The run.
    pub run: RunId,
}

/// What happened to an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Answered {
    /// It was accepted: this is the question now.
    Now(AskedQuestion),
    /// The question was closed before, or is closed now because its time has passed or its run has ended: the answer
    /// does not count.
    Closed(AskedQuestion),
}

/// What an answer does to a question.
struct WouldBe {
    /// The state before it.
    before: QuestionState,
    /// The state after it.
    after: QuestionState,
    /// An earlier answer.
    answer: Option<Value>,
    /// The lasting yes that the answer gives.
    grant: Option<(GrantScope, Grant)>,
}

impl WouldBe {
    /// Whether the answer counts.
    fn is_answered(&self) -> bool {
        self.before == QuestionState::Open && self.after == QuestionState::Answered
    }
}

/// Reads questions `q`, between the name of the query and the join with their agentables.
macro_rules! query_asked {
    ($before:literal, $after:literal $(, $parameter:expr)* $(,)?) => {
        sqlx::query!(
            $before + "
            select q.*, a.kind as agentable_kind
              from houston.questions q
              join houston.agentables a on a.id = q.agentable_id
            " + $after
            $(, $parameter)*
        )
        .map(|r| AskedQuestion {
            user: UserId(r.user_id),
            agentable: AgentableId(r.agentable_id),
            kind: r.agentable_kind,
            run: RunId(r.run_id),
            question: question_row!(r),
        })
    };
}

impl OperatorStore<'_> {
    /// Open approvals of all tenants, pauses and budget questions of Houston itself included, newest first, for operators.
    pub async fn open_approvals(self, limit: i64) -> Result<Vec<AskedQuestion>> {
        let rows = query_asked!(
            "-- store::answer::open_approvals",
            "where q.state = 'open' and (q.approval is not null or starts_with(q.subject, $2)) order by q.created_at desc limit $1",
            limit,
            OWN_PREFIX
        );
        Ok(rows.fetch_all(&self.pool).await?)
    }
}

impl TenantStore<'_> {
    /// Reads a question of the tenant.
    pub async fn question(self, id: QuestionId) -> Result<AskedQuestion> {
        let r = query_asked!(
            "-- store::answer::get",
            "and a.tenant_id = $1
             where q.tenant_id = $1 and q.id = $2",
            self.tenant.0,
            id.0
        );
        r.fetch_optional(&self.pool).await?.ok_or(Error::NotFound { what: "question" })
    }

    /// Open questions of the tenant, or of one user, newest first; those of one kind, and older than the one with id `before`,
    /// if given.
    pub async fn open_questions(
        self,
        user: Option<UserId>,
        kind: Option<QuestionKind>,
        before: Option<QuestionId>,
        limit: i64,
    ) -> Result<Vec<AskedQuestion>> {
        let kind = kind.map(QuestionKind::as_str);
        let before = before.map_or(uuid::Uuid::max(), |id| id.0);
        // Two statements, so that each reads the index of its filter.
        if let Some(user) = user {
            let rows = query_asked!(
                "-- store::answer::open_of_user",
                "and a.tenant_id = $1
                 where q.tenant_id = $1 and q.user_id = $2 and q.state = 'open' and q.id < $3
                   and ($5::text is null or q.kind = $5)
                 order by q.id desc limit $4",
                self.tenant.0,
                user.0,
                before,
                limit,
                kind
            );
            return Ok(rows.fetch_all(&self.pool).await?);
        }
        let rows = query_asked!(
            "-- store::answer::open",
            "and a.tenant_id = $1
             where q.tenant_id = $1 and q.state = 'open' and q.id < $2
               and ($4::text is null or q.kind = $4)
             order by q.id desc limit $3",
            self.tenant.0,
            before,
            limit,
            kind
        );
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// Open questions of one agentable of the tenant, the oldest first, at most 100.
    pub async fn open_questions_of_agentable(self, agentable: AgentableId) -> Result<Vec<AskedQuestion>> {
        let rows = query_asked!(
            "-- store::answer::open_of_agentable",
            "and a.tenant_id = $1
             where q.tenant_id = $1 and q.agentable_id = $2 and q.state = 'open' order by q.id limit 100",
            self.tenant.0,
            agentable.0
        );
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// Answers a question and wakes its run. Of several answers at once exactly one is accepted; the others get the question
    /// as it was closed. The caller has checked the answer against the question's schema.
    pub async fn answer_question(
        self,
        id: QuestionId,
        answer: &Value,
        answered_by: Option<&str>,
    ) -> Result<Answered> {
        let mut tx = self.pool.begin().await?;
        self.lock_asker(&mut tx, id).await?;
        let now = self.would_be(&mut tx, id, answer).await?;
        let is_answered = now.is_answered();
        if now.before == QuestionState::Open {
            let (answer, by) = if is_answered { (Some(answer), answered_by) } else { (None, None) };
            let closed = close(&mut tx, &[id.0], now.after, answer, by).await?;
            if let Some(grant) = now.grant.filter(|_| is_answered) {
                grants::add(&mut tx, id, &grant, by).await?;
            }
            report(&mut tx, &closed, self.fairness).await?;
        }
        tx.commit().await?;
        let question = self.question(id).await?;
        Ok(if is_answered { Answered::Now(question) } else { Answered::Closed(question) })
    }

    /// Answers questions of one agentable together: the run goes on with all answers or with none. Returns a question that was
    /// closed otherwise before, if there is one; then no answer counts. The same answer again is accepted. The caller has
    /// checked that the questions are of `agentable`, and the answers against their schemas.
    pub async fn answer_questions(self, answers: &[(QuestionId, Value)]) -> Result<Option<AskedQuestion>> {
        let Some((first, _)) = answers.first() else { return Ok(None) };
        let mut tx = self.pool.begin().await?;
        self.lock_asker(&mut tx, *first).await?;
        let mut closed = Vec::new();
        for (id, answer) in answers {
            let now = self.would_be(&mut tx, *id, answer).await?;
            if now.is_answered() {
                closed.extend(close(&mut tx, &[id.0], now.after, Some(answer), None).await?);
                if let Some(grant) = now.grant {
                    grants::add(&mut tx, *id, &grant, None).await?;
                }
            } else if now.answer.as_ref() != Some(answer) {
                tx.rollback().await?;
                let mut question = self.question(*id).await?;
                // It is not closed yet if its time has passed: the sweep that expires questions does that.
                question.question.state = now.after;
                return Ok(Some(question));
            }
        }
        report(&mut tx, &closed, self.fairness).await?;
        tx.commit().await?;
        Ok(None)
    }

    /// Locks the agentable whose run asks.
    async fn lock_asker(self, tx: &mut PgConnection, id: QuestionId) -> Result<()> {
        let epoch = sqlx::query!(
            "-- store::answer::lock
            select l.epoch from houston.questions q
              join houston.run_locks l on l.agentable_id = q.agentable_id
             where q.tenant_id = $1 and q.id = $2 for no key update of l",
            self.tenant.0,
            id.0
        );
        epoch.fetch_optional(tx).await?.ok_or(Error::NotFound { what: "question" })?;
        Ok(())
    }

    /// What an answer to a question does now. Its agentable is locked.
    async fn would_be(self, tx: &mut PgConnection, id: QuestionId, given: &Value) -> Result<WouldBe> {
        // A statement of its own: it sees what was committed while the one before waited for the lock.
        let now = sqlx::query!(
            r#"-- store::answer::look
            select q.state, q.answer, q.expires_at, q.approval as "approval: Json<Approval>", clock_timestamp() as "now!",
                   k.run_open and k.run_id = q.run_id as "run_is_open!"
              from houston.questions q join houston.run_locks k on k.agentable_id = q.agentable_id
             where q.tenant_id = $1 and q.id = $2"#,
            self.tenant.0,
            id.0
        )
        .fetch_one(tx)
        .await?;
        let before = QuestionState::from_name(&now.state).unwrap_or(QuestionState::Cancelled);
        let after = before.after_answer(now.expires_at, now.run_is_open, now.now);
        // The caller has checked the answer.
        let grant = now.approval.and_then(|approval| granted(&approval, given).ok().flatten());
        Ok(WouldBe { before, after, answer: now.answer, grant })
    }
}
