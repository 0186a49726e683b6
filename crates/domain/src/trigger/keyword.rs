//! Words of a user that fire a trigger: whole words, without regard to case.

use regex::{Regex, RegexBuilder};
use unicode_normalization::UnicodeNormalization as _;

use super::InvalidWhen;

/// Maximum number of words.
const MAX_WORDS: usize = 50;
/// Maximum length of a word or a phrase, in characters.
const MAX_WORD_CHARS: usize = 100;
/// Maximum length of a regular expression, in bytes.
const MAX_REGEX_BYTES: usize = 500;
/// Maximum size of what it is compiled to, in bytes.
const MAX_COMPILED_BYTES: usize = 1_000_000;
/// How much of a message is searched, in bytes.
const MAX_SEARCHED_BYTES: usize = 65_536;

/// Words and a regular expression, compiled to one.
#[derive(Debug, Clone)]
pub struct KeywordRule(Regex);

impl KeywordRule {
    pub(super) fn new(words: &[String], regex: Option<&str>) -> Result<Self, InvalidWhen> {
        if words.is_empty() && regex.is_none() {
            return Err(InvalidWhen::at("/words", "give at least one word, or `regex`"));
        }
        if words.len() > MAX_WORDS {
            return Err(InvalidWhen::at("/words", format!("must have at most {MAX_WORDS} words")));
        }
        let mut parts = Vec::with_capacity(words.len() + 1);
        for (nth, word) in words.iter().enumerate() {
            let word = word.trim();
            if word.is_empty() || word.chars().count() > MAX_WORD_CHARS {
                let reason = format!("must have 1 to {MAX_WORD_CHARS} characters");
                return Err(InvalidWhen::at(&format!("/words/{nth}"), reason));
            }
            parts.push(whole(word));
        }
        if let Some(regex) = regex {
            if regex.len() > MAX_REGEX_BYTES {
                let reason = format!("must have at most {MAX_REGEX_BYTES} bytes");
                return Err(InvalidWhen::at("/regex", reason));
            }
            // By itself, so that no parenthesis closes the group around it.
            let alone = compile(regex).map_err(|error| InvalidWhen::at("/regex", error.to_string()))?;
            if alone.is_match("") {
                return Err(InvalidWhen::at(
                    "/regex",
                    "matches the empty text, so it would match every message",
                ));
            }
            parts.push(regex.to_owned());
        }
        let all = parts.iter().map(|part| format!("(?:{part})")).collect::<Vec<_>>().join("|");
        let pointer = if regex.is_some() { "/regex" } else { "/words" };
        compile(&all).map(Self).map_err(|error| InvalidWhen::at(pointer, error.to_string()))
    }

    /// Whether a message has one of the words.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        let mut end = text.len().min(MAX_SEARCHED_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let text: String = text[..end].nfc().collect();
        self.0.is_match(&text)
    }
}

fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).case_insensitive(true).size_limit(MAX_COMPILED_BYTES).build()
}

/// The word with the boundaries of words around it, where it begins or ends with a letter or a digit. Blanks in a phrase are
/// any blanks.
fn whole(word: &str) -> String {
    let word: String = word.nfc().collect();
    let is_word =
        |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    let parts: Vec<String> = word.split_whitespace().map(regex::escape).collect();
    let before = if is_word(word.chars().next()) { r"\b" } else { "" };
    let after = if is_word(word.chars().next_back()) { r"\b" } else { "" };
    format!("{before}{}{after}", parts.join(r"\s+"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rule(words: &[&str], regex: Option<&str>) -> Result<KeywordRule, InvalidWhen> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        KeywordRule::new(&words, regex)
    }

    #[test]
    fn whole_words_match_without_regard_to_case() {
        let words = rule(&["bill", "past due", "Überweisung", "c++", "счёт"], None).unwrap();
        for text in
            ["The BILL.", "past\n due", "ÜBERWEISUNG!", "C++ is", "(bill)", "u\u{308}berweisung", "СЧЁТ"]
        {
            assert!(words.matches(text), "{text}");
        }
        for text in ["billing", "a playbill", "pastdue", "Überweisungen", "c+", ""] {
            assert!(!words.matches(text), "{text}");
        }
    }

    #[test]
    fn regular_expressions_are_bounded() {
        assert!(rule(&[], Some(r"order #\d+")).unwrap().matches("about ORDER #12"));
        for bad in ["", "a*", "(a", "a)|(b", r"\w{1000}{1000}", "(?=a)"] {
            assert_eq!(rule(&["b"], Some(bad)).unwrap_err().pointer, "/regex", "{bad}");
        }
        assert_eq!(rule(&[], Some(&"a".repeat(501))).unwrap_err().pointer, "/regex");
        // What backtracks elsewhere takes linear time here.
        assert!(!rule(&[], Some("(a+)+$")).unwrap().matches(&format!("{}b", "a".repeat(60_000))));
        assert!(!rule(&["end"], None).unwrap().matches(&format!("{} end", "ä".repeat(60_000))));
    }

    proptest! {
        #[test]
        fn a_word_matches_itself_between_blanks(word in "[a-zä0-9]{1,8}") {
            let rule = rule(&[&word], None).unwrap();
            let (shouted, ended, inside) =
                (format!("x {} y", word.to_uppercase()), format!("x {word}, y"), format!("x{word}y"));
            prop_assert!(rule.matches(&shouted));
            prop_assert!(rule.matches(&ended));
            prop_assert!(!rule.matches(&inside));
        }
    }
}
