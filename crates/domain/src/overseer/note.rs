//! The note that warns a model, at the end of a tool result. It is part of the history, so that the model reads it in every
//! later call, and provider caches hold.

use super::{Finding, Signal};

const BEGINNING: &str = "\n\n[Houston: ";
const END: &str = "]";

/// The note about findings; empty if there are none.
#[must_use]
pub fn of(findings: &[Finding]) -> String {
    let texts: Vec<String> = findings.iter().map(text).collect();
    if texts.is_empty() { String::new() } else { format!("{BEGINNING}{}{END}", texts.join(" ")) }
}

/// A result without its note. Of a result that ends like a note without being one, the end is ignored as well.
#[must_use]
pub fn removed(result: &str) -> &str {
    match result.rfind(BEGINNING) {
        Some(at) if result.ends_with(END) => &result[..at],
        _ => result,
    }
}

fn text(finding: &Finding) -> String {
    format!("{} {}", seen(finding), advice(finding.signal))
}

/// What was seen, as a sentence.
#[must_use]
pub fn seen(Finding { signal, count, tool, .. }: &Finding) -> String {
    let tool = tool.as_deref().unwrap_or("a tool");
    match signal {
        Signal::Repeats => {
            format!("The same call brought the same result {count} times in a row, last of `{tool}`.")
        }
        Signal::RepeatedErrors => format!("The same call failed {count} times in a row, last of `{tool}`."),
        Signal::Alternation => {
            format!("The last {count} turns alternate between the same two calls and their results.")
        }
        Signal::NothingNew => format!("The last {count} turns repeated earlier calls with the same results."),
        Signal::Failures => format!("Every call of the last {count} turns failed."),
        Signal::Refusals => format!("Guards refused calls in {count} turns, last of `{tool}`."),
        Signal::Tokens => format!("The run has used {count} tokens."),
    }
}

fn advice(signal: Signal) -> &'static str {
    match signal {
        Signal::Refusals => {
            "What is refused stays refused: find another way, or tell your user what you may not do."
        }
        Signal::RepeatedErrors | Signal::Failures => {
            "Read the errors and do something else, or tell your user what does not work."
        }
        _ => "Do something else, or answer with what you have.",
    }
}
