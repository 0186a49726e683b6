//! Code of tests, which calls tools.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use houston_domain::tool_call::{ToolErrorCode, ToolResponse};
use houston_tools::{Code, CodeCall};
use serde_json::json;

/// The tool that writes a row of Houston.
pub(in crate::run) const NOTE: &str = "create_note";

/// Code that makes these calls, and answers with what it read.
pub(super) fn code(
    rounds: &'static [&'static [&'static str]],
    executed: Arc<AtomicUsize>,
    drifts: bool,
) -> Code {
    Code::new(move |mut host| {
        Box::pin(async move {
            let execution = executed.fetch_add(1, Ordering::Relaxed);
            let (mut number, mut read) = (0, vec![host.now.timestamp_millis().to_string()]);
            for round in rounds {
                let call = |tool: &&'static str| {
                    number += 1;
                    let input = match *tool {
                        NOTE => json!({"title": format!("{number}"), "content": "A note."}),
                        _ if drifts => json!({"n": number, "x": execution}),
                        _ => json!({"n": number}),
                    };
                    CodeCall { number, tool: (*tool).to_owned(), input }
                };
                match host.answer(round.iter().map(call).collect()).await {
                    Ok(answers) => read.extend(answers.into_iter().map(|answer| match answer {
                        Ok(value) => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
                        Err(error) => format!("error: {error}"),
                    })),
                    Err(reason) => return ToolResponse::failure(ToolErrorCode::IoError, reason),
                }
            }
            ToolResponse::success(read.join("; "))
        })
    })
}
