//! Whether Redis can be reached from here. Without it everything works, slower.

use houston_queue::depths;

use super::{Finding, Looked, Monitor};

pub(super) fn look(monitor: &Monitor) -> Looked<'_> {
    Box::pin(async move {
        let Some(redis) = &monitor.redis else {
            return Ok(Finding::ok("not looked at: HOUSTON_REDIS_URL is not set here"));
        };
        Ok(match depths(redis).await {
            Ok(lanes) => {
                let lanes: Vec<String> =
                    lanes.iter().map(|(lane, count)| format!("{} {}", count, lane.as_str())).collect();
                Finding::ok(format!("hints that wait: {}", lanes.join(", ")))
            }
            Err(error) => Finding::warn(format!(
                "{} cannot be reached: {error}; workers ask Postgres each second instead",
                redis.address()
            )),
        })
    })
}
