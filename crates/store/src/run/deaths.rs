//! Runs that workers died with, in all cells: a process that dies takes the runs of each cell with it. What becomes of
//! them is decided in [`houston_domain::death`].

use std::time::Duration;

use houston_domain::death::{Suspect, Verdict, judge};
use houston_domain::id::{AgentableId, ProcessId};
use uuid::Uuid;

use crate::connections::Connections;
use crate::error::Result;
use crate::handle::RunStore;
use crate::statement::Statement as _;

/// The end of a worker's id in its text form: what all workers of a process have in common.
pub(crate) fn end_of_id(process: ProcessId) -> String {
    let text = Uuid::from_u64_pair(0, process.0).to_string();
    text[text.len() - 17..].to_owned()
}

impl RunStore {
    /// What becomes of the run of `agentable`, which at least `limit` workers died with. As long as another cell cannot
    /// be asked, the run waits. `patience`: how long it waits for other runs, since its last death was noticed.
    pub(crate) async fn judge(
        &self,
        agentable: AgentableId,
        limit: usize,
        patience: Duration,
    ) -> Result<Verdict> {
        let (processes, has_waited) = self.processes_died_with(agentable, patience).await?;
        let ends: Vec<String> = processes.iter().copied().map(end_of_id).collect();
        let mut others = suspects(&self.pool, &ends).await?;
        others.retain(|other| other.agentable != agentable);
        for pool in self.other_cells.iter() {
            match suspects(pool, &ends).await {
                Ok(found) => others.extend(found),
                Err(error) => {
                    tracing::debug!(%error, "a cell does not say what else died with a run; it waits");
                    return Ok(Verdict::Wait);
                }
            }
        }
        let suspect = Suspect { agentable, deaths: processes, is_open: true, is_driven: false };
        Ok(judge(&suspect, &others, limit, has_waited))
    }

    /// Takes the deaths of this run back from all other runs that died with the same processes: this one is the cause, or
    /// it ends without showing whether it is. Idempotent. A cell that cannot be reached is left out: the run must not wait
    /// for it.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when the run's cell cannot be reached or refuses the statement.
    pub async fn acquit_others(&self, agentable: AgentableId) -> Result<()> {
        let (processes, _) = self.processes_died_with(agentable, Duration::ZERO).await?;
        let ends: Vec<String> = processes.iter().copied().map(end_of_id).collect();
        if ends.is_empty() {
            return Ok(());
        }
        acquit(&self.pool, agentable, &ends).await?;
        for pool in self.other_cells.iter() {
            if let Err(error) = acquit(pool, agentable, &ends).await {
                tracing::warn!(%error, "a cell still counts deaths that another cell has explained");
            }
        }
        Ok(())
    }

    /// The processes that died with a run, and whether it has waited for `patience` since the last death was noticed.
    async fn processes_died_with(
        &self,
        agentable: AgentableId,
        patience: Duration,
    ) -> Result<(Vec<ProcessId>, bool)> {
        let run = sqlx::query!(
            r#"-- store::deaths::of
            select died_with, coalesce(woken_at <= clock_timestamp() - make_interval(secs => $2), true) as "has_waited!"
              from houston.run_locks where agentable_id = $1"#,
            agentable.0,
            patience.as_secs_f64()
        )
        .fetch_optional(&self.pool)
        .await?;
        Ok(run.map_or_else(Default::default, |run| {
            (run.died_with.into_iter().map(ProcessId::of).collect(), run.has_waited)
        }))
    }
}

/// The runs of a cell that died with one of the processes: known from earlier claims, or held by a dead worker and not
/// claimed since.
async fn suspects(pool: &Connections, ends: &[String]) -> Result<Vec<Suspect>> {
    let rows = sqlx::query!(
        r#"-- store::deaths::suspects
        select k.agentable_id as "agentable_id!", k.run_open as "run_open!", k.holder is not null and w.id is not null as "is_driven!",
               case when w.id is null and k.holder is not null then k.died_with || k.holder
                    else k.died_with end as "deaths!"
          from (select l.* from houston.run_locks l
                 where l.died_with <> '{}'
                   and exists (select from unnest(l.died_with) as d (id) where right(d.id::text, 17) = any ($1))
                union
                select l.* from houston.runs r join houston.run_locks l on l.agentable_id = r.agentable_id
                 where r.status = 'running' and right(l.holder::text, 17) = any ($1)) k
          left join houston.workers w on w.id = k.holder and w.alive_until > clock_timestamp()"#,
        ends
    )
    .fetch_all(pool)
    .await?;
    let suspects = rows.into_iter().map(|row| Suspect {
        agentable: AgentableId(row.agentable_id),
        deaths: row.deaths.into_iter().map(ProcessId::of).collect(),
        is_open: row.run_open,
        is_driven: row.is_driven,
    });
    Ok(suspects.filter(|suspect| !suspect.deaths.is_empty()).collect())
}

/// Takes the deaths of these processes back. Runs whose dead worker no claim has noticed are released without a death.
async fn acquit(pool: &Connections, but: AgentableId, ends: &[String]) -> Result<()> {
    let others = suspects(pool, ends).await?.into_iter().filter(|other| other.agentable != but);
    let others: Vec<Suspect> = others.filter(|other| !other.is_driven).collect();
    let ids: Vec<Uuid> = others.iter().map(|other| other.agentable.0).collect();
    sqlx::query!(
        "-- store::deaths::release
        with held as (
            select agentable_id from houston.run_locks
             where agentable_id = any ($1) and right(holder::text, 17) = any ($2)
             order by agentable_id for no key update)
        update houston.run_locks l set holder = null, wake = true, woken_at = statement_timestamp()
          from held where l.agentable_id = held.agentable_id",
        &ids,
        ends
    )
    .execute(pool)
    .await?;
    sqlx::query!(
        "-- store::deaths::acquit
        with wronged as (
            select k.agentable_id from houston.run_locks k
             where k.died_with <> '{}' and k.agentable_id <> $1
               and exists (select from unnest(k.died_with) as d (id) where right(d.id::text, 17) = any ($2))
             order by k.agentable_id for no key update)
        update houston.run_locks l
           set died_with = array(select d.id from unnest(l.died_with) with ordinality as d (id, nth)
                                  where right(d.id::text, 17) <> all ($2) order by d.nth)
          from wronged where l.agentable_id = wronged.agentable_id",
        but.0,
        ends
    )
    .run(pool)
    .await
}
