//! Patterns (globs), compiled once.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::Problem;

/// Maximum length of a pattern, in characters.
pub const MAX_PATTERN_CHARS: usize = 256;
/// Maximum number of patterns of one list.
pub const MAX_PATTERNS: usize = 200;

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
}

impl Patterns {
    /// Compiles `patterns`.
    pub(super) fn new(patterns: &[String], star: Star) -> Result<Self, Problem> {
        Self::expanded(patterns, star, |pattern| vec![pattern.to_owned()])
    }

    /// Compiles the globs that `expand` returns for each of `patterns`.
    pub(super) fn expanded(
        patterns: &[String],
        star: Star,
        expand: impl Fn(&str) -> Vec<String>,
    ) -> Result<Self, Problem> {
        if patterns.len() > MAX_PATTERNS {
            return Err(Problem::TooMany { given: patterns.len(), max: MAX_PATTERNS });
        }
        let (mut set, mut texts) = (GlobSetBuilder::new(), Vec::new());
        for pattern in patterns {
            let wrong = |reason: &str| Problem::Pattern {
                pattern: pattern.chars().take(MAX_PATTERN_CHARS).collect(),
                reason: reason.to_owned(),
            };
            if pattern.is_empty() {
                return Err(wrong("it is empty"));
            }
            if pattern.chars().count() > MAX_PATTERN_CHARS {
                return Err(wrong(&format!("it has more than {MAX_PATTERN_CHARS} characters")));
            }
            for glob in expand(pattern) {
                let glob = GlobBuilder::new(&glob)
                    .literal_separator(star == Star::WithoutSlash)
                    .backslash_escape(true)
                    .build()
                    .map_err(|error| wrong(&error.kind().to_string()))?;
                set.add(glob);
                texts.push(pattern.clone());
            }
        }
        let set = set.build().map_err(|error| Problem::Pattern {
            pattern: error.glob().unwrap_or_default().to_owned(),
            reason: error.kind().to_string(),
        })?;
        Ok(Self { set, texts })
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

/// A JSON pointer from a pointer or the name of an argument.
pub(super) fn pointer_to(at: &str) -> String {
    if at.starts_with('/') { at.to_owned() } else { format!("/{}", at.replace('~', "~0").replace('/', "~1")) }
}
