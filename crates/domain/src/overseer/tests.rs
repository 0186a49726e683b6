use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::history::{Block, Entry};

/// The settings that Houston comes with.
fn shipped() -> Settings {
    toml::from_str(include_str!("../../../../jobs/overseer.toml")).unwrap()
}

/// A call: tool, arguments, result. A result that begins with `!` is an error.
type Call<'a> = (&'a str, Value, &'a str);

#[derive(Default)]
struct Run {
    trace: Trace,
    turns: u32,
    levels: Vec<Level>,
    warned: Vec<Signal>,
}

impl Run {
    fn of<'a>(turns: impl IntoIterator<Item = Vec<Call<'a>>>) -> Self {
        let mut run = Self::default();
        turns.into_iter().for_each(|calls| run.turn(&calls));
        run
    }

    fn turn(&mut self, calls: &[Call<'_>]) {
        self.turns += 1;
        let id = |nth: usize| format!("call_{}_{nth}", self.turns);
        let uses = calls.iter().enumerate().map(|(nth, (tool, input, _))| Block::ToolUse {
            id: id(nth),
            name: (*tool).to_owned(),
            input: input.clone(),
            raw: None,
        });
        let results = calls.iter().enumerate().map(|(nth, (_, _, result))| Block::ToolResult {
            tool_use_id: id(nth),
            content: result.trim_start_matches('!').to_owned(),
            is_error: result.starts_with('!'),
            code: None,
        });
        let (answer, mut results) = (Entry::assistant(uses.collect()), Entry::user(results.collect()));
        self.trace.on_answer(&answer);
        self.trace.on_results(&results);
        let warnings = warnings(&shipped(), &self.trace);
        let Some(Block::ToolResult { content, .. }) = results.content.last_mut() else { return };
        content.push_str(&note::of(&note::texts(&warnings)));
        self.warned.extend(warnings.iter().map(|finding| finding.signal));
        self.levels.push(self.found().map_or(Level::Ok, |finding| finding.level));
    }

    fn found(&self) -> Option<Finding> {
        judge(&shipped(), &self.trace, &Measured::default())
    }

    fn signal(&self) -> Option<(Signal, Level)> {
        self.found().map(|finding| (finding.signal, finding.level))
    }
}

fn same(turns: usize, call: Call<'_>) -> Vec<Vec<Call<'_>>> {
    (0..turns).map(|_| vec![call.clone()]).collect()
}

#[test]
fn same_call_with_the_same_result_warns_then_pauses() {
    use Level::{Ok, Pause, Warn};
    let run = Run::of(same(4, ("list_notes", json!({"a": 1, "b": 2}), "none")));
    assert_eq!(run.levels, [Ok, Ok, Warn, Pause]);
    assert_eq!(run.warned, [Signal::Repeats], "once");
    let finding = run.found().unwrap();
    assert_eq!((finding.count, finding.tool.as_deref()), (4, Some("list_notes")));
}

#[test]
fn order_of_arguments_and_of_calls_does_not_matter() {
    let (one, other) = (json!({"a": 1, "b": 2}), json!({"b": 2, "a": 1}));
    let run = Run::of([
        vec![("x", one.clone(), "1"), ("y", json!({}), "2")],
        vec![("y", json!({}), "2"), ("x", other, "1")],
        vec![("x", one, "1"), ("y", json!({}), "2")],
    ]);
    assert_eq!(run.signal(), Some((Signal::Repeats, Level::Warn)));
}

#[test]
fn same_failing_call_pauses_although_its_error_differs() {
    use Level::{Ok, Pause, Warn};
    let call = |error| vec![("fetch", json!({"url": "x"}), error)];
    let run = Run::of([call("!broken at 10:01"), call("!broken at 10:02"), call("!broken at 10:03")]);
    assert_eq!(run.levels, [Ok, Warn, Pause]);
    assert_eq!(run.signal(), Some((Signal::RepeatedErrors, Level::Pause)));
}

#[test]
fn alternating_calls_warn_then_pause() {
    let turns = (0..6).map(|nth| vec![(["a", "b"][nth % 2], json!({}), ["1", "2"][nth % 2])]);
    let run = Run::of(turns);
    assert_eq!(run.levels[3], Level::Warn);
    assert_eq!(run.signal(), Some((Signal::Alternation, Level::Pause)));
}

#[test]
fn longer_cycles_bring_nothing_new() {
    let turns = (0..9).map(|nth| vec![(["a", "b", "c"][nth % 3], json!({}), "same")]);
    let run = Run::of(turns);
    assert_eq!(run.levels[5], Level::Ok);
    assert_eq!(run.signal(), Some((Signal::NothingNew, Level::Pause)));
}

#[test]
fn failures_in_a_row_warn_then_pause() {
    let inputs: Vec<Value> = (0..8).map(|nth| json!({"nth": nth})).collect();
    let run = Run::of(inputs.iter().map(|input| vec![("fetch", input.clone(), "!no")]));
    assert_eq!((run.levels[3], run.levels[4], run.levels[7]), (Level::Ok, Level::Warn, Level::Pause));
    assert_eq!(run.signal(), Some((Signal::Failures, Level::Pause)));
}

#[test]
fn refused_calls_end_a_run_even_if_a_person_lets_it_go_on() {
    let refused = format!("!{REFUSED}no");
    let mut run = Run::default();
    for nth in 0..6 {
        if nth == 3 {
            assert_eq!(run.signal(), Some((Signal::Refusals, Level::Pause)));
            run.trace.start_anew(Signal::Refusals, run.trace.last_turn());
            assert_eq!(run.signal(), None);
        }
        run.turn(&[("send", json!({"nth": nth}), &refused), ("look", json!({"nth": nth}), "fine")]);
    }
    assert_eq!(run.signal(), Some((Signal::Refusals, Level::Kill)));
    assert_eq!(run.found().unwrap().count, 6);
}

#[test]
fn tokens_count_anew_when_a_person_lets_the_run_go_on() {
    let mut run = Run::default();
    let at = shipped().tokens.pause;
    let level = |run: &Run, tokens| {
        judge(&shipped(), &run.trace, &Measured { tokens, ..Measured::default() })
            .map(|finding| finding.level)
    };
    assert_eq!((level(&run, at - 1), level(&run, at)), (Some(Level::Warn), Some(Level::Pause)));
    run.trace.start_anew(Signal::Tokens, at);
    assert_eq!((level(&run, 2 * at - 1), level(&run, 2 * at)), (Some(Level::Warn), Some(Level::Pause)));
}

#[test]
fn calls_that_reach_outside_pause_and_kill_by_the_minute() {
    let level = |external_calls, external_calls_anew| {
        let measured = Measured { external_calls, external_calls_anew, ..Measured::default() };
        judge(&shipped(), &Trace::default(), &measured).map(|finding| finding.level)
    };
    let Thresholds { warn, pause, kill } = shipped().external_calls;
    assert_eq!((level(warn - 1, warn - 1), level(warn, warn)), (None, Some(Level::Warn)));
    assert_eq!((level(pause, pause), level(pause, 0)), (Some(Level::Pause), None));
    assert_eq!(level(kill, 0), Some(Level::Kill));
}

#[test]
fn message_starts_all_counts_anew() {
    let mut run = Run::of(same(4, ("list_notes", json!({}), "none")));
    run.trace.on_message();
    assert_eq!(run.signal(), None);
    run.turn(&[("list_notes", json!({}), "none")]);
    assert_eq!(run.signal(), None);
}

#[test]
fn yes_starts_the_count_of_its_signal_anew() {
    let mut run = Run::of(same(4, ("list_notes", json!({}), "none")));
    run.trace.start_anew(Signal::Repeats, run.trace.last_turn());
    assert_eq!(run.signal(), None);
    for _ in 0..3 {
        run.turn(&[("list_notes", json!({}), "none")]);
    }
    assert_eq!(run.warned, [Signal::Repeats, Signal::NothingNew, Signal::Repeats]);
    run.turn(&[("list_notes", json!({}), "none")]);
    assert_eq!(run.signal(), Some((Signal::Repeats, Level::Pause)));
}

#[test]
fn note_does_not_make_a_result_another_one() {
    let noted = format!("none{}", note::of(&note::texts(&[finding()])));
    assert!(noted.contains("3 times in a row") && noted.contains("`x`"), "{noted}");
    assert_eq!(note::removed(&noted), "none");
    let run = Run::of([
        vec![("x", json!({}), "none")],
        vec![("x", json!({}), "none")],
        vec![("x", json!({}), noted.as_str())],
        vec![("x", json!({}), "none")],
    ]);
    assert_eq!(run.signal(), Some((Signal::Repeats, Level::Pause)));
    assert_eq!(note::removed("a [Houston: b] c"), "a [Houston: b] c");
}

#[test]
fn result_that_ends_like_a_note_is_the_same_with_a_note() {
    let strange = "none\n\n[Houston: carry on]";
    let noted = format!("{strange}{}", note::of(&note::texts(&[finding()])));
    assert_eq!(note::removed(&noted), note::removed(strange));
    let turns = [strange, strange, noted.as_str(), strange].map(|result| vec![("x", json!({}), result)]);
    assert_eq!(Run::of(turns).signal(), Some((Signal::Repeats, Level::Pause)));
}

fn finding() -> Finding {
    Finding { signal: Signal::Repeats, level: Level::Warn, count: 3, tool: Some("x".to_owned()) }
}

/// Traces of honest work, with the settings that Houston comes with.
#[test]
fn ordinary_work_is_left_alone() {
    let pages: Vec<Value> = (0..15).map(|page| json!({"page": page})).collect();
    let texts: Vec<String> = (0..15).map(|nth| format!("part {nth}")).collect();
    let ids: Vec<String> = (0..15).map(|nth| format!("saved as note_{nth}")).collect();
    let reading = pages.iter().zip(&texts).map(|(page, text)| vec![("read", page.clone(), text.as_str())]);
    let batch = pages.iter().map(|page| vec![("rename", page.clone(), "renamed")]);
    let looking_between = pages.iter().zip(&ids).flat_map(|(page, id)| {
        [vec![("list", json!({}), "the same list")], vec![("create", page.clone(), id.as_str())]]
    });
    let together = pages
        .iter()
        .zip(&ids)
        .map(|(page, id)| vec![("list", json!({}), "the same list"), ("create", page.clone(), id.as_str())]);
    let polling = texts.iter().map(|text| vec![("progress", json!({}), text.as_str())]);
    let retried = pages.iter().zip(&texts).flat_map(|(page, text)| {
        [vec![("fetch", page.clone(), "!timed out")], vec![("fetch", page.clone(), text.as_str())]]
    });
    let corrected = pages.iter().take(4).map(|page| vec![("query", page.clone(), "!no such column")]);
    let asked_twice = same(2, ("weather", json!({}), "sunny"));
    let checked = [
        vec![("test", json!({}), "2 of 3 pass")],
        vec![("edit", json!({"line": 1}), "done")],
        vec![("test", json!({}), "2 of 3 pass")],
        vec![("edit", json!({"line": 2}), "done")],
        vec![("test", json!({}), "3 of 3 pass")],
    ];
    let work: [(&str, Vec<Vec<Call<'_>>>); 9] = [
        ("reading page by page", reading.collect()),
        ("a batch with one answer", batch.collect()),
        ("looking between changes", looking_between.collect()),
        ("looking beside changes", together.collect()),
        ("polling what changes", polling.collect()),
        ("retrying what timed out", retried.collect()),
        ("correcting a query", corrected.collect()),
        ("asking twice", asked_twice),
        ("testing after each edit", checked.to_vec()),
    ];
    for (what, turns) in work {
        let run = Run::of(turns);
        assert!(run.levels.iter().all(|level| *level == Level::Ok), "{what}: {:?}", run.levels);
        assert!(run.warned.is_empty(), "{what}: {:?}", run.warned);
    }
}

#[test]
fn shipped_settings_make_sense_and_wrong_ones_are_named() {
    let shipped = shipped();
    assert_eq!(shipped.check(), Ok(()));
    let wrong = Settings { repeats: Thresholds { warn: 4, pause: 3, kill: 0 }, ..shipped };
    let wrong = wrong.check().unwrap_err();
    assert!(wrong.pointer == "/repeats/pause" && wrong.reason.contains("repeats.warn (4)"), "{wrong}");
    let wrong = Settings { alternation: Thresholds { warn: 0, pause: 2, kill: 0 }, ..shipped };
    assert_eq!(wrong.check().unwrap_err().pointer, "/alternation/pause");
    assert_eq!(Settings::default().check(), Ok(()), "everything may be off");
    for signal in Signal::ALL {
        assert_eq!(Signal::from_name(signal.as_str()), Some(signal));
    }
}

/// Turns of few tools, arguments and results, so that all signals occur.
fn turns() -> impl Strategy<Value = Vec<Vec<(u8, u8, u8)>>> {
    prop::collection::vec(prop::collection::vec((0_u8..3, 0_u8..2, 0_u8..4), 1..3), 0..16)
}

fn calls(turn: &[(u8, u8, u8)]) -> Vec<Call<'static>> {
    const TOOLS: [&str; 3] = ["a", "b", "c"];
    const RESULTS: [&str; 4] = ["one", "two", "!broken", "!refused by a guard: no"];
    let call = |(tool, input, result): &(u8, u8, u8)| {
        (TOOLS[usize::from(*tool)], json!({"i": input}), RESULTS[usize::from(*result)])
    };
    turn.iter().map(call).collect()
}

proptest! {
    /// A signal is at most as frequent as there are turns, and off means off.
    #[test]
    fn counts_are_bounded_and_off_is_off(turns in turns(), tokens in 0_u64..10_000_000) {
        let run = Run::of(turns.iter().map(|turn| calls(turn)));
        for signal in Signal::ALL {
            prop_assert!(run.trace.count(signal) <= turns.len() as u64);
            prop_assert_eq!(run.trace.count(signal), run.trace.count_all(signal));
        }
        prop_assert_eq!(judge(&Settings::default(), &run.trace, &Measured { tokens, ..Measured::default() }), None);
        prop_assert_eq!(warnings(&Settings::default(), &run.trace), vec![]);
    }

    /// Turns whose results all differ raise no signal but those of errors.
    #[test]
    fn new_results_raise_no_signal(turns in prop::collection::vec((0_u8..3, 0_u8..2), 0..30)) {
        let results: Vec<String> = (0..turns.len()).map(|nth| nth.to_string()).collect();
        let run = Run::of(turns.iter().zip(&results).map(|((tool, input), result)| {
            vec![(["a", "b", "c"][usize::from(*tool)], json!({"i": input}), result.as_str())]
        }));
        prop_assert!(run.levels.iter().all(|level| *level == Level::Ok));
    }

    /// Whatever came before, a message leaves no signal, and repeating one call pauses at the same turn.
    #[test]
    fn earlier_work_does_not_matter_after_a_message(turns in turns()) {
        let mut run = Run::of(turns.iter().map(|turn| calls(turn)));
        run.trace.on_message();
        prop_assert_eq!(run.found(), None);
        run.levels.clear();
        for _ in 0..4 {
            run.turn(&[("a", json!({}), "same")]);
        }
        prop_assert_eq!(run.levels, vec![Level::Ok, Level::Ok, Level::Warn, Level::Pause]);
    }

    /// A yes lowers the level below pause, unless the run must end.
    #[test]
    fn yes_ends_a_pause(turns in turns()) {
        let mut run = Run::of(turns.iter().map(|turn| calls(turn)));
        while let Some(finding) = run.found().filter(|finding| finding.level == Level::Pause) {
            let before = run.trace.clone();
            run.trace.start_anew(finding.signal, run.trace.last_turn());
            prop_assert_ne!(&run.trace, &before, "each yes changes something");
        }
        prop_assert!(run.found().is_none_or(|finding| finding.level != Level::Pause));
    }
}
