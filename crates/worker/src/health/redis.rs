//! Check: Redis is reachable. Without it Houston works, but slower.

use houston_queue::depths;

use super::{CheckFuture, Finding, Monitor};

pub(super) fn check(monitor: &Monitor) -> CheckFuture<'_> {
    Box::pin(async move {
        let Some(redis) = &monitor.redis else {
            return Ok(Finding::ok("not checked: HOUSTON_REDIS_URL is not set here"));
        };
        let found =
            async { Ok::<_, houston_queue::Error>((depths(redis).await?, redis.server().await?.refuses)) };
        Ok(match found.await {
            Ok((_, Some(why))) => Finding::warn(format!(
                "{} refuses writes: {why}; workers poll Postgres every second instead",
                redis.address()
            )),
            Ok((lanes, None)) => {
                let lanes: Vec<String> =
                    lanes.iter().map(|(lane, count)| format!("{} {}", count, lane.as_str())).collect();
                Finding::ok(format!("waiting hints: {}", lanes.join(", ")))
            }
            Err(error) => Finding::warn(format!(
                "{} cannot be reached: {error}; workers poll Postgres every second instead",
                redis.address()
            )),
        })
    })
}
