//! JSON that every reader takes: without lone surrogates, and not too deep.

/// The deepest nesting; the parent's parser stops at 128.
const MAX_DEPTH: usize = 100;

/// The JSON with U+FFFD in place of lone surrogates. A string of JavaScript may have them, and `JSON.stringify` writes
/// only those as `\ud800` to `\udfff`.
///
/// # Errors
///
/// The JSON is nested too deeply; the error goes on after "the result" or "the input".
pub(super) fn plain(json: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(json.len());
    let (mut depth, mut in_string) = (0_usize, false);
    let mut rest = json;
    while let Some(at) = rest.find(['\\', '"', '[', ']', '{', '}']) {
        let found = rest.as_bytes()[at];
        match found {
            b'\\' => {
                plain.push_str(&rest[..at]);
                let escape = &rest[at..];
                let length = if escape.as_bytes().get(1) == Some(&b'u') { 6 } else { 2 };
                let escape = escape.get(..length).unwrap_or(escape);
                plain.push_str(if is_surrogate(escape) { "\\ufffd" } else { escape });
                rest = &rest[at + escape.len()..];
                continue;
            }
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(format!("is nested deeper than {MAX_DEPTH} levels"));
                }
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        plain.push_str(&rest[..=at]);
        rest = &rest[at + 1..];
    }
    plain.push_str(rest);
    Ok(plain)
}

fn is_surrogate(escape: &str) -> bool {
    let bytes = escape.as_bytes();
    bytes.len() == 6
        && bytes[2].eq_ignore_ascii_case(&b'd')
        && matches!(bytes[3], b'8'..=b'9' | b'a'..=b'f' | b'A'..=b'F')
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn lone_surrogates_are_replaced() {
        assert_eq!(plain(r#""a\ud800b""#).unwrap(), r#""a\ufffdb""#);
        assert_eq!(plain(r#""\\ud800 \u0000 \ufffd""#).unwrap(), r#""\\ud800 \u0000 \ufffd""#);
        assert_eq!(plain(r#"{"\udfff":1}"#).unwrap(), r#"{"\ufffd":1}"#);
    }

    #[test]
    fn deep_json_is_refused() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(plain(&nested(100)).is_ok());
        assert!(plain(&nested(101)).is_err());
        assert!(plain(&format!("{:?}", "[".repeat(1000))).is_ok(), "brackets in a string are text");
    }
}
