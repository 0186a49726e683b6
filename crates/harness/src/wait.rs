//! Waiting for a condition.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How often it is asked for.
const POLL: Duration = Duration::from_millis(100);

/// Asks until there is an answer, for at most `patience`. The error then says `problem`.
pub(crate) async fn wait_for<T>(
    patience: Duration,
    mut ask: impl AsyncFnMut() -> Result<Option<T>>,
    problem: impl FnOnce() -> String,
) -> Result<T> {
    let end = Instant::now() + patience;
    loop {
        if let Some(answer) = ask().await? {
            return Ok(answer);
        }
        if Instant::now() >= end {
            bail!("{}, after {patience:?}", problem());
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Asks until the answer is yes, for at most `patience`. The error then says `problem`.
pub(crate) async fn wait_until(
    patience: Duration,
    mut is_so: impl AsyncFnMut() -> Result<bool>,
    problem: impl FnOnce() -> String,
) -> Result<()> {
    wait_for(patience, async || Ok(is_so().await?.then_some(())), problem).await
}
