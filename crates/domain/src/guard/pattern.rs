//! Patterns (globs), compiled once.

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

use super::argument::fold_pattern;
use crate::bounded_regex::{BoundedRegex, TooMuchWork};

/// Maximum length of a pattern, in characters.
pub const MAX_PATTERN_CHARS: usize = 256;
/// Maximum number of patterns of one list.
pub const MAX_PATTERNS: usize = 200;
/// What a pattern may be compiled to, in bytes: some times what the longest needs.
const MAX_COMPILED_BYTES: usize = 1024 * 1024;

/// What `*` matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Star {
    /// Any text.
    All,
    /// Any text without `/`.
    WithoutSlash,
}

/// Compiled patterns.
#[derive(Debug, Clone)]
pub(super) struct Patterns {
    set: GlobSet,
    /// The pattern that each glob of the set comes from.
    texts: Vec<String>,
    /// Their length, which bounds the work of comparing them with a byte.
    pub(super) chars: usize,
}

impl Patterns {
    /// Compiles `patterns`.
    pub(super) fn new(patterns: &[String], star: Star) -> Result<Self, String> {
        Self::expanded(patterns, star, |pattern| vec![pattern.to_owned()])
    }

    /// Compiles the globs that `expand` returns for each of `patterns`.
    pub(super) fn expanded(
        patterns: &[String],
        star: Star,
        expand: impl Fn(&str) -> Vec<String>,
    ) -> Result<Self, String> {
        ensure!(patterns.len() <= MAX_PATTERNS, too_many(patterns.len(), MAX_PATTERNS));
        let (mut set, mut texts, mut chars) = (GlobSetBuilder::new(), Vec::new(), 0);
        for pattern in patterns {
            for expanded in expand(pattern) {
                set.add(glob_of(pattern, &expanded, star)?);
                chars += expanded.len();
                texts.push(pattern.clone());
            }
        }
        let set = set
            .build()
            .map_err(|error| wrong(error.glob().unwrap_or_default(), &error.kind().to_string()))?;
        Ok(Self { set, texts, chars })
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Whether one of them matches.
    pub(super) fn is_match(&self, text: &str) -> bool {
        self.set.is_match(text)
    }

    /// The first one that matches, as it is in the settings.
    pub(super) fn first_match(&self, text: &str) -> Option<&str> {
        if self.texts.is_empty() {
            return None;
        }
        let first = self.set.matches(text).into_iter().min()?;
        self.texts.get(first).map(String::as_str)
    }

    /// The indexes of all that match, in ascending order.
    pub(super) fn matches(&self, text: &str) -> Vec<usize> {
        self.set.matches(text)
    }

    /// The patterns, for a message.
    pub(super) fn list(&self) -> String {
        self.texts.iter().map(|text| format!("`{text}`")).collect::<Vec<_>>().join(", ")
    }
}

/// The glob that `pattern` stands for, or that it is expanded to.
fn glob_of(pattern: &str, expanded: &str, star: Star) -> Result<Glob, String> {
    ensure!(!pattern.is_empty(), wrong(pattern, "it is empty"));
    if pattern.chars().count() > MAX_PATTERN_CHARS {
        return Err(wrong(pattern, &format!("it has more than {MAX_PATTERN_CHARS} characters")));
    }
    GlobBuilder::new(expanded)
        .literal_separator(star == Star::WithoutSlash)
        .backslash_escape(true)
        .build()
        .map_err(|error| wrong(pattern, &error.kind().to_string()))
}

fn wrong(pattern: &str, reason: &str) -> String {
    format!(
        "the pattern `{pattern:.MAX_PATTERN_CHARS$}` is wrong: {reason}; allowed are text, `*`, `**`, `?`, `[a-z]` and `{{one,other}}`"
    )
}

/// What is wrong with a list of so many entries.
pub(super) fn too_many(given: usize, max: usize) -> String {
    format!("it has {given} entries; at most {max} are allowed")
}

/// One compiled pattern. The usual ones, a text with `*` at its ends, need no regular expression.
#[derive(Debug, Clone)]
pub(super) enum Pattern {
    /// A text, with or without `*` at each end.
    Text { before: bool, text: String, after: bool, star: Star },
    /// Any other. It is compared with arguments, which models write, so the work is counted.
    Glob(BoundedRegex),
}

impl Pattern {
    /// Compiles a pattern.
    pub(super) fn new(pattern: &str, star: Star) -> Result<Self, String> {
        let text = pattern.strip_prefix('*').unwrap_or(pattern);
        let text = text.strip_suffix('*').unwrap_or(text);
        if text.is_empty()
            || text.len() > MAX_PATTERN_CHARS
            || text.contains(['*', '?', '[', ']', '{', '}', ',', '\\'])
        {
            let glob = glob_of(pattern, pattern, star)?;
            let compiled = BoundedRegex::of_glob(glob.regex(), MAX_COMPILED_BYTES);
            return compiled.map(Self::Glob).map_err(|error| wrong(pattern, &error.to_string()));
        }
        let (before, after) = (pattern.starts_with('*'), pattern.ends_with('*'));
        Ok(Self::Text { before, text: text.to_owned(), after, star })
    }

    /// Whether a pattern in lower case matches, where upper and lower case are the same.
    ///
    /// # Errors
    /// [`TooMuchWork`] for as much as is `left`.
    pub(super) fn is_match_without_case(&self, value: &str, left: &mut u64) -> Result<bool, TooMuchWork> {
        // Without a copy of the value where none is needed: rules are compared with long texts, too.
        let same = |part: Option<&[u8]>, text: &str| {
            part.is_some_and(|part| part.eq_ignore_ascii_case(text.as_bytes()))
        };
        let bytes = value.as_bytes();
        Ok(match self {
            Self::Text { before: false, text, after, star: Star::All } if value.is_ascii() => {
                (*after || bytes.len() == text.len()) && same(bytes.get(..text.len()), text)
            }
            Self::Text { before: true, text, after: false, star: Star::All } if value.is_ascii() => {
                same(bytes.len().checked_sub(text.len()).and_then(|at| bytes.get(at..)), text)
            }
            _ => return self.is_match(&fold_pattern(value), left),
        })
    }

    /// Whether it matches.
    ///
    /// # Errors
    /// [`TooMuchWork`] for as much as is `left`.
    pub(super) fn is_match(&self, value: &str, left: &mut u64) -> Result<bool, TooMuchWork> {
        let (before, text, after, star) = match self {
            Self::Glob(glob) => return glob.is_match(value, left),
            Self::Text { before, text, after, star } => (*before, text.as_str(), *after, *star),
        };
        let covers = |rest: &str| star == Star::All || !rest.contains('/');
        Ok(match (before, after) {
            (false, false) => value == text,
            (false, true) => value.strip_prefix(text).is_some_and(covers),
            (true, false) => value.strip_suffix(text).is_some_and(covers),
            (true, true) if star == Star::All => value.contains(text),
            (true, true) => {
                let mut found = value.match_indices(text);
                found.any(|(at, _)| covers(&value[..at]) && covers(&value[at + text.len()..]))
            }
        })
    }
}

/// A JSON pointer from a pointer or the name of an argument.
pub(super) fn pointer_to(at: &str) -> String {
    if at.starts_with('/') { at.to_owned() } else { format!("/{}", at.replace('~', "~0").replace('/', "~1")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WORK: u64 = 1 << 20;

    #[test]
    fn hostile_pattern_ends_within_its_work() {
        let pattern = format!("*a{}b", "?".repeat(200));
        let mut state = 1_u32;
        let letters = (0..60_000).map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if state >> 31 == 0 { 'a' } else { 'c' }
        });
        let text: String = letters.collect();
        let pattern = Pattern::new(&pattern, Star::All).unwrap();
        assert_eq!(pattern.is_match(&text, &mut WORK.clone()), Err(TooMuchWork));
    }

    proptest! {
        #[test]
        fn patterns_without_regex_match_as_those_with(
            pattern in "[*]?[a/.]{1,3}[*]?",
            value in "[a/.b]{0,6}",
            star in prop::sample::select(vec![Star::All, Star::WithoutSlash]),
        ) {
            let single = Pattern::new(&pattern, star).unwrap();
            let regex = GlobBuilder::new(&pattern).literal_separator(star == Star::WithoutSlash).build().unwrap();
            let regex = regex.compile_matcher();
            let is_text = matches!(single, Pattern::Text { .. });
            prop_assert!(is_text);
            prop_assert_eq!(single.is_match(&value, &mut WORK.clone()), Ok(regex.is_match(&value)), "{} {}", pattern, value);
            let upper = single.is_match_without_case(&value.to_uppercase(), &mut WORK.clone());
            prop_assert_eq!(upper, single.is_match(&value, &mut WORK.clone()), "{} {}", pattern, value);
        }

        #[test]
        fn globs_match_as_those_of_a_set(
            pattern in "([*?/]|\\\\[*a]|[aé.]|\\[[!]?[a-c]{1,3}\\]|\\{[a*],[b?]{1,2}\\}|\\*\\*/?){1,8}",
            value in "[a/.bcé*\n]{0,9}",
            star in prop::sample::select(vec![Star::All, Star::WithoutSlash]),
        ) {
            let Ok(set) = Patterns::new(std::slice::from_ref(&pattern), star) else { return Ok(()) };
            let single = Pattern::new(&pattern, star).unwrap();
            prop_assert_eq!(single.is_match(&value, &mut WORK.clone()), Ok(set.is_match(&value)), "{} {}", pattern, value);
        }
    }
}
