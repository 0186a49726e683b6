//! Regular expressions. They match in time in proportion to the text, have no look-around and no back-references.

use regex::{Captures, Regex, RegexBuilder};
use serde_json::Value;

/// Maximum length of an expression, in characters.
const MAX_PATTERN_CHARS: usize = 500;
/// Bytes that a compiled expression may have: `\w` has about thirty thousand.
const COMPILED_BYTES: usize = 128 * 1024;
/// Maximum number of matches that are returned or replaced.
const MAX_MATCHES: usize = 500;

fn compile(pattern: &str) -> Result<Regex, String> {
    let length = pattern.chars().count();
    if length > MAX_PATTERN_CHARS {
        return Err(format!("`pattern` has {length} characters; at most {MAX_PATTERN_CHARS} are allowed"));
    }
    let compiled = RegexBuilder::new(pattern).size_limit(COMPILED_BYTES).nest_limit(50).build();
    compiled.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => {
            "`pattern` is too large once compiled: repeat fewer things, or fewer times".to_owned()
        }
        error => {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            format!("`pattern` is no regular expression: {reason}. Look-around and back-references do not exist here")
        }
    })
}

pub(super) fn test(pattern: &str, text: &str) -> Result<String, String> {
    Ok(match compile(pattern)?.find(text) {
        Some(found) => format!("true: it matches `{}` at byte {}", found.as_str(), found.start()),
        None => "false".to_owned(),
    })
}

pub(super) fn extract(pattern: &str, text: &str) -> Result<String, String> {
    let pattern = compile(pattern)?;
    let groups = |found: &Captures<'_>| -> Value {
        let texts =
            found.iter().skip(1).map(|group| group.map_or(Value::Null, |group| group.as_str().into()));
        texts.collect()
    };
    let mut lines: Vec<String> = pattern
        .captures_iter(text)
        .take(MAX_MATCHES + 1)
        .map(|found| if found.len() > 1 { groups(&found).to_string() } else { found[0].to_owned() })
        .collect();
    if lines.is_empty() {
        return Ok("Nothing matches.".to_owned());
    }
    if lines.len() > MAX_MATCHES {
        lines.truncate(MAX_MATCHES);
        lines.push(format!("(only the first {MAX_MATCHES} matches)"));
    }
    Ok(lines.join("\n"))
}

pub(super) fn replace(pattern: &str, text: &str, replacement: &str) -> Result<String, String> {
    let pattern = compile(pattern)?;
    let count = pattern.find_iter(text).take(MAX_MATCHES + 1).count();
    if count > MAX_MATCHES {
        return Err(format!("more than {MAX_MATCHES} matches would be replaced: give less text"));
    }
    if text.len() + count.saturating_mul(replacement.len() + text.len() / 8) > super::MAX_RESULT_BYTES * 4 {
        return Err("the result would be too long: give less text or a shorter `replacement`".to_owned());
    }
    Ok(pattern.replace_all(text, replacement).into_owned())
}
