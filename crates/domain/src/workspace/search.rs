//! [`TextPattern`]: a regular expression that is looked for in the lines of files.
//!
//! How much a search may do is counted, not timed, so that it finds the same whatever else the machine does. An automaton
//! that is built while it runs reads each byte once. Where it cannot, because it would have too many states or a line has
//! letters that it does not tell apart for `\b`, the line is searched in time in proportion to the expression as well, and
//! counts for as much.

use std::sync::Arc;

use regex::{Regex, RegexBuilder};
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind};

use crate::tool_result::boundary;

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
/// Bytes that the compiled expression may have: `\w` has about thirty thousand. Even the longest line takes no more work
/// than [`MAX_SEARCH_WORK`].
const COMPILED_BYTES: usize = 256 * 1024;
/// Without the automaton, a byte is about as much work for each so many bytes of the compiled expression as with it.
const COMPILED_BYTES_PER_WORK: u64 = 16;
/// Work of a line besides its bytes.
const LINE_WORK: u64 = 16;
/// Bytes of the states of the automaton. When they are full, it begins anew, so often at most.
const AUTOMATON_BYTES: usize = 1024 * 1024;
const AUTOMATON_RESTARTS: usize = 8;
/// Work of building the states of the automaton once.
const RESTART_WORK: u64 = 1024 * 1024;
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
pub struct TextPattern(Arc<Compiled>);

#[derive(Debug)]
struct Compiled {
    regex: Regex,
    automaton: DFA,
    /// Work for each byte of a line that the automaton does not search.
    byte_work: u64,
}

/// A search with one expression through one file after the other.
#[derive(Debug)]
pub struct TextSearch {
    pattern: TextPattern,
    /// States of the automaton; `None`: it has given up.
    states: Option<Cache>,
    restarts: usize,
    /// The work that may still be done.
    left: u64,
    /// Whether a line was searched, so that each search gets further.
    has_begun: bool,
}

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
        let too_large = || "is too large once compiled: repeat fewer things, or fewer times".to_owned();
        let compiled = RegexBuilder::new(pattern)
            .case_insensitive(ignore_case)
            .size_limit(COMPILED_BYTES)
            .nest_limit(NESTED)
            .build();
        let regex = compiled.map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => too_large(),
            error => {
                let reason = error.to_string();
                let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
                format!(
                    "is no regular expression: {reason}. Look-around and back-references do not exist here; put `\\` \
                     before ( ) [ ] {{ }} . * + ? | ^ $ to find the character itself"
                )
            }
        })?;
        let automaton = DFA::builder()
            .syntax(syntax::Config::new().case_insensitive(ignore_case).nest_limit(NESTED))
            .thompson(
                thompson::Config::new()
                    .which_captures(WhichCaptures::None)
                    .nfa_size_limit(Some(COMPILED_BYTES)),
            )
            .configure(
                DFA::config()
                    .match_kind(MatchKind::LeftmostFirst)
                    .unicode_word_boundary(true)
                    .cache_capacity(AUTOMATON_BYTES)
                    .skip_cache_capacity_check(true)
                    .minimum_cache_clear_count(Some(AUTOMATON_RESTARTS)),
            )
            .build(pattern)
            .map_err(|_| too_large())?;
        let bytes = u64::try_from(automaton.get_nfa().memory_usage()).unwrap_or(u64::MAX);
        let byte_work = 1 + bytes / COMPILED_BYTES_PER_WORK;
        Ok(Self(Arc::new(Compiled { regex, automaton, byte_work })))
    }

    /// Begins a search that may do so much work.
    #[must_use]
    pub fn search(&self, left: u64) -> TextSearch {
        let states = Some(self.0.automaton.create_cache());
        TextSearch { pattern: self.clone(), states, restarts: 0, left, has_begun: false }
    }
}

impl TextSearch {
    /// The work that may still be done.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left
    }

    /// The lines of a file after line `after` that match, at most `limit`.
    pub fn matches(&mut self, content: &str, after: usize, limit: usize) -> FileMatches {
        let mut found = FileMatches::default();
        for (number, line) in (1..).zip(content.lines()).skip(after) {
            if found.lines.len() >= limit || self.left == 0 {
                found.stopped_after = Some(number - 1);
                break;
            }
            let searched = &line[..boundary(line, MAX_LINE_BYTES)];
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
        let bytes = u64::try_from(line.len()).unwrap_or(u64::MAX);
        self.spend(LINE_WORK + bytes);
        let Compiled { regex, automaton, byte_work } = &*self.pattern.0;
        if let Some(states) = &mut self.states {
            let ended = automaton.try_search_fwd(states, &Input::new(line).earliest(true));
            let restarts = states.clear_count() - self.restarts;
            self.restarts = states.clear_count();
            let has_given_up = self.restarts >= AUTOMATON_RESTARTS;
            if has_given_up {
                self.states = None;
            }
            self.left = self.left.saturating_sub(RESTART_WORK * u64::try_from(restarts).unwrap_or(u64::MAX));
            if let Ok(ended) = ended {
                self.has_begun = true;
                return Some(ended.map(|at| at.offset()));
            }
        }
        let work = bytes.saturating_mul(*byte_work);
        if work > self.left && self.has_begun {
            self.left = 0;
            return None;
        }
        let ended = regex.shortest_match(line);
        self.has_begun = true;
        self.spend(work);
        Some(ended)
    }

    fn spend(&mut self, work: u64) {
        self.left = self.left.saturating_sub(work);
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
    use proptest::prelude::*;

    use super::*;

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
                search.states = None;
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
