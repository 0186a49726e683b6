//! [`SpanExport`]: sends spans to a collector over OTLP, if the environment names one.
//!
//! The variables are those of OpenTelemetry: `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_SERVICE_NAME`,
//! `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER`, `OTEL_BSP_…` and so on ([`settings`]). Without an endpoint nothing of
//! this is made.
//!
//! Spans that ended wait in a queue, from which a task sends them in batches. A span for which the queue has no room is lost:
//! a collector that is slow or gone stops nobody.

mod collector;
mod settings;

use std::time::Duration;

use anyhow::anyhow;
use houston_spans::{Contents, Spans, Tracer};
use tokio::sync::mpsc::{self, Receiver};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::collector::Collector;
use self::settings::{Batches, Settings, is_wanted};
use crate::commands::Failure;
use crate::models::environment;

/// How long the end of the process waits until the last spans are sent.
const STOP_TIMEOUT: Duration = Duration::from_millis(1500);

/// What exports spans; by default, nothing does.
#[derive(Default)]
pub(crate) struct SpanExport {
    sending: TaskTracker,
    ends: CancellationToken,
}

impl SpanExport {
    /// Begins to export, if the environment names a collector. Returns what makes spans.
    ///
    /// # Errors
    /// [`Failure::Usage`] when a variable has a value that cannot be used.
    pub(crate) fn start() -> Result<(Spans, Self), Failure> {
        let export = Self::default();
        if !is_wanted(environment) {
            return Ok((Spans::default(), export));
        }
        let failed = |error: String| Failure::Usage(anyhow!("traces cannot be exported: {error}"));
        let Settings { collector, batches, sampler, limits, content_bytes } =
            Settings::read(environment).map_err(failed)?;
        let collector = Collector::new(collector).map_err(failed)?;
        let (sender, ended) = mpsc::channel(batches.queue);
        export.sending.spawn(send(ended, collector, batches, export.ends.clone()));
        let take = Box::new(move |span| {
            // One that finds no room is lost.
            let _ = sender.try_send(span);
        });
        let contents = Contents::up_to(content_bytes);
        Ok((Spans::new(Tracer { sampler, limits, contents, take }), export))
    }

    /// Sends what is left, for a moment.
    pub(crate) async fn stop(self) {
        self.ends.cancel();
        self.sending.close();
        if timeout(STOP_TIMEOUT, self.sending.wait()).await.is_err() {
            tracing::warn!("the last spans were not sent");
        }
    }
}

/// Sends spans until the end, then those that are left: a batch when it is full, or a while after its first span.
async fn send(mut ended: Receiver<Vec<u8>>, collector: Collector, batches: Batches, ends: CancellationToken) {
    let mut spans = Vec::new();
    loop {
        tokio::select! {
            _ = ended.recv_many(&mut spans, batches.most) => {}
            () = ends.cancelled(), if !ended.is_closed() => ended.close(),
        }
        let fill = async {
            let late = Instant::now() + batches.delay;
            loop {
                let room = batches.most - spans.len();
                // None: the batch is full, or no span comes any more.
                let Ok(1..) = timeout_at(late, ended.recv_many(&mut spans, room)).await else { break };
            }
        };
        ends.run_until_cancelled(fill).await;
        if !spans.is_empty() {
            collector.send(&spans).await;
            spans.clear();
        } else if ended.is_closed() && ended.is_empty() {
            return;
        }
    }
}
