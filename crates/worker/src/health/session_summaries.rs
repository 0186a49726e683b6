//! Check and repair: closed sessions without a summary are reported; those with too many attempts keep their extract.

use super::config::seconds;
use super::span::Span;
use super::{CheckFuture, Finding, Monitor};

pub(super) fn check(monitor: &Monitor) -> CheckFuture<'_> {
    Box::pin(async move {
        let config = monitor.config.sessions;
        let settled = monitor.sweep(|batch| monitor.store.accept_extracts(config.attempts, batch)).await?;
        let late = monitor.store.late_summaries(seconds(config.late_s)).await?;
        let summary = format!(
            "{} closed sessions have waited for their summary for more than {}, the longest for {}",
            late.sessions,
            Span(config.late_s),
            Span(u64::try_from(late.waited_s).unwrap_or(0))
        );
        Ok(if u64::try_from(late.waited_s).is_ok_and(|waited_s| waited_s > config.red_s) {
            Finding::red(format!(
                "{summary}: do workers run, and does the model of the use case `summaries` answer?"
            ))
        } else if late.sessions > 0 {
            Finding::warn(format!("{summary}: the workers write them as soon as they can"))
        } else {
            Finding::none_or(settled.len(), "no closed session waits for its summary", |count| {
                let attempts = config.attempts;
                format!(
                    "{count} summaries were begun {attempts} times and never written: their extracts stay"
                )
            })
        })
    })
}
