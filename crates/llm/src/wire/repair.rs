//! Repairs invalid JSON that servers send: `NaN` and `Infinity` (Python's `json.dumps`), and unpaired surrogate
//! escapes (`\ud83d` alone, where a server splits an emoji between two events).

use serde::de::IgnoredAny;

/// Replaces an unpaired surrogate: U+FFFD, as an escape.
const REPLACEMENT: &str = "\\ufffd";

/// The repaired `json`; `None` when it needs no repair or cannot be repaired.
pub(crate) fn repaired(json: &str) -> Option<String> {
    let has_half = memchr::memmem::find(json.as_bytes(), b"\\u").is_some();
    let has_word = ["NaN", "Infinity"]
        .iter()
        .any(|word| memchr::memmem::find(json.as_bytes(), word.as_bytes()).is_some());
    if !has_half && !has_word {
        return None;
    }
    let repaired = repair(json);
    (repaired != json && serde_json::from_str::<IgnoredAny>(&repaired).is_ok()).then_some(repaired)
}

fn repair(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    let mut in_text = false;
    while let Some(first) = rest.chars().next() {
        let taken = if in_text && first == '\\' {
            escape(rest, &mut out)
        } else if let Some(word) = (!in_text).then(|| word(rest)).flatten() {
            out.push_str("null");
            word
        } else {
            in_text ^= first == '"';
            out.push(first);
            first.len_utf8()
        };
        rest = &rest[taken..];
    }
    out
}

/// Length of the non-JSON number that `rest` starts with, if any.
fn word(rest: &str) -> Option<usize> {
    ["-Infinity", "Infinity", "NaN"].into_iter().find(|word| rest.starts_with(word)).map(str::len)
}

/// Copies the escape that `rest` starts with, a surrogate pair as one; returns its length.
fn escape(rest: &str, out: &mut String) -> usize {
    let half = |at: usize, from: u32, to: u32| {
        let digits = rest.get(at..at + 6)?.strip_prefix("\\u")?;
        u32::from_str_radix(digits, 16).ok().filter(|code| (from..to).contains(code))
    };
    let first = half(0, 0xd800, 0xdc00);
    let length = match (first, half(6, 0xdc00, 0xe000)) {
        (Some(_), Some(_)) => 12,
        _ if first.is_some() || half(0, 0xdc00, 0xe000).is_some() => {
            out.push_str(REPLACEMENT);
            return 6;
        }
        _ => rest.char_indices().nth(2).map_or(rest.len(), |(end, _)| end),
    };
    out.push_str(&rest[..length]);
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repair_changes_only_invalid_json() {
        let cases = [
            (r#"{"a":NaN,"b":-Infinity,"c":"NaN"}"#, Some(r#"{"a":null,"b":null,"c":"NaN"}"#)),
            (r#"{"a":"\ud83d","b":"x\ude00"}"#, Some(r#"{"a":"\ufffd","b":"x\ufffd"}"#)),
            (r#"{"a":"\ud83d\ude00 \\ud83d \" NaN"}"#, None),
            (r#"{"a":NaN"#, None),
        ];
        for (json, expected) in cases {
            assert_eq!(repaired(json).as_deref(), expected, "{json}");
        }
    }
}
