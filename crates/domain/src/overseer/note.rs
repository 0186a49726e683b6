//! The note that warns a model, at the end of a tool result. It is part of the history, so that the model reads it in every
//! later call, and provider caches hold.

use rust_decimal::Decimal;

use super::{Finding, Signal};
use crate::budget::BudgetScope;

const BEGINNING: &str = "\n\n[Houston: ";
const END: &str = "]";
/// How the warnings begin that no turn shows.
const MORE: [&str; 2] = ["More than ", "The run has used more than "];
const FINISH: &str = "Finish what matters most, and answer with what you have.";

/// What the model reads about findings, one text each.
pub fn texts(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(text).collect()
}

/// The note with these texts; empty if there are none.
pub fn of(texts: &[String]) -> String {
    if texts.is_empty() { String::new() } else { format!("{BEGINNING}{}{END}", texts.join(" ")) }
}

/// A result without its note. Of a result that ends like notes without having any, the end is ignored as well, all of it: a
/// note is added to what a tool has returned, and the result must be the same with it and without.
pub fn removed(mut result: &str) -> &str {
    while let Some(at) = result.rfind(BEGINNING).filter(|_| result.ends_with(END)) {
        result = &result[..at];
    }
    result
}

/// Whether a result has a note with this text.
pub fn has(result: &str, text: &str) -> bool {
    result.rfind(BEGINNING).is_some_and(|at| result.ends_with(END) && result[at..].contains(text))
}

/// The warning that does not follow from the turns of the run, in a recorded result: `ours` is what the turns alone make of
/// the same result. `None` if there is none.
pub fn added<'r>(recorded: &'r str, ours: &str) -> Option<&'r str> {
    let at = recorded.rfind(BEGINNING).filter(|_| recorded.ends_with(END))?;
    let ours = ours.strip_suffix(END).filter(|ours| ours.len() > at).map_or(at + BEGINNING.len(), str::len);
    let text = recorded.get(ours..recorded.len() - END.len())?.trim_start();
    MORE.iter().any(|more| text.starts_with(more)).then_some(text)
}

/// The warning that most of a budget is spent.
pub fn budget(percent: u32, scope: BudgetScope, limit: Decimal) -> String {
    format!("More than {percent} % of the budget {} (${limit}) is spent. {FINISH}", scope.in_words())
}

/// The warning that a signal which no turn shows has reached this threshold; the same text each time.
pub fn beyond(signal: Signal, threshold: u64) -> String {
    match signal {
        Signal::ExternalCalls => {
            format!("More than {threshold} calls within a minute reached outside. Make fewer of them.")
        }
        _ => format!("The run has used more than {threshold} tokens. {FINISH}"),
    }
}

fn text(finding: &Finding) -> String {
    format!("{} {}", seen(finding), advice(finding.signal))
}

/// What was seen, as a sentence.
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
        Signal::ExternalCalls => format!("{count} calls within a minute reached outside."),
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
