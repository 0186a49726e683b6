//! The steps of a run on one time axis: attempt → iteration → model call → tools, from the trace of the run.

pub(crate) mod part;
mod spans;

use chrono::{DateTime, TimeDelta, Utc};
use houston_domain::trace::Line;

use self::spans::Span;
use crate::show::{self, Fact};

/// The most steps of a page without texts.
const MAX_STEPS: usize = 400;
/// The most steps of a page with texts.
const MAX_STEPS_WITH_TEXTS: usize = 40;
/// The most characters of a text on the page of its run.
const MAX_TEXT: usize = 4_000;
/// Bars are at least as wide, in percent, so that each can be seen.
const LEAST_WIDTH: f64 = 0.35;

/// What `run.html` draws.
#[derive(Debug, Default)]
pub(crate) struct Waterfall {
    pub(crate) summary: String,
    /// Why there are no steps.
    pub(crate) why_empty: String,
    pub(crate) ticks: Vec<Tick>,
    pub(crate) steps: Vec<Step>,
    /// The first step of the page before, if there is one.
    pub(crate) earlier: Option<usize>,
    /// The first step of the page after, if there is one.
    pub(crate) later: Option<usize>,
}

/// Which steps are on the page, and how.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Part {
    /// Whether texts of models and tools are among it.
    pub(crate) contents: bool,
    /// The number of the first step; the first one is 1.
    pub(crate) from: usize,
}

impl Part {
    /// The most steps.
    pub(crate) fn size(self) -> usize {
        if self.contents { MAX_STEPS_WITH_TEXTS } else { MAX_STEPS }
    }
}

/// A line across all steps, with its time.
#[derive(Debug)]
pub(crate) struct Tick {
    pub(crate) x: String,
    pub(crate) text: String,
}

/// A row: a bar, with what the trace says of it.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) number: usize,
    pub(crate) depth: u8,
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) bad: bool,
    /// Whether it has not ended.
    pub(crate) open: bool,
    pub(crate) x: String,
    pub(crate) width: String,
    pub(crate) y: u8,
    pub(crate) height: u8,
    pub(crate) took: String,
    pub(crate) facts: Vec<Fact>,
    pub(crate) texts: Vec<Beginning>,
    /// The number of its answer, if what the model was sent may be linked to.
    pub(crate) answer: Option<usize>,
}

/// The beginning of a text.
#[derive(Debug)]
pub(crate) struct Beginning {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    /// Where the whole text is, below the texts of the run; empty: this is all of it.
    pub(crate) whole: String,
}

impl Beginning {
    fn new(step: usize, nth: usize, text: Fact) -> Self {
        let end = text.value.char_indices().nth(MAX_TEXT).map(|(end, _)| end);
        let (value, whole) = match end {
            Some(end) => (format!("{} …", &text.value[..end]), format!("{step}/{nth}")),
            None => (text.value, String::new()),
        };
        Self { name: text.name, value, whole }
    }
}

impl Waterfall {
    /// Why there is none.
    pub(crate) fn without(why: impl Into<String>) -> Self {
        Self { why_empty: why.into(), ..Self::default() }
    }

    /// `is_open`: whether the run goes on.
    pub(crate) fn of(lines: &[Line], is_open: bool, part: Part, now: DateTime<Utc>) -> Self {
        let spans = spans::of(lines, is_open);
        let (Some(start), Some(last)) = (
            spans.iter().map(|span| span.start).min(),
            spans.iter().map(|span| span.end.unwrap_or(span.start)).max(),
        ) else {
            return Self::without("Nothing has happened yet.");
        };
        let end = if spans.iter().any(|span| span.end.is_none()) { last.max(now) } else { last };
        let axis = Axis { start, ms: (end - start).num_milliseconds().max(1) };
        let count = spans.len();
        let size = part.size();
        let skipped = part.from.saturating_sub(1).min(count - 1);
        let until = (skipped + size).min(count);
        let more =
            if count > size { format!(", {} to {until} of them here", skipped + 1) } else { String::new() };
        let word = if count == 1 { "step" } else { "steps" };
        let step = |(number, span)| axis.step(number, span, end, part.contents);
        Self {
            summary: format!("{}, {count} {word}{more}", show::took(end - start)),
            why_empty: String::new(),
            ticks: axis.ticks(),
            steps: (1..).zip(spans).skip(skipped).take(size).map(step).collect(),
            earlier: (skipped > 0).then(|| skipped.saturating_sub(size) + 1),
            later: (until < count).then_some(until + 1),
        }
    }

    /// The whole text `nth` of the step `number`.
    pub(crate) fn text(lines: &[Line], is_open: bool, number: usize, nth: usize) -> Option<String> {
        let span = spans::of(lines, is_open).into_iter().nth(number.checked_sub(1)?)?;
        span.texts.into_iter().nth(nth).map(|text| text.value)
    }
}

struct Axis {
    start: DateTime<Utc>,
    ms: i64,
}

impl Axis {
    fn percent(&self, at: DateTime<Utc>) -> f64 {
        let from_start = (at - self.start).num_milliseconds().clamp(0, self.ms);
        from_start as f64 * 100.0 / self.ms as f64
    }

    fn step(&self, number: usize, span: Span, end: DateTime<Utc>, contents: bool) -> Step {
        let until = span.end.unwrap_or(end);
        let width = (self.percent(until) - self.percent(span.start)).max(LEAST_WIDTH);
        let x = self.percent(span.start).min(100.0 - LEAST_WIDTH);
        let is_thin = matches!(span.kind, "attempt" | "iteration");
        let mut facts = vec![show::fact("Began", format!("+ {}", show::took(span.start - self.start)))];
        facts.extend(span.facts);
        let texts = if contents { span.texts } else { Vec::new() };
        Step {
            number,
            depth: span.depth,
            kind: span.kind,
            name: span.name,
            bad: span.bad,
            open: span.end.is_none(),
            x: format!("{x:.2}%"),
            width: format!("{width:.2}%"),
            y: if is_thin { 12 } else { 9 },
            height: if is_thin { 4 } else { 10 },
            took: if span.is_moment { String::new() } else { show::took(until - span.start) },
            facts,
            answer: span.answer.filter(|_| contents),
            texts: (0..).zip(texts).map(|(nth, text)| Beginning::new(number, nth, text)).collect(),
        }
    }

    /// About four lines at round times.
    fn ticks(&self) -> Vec<Tick> {
        const STEPS: [i64; 22] = [
            1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000,
            300_000, 600_000, 1_800_000, 3_600_000, 21_600_000, 86_400_000,
        ];
        let each = STEPS.into_iter().find(|step| self.ms / step <= 5).unwrap_or(self.ms / 4);
        (0..=self.ms / each)
            .map(|nth| Tick {
                x: format!("{:.2}%", (nth * each) as f64 * 100.0 / self.ms as f64),
                // `2 s` in the place of `2.0 s`.
                text: match nth {
                    0 => "0".to_owned(),
                    _ => show::took(TimeDelta::milliseconds(nth * each)).replace(".0 s", " s"),
                },
            })
            // A label at the very end would be cut off.
            .filter(|tick| tick.text == "0" || !tick.x.starts_with("100"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use houston_domain::event::Event;
    use houston_domain::trace::Trace;

    use super::*;

    fn recorded(name: &str) -> Vec<Line> {
        let file = format!("{}/../cli/tests/traces/{name}.trace.jsonl", env!("CARGO_MANIFEST_DIR"));
        Trace::parse(&std::fs::read_to_string(file).unwrap()).unwrap().lines
    }

    fn names(name: &str) -> Vec<String> {
        let fall = Waterfall::of(&recorded(name), false, Part::default(), DateTime::UNIX_EPOCH);
        fall.steps.iter().map(|step| format!("{}{}", "  ".repeat(step.depth.into()), step.name)).collect()
    }

    #[test]
    fn recorded_runs_have_attempts_iterations_models_and_tools() {
        let names = names("compression");
        let expected = [
            "Queued",
            "Attempt 1",
            "  Iteration 1",
            "    simulated/simulated",
            "    search",
            "  Iteration 2",
            "    simulated/simulated",
            "    read",
            "  Iteration 3",
            "    simulated/simulated",
        ];
        let spans: Vec<&String> = names.iter().filter(|name| expected.contains(&name.as_str())).collect();
        assert_eq!(spans, expected, "{names:#?}");
    }

    #[test]
    fn end_of_an_iteration_may_come_before_its_answer() {
        let mut lines = recorded("compression");
        let expected = Waterfall::of(&lines, false, Part::default(), DateTime::UNIX_EPOCH);
        let is_end = |line: &Line| match line {
            Line::Event { event, .. } => {
                matches!(**event, Event::StepFinished { .. } | Event::RunFinished { .. })
            }
            _ => false,
        };
        let is_entry =
            |line: &Line| matches!(line, Line::Answer { .. } | Line::Tool { .. } | Line::Results { .. });
        for end in 1..lines.len() {
            let mut at = end;
            while is_end(&lines[at]) && at > 0 && is_entry(&lines[at - 1]) {
                lines.swap(at - 1, at);
                at -= 1;
            }
        }
        let found = Waterfall::of(&lines, false, Part::default(), DateTime::UNIX_EPOCH);
        let named = |fall: Waterfall| {
            fall.steps.into_iter().map(|step| (step.depth, step.name, step.took)).collect::<Vec<_>>()
        };
        assert_eq!(named(found), named(expected));
    }

    #[test]
    fn every_recorded_run_has_bars_within_the_axis() {
        let folder = format!("{}/../cli/tests/traces", env!("CARGO_MANIFEST_DIR"));
        let mut count = 0;
        for file in std::fs::read_dir(folder).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            let Some(name) = name.strip_suffix(".trace.jsonl") else { continue };
            // The recorded plans lack the events that tell when their steps began.
            if name.starts_with("plan_") {
                continue;
            }
            let fall =
                Waterfall::of(&recorded(name), false, Part { contents: true, from: 1 }, DateTime::UNIX_EPOCH);
            assert!(!fall.steps.is_empty() && !fall.ticks.is_empty(), "{name}: {}", fall.why_empty);
            for step in &fall.steps {
                let [x, width] =
                    [&step.x, &step.width].map(|text| text.trim_end_matches('%').parse::<f64>().unwrap());
                assert!(x >= 0.0 && x + width <= 100.4, "{name}: {step:?}");
                assert!(!step.open, "{name}: {step:?}");
            }
            count += 1;
        }
        assert!(count > 10, "this test finds too few traces: {count}");
    }

    #[test]
    fn pages_of_a_long_run_have_each_text_once() {
        let lines = recorded("compression");
        let lines: Vec<Line> = std::iter::repeat_n(lines, 20).flatten().collect();
        let all: Vec<Fact> = spans::of(&lines, false).into_iter().flat_map(|span| span.texts).collect();
        let (mut from, mut pages, mut found) = (Some(1), 0, Vec::new());
        while let Some(first) = from {
            let part = Part { contents: true, from: first };
            let fall = Waterfall::of(&lines, false, part, DateTime::UNIX_EPOCH);
            assert!(fall.steps.len() <= MAX_STEPS_WITH_TEXTS);
            for step in &fall.steps {
                for nth in 0..step.texts.len() {
                    found.push(Waterfall::text(&lines, false, step.number, nth).unwrap());
                }
            }
            (from, pages) = (fall.later, pages + 1);
        }
        assert!(pages > 1 && !found.is_empty(), "{pages}");
        assert_eq!(found, all.into_iter().map(|text| text.value).collect::<Vec<_>>());
    }

    #[test]
    fn retries_show_their_error_and_the_wait() {
        let names = names("error_and_retry").join("\n");
        assert!(names.contains("Failed: ") && names.contains("Attempt 2"), "{names}");
    }

    #[test]
    fn open_run_grows_until_now() {
        let mut lines = recorded("compression");
        let is_event = |line: &Line| matches!(line, Line::Event { .. });
        let second = lines.iter().enumerate().filter(|(_, line)| is_event(line)).nth(2).unwrap().0;
        lines.truncate(second + 1);
        let now = lines.iter().filter_map(Line::at).max().unwrap() + TimeDelta::seconds(7);
        let fall = Waterfall::of(&lines, true, Part::default(), now);
        let last = fall.steps.last().unwrap();
        assert!(last.open && last.kind == "model" && last.took == "7.0 s", "{last:?}");
    }
}
