//! Names of spans, log messages, tests and kinds.

use crate::workspace::{root, sources};

/// First words of span names.
const LAYERS: [&str; 9] = ["api", "cli", "engine", "llm", "queue", "store", "tool", "tools", "worker"];

#[test]
fn spans_are_named_layer_noun_verb() {
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| !is_for_development(&source.path)) {
        for call in ["_span!(", "::span!(", "instrument(name = "] {
            for after in source.text.split(call).skip(1) {
                let name = after.split('"').nth(1).unwrap_or_default();
                let words: Vec<&str> = name.split('.').collect();
                let is_right = words.len() == 3
                    && LAYERS.contains(&words[0])
                    && words.iter().all(|word| !word.is_empty() && word.chars().all(is_plain));
                if !is_right {
                    wrong.push(format!("{}: `{name}`", source.path));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn log_messages_are_lower_case_without_full_stop() {
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| !is_for_development(&source.path)) {
        for level in ["error", "warn", "info", "debug", "trace"] {
            for (at, call) in source.text.match_indices(&format!("tracing::{level}!(")) {
                let arguments = &source.text[at + call.len()..];
                let Some(end) = arguments.find(");") else { continue };
                // The message is the last literal of the call.
                let message = arguments[..end].split('"').nth_back(1).unwrap_or_default();
                let is_name = message
                    .split(' ')
                    .next()
                    .is_some_and(|word| word.chars().skip(1).any(char::is_uppercase));
                if message.ends_with('.') || (message.starts_with(char::is_uppercase) && !is_name) {
                    wrong.push(format!("{}: {message}", source.path));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A test's name is a filter of `cargo xtask test`, too.
#[test]
fn test_names_are_short() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for source in sources() {
        for attribute in ["#[test]", "#[tokio::test"] {
            for after in source.text.split(attribute).skip(1) {
                let name = after
                    .split_once("fn ")
                    .map_or("", |(_, rest)| rest.split('(').next().unwrap_or_default());
                count += 1;
                if name.len() > 60 {
                    wrong.push(format!("{}: `{name}` has {} characters of 60", source.path, name.len()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count > 500, "this test finds only {count} tests");
}

/// Kinds are data: code checks the properties of an agent type, never its name.
#[test]
fn code_does_not_name_kinds() {
    // The list of the kinds that come with Houston, the names of the tables of fields, the steps of plans, whose types have
    // some of the same names, and crates for development only.
    let may = [
        "crates/cli/src/config/kinds.rs",
        "crates/domain/src/field.rs",
        "crates/domain/src/plan/",
        // Fields of documents of plans, and of the lists of their steps.
        "crates/tools/src/builtin/plans.rs",
        "crates/console/src/threads/plan.rs",
        "crates/cli/src/chat/checklist.rs",
        "crates/llm/src/simulated/rules.rs",
        "crates/testkit/",
        "crates/xtask/",
        "crates/harness/",
    ];
    let kinds: Vec<String> = std::fs::read_dir(root().join("jobs/agents"))
        .unwrap()
        .map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        // It is also the name of the driver of plans, and the beginning of their ids and topics.
        .filter(|kind| kind != "plan")
        .collect();
    assert!(kinds.len() >= 3, "this test finds too few kinds: {kinds:?}");
    let (mut wrong, mut count) = (Vec::new(), 0);
    for source in sources() {
        if source.is_for_tests()
            || source.path.contains("/examples/")
            || may.iter().any(|may| source.path.starts_with(may))
        {
            continue;
        }
        count += 1;
        let code = source.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for (line, text) in code.lines().enumerate().filter(|(_, text)| !text.trim_start().starts_with("//"))
        {
            for kind in &kinds {
                if ['"', '\''].iter().any(|quote| text.contains(&format!("{quote}{kind}{quote}"))) {
                    wrong.push(format!("{}:{} names the kind `{kind}`", source.path, line + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "check a property of the agent type instead: {wrong:#?}");
    assert!(count > 100, "this test finds too few files: {count}");
}

fn is_plain(letter: char) -> bool {
    letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_'
}

/// Whether the file is part of a development tool, which is not released and does not log.
fn is_for_development(path: &str) -> bool {
    path.starts_with("crates/xtask/") || path.starts_with("crates/harness/")
}
