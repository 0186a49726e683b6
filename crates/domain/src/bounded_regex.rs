//! [`BoundedRegex`]: a regular expression that someone else wrote, matched with a bound on the work.
//!
//! Work is counted, not timed, so that an expression finds the same whatever else the machine does. An automaton that is built
//! while it runs reads each byte once. Where it cannot, because it would have too many states or the text has letters that it
//! does not tell apart for `\b`, the text is searched in time in proportion to the expression as well, and counts for as much.
//! A unit of work takes about 4 ns at worst.

use std::sync::Arc;

use regex::bytes::{Regex, RegexBuilder};
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind};
use thiserror::Error;

/// Without the automaton, a byte is about as much work for each so many bytes of the compiled expression as with it.
pub(crate) const COMPILED_BYTES_PER_WORK: u64 = 16;
/// Work of a text besides its bytes.
const TEXT_WORK: u64 = 16;
/// Bytes of the states of the automaton. When they are full, it begins anew, so often at most.
const AUTOMATON_BYTES: usize = 1024 * 1024;
const AUTOMATON_RESTARTS: usize = 8;
/// Work of building the states of the automaton once.
const RESTART_WORK: u64 = 1024 * 1024;
/// Brackets within brackets.
const NESTED: u32 = 50;

const TOO_LARGE: &str = "is too large once compiled: repeat fewer things, or fewer times";

fn no_regex(reason: &str) -> String {
    format!(
        "is no regular expression: {reason}. Look-around and back-references do not exist here; put `\\` before ( ) [ ] {{ }} \
         . * + ? | ^ $ to find the character itself"
    )
}

/// Why an expression cannot be used. It follows the name of a field.
pub(crate) fn invalid(error: regex::Error) -> String {
    if let regex::Error::CompiledTooBig(_) = error {
        return TOO_LARGE.to_owned();
    }
    // The last line is the error; those before it point at its position.
    no_regex(error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: "))
}

/// The text was not searched, because that may take more work than was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("matching it takes too much work for a text of this length: repeat fewer things, or fewer times")]
pub struct TooMuchWork;

/// A compiled expression.
#[derive(Debug, Clone)]
pub struct BoundedRegex(Arc<Compiled>);

#[derive(Debug)]
struct Compiled {
    regex: Regex,
    automaton: DFA,
    /// Work for each byte that the automaton does not read.
    byte_work: u64,
}

/// Searches texts one after the other.
#[derive(Debug)]
pub struct Searcher {
    compiled: Arc<Compiled>,
    /// States of the automaton; `None`: it has given up.
    pub(crate) states: Option<Cache>,
    restarts: usize,
}

impl BoundedRegex {
    /// Compiles an expression to at most `bytes`: `\w` has about thirty thousand.
    pub fn new(pattern: &str, ignore_case: bool, bytes: usize) -> Result<Self, String> {
        let syntax = syntax::Config::new().case_insensitive(ignore_case).nest_limit(NESTED);
        let compiled = RegexBuilder::new(pattern)
            .case_insensitive(ignore_case)
            .size_limit(bytes)
            .nest_limit(NESTED)
            .build();
        Self::compiled(pattern, compiled, syntax, bytes)
    }

    /// The expression of a glob, which is about bytes.
    pub(crate) fn of_glob(pattern: &str, bytes: usize) -> Result<Self, String> {
        let syntax = syntax::Config::new().utf8(false).dot_matches_new_line(true);
        let compiled = RegexBuilder::new(pattern).dot_matches_new_line(true).size_limit(bytes).build();
        Self::compiled(pattern, compiled, syntax, bytes)
    }

    fn compiled(
        pattern: &str,
        compiled: Result<Regex, regex::Error>,
        syntax: syntax::Config,
        bytes: usize,
    ) -> Result<Self, String> {
        let regex = compiled.map_err(invalid)?;
        let automaton = DFA::builder()
            .syntax(syntax)
            .thompson(thompson::Config::new().which_captures(WhichCaptures::None).nfa_size_limit(Some(bytes)))
            .configure(
                DFA::config()
                    .match_kind(MatchKind::LeftmostFirst)
                    .unicode_word_boundary(true)
                    .cache_capacity(AUTOMATON_BYTES)
                    .skip_cache_capacity_check(true)
                    .minimum_cache_clear_count(Some(AUTOMATON_RESTARTS)),
            )
            .build(pattern)
            .map_err(|error| match error.to_string() {
                reason if reason.contains("UTF-8") => no_regex(&reason),
                _ => TOO_LARGE.to_owned(),
            })?;
        let bytes = u64::try_from(automaton.get_nfa().memory_usage()).unwrap_or(u64::MAX);
        let byte_work = 1 + bytes / COMPILED_BYTES_PER_WORK;
        Ok(Self(Arc::new(Compiled { regex, automaton, byte_work })))
    }

    /// Begins to search.
    pub fn searcher(&self) -> Searcher {
        let states = Some(self.0.automaton.create_cache());
        Searcher { compiled: Arc::clone(&self.0), states, restarts: 0 }
    }

    /// Whether it matches in `text`, with at most so much work as is `left`.
    ///
    /// # Errors
    /// [`TooMuchWork`], which leaves nothing of it.
    pub fn is_match(&self, text: &str, left: &mut u64) -> Result<bool, TooMuchWork> {
        self.searcher().end_of_match(text, left).map(|end| end.is_some())
    }
}

impl Searcher {
    /// Where the first match in `text` ends, if there is one, with at most so much work as is `left`.
    ///
    /// # Errors
    /// [`TooMuchWork`], which leaves nothing of it.
    pub fn end_of_match(&mut self, text: &str, left: &mut u64) -> Result<Option<usize>, TooMuchWork> {
        let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        *left = left.saturating_sub(TEXT_WORK + bytes);
        let Compiled { regex, automaton, byte_work } = &*self.compiled;
        if let Some(states) = &mut self.states {
            let ended = automaton.try_search_fwd(states, &Input::new(text).earliest(true));
            let restarts = states.clear_count() - self.restarts;
            self.restarts = states.clear_count();
            if restarts >= AUTOMATON_RESTARTS {
                self.states = None;
            }
            *left = left.saturating_sub(RESTART_WORK * u64::try_from(restarts).unwrap_or(u64::MAX));
            if let Ok(ended) = ended {
                return Ok(ended.map(|at| at.offset()));
            }
        }
        let work = bytes.saturating_mul(*byte_work);
        if work > *left {
            *left = 0;
            return Err(TooMuchWork);
        }
        *left -= work;
        Ok(regex.shortest_match(text.as_bytes()))
    }
}
