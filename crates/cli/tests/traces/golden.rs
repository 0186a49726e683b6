//! The traces in this folder.

use std::collections::BTreeSet;
use std::path::PathBuf;

use houston_domain::trace::plan::Version;
use houston_domain::trace::replay::{replay, replay_from};
use houston_domain::trace::{Line, Trace};

use crate::scenarios;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/traces")
}

fn read(name: &str) -> Trace {
    let path = folder().join(format!("{name}.trace.jsonl"));
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; UPDATE_SNAPSHOTS=1 writes the traces", path.display()));
    Trace::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn golden_traces_are_replayed_without_difference() {
    let scenarios = scenarios::all();
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        for (name, trace) in &scenarios {
            std::fs::write(folder().join(format!("{name}.trace.jsonl")), trace.to_text()).unwrap();
        }
    }
    assert!(scenarios.len() >= 20, "{}", scenarios.len());
    for (name, _) in &scenarios {
        let replayed = replay(&read(name));
        assert!(
            replayed.is_ok(),
            "{name}: {}",
            serde_json::to_string_pretty(&replayed.unwrap_err()).unwrap()
        );
    }
    let files = std::fs::read_dir(folder()).unwrap().filter_map(|file| {
        let name = file.unwrap().file_name().into_string().unwrap();
        name.strip_suffix(".trace.jsonl").map(str::to_owned)
    });
    let names: BTreeSet<String> = scenarios.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(files.collect::<BTreeSet<_>>(), names, "each trace has a scenario, and each scenario a trace");
}

#[test]
fn a_changed_trace_is_refused() {
    let path = folder().join("one_tool.trace.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let changed = text.replacen("Lisbon", "Porto", 1);
    assert_ne!(text, changed);
    assert!(Trace::parse(&changed).unwrap_err().to_string().contains("digest"));
}

#[test]
fn each_changed_limit_is_noticed_with_its_place() {
    for (name, change, status) in [
        ("twenty_iterations", "max_iterations", "max_iterations"),
        ("five_of_one_tool_almost", "max_same_tool", "same_tool"),
        ("twenty_iterations", "max_duration_s", "max_duration"),
        ("one_tool", "max_history_entries", "history_full"),
    ] {
        let mut trace = read(name);
        let limits = &mut trace.header.limits;
        match change {
            "max_iterations" => limits.max_iterations = 10,
            "max_same_tool" => limits.max_same_tool = 3,
            "max_duration_s" => limits.max_duration_s = 5,
            _ => limits.max_history_entries = 2,
        }
        let found = replay(&trace).unwrap_err();
        assert_eq!(found.replayed, serde_json::json!({"done": status}), "{name}");
        let line = &trace.lines[found.line - 2];
        assert!(matches!(line, Line::Answer { .. }), "{name}: {line:?}");
    }
}

#[test]
fn each_changed_rule_of_a_plan_is_noticed_with_its_place() {
    let change = |name: &str, change: fn(&mut Version)| {
        let mut trace = read(name);
        let version = trace.lines.iter_mut().rev().find_map(|line| match line {
            Line::Plan(version) => Some(version),
            _ => None,
        });
        change(version.unwrap());
        let found = replay(&trace).unwrap_err();
        (found.what, trace.lines[found.line - 2].clone())
    };
    // What starts at the same time, what is repeated, what is forgotten, and when it ends.
    let (what, line) = change("plan_side_by_side", |version| version.at_once = 1);
    assert!(what == "advance" && matches!(line, Line::Advance(_)), "{what}: {line:?}");
    let (what, line) = change("plan_side_by_side", |version| {
        version.document["steps"][1]["retry"]["max"] = 0.into();
    });
    assert!(what == "step" && matches!(line, Line::Step(_)), "{what}: {line:?}");
    let (what, line) = change("plan_changed", |version| version.forgotten.clear());
    assert!(matches!(what, "advance" | "end") && matches!(line, Line::Advance(_)), "{what}: {line:?}");
    let (what, line) = change("plan_with_question_and_loop", |version| version.deadline = version.at);
    assert!(matches!(line, Line::Advance(_)), "{what}: {line:?}");
}

#[test]
fn golden_traces_are_replayed_from_each_of_their_entries() {
    for (name, trace) in scenarios::all() {
        let count = trace.lines.iter().filter(|line| is_entry(line)).count();
        let before = trace.lines.iter().filter(|line| matches!(line, Line::Before(_))).count();
        for entry in 1..=count {
            let position = i64::try_from(before + entry).unwrap();
            let replayed = replay_from(&trace, Some(position));
            assert!(replayed.is_ok(), "{name} from {position}: {:?}", replayed.unwrap_err());
            assert!(trace.checkpoint(Some(position)).is_ok(), "{name} from {position}");
        }
    }
}

fn is_entry(line: &Line) -> bool {
    match line {
        Line::Answer { content, .. } => !content.is_empty(),
        line => matches!(line, Line::Message { .. } | Line::Results { .. }),
    }
}
