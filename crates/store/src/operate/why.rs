//! The facts for [`houston_domain::why`]: why an agentable does not go on.

use houston_domain::id::{AgentableId, QuestionId};
use houston_domain::question::QuestionKind;
use houston_domain::why::{Facts, HealthFacts, OpenQuestion};

use crate::cancel::ARCHIVED;
use crate::error::{Error, Result};
use crate::handle::TenantStore;
use crate::run_retry::LATEST_MESSAGES;

/// How many open questions are read.
const QUESTIONS: i64 = 20;

impl TenantStore<'_> {
    /// The facts of an agentable of the tenant, whose hints are in the lane of this name, by the database's clock. `health` is that of
    /// the installation, which is of no tenant.
    pub async fn why(self, agentable: AgentableId, lane: &str, health: HealthFacts) -> Result<Facts> {
        let state = self.state(agentable).await?;
        let row = sqlx::query!(
            r#"-- store::why::facts
            select l.open_tasks, a.status as "status?",
                   coalesce((select p.paused and p.ended_at is null from houston.plans p
                              where p.tenant_id = $1 and p.agentable_id = l.agentable_id), false) as "is_paused!",
                   exists (select from houston.plans p where p.tenant_id = $1 and p.agentable_id = l.agentable_id)
                   or exists (select from (select m.run_id, m.source from houston.messages m
                                            where m.tenant_id = $1 and m.agentable_id = l.agentable_id
                                            order by m.seq desc limit $4) as m
                               where m.run_id = l.run_id and m.source = 'user') as "has_retry!",
                   (select count(*) from houston.plan_steps s
                     where s.tenant_id = $1 and s.plan_id = l.agentable_id and s.task_id is not null
                       and s.ended_at is null) as "open_steps!",
                   (select count(*) from houston.runs r join houston.run_locks k on k.agentable_id = r.agentable_id
                     where r.held_for = l.user_id and k.holder is not null) as "held!",
                   exists (select from houston.paused_lanes p where p.lane = $3) as "is_lane_paused!",
                   (select count(*) from houston.workers w where w.alive_until > clock_timestamp()
                       and w.draining_since is null and w.drain_requested_at is null) as "claiming!",
                   (select count(*) from houston.workers w where w.alive_until > clock_timestamp()
                       and (w.draining_since is not null or w.drain_requested_at is not null)) as "draining!"
              from houston.run_locks l join houston.agentables a on a.id = l.agentable_id
             where l.tenant_id = $1 and l.agentable_id = $2"#,
            self.tenant.0,
            agentable.0,
            lane,
            LATEST_MESSAGES
        )
        .fetch_optional(&self.pool)
        .await?
        .ok_or(Error::NotFound { what: "agentable" })?;
        Ok(Facts {
            state,
            questions: self.questions_of(agentable).await?,
            is_archived: row.status.as_deref() == Some(ARCHIVED),
            has_retry: row.has_retry,
            is_paused: row.is_paused,
            is_lane_paused: row.is_lane_paused,
            open_tasks: row.open_tasks,
            open_steps: row.open_steps,
            held_of_user: row.held,
            max_running: i64::from(self.fairness.max_running),
            claiming_workers: row.claiming,
            draining_workers: row.draining,
            health,
        })
    }

    /// The open questions of an agentable, the oldest first.
    async fn questions_of(self, agentable: AgentableId) -> Result<Vec<OpenQuestion>> {
        let rows = sqlx::query!(
            r#"-- store::why::questions
            select q.id, q.kind, q.text, q.expires_at
              from houston.agentables a
              join houston.questions q on q.user_id = a.user_id and q.agentable_id = a.id and q.state = 'open'
             where q.tenant_id = $1 and a.tenant_id = $1 and a.id = $2
             order by q.id limit $3"#,
            self.tenant.0,
            agentable.0,
            QUESTIONS
        )
        .map(|row| OpenQuestion {
            id: QuestionId(row.id),
            kind: QuestionKind::from_name(&row.kind).unwrap_or(QuestionKind::Input),
            text: row.text,
            expires_at: row.expires_at,
        });
        Ok(rows.fetch_all(&self.pool).await?)
    }
}
