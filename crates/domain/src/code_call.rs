//! Calls that code makes: the ids by which a replay finds what was done, and the line that says which tools were called.
//!
//! The rows of such a call are those of any call. Its id contains the id of the call that runs the code, its position among
//! the calls of the code, and a hash of tool and arguments: `call_7.2-9f1c03ab77de0011`. So a row can never answer a call
//! that is not the one it was made for, and nothing else has to be stored to replay code.

use serde_json::Value;
use sha2::{Digest, Sha256};

/// The beginning of the line that says which tools were called.
const CALLED: &str = "[called: ";
/// The lines of a result among which that line is: it may follow the mark of untrusted text.
const LINES: usize = 2;

/// The id of the `number`-th call, from 1, that the code of the call `outer` makes. A call whose fallback is called has that
/// as its first, and itself with the failure that it returned under the number 0.
pub fn id(outer: &str, number: usize, tool: &str, input: &Value) -> String {
    let mut hash = Sha256::new();
    hash.update(tool.as_bytes());
    hash.update([0]);
    hash.update(input.to_string().as_bytes());
    format!("{outer}.{number}-{}", hex::encode(&hash.finalize()[..8]))
}

/// The position that an id gives its call among those of the code of `outer`. `None`: it is not the id of such a call.
pub fn number(id: &str, outer: &str) -> Option<usize> {
    let (number, hash) = id.strip_prefix(outer)?.strip_prefix('.')?.split_once('-')?;
    let is_hash = hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    number.parse().ok().filter(|_| is_hash)
}

/// Whether the call was made by the code of `outer`, or by what that has called.
pub fn is_within(id: &str, outer: &str) -> bool {
    let inner = id.strip_prefix(outer).and_then(|rest| rest.strip_prefix('.'));
    inner.is_some_and(|inner| inner.split('.').all(|part| number(&format!(".{part}"), "").is_some()))
}

/// The line that says which tools were called. A worker that takes the session over reads in it what the session has read.
pub fn called_line<'t>(tools: impl IntoIterator<Item = &'t str>) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for tool in tools {
        match counts.iter_mut().find(|(of, _)| *of == tool) {
            Some((_, count)) => *count += 1,
            None => counts.push((tool, 1)),
        }
    }
    let counts: Vec<String> = counts.iter().map(|(tool, count)| format!("{tool} x{count}")).collect();
    format!("{CALLED}{}]", counts.join(", "))
}

/// The tools that the code of a call has called, by its result.
pub fn called(result: &str) -> impl Iterator<Item = &str> {
    let line = result.lines().take(LINES).find_map(|line| line.strip_prefix(CALLED)?.strip_suffix(']'));
    line.into_iter().flat_map(|line| line.split(", ")).filter_map(|one| Some(one.rsplit_once(" x")?.0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn id_says_whose_call_it_is_and_which() {
        let made = id("call_7", 2, "fetch", &json!({"a": 1}));
        assert_eq!(number(&made, "call_7"), Some(2), "{made}");
        assert_eq!(number(&made, "call_"), None);
        for other in ["call_7", "call_7.2", "call_7.2-xyz", "call_70.2-0123456789abcdef"] {
            assert_eq!(number(other, "call_7"), None, "{other}");
        }
    }

    #[test]
    fn calls_of_calls_are_within_the_first() {
        let made = id("call_7", 2, "fetch", &json!({}));
        let inner = id(&made, 1, "search", &json!({}));
        assert_eq!((number(&inner, "call_7"), number(&inner, &made)), (None, Some(1)));
        assert!(is_within(&made, "call_7") && is_within(&inner, "call_7") && is_within(&inner, &made));
        for other in ["call_7", "call_70.1-0123456789abcdef", "call_7.1-xy", "call_7x"] {
            assert!(!is_within(other, "call_7"), "{other}");
        }
    }

    #[test]
    fn other_tool_or_input_is_another_id() {
        let made = |tool, input| id("c", 1, tool, &input);
        assert_eq!(made("a", json!({"x": 1})), made("a", json!({"x": 1})));
        assert_ne!(made("a", json!({"x": 1})), made("b", json!({"x": 1})));
        assert_ne!(made("a", json!({"x": 1})), made("a", json!({"x": 2})));
    }

    #[test]
    fn called_tools_are_read_from_the_result() {
        let line = called_line(["fetch", "notes", "fetch"]);
        assert_eq!(line, "[called: fetch x2, notes x1]");
        let found = |text: &str| called(text).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(found(&format!("{line}\n42")), ["fetch", "notes"]);
        assert_eq!(found(&format!("<untrusted source=\"code\">\n{line}\n42")), ["fetch", "notes"]);
        assert_eq!(found("42\nconsole:\nmore"), Vec::<String>::new());
    }
}
