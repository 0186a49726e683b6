//! The texts of some steps, put into a trace without texts.

use chrono::{DateTime, Utc};
use houston_domain::trace::Line;

use super::spans;

/// From the first of these times up to the second one.
pub(crate) type Between = (DateTime<Utc>, DateTime<Utc>);

/// When the texts of at most `most` steps from the number `from` on were committed. `None`: they have none.
pub(crate) fn between(outline: &[Line], is_open: bool, from: usize, most: usize) -> Option<Between> {
    let spans = spans::of(outline, is_open);
    let skipped = from.saturating_sub(1).min(spans.len().saturating_sub(1));
    let times: Vec<DateTime<Utc>> =
        spans.iter().skip(skipped).take(most).filter_map(|span| span.texts_at).collect();
    Some((times.iter().min().copied()?, times.iter().max().copied()?))
}

/// The lines of a trace without texts, but those of these times as they are in `whole`.
pub(crate) fn with_texts(outline: Vec<Line>, whole: Vec<Line>, (since, until): Between) -> Vec<Line> {
    let (before, others): (Vec<Line>, Vec<Line>) =
        outline.into_iter().partition(|line| line.at().is_none_or(|at| at < since));
    let after = others.into_iter().filter(|line| line.at().is_some_and(|at| at > until));
    before.into_iter().chain(whole).chain(after).collect()
}

#[cfg(test)]
mod tests {
    use houston_domain::tool_call::ToolResponse;
    use houston_domain::trace::Trace;

    use super::super::{Part, Waterfall};
    use super::*;

    fn recorded(name: &str) -> Vec<Line> {
        let file = format!("{}/../cli/tests/traces/{name}.trace.jsonl", env!("CARGO_MANIFEST_DIR"));
        Trace::parse(&std::fs::read_to_string(file).unwrap()).unwrap().lines
    }

    /// The line without its texts.
    fn silent(mut line: Line) -> Option<Line> {
        match &mut line {
            Line::Before(_) => return None,
            Line::Answer { content, .. } => content.clear(),
            Line::Compressed { summary, .. } => summary.clear(),
            Line::Tool { input, response, .. } => {
                *input = serde_json::json!({});
                *response = match response {
                    ToolResponse::Failure { code, .. } => ToolResponse::failure(*code, ""),
                    ToolResponse::Success { .. } => ToolResponse::success(""),
                };
            }
            _ => {}
        }
        Some(line)
    }

    #[test]
    fn pages_are_those_of_the_whole_trace() {
        let several_attempts = ["error_and_retry", "crash_with_open_calls", "compression_and_crash"];
        for name in
            several_attempts.into_iter().chain(["parallel_tools", "answer_in_a_session", "twenty_iterations"])
        {
            let lines = recorded(name);
            let outline: Vec<Line> = lines.iter().cloned().filter_map(silent).collect();
            let count = spans::of(&lines, false).len();
            for (first, most) in (1..=count).flat_map(|first| [(first, 1), (first, 3), (first, count)]) {
                let Some((since, until)) = between(&outline, false, first, most) else { continue };
                let is_within = |line: &&Line| line.at().is_some_and(|at| since <= at && at <= until);
                let whole: Vec<Line> = lines.iter().filter(is_within).cloned().collect();
                let merged = with_texts(outline.clone(), whole, (since, until));
                let page = |lines: &[Line]| {
                    let part = Part { contents: true, from: first };
                    let mut steps = Waterfall::of(lines, false, part, DateTime::UNIX_EPOCH).steps;
                    steps.truncate(most);
                    format!("{steps:#?}")
                };
                assert_eq!(page(&merged), page(&lines), "{name}: {most} from {first}");
            }
        }
    }
}
