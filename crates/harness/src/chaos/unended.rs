//! What had not ended when the quiet phase was over, and why. It is for the person who looks for the cause: when the
//! report is read, the servers are gone.

use std::sync::Arc;

use anyhow::Result;
use houston_protocol::why::WhyResponse;

use super::installation::ChaosInstallation;

/// How many are described; the queries have the same limit for each cell.
const MOST: usize = 10;

/// Runs that are open, or have a reason to run: the id of the run, and what its lock says.
const RUNS: &str = "
    select 'run_' || replace(coalesce(l.run_id::text, ''), '-', ''),
           concat_ws(', ',
               a.kind || '_' || replace(l.agentable_id::text, '-', ''),
               case when l.run_open then 'open' else 'no run is open' end,
               r.status, 'attempt ' || r.attempt,
               'opened ' || round(extract(epoch from clock_timestamp() - r.created_at)) || ' s ago',
               'last event ' || l.last_seq || ' at epoch ' || l.epoch,
               case when l.wake then 'awake' else 'not awake' end,
               'woken ' || round(extract(epoch from clock_timestamp() - l.woken_at)) || ' s ago',
               'due in ' || round(extract(epoch from l.next_attempt_at - clock_timestamp())) || ' s',
               l.failed_attempts || ' failed attempts', l.crash_count || ' claims without a step',
               cardinality(l.died_with) || ' deaths', l.open_tasks || ' open tasks', l.unread || ' unread',
               'cancelled at ' || r.cancel_seq,
               case when l.holder is null then 'held by no worker'
                    when exists (select from houston.workers w
                                  where w.id = l.holder and w.alive_until > clock_timestamp())
                    then 'held by a living worker' else 'held by a dead worker' end)
      from houston.run_locks l
      join houston.agentables a on a.id = l.agentable_id
      left join houston.runs r on r.id = l.run_id
     where l.run_open or l.wake
     order by l.waiting_since limit 10";

/// Sessions without their summary.
const SESSIONS: &str = "
    select 'agentable ' || replace(agentable_id::text, '-', '') || ': the summary of session ' || number || ' is missing, closed '
           || round(extract(epoch from clock_timestamp() - closed_at)) || ' s ago, due in '
           || round(extract(epoch from summary_due_at - clock_timestamp())) || ' s'
      from houston.sessions where summary_due_at is not null order by closed_at limit 10";

/// Describes what has not ended, one line each.
///
/// # Errors
/// If the databases cannot be read.
pub(super) async fn describe(installation: &Arc<ChaosInstallation>) -> Result<Vec<String>> {
    let runs = installation.blocking(|installation| installation.databases.rows(RUNS)).await?;
    let sessions = installation.blocking(|installation| installation.databases.rows(SESSIONS)).await?;
    let mut described = Vec::new();
    for (run, lock) in runs.lines().filter_map(|line| line.split_once('|')).take(MOST) {
        described.push(format!("{run}: {lock}; {}", why(installation, run).await));
    }
    described.extend(sessions.lines().take(MOST).map(str::to_owned));
    Ok(described)
}

/// What `why` says of a run.
async fn why(installation: &ChaosInstallation, run: &str) -> String {
    let mut refused = "no API was asked".to_owned();
    for api in &installation.apis.addresses {
        let answer = installation.apis.get(*api, &format!("/v1/runs/{run}/why")).await;
        match answer.and_then(|answer| answer.json::<WhyResponse>()) {
            Ok(why) => {
                let reasons = why.reasons.iter().map(|reason| format!("{}: {}", reason.cause, reason.text));
                return format!("why: {}", reasons.collect::<Vec<_>>().join("; "));
            }
            Err(error) => refused = format!("{error:#}"),
        }
    }
    format!("why does not answer: {refused}")
}
