//! [`FilePattern`]: a glob over paths.

use globset::{GlobBuilder, GlobMatcher};
use unicode_normalization::UnicodeNormalization;

/// Maximum length of a pattern, in characters.
pub const MAX_FILE_PATTERN_CHARS: usize = 256;

/// A pattern of paths: `*` is any text within a name, `**` any folders, `?` one character, `[ab]` one of them, `{a,b}`
/// either. A pattern without `/` is that of a name, in any folder.
#[derive(Debug, Clone)]
pub struct FilePattern {
    glob: GlobMatcher,
}

impl FilePattern {
    /// Compiles a pattern. Matching takes time in proportion to the path.
    ///
    /// # Errors
    /// What is wrong, as a clause.
    pub fn new(pattern: &str) -> Result<Self, String> {
        if pattern.is_empty() {
            return Err("is empty: write `**` for all files, or `*.md`, or `notes/**`".to_owned());
        }
        let length = pattern.chars().count();
        if length > MAX_FILE_PATTERN_CHARS {
            return Err(format!("has {length} characters; at most {MAX_FILE_PATTERN_CHARS} are allowed"));
        }
        if pattern.starts_with('/') || pattern.split('/').any(|name| name == "..") {
            return Err("must be relative to the workspace, without `..`: write `notes/**`".to_owned());
        }
        // Paths are in the normal form C of Unicode.
        let pattern: String = pattern.trim_start_matches("./").nfc().collect();
        let anywhere = if pattern.contains('/') { pattern } else { format!("**/{pattern}") };
        let glob = GlobBuilder::new(&anywhere)
            .literal_separator(true)
            .backslash_escape(true)
            .build()
            .map_err(|error| format!("is no pattern: {}", error.kind()))?;
        Ok(Self { glob: glob.compile_matcher() })
    }

    /// Whether it matches.
    #[must_use]
    pub fn is_match(&self, path: &str) -> bool {
        self.glob.is_match(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_in_any_folder_and_paths_from_the_workspace() {
        for (pattern, path, matches) in [
            ("*.md", "a.md", true),
            ("*.md", "a/b/c.md", true),
            ("*.md", "a.md/b", false),
            ("./a/*.md", "a/b.md", true),
            ("a/*.md", "a/b/c.md", false),
            ("a/**/*.md", "a/b/c.md", true),
            ("a/**", "a/b/c", true),
            ("**", ".env", true),
            ("{a,b}.t?t", "b.txt", true),
            ("[!a]*", "b", true),
            ("[!a]*", "a", false),
            ("Übung*", "x/Übung 1", true),
            ("U\u{308}bung*", "Übung 1", true),
        ] {
            assert_eq!(FilePattern::new(pattern).unwrap().is_match(path), matches, "{pattern} {path}");
        }
    }

    #[test]
    fn wrong_patterns_say_what_is_wrong() {
        for (pattern, reason) in [
            ("", "is empty"),
            ("/a", "relative"),
            ("a/../b", "relative"),
            ("[a", "is no pattern"),
            ("{a", "is no pattern"),
            (&"x".repeat(257), "has 257 characters"),
        ] {
            let error = FilePattern::new(pattern).unwrap_err();
            assert!(error.contains(reason), "{pattern}: {error}");
        }
    }

    #[test]
    fn patterns_with_many_stars_stay_fast() {
        let pattern = FilePattern::new(&"*a".repeat(120)).unwrap();
        assert!(!pattern.is_match(&"a".repeat(100)));
        assert!(pattern.is_match(&"a".repeat(400)));
    }
}
