//! Checks of Redis.

use std::sync::Arc;
use std::time::Duration;

use houston_domain::clock::SystemClock;
use houston_queue::{DEFAULT_PREFIX, Redis, RedisServer};

use super::finding::{Finding, ok, red, warn};

/// The time limit of Redis's answer.
const TIMEOUT: Duration = Duration::from_secs(5);

pub(super) async fn redis(url: &str) -> Finding {
    if url.is_empty() {
        let todo = "set HOUSTON_REDIS_URL for `serve` and `work`; `houston dev` starts its own";
        return warn("redis", "no address is set", todo);
    }
    let redis = match Redis::open(url, DEFAULT_PREFIX, Arc::new(SystemClock)) {
        Ok(redis) => redis,
        Err(error) => return red("redis", error.to_string(), "correct HOUSTON_REDIS_URL"),
    };
    let address = redis.address();
    let unreachable = |why: String| {
        let todo = "start it, or correct HOUSTON_REDIS_URL; without Redis runs begin up to a second later";
        red("redis", format!("{address} is unreachable: {why}"), todo)
    };
    match tokio::time::timeout(TIMEOUT, redis.server()).await {
        Ok(Ok(RedisServer { refuses: Some(why), version, .. })) => red(
            "redis",
            format!("{address} answers, version {version}, but refuses writes: {why}"),
            "make room in it (maxmemory), or name the master in HOUSTON_REDIS_URL; hints cannot be stored, so runs begin up to \
             a second later",
        ),
        Ok(Ok(server)) if server.evicts() => warn(
            "redis",
            format!(
                "{address} answers, version {}, but deletes keys when its memory is full (maxmemory-policy {})",
                server.version, server.policy
            ),
            "set maxmemory-policy noeviction, in redis.conf or where the server is rented: hints that are deleted are found \
             later by the sweep, so runs begin late",
        ),
        Ok(Ok(server)) => ok("redis", format!("{address} answers, version {}", server.version)),
        Ok(Err(error)) if error.is_refused() => red(
            "redis",
            format!("{address} refuses the user or the password"),
            "correct them in HOUSTON_REDIS_URL: redis://user:password@host:port",
        ),
        Ok(Err(error)) => unreachable(cause(&error)),
        Err(_) => unreachable(format!("no answer within {} s", TIMEOUT.as_secs())),
    }
}

/// The innermost cause: what Redis or the system said.
fn cause(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}
