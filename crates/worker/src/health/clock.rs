//! Check: this machine's clock and the database's agree.

use super::config::seconds;
use super::{CheckFuture, Finding, Monitor};

pub(super) fn check(monitor: &Monitor) -> CheckFuture<'_> {
    Box::pin(async move {
        let before = monitor.clock.now();
        let theirs = monitor.store.time().await?;
        let after = monitor.clock.now();
        // The database's clock was read between the two readings; only a time outside of them is a difference.
        let skew = if theirs < before {
            before - theirs
        } else if theirs > after {
            theirs - after
        } else {
            chrono::TimeDelta::zero()
        };
        let most = seconds(monitor.config.servers.clock_skew_s);
        let summary = format!("differs from the database's by {} ms", skew.num_milliseconds());
        Ok(if skew.to_std().is_ok_and(|skew| skew <= most) {
            Finding::ok(summary)
        } else {
            Finding::warn(format!("{summary}: set this machine's clock (NTP); leases do not depend on it"))
        })
    })
}
