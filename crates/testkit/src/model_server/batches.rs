//! Anthropic's batches of one call: `POST /messages/batches`, its state, its results, and its end.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::anthropic;
use super::http::json_response;
use super::reply::{Kind, Reply};

/// The batches of a server. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Batches(Arc<Mutex<HashMap<String, Batch>>>);

#[derive(Debug)]
struct Batch {
    /// Whether it was looked at: it has ended when it is looked at again.
    was_seen: bool,
    result: Value,
}

impl Batches {
    /// Adds the batch of call `number`. Returns the response.
    pub(crate) fn add(&self, number: usize, reply: &Reply) -> String {
        let result = match &reply.0 {
            Kind::Answer(answer) if answer.fault.is_none() => {
                json!({"type": "succeeded", "message": anthropic::whole(answer, number)})
            }
            _ => json!({"type": "errored", "error": {"type": "error", "error": {"type": "api_error"}}}),
        };
        let id = format!("msgbatch_{number}");
        let response = state(&id, false);
        self.0.lock().insert(id, Batch { was_seen: false, result });
        response
    }

    /// The response to a request for a batch; `None`: there is none at this path.
    pub(crate) fn find(&self, path: &str) -> Option<String> {
        let (_, rest) = path.split_once("/messages/batches/")?;
        let (id, what) = rest.split_once('/').unwrap_or((rest, ""));
        let mut batches = self.0.lock();
        let batch = batches.get_mut(id)?;
        Some(match what {
            "results" => ok(&json!({"custom_id": "answer", "result": batch.result})),
            "cancel" => {
                batch.result = json!({"type": "canceled"});
                state(id, true)
            }
            _ => state(id, std::mem::replace(&mut batch.was_seen, true)),
        })
    }
}

fn state(id: &str, has_ended: bool) -> String {
    let status = if has_ended { "ended" } else { "in_progress" };
    ok(&json!({"id": id, "processing_status": status}))
}

fn ok(body: &Value) -> String {
    json_response("200 OK", "", &body.to_string())
}
