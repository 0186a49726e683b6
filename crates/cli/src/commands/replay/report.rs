//! What replays found, for people.

use houston_domain::trace::compare::{Aligned, Called, Comparison};
use houston_domain::trace::replay::{Difference, Replayed};
use houston_domain::trace::stability::{Range, Stability};

use crate::commands::agentable::{one_line, table};

/// The longest value that is printed, in characters.
const MOST: usize = 200;

pub(crate) fn difference(run: &str, found: &Difference) -> Vec<String> {
    let Difference { line, iteration, what, recorded, replayed } = found;
    vec![
        format!("{run}: differs at line {line}, iteration {iteration} ({what})"),
        format!("  recorded: {}", one_line(&recorded.to_string(), MOST)),
        format!("  replayed: {}", one_line(&replayed.to_string(), MOST)),
    ]
}

pub(crate) fn replayed(run: &str, replayed: &Replayed, ms: f64) -> String {
    let Replayed { iterations, entries, events, steps, advances, .. } = replayed;
    let what = match advances {
        0 => format!("{iterations} iterations, {entries} entries, {events} events"),
        _ => format!("{steps} results of steps, {advances} decisions of the plan"),
    };
    format!("{run}: the same: {what}, in {ms:.1} ms")
}

pub(crate) fn stability(found: &Stability) -> Vec<String> {
    let Stability { replays, same_calls, same_answer, ways, answers, cost, statuses, .. } = found;
    let range =
        |Range { least, mean, most }: Range| [least.to_string(), format!("{mean:.1}"), most.to_string()];
    let row = |name: &str, [least, mean, most]: [String; 3]| [name.to_owned(), least, mean, most];
    let rows = [
        row("calls that differ", range(found.distance)),
        row("iterations", range(found.iterations)),
        row("tokens in", range(found.input_tokens)),
        row("tokens out", range(found.output_tokens)),
    ];
    let ended = statuses.iter().map(|(status, count)| format!("{count} {status}")).collect::<Vec<_>>();
    let cost = cost.map_or("unknown".to_owned(), |cost| format!("${cost}"));
    let mut lines = vec![
        format!(
            "{replays} replays: {same_calls} with the recorded calls, {same_answer} with the recorded answer"
        ),
        format!("{ways} different lists of calls, {answers} different answers; {}", ended.join(", ")),
    ];
    lines.extend(table(&["", "LEAST", "MEAN", "MOST"], &rows));
    lines.push(format!("cost of all: {cost}"));
    lines
}

pub(crate) fn lines(comparison: &Comparison) -> Vec<String> {
    let Comparison { distance, calls, same_answer, recorded, replayed } = comparison;
    let mut lines: Vec<String> = calls.iter().flat_map(of_call).collect();
    lines.push(format!("{distance} of {} calls differ", calls.len()));
    let cost =
        |cost: Option<rust_decimal::Decimal>| cost.map_or("unknown".to_owned(), |cost| format!("${cost}"));
    let row = |name: &str, one: String, two: String| [name.to_owned(), one, two];
    let rows = [
        row("iterations", recorded.iterations.to_string(), replayed.iterations.to_string()),
        row("tokens in", recorded.input_tokens.to_string(), replayed.input_tokens.to_string()),
        row("tokens out", recorded.output_tokens.to_string(), replayed.output_tokens.to_string()),
        row("cost", cost(recorded.cost), cost(replayed.cost)),
    ];
    lines.extend(table(&["", "RECORDED", "REPLAYED"], &rows));
    if *same_answer {
        lines.push("the answer is the same".to_owned());
    } else {
        lines.push(format!("- {}", one_line(&recorded.answer, MOST)));
        lines.push(format!("+ {}", one_line(&replayed.answer, MOST)));
    }
    lines
}

fn of_call(aligned: &Aligned) -> Vec<String> {
    let line = |sign: char, call: &Called| {
        format!("{sign} {} {}", one_line(&call.name, MOST), one_line(&call.input.to_string(), MOST))
    };
    match aligned {
        Aligned::Same { call } => vec![line(' ', call)],
        Aligned::Removed { call } => vec![line('-', call)],
        Aligned::Added { call } => vec![line('+', call)],
        Aligned::Changed { recorded, replayed } => vec![line('-', recorded), line('+', replayed)],
    }
}
