//! Expired idempotency keys: deleted.

use super::config::seconds;
use super::span::Span;
use super::{Finding, Looked, Monitor};

/// Batches of this check are so many times those of the others: its rows are small and have no others behind them,
/// and a busy installation makes hundreds a second.
const TIMES: i64 = 10;

pub(super) fn look(monitor: &Monitor) -> Looked<'_> {
    Box::pin(async move {
        let after_s = monitor.config.requests.idempotency_key_s;
        let batch = monitor.config.tick.batch * TIMES;
        let mut forgotten = 0;
        for _ in 0..monitor.config.tick.batches {
            let some = monitor.store.forget_keys(seconds(after_s), batch).await?;
            forgotten += some;
            if i64::try_from(some).is_ok_and(|some| some < batch) {
                break;
            }
        }
        Ok(Finding::ok(format!("{forgotten} idempotency keys older than {} were forgotten", Span(after_s))))
    })
}
