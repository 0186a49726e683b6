//! Paths in arguments: in their normal form, and in the form that is compared with sensitive names.
//!
//! Nothing here looks at a file system: tools that open a path below a workspace check what they opened once more.

use unicode_normalization::UnicodeNormalization;

/// A path of an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ArgumentPath {
    /// Relative to the workspace, in the normal form C of Unicode, without `.`, `..` and `//`, with `/` only. `None` when it leads out of the workspace.
    pub(super) within: Option<String>,
    /// What other spellings of the same name have in common. See [`fold`].
    pub(super) comparable: String,
}

impl ArgumentPath {
    /// Reads a path as a model wrote it. An empty path is the workspace itself.
    pub(super) fn new(raw: &str) -> Self {
        Self { within: normalize(raw), comparable: comparable(raw) }
    }
}

/// The path without `.`, `..` and `//`. `None` when it is absolute, leads out of the workspace, or has a part that some
/// file system reads as `..`.
fn normalize(raw: &str) -> Option<String> {
    let raw: String = raw.nfc().map(|letter| if letter == '\\' { '/' } else { letter }).collect();
    let drive =
        raw.as_bytes().get(1) == Some(&b':') && raw.starts_with(|first: char| first.is_ascii_alphabetic());
    if raw.starts_with('/') || drive || raw.contains('\0') {
        return None;
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in raw.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            // Windows drops dots and spaces at the end.
            odd if odd.trim_end_matches(['.', ' ']).is_empty() => return None,
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The path as [`fold`] has it, normalized. What leads out of the workspace is cut: this form only finds names.
fn comparable(raw: &str) -> String {
    let raw = fold(raw);
    let mut parts: Vec<&str> = Vec::new();
    for part in raw.split('/') {
        // `name::$DATA` is the content of `name` on Windows.
        let stream = part.char_indices().skip(1).find(|(_, letter)| *letter == ':').map(|(at, _)| at);
        let part = part[..stream.unwrap_or(part.len())].trim();
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => {
                let part = part.trim_end_matches(['.', ' ']);
                if !part.is_empty() {
                    parts.push(part);
                }
            }
        }
    }
    parts.join("/")
}

/// `text` as file systems that ignore case compare it, and without characters that cannot be seen. Full-width and
/// small forms of ASCII characters become ASCII.
pub(super) fn fold(text: &str) -> String {
    let visible = text.chars().filter(|letter| !is_invisible(*letter)).map(|letter| match letter {
        '\u{FF01}'..='\u{FF5E}' => char::from_u32(u32::from(letter) - 0xFEE0).unwrap_or(letter),
        '\u{2024}' | '\u{FE52}' | '\u{3002}' | '\u{FF61}' => '.',
        '\u{2044}' | '\u{2215}' => '/',
        letter => letter,
    });
    let visible = visible.map(|letter| if letter == '\\' { '/' } else { letter });
    lower(visible)
}

/// A pattern as [`fold`] has the texts it is compared with.
pub(super) fn fold_pattern(pattern: &str) -> String {
    if pattern.is_ascii() {
        return pattern.to_ascii_lowercase();
    }
    lower(pattern.chars())
}

/// In the normal form C of Unicode and in lower case, by way of the upper case, because some letters (`ſ`) have the same upper case as an ASCII letter only.
fn lower(letters: impl Iterator<Item = char>) -> String {
    letters.flat_map(char::to_uppercase).flat_map(char::to_lowercase).nfc().collect()
}

/// Whether a character cannot be seen, so that two names that differ by it look the same.
pub(crate) fn is_invisible(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
            | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}'
            | '\u{FFF9}'..='\u{FFFB}' | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E0FFF}')
}

/// The globs of a sensitive name: it counts at any depth, as a file and as a folder with all that is in it.
pub(super) fn sensitive_globs(pattern: &str) -> Vec<String> {
    let pattern = fold_pattern(pattern);
    let name = pattern.trim_start_matches("./").trim_start_matches("**/").trim_end_matches("/**");
    if name.is_empty() || name == "**" {
        return vec!["**".to_owned()];
    }
    vec![format!("**/{name}"), format!("**/{name}/**")]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_have_one_normal_form() {
        for (raw, normal) in [
            ("a/b", "a/b"),
            ("./a//b/", "a/b"),
            ("a/../b", "b"),
            ("a\\b", "a/b"),
            ("", ""),
            (".", ""),
            ("a/.", "a"),
            ("a/b/../..", ""),
        ] {
            assert_eq!(normalize(raw).as_deref(), Some(normal), "{raw}");
        }
        for raw in
            ["/etc/passwd", "..", "a/../..", "..\\a", "\\\\host\\a", "C:\\a", "c:a", "a\0b", "a/.. /b", "..."]
        {
            assert_eq!(normalize(raw), None, "{raw}");
        }
    }

    #[test]
    fn other_spellings_have_the_same_comparable_form() {
        for raw in [
            "a/.env",
            "A/.ENV",
            "./a/./.env",
            "a\\.env",
            "a/b/../.env",
            "a/.env ",
            "a/.env.",
            "a/.\u{200b}env",
            "a/\u{ff0e}env",
            "a／.env",
            "a/.env::$DATA",
            "../a/.env",
            "/a/.env",
            "a/.e\u{ad}nv",
            "a/.env\u{0}",
        ] {
            assert_eq!(ArgumentPath::new(raw).comparable, "a/.env", "{raw:?}");
        }
        assert_eq!(ArgumentPath::new(".\u{17f}\u{17f}h/key").comparable, ".ssh/key");
    }

    proptest! {
        #[test]
        fn normal_paths_stay_within_and_as_they_are(raw in "[a./\\\\ ~]{0,20}") {
            if let Some(path) = normalize(&raw) {
                prop_assert!(path.split('/').all(|part| part != ".."), "{path}");
                prop_assert!(!path.starts_with('/'), "{path}");
                prop_assert_eq!(normalize(&path), Some(path));
            }
        }

        #[test]
        fn any_text_has_a_comparable_form(raw in "\\PC{0,40}") {
            let once = comparable(&raw);
            prop_assert!(once.split('/').all(|part| part != ".." && part != "."), "{once}");
        }
    }
}
