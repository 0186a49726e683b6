//! Makes call ids and tool names acceptable for every provider.
//!
//! A history may be sent to another provider than the one that wrote it, and a model may call a tool by a name that
//! no provider accepts. Sent unchanged, either would make every later call fail.

use std::borrow::Cow;

use serde::Deserialize;

/// Longest name that every provider accepts (OpenAI's limit).
const LONGEST_NAME: usize = 64;

/// Longest call id that every provider accepts (OpenAI's limit).
const LONGEST_ID: usize = 40;

/// A tool name: letters, digits, `_` and `-`; other characters are replaced.
pub(crate) fn tool_name(name: &str) -> Cow<'_, str> {
    if !name.is_empty() && name.len() <= LONGEST_NAME && name.bytes().all(is_plain) {
        return Cow::Borrowed(name);
    }
    let plain: String = name
        .chars()
        .map(|c| if c.is_ascii() && is_plain(c as u8) { c } else { '_' })
        .take(LONGEST_NAME)
        .collect();
    Cow::Owned(if plain.is_empty() { "unnamed".to_owned() } else { plain })
}

/// The prefix of tool names that begin with a digit, on wires that do not accept them, and of names that would be taken for those.
const DIGITS: &str = "f_";

fn begins_with_digit(name: &str) -> bool {
    name.trim_start_matches(DIGITS).starts_with(|c: char| c.is_ascii_digit())
}

/// A tool name that begins with a letter or `_`.
pub(crate) fn letter_name(name: &str) -> Cow<'_, str> {
    let plain = tool_name(name);
    if !begins_with_digit(&plain) {
        return plain;
    }
    let prefixed = format!("{DIGITS}{plain}");
    Cow::Owned(prefixed.chars().take(LONGEST_NAME).collect())
}

/// The name of the tool that is sent as `name`.
pub(crate) fn of_letter_name(name: &str) -> &str {
    name.strip_prefix(DIGITS).filter(|rest| begins_with_digit(rest)).unwrap_or(name)
}

/// Which names of properties a provider accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Alphabet {
    /// Any name.
    Any,
    /// Letters, digits, `_`, `.` and `-`, at most 64.
    Plain,
    /// Letters, digits and `_`, at most 64; the first is no digit.
    Identifier,
}

impl Alphabet {
    /// Whether it has this name.
    pub(crate) fn has(self, name: &str) -> bool {
        let is_short = (1..=LONGEST_NAME).contains(&name.len());
        match self {
            Self::Any => true,
            Self::Plain => is_short && name.bytes().all(|byte| is_plain(byte) || byte == b'.'),
            Self::Identifier => {
                let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
                is_short && name.bytes().all(is_letter) && !name.starts_with(|c: char| c.is_ascii_digit())
            }
        }
    }

    /// A name of this alphabet for one that it does not have and that `is_taken` does not name.
    pub(crate) fn renamed(self, name: &str, is_taken: impl Fn(&str) -> bool) -> String {
        let plain = tool_name(name).replace('-', if self == Self::Identifier { "_" } else { "-" });
        let plain = plain.trim_start_matches('_');
        // What begins with a digit, and what was nothing but other characters.
        let plain = if plain.is_empty() || plain.starts_with(|c: char| c.is_ascii_digit()) {
            format!("p_{plain}")
        } else {
            plain.to_owned()
        };
        let short = |longest: usize| plain.chars().take(longest).collect::<String>();
        // A name that was cut is told apart from others with the same beginning.
        let numbered = (0..)
            .map(|nth: u32| format!("{}_{}", short(LONGEST_NAME - 13), digest(&format!("{name}{nth}"), 12)));
        let first = (name.len() <= LONGEST_NAME).then(|| short(LONGEST_NAME));
        let mut all = first.into_iter().chain(numbered);
        all.find(|renamed| !is_taken(renamed)).unwrap_or_default()
    }
}

/// A call id: letters, digits, `_` and `-`; with `nine`, exactly nine letters or digits. Equal ids give equal
/// results.
pub(crate) fn call_id(id: &str, nine: bool) -> Cow<'_, str> {
    let fits = if nine {
        id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
    } else {
        !id.is_empty() && id.len() <= LONGEST_ID && id.bytes().all(is_plain)
    };
    if fits { Cow::Borrowed(id) } else { Cow::Owned(digest(id, if nine { 9 } else { 16 })) }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// A hash of `text` as hexadecimal digits (FNV-1a, 64 bits).
fn digest(text: &str, digits: usize) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut hex = format!("{hash:016x}");
    hex.truncate(digits);
    hex
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_digits_first_are_sent_with_letters_first() {
        for (name, sent) in [
            ("3d_view", "f_3d_view"),
            ("f_3d_view", "f_f_3d_view"),
            ("f_view", "f_view"),
            ("_3d", "_3d"),
            ("create_note", "create_note"),
        ] {
            assert_eq!(letter_name(name), sent);
            assert_eq!(of_letter_name(sent), name);
        }
    }

    #[test]
    fn invalid_names_and_ids_are_replaced() {
        assert_eq!(tool_name("create_note"), "create_note");
        assert_eq!(tool_name("functions.create note"), "functions_create_note");
        assert_eq!(tool_name(""), "unnamed");
        assert_eq!(call_id("toolu_01A-b", false), "toolu_01A-b");
        assert_eq!(call_id("yBvJuId6u", true), "yBvJuId6u");
        assert_eq!(call_id("toolu_01A-b", true).len(), 9);
        let replaced = call_id("functions.get:0", false);
        assert!(replaced.bytes().all(is_plain) && replaced == call_id("functions.get:0", false));
        assert_ne!(replaced, call_id("functions.get:1", false));
    }
}
