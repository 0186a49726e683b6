//! Progress of a call that waits: the answer to its request is an event stream then, with a notification every other second, and
//! with the answer at its end. Nothing else of this server streams.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::unfold;
use houston_protocol::mcp::McpAnswer;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval};

/// The tool that waits.
const WAITS: &str = "wait_for_run";
/// The time between two notifications.
const EVERY: Duration = Duration::from_secs(2);
/// Most bytes of a token, which each notification has.
const MAX_TOKEN: usize = 200;

/// The token under which a client wants to hear of the progress of its call, if the call waits and the client reads streams.
pub(super) fn wanted(headers: &HeaderMap, method: &str, params: &Map<String, Value>) -> Option<Value> {
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let reads_streams = accepts.into_iter().any(|accepts| accepts.contains("text/event-stream"));
    let waits = method == "tools/call" && params.get("name").and_then(Value::as_str) == Some(WAITS);
    let token = params.get("_meta")?.get("progressToken")?;
    let is_token = token.as_str().map_or(token.is_i64() || token.is_u64(), |token| token.len() <= MAX_TOKEN);
    (reads_streams && waits && is_token).then(|| token.clone())
}

/// Notifies the client until the answer is there, and sends that.
pub(super) fn stream(token: Value, answer: impl Future<Output = McpAnswer> + Send + 'static) -> Response {
    let began = Instant::now();
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let frames = unfold(Some((Box::pin(answer), ticks)), move |state| {
        let token = token.clone();
        async move {
            let (mut answer, mut ticks) = state?;
            tokio::select! {
                biased;
                answer = &mut answer => Some((frame(&answer), None)),
                _ = ticks.tick() => Some((frame(&progress(&token, began)), Some((answer, ticks)))),
            }
        }
    });
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform")),
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, Body::from_stream(frames)).into_response()
}

/// How many seconds the call has waited.
fn progress(token: &Value, began: Instant) -> Value {
    let params = json!({
        "progressToken": token, "progress": began.elapsed().as_secs_f64(), "message": "The run is not over yet.",
    });
    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
}

fn frame(message: &impl Serialize) -> Result<Bytes, Infallible> {
    // Serialising texts, numbers and JSON cannot fail.
    let message = serde_json::to_string(message).unwrap_or_default();
    Ok(format!("event: message\ndata: {message}\n\n").into())
}
