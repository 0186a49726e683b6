//! A tool that pauses in its middle.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use houston_domain::tool_call::ToolResponse;
use houston_tools::{Acted, CallQuestion, Pause, Paused, Until};
use serde_json::{Value, json};

/// What a tool waits for.
#[derive(Clone, Copy)]
pub(in crate::run) enum Pausing {
    /// A person; what it keeps has characters that are awkward to store.
    Asks,
    /// Something that it has begun: it asks for it at once, then after half a minute, and then it has ended.
    Begins,
    /// It wants more to be kept than is kept.
    KeepsTooMuch,
}

/// What [`Pausing::Asks`] keeps.
pub(in crate::run) const KEPT: &str = "\u{0}\u{fffd}\"\u{1f600}";

pub(super) fn begin(pausing: Pausing) -> BoxFuture<'static, Acted> {
    let pause = match pausing {
        Pausing::Asks => {
            let content =
                json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
            let question =
                CallQuestion { text: "Your name?".to_owned(), content: Some(content), of_client: false };
            Pause { state: json!(KEPT), until: Until::Answered(question) }
        }
        Pausing::Begins => Pause { state: json!(2), until: Until::Elapsed(Duration::ZERO) },
        Pausing::KeepsTooMuch => {
            Pause { state: json!("x".repeat(200_000)), until: Until::Elapsed(Duration::ZERO) }
        }
    };
    Box::pin(std::future::ready(Acted::Paused(pause)))
}

/// Goes on: with the answer of a person to the end, else once more after half a minute.
pub(super) fn go_on(paused: Paused, went_on: &Arc<Mutex<Vec<Value>>>) -> BoxFuture<'static, Acted> {
    let Paused { state, answer } = paused;
    went_on.lock().unwrap().push(json!([state, answer]));
    let acted = match (answer, state.as_u64()) {
        (None, Some(left @ 2..)) => {
            Acted::Paused(Pause { state: json!(left - 1), until: Until::Elapsed(Duration::from_secs(30)) })
        }
        (Some(answer), _) => Acted::Done(ToolResponse::success(format!("With {answer}."))),
        _ => Acted::Done(ToolResponse::success("It has ended.")),
    };
    Box::pin(std::future::ready(acted))
}
