//! The values of arguments: as paths and hosts, whether the user wrote them, and their maximum values.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::{Number, Value};
use unicode_normalization::UnicodeNormalization;

/// Calls `visit` with each text, number and boolean of `value`, also within lists and tables, until it returns false.
/// Returns whether it always returned true.
pub(super) fn each_value<'v>(value: &'v Value, visit: &mut impl FnMut(Cow<'v, str>) -> bool) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => visit(Cow::Borrowed(text)),
        Value::Bool(_) | Value::Number(_) => visit(Cow::Owned(value.to_string())),
        Value::Array(list) => list.iter().all(|value| each_value(value, visit)),
        Value::Object(table) => table.values().all(|value| each_value(value, visit)),
    }
}

/// A JSON pointer, parsed once.
#[derive(Debug, Clone)]
pub(super) struct Pointer(Vec<String>);

impl Pointer {
    /// Parses a pointer, which begins with `/`.
    pub(super) fn new(pointer: &str) -> Self {
        Self(pointer.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~")).collect())
    }

    /// The value it points to.
    pub(super) fn of<'v>(&self, input: &'v Value) -> Option<&'v Value> {
        self.0.iter().try_fold(input, |value, part| match value {
            Value::Object(table) => table.get(part),
            Value::Array(list) => list.get(part.parse::<usize>().ok()?),
            _ => None,
        })
    }
}

/// The values at `pointer`; none when there is nothing.
pub(super) fn values_at<'v>(input: &'v Value, pointer: &str) -> Vec<Cow<'v, str>> {
    let mut values = Vec::new();
    if let Some(value) = input.pointer(pointer) {
        each_value(value, &mut |text| {
            values.push(text);
            true
        });
    }
    values
}

/// A value as messages quote it: at most 100 characters, without control characters.
pub(super) fn quoted(text: &str) -> String {
    let mut short: String = text.chars().filter(|letter| !letter.is_control()).take(100).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("`{short}`")
}

// Paths in arguments: in their normal form, and in the form that is compared with sensitive names.
//
// Nothing here looks at a file system: tools that open a path below a workspace check what they opened once more.

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
fn fold(text: &str) -> String {
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

/// Maximum length of a name in DNS.
const MAX_NAME: usize = 253;

/// The host of a URL, or of a host with or without a port: in lower case, without a dot at the end. `None` when
/// programs could read the text differently, for instance because of a backslash or of letters outside ASCII (an
/// international name is written as `xn--…`).
pub(super) fn host_of(url: &str) -> Option<String> {
    let url = url.trim_matches(' ');
    if url.contains(|letter: char| letter == '\\' || letter.is_whitespace() || letter.is_control()) {
        return None;
    }
    let rest = match url.split_once("://") {
        Some((scheme, rest)) => {
            let named = scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
            if scheme.is_empty() || !named || rest.starts_with('/') {
                return None;
            }
            rest
        }
        None => url.strip_prefix("//").unwrap_or(url),
    };
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    let (host, port) = match host.strip_prefix('[') {
        Some(address) => {
            let (address, port) = address.split_once(']')?;
            if !address.chars().all(|c| c.is_ascii_hexdigit() || c == ':' || c == '.') {
                return None;
            }
            (address, port.strip_prefix(':').unwrap_or(port))
        }
        None => host.split_once(':').unwrap_or((host, "")),
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':');
    let plain = (1..=MAX_NAME).contains(&host.len())
        && host.chars().all(is_name)
        && port.chars().all(|c| c.is_ascii_digit());
    plain.then(|| host.to_ascii_lowercase())
}

/// Whether the user wrote this address. The scheme and a `/` at the end do not count. What the user wrote is compared as it
/// is: an address that contains anything else can carry data to its host.
pub(super) fn is_given(url: &str, user_texts: &[&str]) -> bool {
    let url = url.trim();
    let bare = match url.split_once("://") {
        Some((scheme, rest)) if ["http", "https"].iter().any(|one| scheme.eq_ignore_ascii_case(one)) => rest,
        _ => url,
    };
    let bare = bare.strip_suffix('/').unwrap_or(bare);
    !bare.is_empty() && user_texts.iter().any(|text| text.contains(bare))
}

/// Lowers the numbers in `input` that are above `limits` (by JSON pointer, as in [`super::ToolFacts::limits`]).
/// Numbers written as text count, too; what is no number, or is left out, stays as it is. Returns the arguments, and
/// for each change a sentence for the model.
///
/// ```
/// use houston_domain::guard::clamp;
/// use serde_json::json;
///
/// let limits = [("/limit".to_owned(), 50.into())].into();
/// let (input, notes) = clamp(&limits, json!({"limit": 500}));
/// assert_eq!(input, json!({"limit": 50}));
/// assert_eq!(notes, ["`limit` may be 50 at most: 50 was used instead of 500."]);
/// ```
pub fn clamp(limits: &BTreeMap<String, Number>, mut input: Value) -> (Value, Vec<String>) {
    let mut notes = Vec::new();
    for (pointer, most) in limits {
        let Some(value) = input.pointer_mut(pointer) else { continue };
        let (exceeds, given, lowered) = match value {
            Value::Number(given) => (exceeds(given, most), given.to_string(), Value::Number(most.clone())),
            Value::String(text) => (text_exceeds(text, most), quoted(text), Value::String(most.to_string())),
            _ => continue,
        };
        if exceeds {
            *value = lowered;
            let name = pointer.trim_start_matches('/');
            notes.push(format!("`{name}` may be {most} at most: {most} was used instead of {given}."));
        }
    }
    (input, notes)
}

/// Whether `text` is a number, and greater than `most`.
fn text_exceeds(text: &str, most: &Number) -> bool {
    let most = most.as_f64().unwrap_or(f64::INFINITY);
    text.trim().parse::<f64>().is_ok_and(|given| given > most)
}

/// Whether `given` is greater than `most`.
pub(super) fn exceeds(given: &Number, most: &Number) -> bool {
    match (given.as_i128(), most.as_i128()) {
        (Some(given), Some(most)) => given > most,
        _ => {
            given.as_f64().unwrap_or(f64::INFINITY).partial_cmp(&most.as_f64().unwrap_or(f64::INFINITY))
                == Some(Ordering::Greater)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

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

    #[test]
    fn hosts_are_read_as_clients_read_them() {
        for (url, host) in [
            ("https://example.com/a?b#c", "example.com"),
            ("HTTPS://Example.COM:8443", "example.com"),
            ("https://user:secret@example.com/", "example.com"),
            ("https://good.example@evil.example/", "evil.example"),
            ("https://good.example@x@evil.example/", "evil.example"),
            ("https://evil.example?good.example", "evil.example"),
            ("https://evil.example#@good.example", "evil.example"),
            ("example.com", "example.com"),
            ("example.com:80", "example.com"),
            ("//example.com/a", "example.com"),
            ("https://example.com./", "example.com"),
            ("http://[::1]:80/", "::1"),
        ] {
            assert_eq!(host_of(url).as_deref(), Some(host), "{url}");
        }
    }

    #[test]
    fn ambiguous_hosts_are_not_read() {
        for url in [
            "https://good.example\\@evil.example/",
            "https:\\\\evil.example",
            "https:///evil.example",
            "",
            "https://",
            "http://evil.example\t.good.example",
            "http://evil%2eexample/",
            "http://еvil.example",
            "://evil.example",
            "http://good.example:80:evil",
            "http:evil.example",
            "https://[::1",
            "http://evil.example。good",
        ] {
            assert_eq!(host_of(url), None, "{url:?}");
        }
    }

    #[test]
    fn only_what_the_user_wrote_is_given() {
        let texts = ["Compare (https://a.example/x?q=1) with b.example, please.", "And http://[::1]:80/"];
        for (url, given) in [
            ("https://a.example/x?q=1", true),
            ("http://a.example/x", true),
            ("https://b.example/", true),
            ("HTTPS://b.example", true),
            ("http://[::1]:80", true),
            ("https://a.example/x?q=1&d=secret", false),
            ("https://a.example/x?q=1#secret", false),
            ("https://B.example/", false),
            ("https://b.example/secret", false),
            ("https://secret.b.example/", false),
            ("https://secret@b.example/", false),
            ("https://", false),
            ("", false),
        ] {
            assert_eq!(is_given(url, &texts), given, "{url}");
        }
    }

    fn limits(most: Value) -> BTreeMap<String, Number> {
        let Value::Number(most) = most else { panic!("a number") };
        [("/page/size".to_owned(), most)].into()
    }

    #[test]
    fn numbers_above_the_maximum_are_lowered() {
        for (most, given, clamped) in [
            (json!(50), json!(51), json!(50)),
            (json!(50), json!(50), json!(50)),
            (json!(50), json!(-1), json!(-1)),
            (json!(50), json!(50.5), json!(50)),
            (json!(0.5), json!(1), json!(0.5)),
            (json!(50), json!(u64::MAX), json!(50)),
            (json!(50), json!(1e300), json!(50)),
            (json!(50), json!("500"), json!("50")),
            (json!(50), json!(" +5e2 "), json!("50")),
            (json!(50), json!("inf"), json!("50")),
            (json!(50), json!("all"), json!("all")),
            (json!(50), json!([500]), json!([500])),
            (json!(50), json!(null), json!(null)),
        ] {
            let (input, notes) = clamp(&limits(most), json!({"page": {"size": given}}));
            assert_eq!(input, json!({"page": {"size": clamped}}));
            assert_eq!(notes.is_empty(), given == clamped, "{notes:?}");
        }
    }

    #[test]
    fn arguments_left_out_stay_left_out() {
        let input = json!({"size": 500});
        assert_eq!(clamp(&limits(json!(50)), input.clone()), (input, vec![]));
    }

    proptest! {
        #[test]
        fn clamping_twice_changes_nothing(most in -1000_i64..1000, given in any::<f64>()) {
            let (once, _) = clamp(&limits(json!(most)), json!({"page": {"size": given}}));
            let (twice, notes) = clamp(&limits(json!(most)), once.clone());
            prop_assert_eq!(once, twice);
            prop_assert!(notes.is_empty());
        }
    }
}
