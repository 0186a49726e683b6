//! Names of queries and spans match the code, so that they can be found from Postgres' views and from traces.

use crate::sources::sources;
use crate::workspace::root;

/// First words of span names.
const LAYERS: [&str; 9] = ["api", "cli", "engine", "llm", "queue", "store", "tool", "tools", "worker"];

/// The first string literal after `at`, without quotes and hashes.
fn literal(text: &str, at: usize) -> Option<&str> {
    let text = &text[at..];
    let start = text.find('"')? + 1;
    let end = start + text[start..].find('"')?;
    Some(&text[start..end])
}

/// The literal after each `call`, with its line number.
fn literals<'t>(text: &'t str, call: &'t str) -> impl Iterator<Item = (usize, Option<&'t str>)> + 't {
    text.match_indices(call).map(move |(at, _)| (text[..at].lines().count(), literal(text, at + call.len())))
}

#[test]
fn queries_begin_with_module_and_function() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for source in sources() {
        let Some(module) = source.store_module() else { continue };
        let start = format!("-- store::{module}::");
        for call in [
            "query!(",
            "query_as!(",
            "query_scalar!(",
            "sqlx::query(",
            "sqlx::query_as(",
            "sqlx::query_scalar(",
            "query_with_context!(",
        ] {
            // In a macro whose caller names the query.
            let text = source.text.replace("query!($before", "");
            for (line, text) in literals(&text, call) {
                count += 1;
                let named = text.and_then(|text| text.strip_prefix(&start));
                let name = named.and_then(|rest| rest.split(|c: char| c.is_whitespace() || c == '\\').next());
                if !name.is_some_and(|name| !name.is_empty() && name.chars().all(is_plain)) {
                    wrong.push(format!("{}:{line} does not begin with `{start}<function>`", source.path));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count > 20, "this test finds too few queries: {count}");
}

#[test]
fn spans_are_named_layer_noun_verb() {
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| !is_for_development(&source.path)) {
        for call in ["_span!(", "::span!(", "instrument(name = "] {
            for (line, name) in literals(&source.text, call) {
                let words: Vec<&str> = name.unwrap_or_default().split('.').collect();
                let is_right = words.len() == 3
                    && LAYERS.contains(&words[0])
                    && words.iter().all(|word| !word.is_empty() && word.chars().all(is_plain));
                if !is_right {
                    wrong.push(format!("{}:{line} {}", source.path, name.unwrap_or("has no name")));
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
        "crates/tools/src/builtin/create_plan.rs",
        "crates/console/src/threads/plan.rs",
        "crates/cli/src/chat/checklist.rs",
        "crates/llm/src/simulated/rules/plans.rs",
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
