//! The scripted model: its answer depends on the name of the case in the user's message.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Duration;

use houston_testkit::model_server::{Call, Fault, Reply};
use serde_json::json;

use crate::case::CrashPoint;
use crate::plans;
use crate::tasks_and_feeds;
use crate::tools::{LOOK_UP, SEND_LETTER, SET_LABEL};

/// The user's message in a case; it contains the name of the case.
pub(crate) fn question(case: &str) -> String {
    format!("This is case {case}, please.")
}

/// The agent's final message.
pub(crate) fn answer(case: &str) -> String {
    format!("Here is the answer of case {case}: ") + &"all of it was done, word after word. ".repeat(8)
}

/// Whether the case calls no tools.
pub(crate) fn is_plain(point: CrashPoint) -> bool {
    matches!(point, CrashPoint::C7 | CrashPoint::C16)
}

/// The names of the calls of the first turn: one is quick, three are slow.
pub(crate) const QUICK_LETTER: &str = "quick letter";
pub(crate) const SLOW_LETTER: &str = "slow letter";
pub(crate) const LABEL: &str = "label";
pub(crate) const LOOK: &str = "look";

pub(crate) fn script() -> impl Fn(&Call) -> Reply + Send + Sync + 'static {
    let stalled: Mutex<HashSet<String>> = Mutex::default();
    move |call| {
        let said = call.last_user_text();
        if let Some(reply) = plans::reply(call, &said) {
            return reply;
        }
        if let Some(reply) = tasks_and_feeds::reply(call, &said) {
            return reply;
        }
        let case = said.trim_start_matches("This is case ").trim_end_matches(", please.").to_owned();
        let answer = Reply::tool("send_message", json!({"content": answer(&case)})).in_pieces(40);
        if case.starts_with("C7-") {
            return answer.every(Duration::from_millis(30));
        }
        if case.starts_with("C16-") {
            // The worker of the first call is killed in the middle of the answer.
            let is_first = stalled.lock().unwrap().insert(case);
            return if is_first { answer.fault(Fault::Stall(10)) } else { answer };
        }
        if call.has_tool_results() {
            return answer.every(Duration::from_millis(5));
        }
        Reply::tool(SEND_LETTER, json!({"name": QUICK_LETTER, "ms": 100}))
            .then_tool(SEND_LETTER, json!({"name": SLOW_LETTER, "ms": 700}))
            .then_tool(SET_LABEL, json!({"name": LABEL, "ms": 700}))
            .then_tool(LOOK_UP, json!({"name": LOOK, "ms": 700}))
    }
}
