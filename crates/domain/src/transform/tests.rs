use proptest::prelude::*;

use super::Operation::*;
use super::*;

fn done(operation: Operation, text: &str, pattern: Option<&str>, replacement: Option<&str>) -> String {
    transform(operation, text, pattern, replacement).unwrap_or_else(|reason| format!("ERROR {reason}"))
}

#[test]
fn operations_have_the_names_of_their_json() {
    for operation in Operation::ALL {
        assert_eq!(serde_json::to_value(operation).unwrap(), operation.as_str());
    }
}

#[test]
fn texts_are_transformed() {
    for (operation, text, pattern, replacement, expected) in [
        (Base64Encode, "hi ü?", None, None, "aGkgw7w/"),
        (Base64Decode, "aGkgw7w_", None, None, "hi ü?"),
        (Base64Decode, "/w==", None, None, "1 bytes that are not UTF-8, in hexadecimal: ff"),
        (HexEncode, "az", None, None, "617a"),
        (HexDecode, "0x61 7A", None, None, "az"),
        (UrlEncode, "a b/ü", None, None, "a%20b%2F%C3%BC"),
        (UrlDecode, "a+b%2F%c3%bc", None, None, "a b/ü"),
        (Sha256, "abc", None, None, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (RegexTest, "order 66", Some(r"\d+"), None, "true: it matches `66` at byte 6"),
        (RegexTest, "order", Some(r"\d+"), None, "false"),
        (RegexExtract, "a=1, b=22", Some(r"\d+"), None, "1\n22"),
        (RegexExtract, "a=1, b=22", Some(r"(\w)=(\d+)"), None, "[\"a\",\"1\"]\n[\"b\",\"22\"]"),
        (RegexReplace, "2026-11-25", Some(r"(\d+)-(\d+)-(\d+)"), Some("$3.$2.$1"), "25.11.2026"),
        (JsonGet, r#"{"a": [{"b": "x"}, {"b": "y"}]}"#, Some("/a/1/b"), None, "y"),
        (JsonGet, r#"{"a": [{"b": "x"}, {"b": "y"}]}"#, Some("/a/*/b"), None, r#"["x","y"]"#),
        (JsonFormat, r#"{"a":1}"#, None, None, "{\n  \"a\": 1\n}"),
        (CsvToJson, "a;b\n\"1;\"\"2\"\"\";x\n", None, None, r#"[{"a":"1;\"2\"","b":"x"}]"#),
    ] {
        let result = done(operation, text, pattern, replacement);
        assert_eq!(result, expected, "{} {text}", operation.as_str());
    }
}

#[test]
fn errors_say_what_is_allowed() {
    for (operation, text, pattern, words) in [
        (Base64Decode, "a!", None, "is not Base64"),
        (HexDecode, "abc", None, "is not hexadecimal"),
        (UrlDecode, "%2", None, "two hexadecimal digits"),
        (RegexTest, "a", None, "needs `pattern`"),
        (RegexTest, "a", Some("(a"), "is no regular expression: unclosed group"),
        (RegexTest, "a", Some("(?=a)"), "Look-around"),
        (RegexTest, "a", Some("((a{100}){100}){100}"), "too large"),
        (RegexReplace, "a", Some("a"), "needs `replacement`"),
        (JsonGet, "{}", Some("a"), "begins with `/`"),
        (JsonGet, r#"{"a": 1}"#, Some("/b"), "its keys are a"),
        (JsonFormat, "{", None, "is not JSON"),
        (CsvToJson, "a,b\n\"x", None, "not closed"),
        (CsvToJson, "a\n1,2", None, "row 2 has 2 fields"),
    ] {
        let error = transform(operation, text, pattern, None).unwrap_err();
        assert!(error.contains(words), "{}: {error}", operation.as_str());
    }
    let long = "x".repeat(MAX_TEXT_BYTES + 1);
    assert!(transform(Sha256, &long, None, None).unwrap_err().contains("at most 65536"));
}

proptest! {
    #[test]
    fn encodings_give_the_text_back(text in any::<String>()) {
        for (there, back) in [(Base64Encode, Base64Decode), (HexEncode, HexDecode), (UrlEncode, UrlDecode)] {
            let encoded = transform(there, &text, None, None).unwrap();
            prop_assert_eq!(&transform(back, &encoded, None, None).unwrap(), &text);
        }
    }

    #[test]
    fn nothing_a_model_sends_panics(text in any::<String>(), pattern in any::<String>()) {
        for operation in Operation::ALL {
            let _ = transform(operation, &text, Some(&pattern), Some("$0$1"));
        }
    }
}
