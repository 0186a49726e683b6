//! [`TextPattern`]: a regular expression that is looked for in the lines of files, with a bound on the work
//! ([`crate::bounded_regex`]).

use crate::bounded_regex::{BoundedRegex, Searcher};

/// Maximum length of a regular expression, in characters.
pub const MAX_TEXT_PATTERN_CHARS: usize = 500;
/// How much of one line is searched, in bytes. Longer lines are data, not text.
pub const MAX_LINE_BYTES: usize = 4 * 1024;
/// Work that the searches of one step may do together: a quarter of a second at worst, for about 60 MiB of text.
pub const MAX_SEARCH_WORK: u64 = 64 * 1024 * 1024;
/// Bytes of a line that a match contains.
const EXCERPT_BYTES: usize = 240;
/// Bytes of the line before the end of the match, in a longer line.
const BEFORE_BYTES: usize = 120;
/// Bytes that the compiled expression may have. Even the longest line takes no more work than [`MAX_SEARCH_WORK`].
const COMPILED_BYTES: usize = 256 * 1024;
/// A line of a file that matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineMatch {
    /// The number of the line, from 1.
    pub line: usize,
    /// The line, or what is around the match in a long one.
    pub text: String,
}

/// What a search found in a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileMatches {
    /// The lines that match.
    pub lines: Vec<LineMatch>,
    /// If the search ended before the file did: the last line that was searched, or 0.
    pub stopped_after: Option<usize>,
    /// Whether of some line only the beginning was searched.
    pub has_long_lines: bool,
}

/// A regular expression. It matches in time in proportion to the text.
#[derive(Debug, Clone)]
pub struct TextPattern(BoundedRegex);

/// A search with one expression through one file after the other.
#[derive(Debug)]
pub struct TextSearch {
    searcher: Searcher,
    /// The work that may still be done.
    pub left: u64,
    /// Whether a line was searched, so that each search gets further.
    has_begun: bool,
}

impl TextPattern {
    /// Compiles an expression.
    pub fn new(pattern: &str, ignore_case: bool) -> Result<Self, String> {
        ensure!(!pattern.is_empty(), "is empty: give a regular expression, such as `TODO|FIXME`");
        let length = pattern.chars().count();
        if length > MAX_TEXT_PATTERN_CHARS {
            return Err(format!("has {length} characters; at most {MAX_TEXT_PATTERN_CHARS} are allowed"));
        }
        BoundedRegex::new(pattern, ignore_case, COMPILED_BYTES).map(Self).map_err(|error| error.to_string())
    }

    /// Begins a search that may do so much work.
    pub fn search(&self, left: u64) -> TextSearch {
        TextSearch { searcher: self.0.searcher(), left, has_begun: false }
    }
}

impl TextSearch {
    /// The lines of a file after line `after` that match, at most `limit`.
    pub fn matches(&mut self, content: &str, after: usize, limit: usize) -> FileMatches {
        let mut found = FileMatches::default();
        for (number, line) in (1..).zip(content.lines()).skip(after) {
            if found.lines.len() >= limit || self.left == 0 {
                found.stopped_after = Some(number - 1);
                break;
            }
            let searched = &line[..line.floor_char_boundary(MAX_LINE_BYTES)];
            let Some(end) = self.find(searched) else {
                found.stopped_after = Some(number - 1);
                break;
            };
            found.has_long_lines |= searched.len() < line.len();
            if let Some(end) = end {
                found.lines.push(LineMatch { line: number, text: excerpt(line, end) });
            }
        }
        found
    }

    /// Where a match in the line ends, if there is one; `None`: too much work was done to look.
    fn find(&mut self, line: &str) -> Option<Option<usize>> {
        let (mut work, before) = match self.has_begun {
            true => (self.left, self.left),
            // The first line is always searched.
            false => (u64::MAX, u64::MAX),
        };
        let found = self.searcher.end_of_match(line, &mut work);
        self.left = self.left.saturating_sub(before - work);
        self.has_begun = true;
        found.ok()
    }
}

/// A line, or about [`EXCERPT_BYTES`] of it around the byte `at`.
fn excerpt(line: &str, at: usize) -> String {
    if line.len() <= EXCERPT_BYTES {
        return line.to_owned();
    }
    let start = line.floor_char_boundary(at.saturating_sub(BEFORE_BYTES));
    let end = line.floor_char_boundary(start + EXCERPT_BYTES);
    let (before, after) = (if start > 0 { "…" } else { "" }, if end < line.len() { "…" } else { "" });
    format!("{before}{}{after}", &line[start..end])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::Regex;

    use super::*;
    use crate::bounded_regex::COMPILED_BYTES_PER_WORK;

    fn matches(pattern: &str, content: &str, limit: usize) -> FileMatches {
        TextPattern::new(pattern, false).unwrap().search(MAX_SEARCH_WORK).matches(content, 0, limit)
    }

    fn found(pattern: &str, content: &str) -> Vec<(usize, String)> {
        matches(pattern, content, 10).lines.into_iter().map(|found| (found.line, found.text)).collect()
    }

    #[test]
    fn matching_lines_are_numbered() {
        assert_eq!(found("b+", "a\nxbb\n\nb"), [(2, "xbb".to_owned()), (4, "b".to_owned())]);
        assert_eq!(found("^a$", "a\r\nba"), [(1, "a".to_owned())], "line breaks do not count");
        assert_eq!(found(r"\bTür\b", "Türe\nTür."), [(2, "Tür.".to_owned())]);
        assert_eq!(found("^$", "a\n\nb"), [(2, String::new())]);
        let mut upper = TextPattern::new("TÜR", true).unwrap().search(MAX_SEARCH_WORK);
        assert_eq!(
            upper.matches("tür", 0, 1),
            FileMatches { stopped_after: None, ..upper.matches("tür", 0, 9) }
        );
        let first = upper.matches("tür\ntür\n", 0, 1);
        assert_eq!((first.lines.len(), first.stopped_after), (1, Some(1)), "the limit holds");
        let rest = upper.matches("tür\ntür\n", 1, 1);
        assert_eq!((rest.lines[0].line, rest.stopped_after), (2, None), "it goes on after that line");
    }

    #[test]
    fn long_lines_are_shortened_around_the_match() {
        let line = format!("{}needle{}", "ä".repeat(1_000), "ö".repeat(1_000));
        let found = matches("needle", &line, 1);
        let text = &found.lines[0].text;
        assert!(!found.has_long_lines && text.contains("needle") && text.len() < 260, "{found:?}");
        let far = matches("needle", &format!("{}needle", "x".repeat(MAX_LINE_BYTES)), 1);
        assert!(far.lines.is_empty() && far.has_long_lines, "{far:?}");
    }

    #[test]
    fn search_that_has_done_its_work_says_where_it_ended() {
        let content = "abcdefgh\n".repeat(100);
        let pattern = TextPattern::new("x", false).unwrap();
        let (mut after, mut steps) = (0, 0);
        while let Some(line) = pattern.search(240).matches(&content, after, 9).stopped_after {
            assert_eq!(line, after + 10, "ten lines of 24 each");
            (after, steps) = (line, steps + 1);
        }
        assert_eq!(steps, 9);
    }

    /// A line that costs more than there is left is searched by the next call, which begins with it.
    #[test]
    fn costly_lines_count_for_as_much_as_they_cost() {
        // The automaton does not tell letters beyond ASCII apart for `\b`.
        let pattern = TextPattern::new(r"\b\w{3}\b", false).unwrap();
        let content = "äöü\n".repeat(10);
        let (mut after, mut steps) = (0, 0);
        while let Some(line) = pattern.search(10_000).matches(&content, after, 9).stopped_after {
            assert!(line > after);
            (after, steps) = (line, steps + 1);
        }
        assert!(steps > 1, "{steps}");
        let cheap = TextPattern::new(r"\w{3}x", false).unwrap().search(10_000).matches(&content, 0, 9);
        assert_eq!(cheap.stopped_after, None);
    }

    #[test]
    fn the_longest_line_can_be_searched_with_any_expression() {
        let most = u64::try_from(COMPILED_BYTES).unwrap() / COMPILED_BYTES_PER_WORK + 1;
        assert!(most * u64::try_from(MAX_LINE_BYTES).unwrap() <= MAX_SEARCH_WORK + 2 * 4_096);
    }

    proptest! {
        /// Neither the automaton nor what replaces it when it gives up changes what is found.
        #[test]
        fn lines_are_found_as_the_expression_says(
            pattern in prop::sample::select(vec![r"\bä", r"\w+b\b", "(a|ab)(c|bcd)", "^a.*b$", "a{2,9}b", r"\s|^$", "(ä|a)*b", r"[^\w]"]),
            content in "([abcdä _]{0,12}\n){0,9}", has_given_up in any::<bool>(),
        ) {
            let text = TextPattern::new(pattern, false).unwrap();
            let mut search = text.search(MAX_SEARCH_WORK);
            if has_given_up {
                search.searcher.states = None;
            }
            let found: Vec<usize> = search.matches(&content, 0, 99).lines.iter().map(|line| line.line).collect();
            let regex = Regex::new(pattern).unwrap();
            let expected: Vec<usize> =
                (1..).zip(content.lines()).filter(|(_, line)| regex.is_match(line)).map(|(line, _)| line).collect();
            prop_assert_eq!(found, expected);
        }
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
