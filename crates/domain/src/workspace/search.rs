//! [`TextPattern`]: a regular expression that is looked for in the lines of files.

use regex::{Regex, RegexBuilder};

use crate::tool_result::boundary;

/// Maximum length of a regular expression, in characters.
pub const MAX_TEXT_PATTERN_CHARS: usize = 500;
/// How much of one line is searched, in bytes. Longer lines are data, not text.
pub const MAX_LINE_BYTES: usize = 4 * 1024;
/// Bytes of a line that a match contains.
const EXCERPT_BYTES: usize = 240;
/// Bytes of the line before the match, in a longer line.
const BEFORE_BYTES: usize = 80;
/// Bytes that the compiled expression may have: `\w` has about thirty thousand. A line takes time in proportion to them and
/// to [`MAX_LINE_BYTES`]: half a second at worst.
const COMPILED_BYTES: usize = 512 * 1024;
/// Brackets within brackets.
const NESTED: u32 = 50;

/// A line of a file that matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineMatch {
    /// The number of the line, from 1.
    pub line: usize,
    /// The line, or what is around the match in a long one.
    pub text: String,
}

/// A regular expression. It matches in time in proportion to the text.
#[derive(Debug, Clone)]
pub struct TextPattern(Regex);

impl TextPattern {
    /// Compiles an expression.
    ///
    /// # Errors
    /// What is wrong, as a clause.
    pub fn new(pattern: &str, ignore_case: bool) -> Result<Self, String> {
        if pattern.is_empty() {
            return Err("is empty: give a regular expression, such as `TODO|FIXME`".to_owned());
        }
        let length = pattern.chars().count();
        if length > MAX_TEXT_PATTERN_CHARS {
            return Err(format!("has {length} characters; at most {MAX_TEXT_PATTERN_CHARS} are allowed"));
        }
        let compiled = RegexBuilder::new(pattern)
            .case_insensitive(ignore_case)
            .size_limit(COMPILED_BYTES)
            .nest_limit(NESTED)
            .build();
        compiled.map(Self).map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => {
                "is too large once compiled: repeat fewer things, or fewer times".to_owned()
            }
            error => {
                let reason = error.to_string();
                let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
                format!(
                    "is no regular expression: {reason}. Look-around and back-references do not exist here; put `\\` \
                     before ( ) [ ] {{ }} . * + ? | ^ $ to find the character itself"
                )
            }
        })
    }

    /// The lines of a file that match, at most `limit`; and whether the file has lines of which only the beginning was
    /// searched. `goes_on` is asked after each line.
    #[must_use]
    pub fn matches(
        &self,
        content: &str,
        limit: usize,
        mut goes_on: impl FnMut() -> bool,
    ) -> (Vec<LineMatch>, bool) {
        let (mut found, mut is_cut) = (Vec::new(), false);
        for (number, line) in (1..).zip(content.lines()) {
            let searched = &line[..boundary(line, MAX_LINE_BYTES)];
            is_cut |= searched.len() < line.len();
            if let Some(at) = self.0.find(searched) {
                found.push(LineMatch { line: number, text: excerpt(line, at.start()) });
            }
            if found.len() >= limit || !goes_on() {
                break;
            }
        }
        (found, is_cut)
    }
}

/// A line, or about [`EXCERPT_BYTES`] of it around the byte `at`.
fn excerpt(line: &str, at: usize) -> String {
    if line.len() <= EXCERPT_BYTES {
        return line.to_owned();
    }
    let start = boundary(line, at.saturating_sub(BEFORE_BYTES));
    let end = boundary(line, start + EXCERPT_BYTES);
    let (before, after) = (if start > 0 { "…" } else { "" }, if end < line.len() { "…" } else { "" });
    format!("{before}{}{after}", &line[start..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pattern: &str, content: &str) -> Vec<(usize, String)> {
        let (found, _) = TextPattern::new(pattern, false).unwrap().matches(content, 10, || true);
        found.into_iter().map(|found| (found.line, found.text)).collect()
    }

    #[test]
    fn matching_lines_are_numbered() {
        assert_eq!(found("b+", "a\nxbb\n\nb"), [(2, "xbb".to_owned()), (4, "b".to_owned())]);
        assert_eq!(found("^a$", "a\r\nba"), [(1, "a".to_owned())], "line breaks do not count");
        assert_eq!(found(r"\bTür\b", "Türe\nTür."), [(2, "Tür.".to_owned())]);
        let upper = TextPattern::new("TÜR", true).unwrap();
        assert_eq!(upper.matches("tür", 1, || true).0.len(), 1);
        assert_eq!(upper.matches("tür\ntür", 1, || true).0.len(), 1, "the limit holds");
        assert_eq!(upper.matches("tür\ntür", 9, || false).0.len(), 1, "it ends when it is asked to");
    }

    #[test]
    fn long_lines_are_shortened_around_the_match() {
        let line = format!("{}needle{}", "ä".repeat(1_000), "ö".repeat(1_000));
        let (lines, is_cut) = TextPattern::new("needle", false).unwrap().matches(&line, 1, || true);
        assert!(!is_cut && lines[0].text.contains("needle") && lines[0].text.len() < 260, "{lines:?}");
        let far = format!("{}needle", "x".repeat(MAX_LINE_BYTES));
        assert_eq!(TextPattern::new("needle", false).unwrap().matches(&far, 1, || true), (Vec::new(), true));
    }

    #[test]
    fn wrong_and_large_expressions_say_what_is_wrong() {
        for (pattern, reason) in [
            ("", "is empty"),
            ("(a", "unclosed group"),
            ("(?=a)", "look-around"),
            (r"(a)\1", "backreferences"),
            (r"\w{1000}", "too large once compiled"),
            ("((a{100}){100}){100}", "too large once compiled"),
            (&"(".repeat(400), "no regular expression"),
            (&"a".repeat(501), "has 501 characters"),
        ] {
            let error = TextPattern::new(pattern, false).unwrap_err();
            assert!(error.contains(reason), "{pattern}: {error}");
        }
    }

    #[test]
    fn usual_expressions_are_not_too_large() {
        for pattern in [
            r"(\w+)\s+(\w+)\s+(\w+)",
            r"\b[\w.+-]+@[\w-]+\.[\w.]{2,}\b",
            r"^\s*(pub(\(\w+\))?\s+)?(async\s+)?fn\s+\w+",
            r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2})?",
            "TODO|FIXME|HACK|XXX",
            "[äöüß]{3,30}",
        ] {
            for ignore_case in [false, true] {
                assert!(TextPattern::new(pattern, ignore_case).is_ok(), "{pattern} {ignore_case}");
            }
        }
    }

    /// An engine that backtracks takes longer than the universe exists.
    #[test]
    fn expressions_that_make_others_backtrack_end() {
        for pattern in ["(a+)+$", "(a|aa)+$", "(.*)*x", "^(([a-z])+.)+[A-Z]([a-z])+$", r"(\w+\s?)*\d"] {
            let line = format!("{}!", "a".repeat(MAX_LINE_BYTES - 1));
            assert_eq!(found(pattern, &line), [], "{pattern}");
        }
    }
}
