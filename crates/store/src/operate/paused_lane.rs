//! Lanes that operators have paused: workers claim nothing new of them.

use chrono::{DateTime, Utc};
use houston_domain::lane_service::LaneService;

use crate::error::Result;
use crate::handle::{ApiStore, RunStore, Shared};
use crate::statement::Statement as _;

/// What is known of all lanes at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneServices {
    now: DateTime<Utc>,
    worker_since: Option<DateTime<Utc>>,
    paused: Vec<String>,
    /// When lanes were resumed last.
    resumed: Vec<(String, DateTime<Utc>)>,
}

impl LaneServices {
    /// What is known of the lane of this name.
    pub fn of(&self, lane: &str) -> LaneService {
        let resumed = self.resumed.iter().find(|(name, _)| name == lane);
        LaneService {
            now: self.now,
            worker_since: self.worker_since,
            is_paused: self.paused.iter().any(|name| name == lane),
            resumed_at: resumed.map(|(_, at)| *at),
        }
    }
}

impl Shared {
    /// The names of the lanes that are paused.
    pub async fn paused_lanes(&self) -> Result<Vec<String>> {
        let lanes = sqlx::query_scalar!(
            "-- store::paused_lane::list
            select lane from houston.paused_lanes order by lane"
        );
        Ok(lanes.fetch_all(&self.pool).await?)
    }
}

impl ApiStore {
    /// Pauses a lane for all workers, or lets it go on. Idempotent. Workers read it within a second.
    pub async fn set_lane_paused(&self, lane: &str, is_paused: bool) -> Result<()> {
        sqlx::query!(
            "-- store::paused_lane::set
            with gone as (delete from houston.paused_lanes where lane = $1 and not $2 returning lane),
            resumed as (
                insert into houston.resumed_lanes (lane, resumed_at) select g.lane, statement_timestamp() from gone g
                on conflict (lane) do update set resumed_at = excluded.resumed_at)
            insert into houston.paused_lanes (lane) select $1 where $2 on conflict (lane) do nothing",
            lane,
            is_paused
        )
        .run(&self.pool)
        .await
    }
}

impl RunStore {
    /// Since when workers have taken what waits in each lane. A worker that is to stop takes nothing.
    pub async fn lane_services(&self) -> Result<LaneServices> {
        let row = sqlx::query!(
            r#"-- store::paused_lane::services
            select clock_timestamp() as "now!",
                   (select min(coalesce(w.served_since, w.started_at)) from houston.workers w
                     where w.alive_until > clock_timestamp() and w.draining_since is null
                       and w.drain_requested_at is null) as worker_since,
                   (select coalesce(array_agg(p.lane), '{}') from houston.paused_lanes p) as "paused!",
                   (select coalesce(array_agg(r.lane order by r.lane), '{}') from houston.resumed_lanes r) as "lanes!",
                   (select coalesce(array_agg(r.resumed_at order by r.lane), '{}') from houston.resumed_lanes r)
                       as "times!""#
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(LaneServices {
            now: row.now,
            worker_since: row.worker_since,
            paused: row.paused,
            resumed: row.lanes.into_iter().zip(row.times).collect(),
        })
    }
}
