//! [`WorkspacePath`]: the one spelling of a file's path; and [`FilePattern`]: a glob over paths.

use std::fmt;

use globset::{GlobBuilder, GlobMatcher};
use unicode_normalization::UnicodeNormalization;

use crate::guard::is_invisible;

/// Maximum length of a path, in bytes: an index of Postgres holds it many times over, and so does a line of a list.
pub const MAX_PATH_BYTES: usize = 512;

/// Maximum length of the name of a file or folder, in bytes: that of the usual file systems.
pub const MAX_NAME_BYTES: usize = 255;

/// Maximum number of names in a path. Deeper trees are most likely made by a loop.
pub const MAX_DEPTH: usize = 16;

/// Characters that some file system does not allow in names, or reads as more than a character: `\` and `:` begin
/// other spellings of paths on Windows, and `*` and `?` would be patterns.
const FORBIDDEN: [char; 8] = ['\\', ':', '*', '?', '"', '<', '>', '|'];

/// The path of a file or folder below its workspace: names with `/` between them, in the normal form C of Unicode.
/// There are no `.` and `..`, so different paths are different files.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkspacePath(String);

const ABSOLUTE: &str =
    "it is absolute, but paths are relative to the workspace: write `notes/plan.md`, not `/notes/plan.md`";

impl WorkspacePath {
    /// Reads the path of a file. `./a//b` is `a/b`, and letters with accents have one spelling. The error says what is wrong and
    /// what is allowed.
    pub fn file(raw: &str) -> Result<Self, String> {
        if raw.ends_with('/') && raw.bytes().any(|byte| byte != b'/') && !raw.starts_with('/') {
            return Err("it ends with `/`, so it names a folder: give the path of a file".to_owned());
        }
        Self::normal(raw)?.ok_or_else(|| "it names no file: give a path such as `notes/plan.md`".to_owned())
    }

    /// Reads the path of a folder; `None` is the workspace itself, which is written as nothing, `.` or `/`.
    pub fn folder(raw: &str) -> Result<Option<Self>, String> {
        // Models write `/` for the workspace; nothing else that begins with it is meant.
        if raw == "/" { Ok(None) } else { Self::normal(raw) }
    }

    fn normal(raw: &str) -> Result<Option<Self>, String> {
        let too_long = |bytes| format!("it has {bytes} bytes; at most {MAX_PATH_BYTES} are allowed");
        // Before it is normalized: that may make a text many times as long.
        ensure!(raw.len() <= 4 * MAX_PATH_BYTES, too_long(raw.len()));
        let unseen = |letter: &char| is_invisible(*letter) || letter.is_whitespace() && *letter != ' ';
        if let Some(letter) = raw.chars().find(unseen) {
            let code = u32::from(letter);
            return Err(format!(
                "it contains the character U+{code:04X}, which cannot be seen: leave it out"
            ));
        }
        let drive =
            raw.as_bytes().get(1) == Some(&b':') && raw.starts_with(|c: char| c.is_ascii_alphabetic());
        ensure!(!raw.starts_with(['/', '\\']) && !drive, ABSOLUTE.to_owned());
        let path: String = raw.nfc().collect();
        // Once more: normalizing replaces some characters by others.
        if let Some(letter) = path.chars().find(|letter| FORBIDDEN.contains(letter)) {
            return Err(format!(
                "it contains `{letter}`, which names must not have: use letters, digits, spaces, `-`, `_`, `.` and `/` in between"
            ));
        }
        let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
        // Not of `raw`: `./~` would become `~`.
        ensure!(names.first() != Some(&"~"), ABSOLUTE.to_owned());
        for name in &names {
            if *name == ".." {
                let rule = "which is not allowed: write the path from the workspace down, as `notes/plan.md`";
                return Err(format!("it contains `..`, {rule}"));
            }
            if name.starts_with(' ') || name.ends_with([' ', '.']) {
                // Some file systems drop these.
                let edge = "a name in it begins with a space, or ends with a space or a dot: leave those out";
                return Err(edge.to_owned());
            }
            if name.len() > MAX_NAME_BYTES {
                let bytes = name.len();
                return Err(format!("a name in it has {bytes} bytes; at most {MAX_NAME_BYTES} are allowed"));
            }
        }
        ensure!(names.len() <= MAX_DEPTH, "it has {} names; at most {MAX_DEPTH} are allowed", names.len());
        let path = names.join("/");
        ensure!(path.len() <= MAX_PATH_BYTES, too_long(path.len()));
        Ok((!path.is_empty()).then_some(Self(path)))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The folders that contain it, from the workspace down: `a` and `a/b` for `a/b/c`.
    pub fn folders(&self) -> impl Iterator<Item = &str> {
        self.0.match_indices('/').map(|(at, _)| &self.0[..at])
    }

    /// Whether `path` is in this folder, at any depth.
    pub fn contains(&self, path: &str) -> bool {
        path.strip_prefix(self.as_str()).is_some_and(|rest| rest.starts_with('/'))
    }
}

impl fmt::Display for WorkspacePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

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
    pub fn new(pattern: &str) -> Result<Self, String> {
        ensure!(!pattern.is_empty(), "is empty: write `**` for all files, or `*.md`, or `notes/**`");
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
    pub fn is_match(&self, path: &str) -> bool {
        self.glob.is_match(path)
    }
}

#[cfg(test)]
mod pattern_tests {
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

#[cfg(test)]
mod tests;
