//! What the agent that made a plan reads about its end: each step with the beginning of its result, then the output.
//!
//! ```text
//! <plan_ended id="plan_…" status="completed" done="4" of="5">
//! <step id="find" title="Search hotels" status="done">[{"name":"Roma"}]</step>
//! <output>Roma was booked.</output>
//! </plan_ended>
//! ```

use serde_json::Value;

use super::checklist::{Checklist, LineStatus};
use super::state::{End, States};
use crate::frame::{attribute, escape};

/// Maximum length of a step's result, in characters.
const RESULT: usize = 400;
/// Maximum length of all steps' results together.
const RESULTS: usize = 8_000;
/// Maximum length of the output.
const OUTPUT: usize = 4_000;

/// The message about the end of a plan. `untrusted`: its steps have read what strangers wrote.
#[must_use]
pub fn ended(list: &Checklist, states: &States, end: &End, untrusted: bool) -> String {
    let id = attribute(list.plan_id.as_deref().unwrap_or_default());
    let status = match end {
        End::Completed(_) => "completed",
        End::Failed(_) | End::Replan(_) => "failed",
        End::Cancelled => "cancelled",
    };
    let done =
        list.steps.iter().filter(|line| line.status == LineStatus::Done && is_work(&line.kind)).count();
    let mut text = format!("<plan_ended id=\"{id}\" status=\"{status}\" done=\"{done}\" of=\"{}\">", list.of);
    if untrusted {
        text += &format!("\n<untrusted source=\"{id}\">");
    }
    let mut left = RESULTS;
    for line in &list.steps {
        text += &format!(
            "\n<step id=\"{}\" title=\"{}\" status=\"{}\"",
            attribute(&line.id),
            attribute(&line.title),
            line.status.as_str()
        );
        let result = states
            .get(&line.id)
            .map(|state| &state.result)
            .filter(|result| is_work(&line.kind) && !result.is_null());
        let (kept, is_cut) = result.map_or((String::new(), false), |result| begin(result, RESULT.min(left)));
        left -= kept.chars().count().min(left);
        let detail = line
            .detail
            .as_deref()
            .filter(|_| matches!(line.status, LineStatus::Failed | LineStatus::Skipped));
        if let Some(detail) = detail {
            text += &format!(" reason=\"{}\"", attribute(detail));
        }
        text += if is_cut { " cut=\"true\">" } else { ">" };
        text += &format!("{}</step>", escape(&kept));
    }
    if let End::Completed(output) = end
        && !output.is_null()
    {
        let (kept, is_cut) = begin(output, OUTPUT);
        text += if is_cut { "\n<output cut=\"true\">" } else { "\n<output>" };
        text += &format!("{}</output>", escape(&kept));
    }
    if untrusted {
        text += "\n</untrusted>";
    }
    if let End::Failed(failure) = end {
        text +=
            &format!("\n<error code=\"{}\">{}</error>", attribute(&failure.code), escape(&failure.message));
    }
    if text.contains(" cut=\"true\">") {
        text += "\n<hint>read_plan returns what was cut: pass the id of the step as path.</hint>";
    }
    text + "\n</plan_ended>"
}

/// Whether a step has a result of its own, and not only those of the steps inside it.
fn is_work(kind: &str) -> bool {
    !["condition", "parallel"].contains(&kind)
}

/// The beginning of a value, and whether that is not all of it.
fn begin(value: &Value, most: usize) -> (String, bool) {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let kept: String = text.chars().take(most).collect();
    let is_cut = kept.len() < text.len();
    (kept, is_cut)
}
