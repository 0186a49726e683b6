//! Words of a user that fire a trigger: whole words, without regard to case.

use unicode_normalization::UnicodeNormalization as _;

use crate::bounded_regex::{BoundedRegex, TooMuchWork};
use crate::setting::{WrongSetting, require};

/// Maximum number of words.
const MAX_WORDS: usize = 50;
/// Maximum length of a word or a phrase, in characters.
const MAX_WORD_CHARS: usize = 100;
/// Maximum length of a regular expression, in bytes.
const MAX_REGEX_BYTES: usize = 500;
/// Maximum size of what it is compiled to, in bytes.
const MAX_COMPILED_BYTES: usize = 256 * 1024;
/// Maximum size of what the words are compiled to, in bytes: enough for the most and longest of them.
const MAX_COMPILED_WORDS_BYTES: usize = 2 * 1024 * 1024;
/// How much of a message is searched, in bytes.
const MAX_SEARCHED_BYTES: usize = 65_536;
/// Work of searching one message: a twentieth of a second at worst.
pub const MAX_MESSAGE_WORK: u64 = 16 * 1024 * 1024;

/// Words and a regular expression.
#[derive(Debug, Clone)]
pub struct KeywordRule {
    words: Option<BoundedRegex>,
    regex: Option<BoundedRegex>,
}

impl KeywordRule {
    pub(super) fn new(words: &[String], regex: Option<&str>) -> Result<Self, WrongSetting> {
        require(!words.is_empty() || regex.is_some(), "/words", "give at least one word, or `regex`")?;
        require(words.len() <= MAX_WORDS, "/words", format_args!("must have at most {MAX_WORDS} words"))?;
        for (nth, word) in words.iter().enumerate() {
            let reason = format_args!("must have 1 to {MAX_WORD_CHARS} characters");
            let is_fitting = (1..=MAX_WORD_CHARS).contains(&word.trim().chars().count());
            require(is_fitting, format!("/words/{nth}"), reason)?;
        }
        let whole = (!words.is_empty())
            .then(|| BoundedRegex::new(&whole_words(words), true, MAX_COMPILED_WORDS_BYTES))
            .transpose()
            .map_err(|error| WrongSetting::new("/words", error.to_string()))?;
        let regex = regex.map(checked).transpose().map_err(|reason| WrongSetting::new("/regex", reason))?;
        Ok(Self { words: whole, regex })
    }

    /// Whether a message has one of the words, with at most so much work as is `left`.
    ///
    /// # Errors
    /// [`TooMuchWork`].
    pub fn matches(&self, text: &str, left: &mut u64) -> Result<bool, TooMuchWork> {
        let text: String = text[..text.floor_char_boundary(MAX_SEARCHED_BYTES)].nfc().collect();
        for part in self.words.iter().chain(&self.regex) {
            if part.is_match(&text, left)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The expression, if a message of the greatest length can be searched for it.
fn checked(regex: &str) -> Result<BoundedRegex, String> {
    ensure!(regex.len() <= MAX_REGEX_BYTES, "must have at most {MAX_REGEX_BYTES} bytes");
    let compiled = BoundedRegex::new(regex, true, MAX_COMPILED_BYTES).map_err(|error| error.to_string())?;
    if compiled.is_match("", &mut MAX_MESSAGE_WORK.clone()) != Ok(false) {
        return Err("matches the empty text, so it would match every message".to_owned());
    }
    Ok(compiled)
}

/// An expression that finds the words, with no letter or digit before and after, where they begin or end with one. It has
/// classes in place of `\b`, so that an automaton can read any text. Blanks in a phrase are any blanks.
fn whole_words(words: &[String]) -> String {
    let is_word =
        |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    let mut kinds = [const { Vec::new() }; 4];
    for word in words {
        let word: String = word.trim().nfc().collect();
        let kind =
            usize::from(is_word(word.chars().next())) * 2 + usize::from(is_word(word.chars().next_back()));
        let parts: Vec<String> = word.split_whitespace().map(regex::escape).collect();
        kinds[kind].push(parts.join(r"\s+"));
    }
    let expression = |(kind, words): (usize, &Vec<String>)| {
        let before = if kind >= 2 { r"(?:\A|(?-i:\W))" } else { "" };
        let after = if kind % 2 == 1 { r"(?:(?-i:\W)|\z)" } else { "" };
        format!("{before}(?:{}){after}", words.join("|"))
    };
    let kinds = kinds.iter().enumerate().filter(|(_, words)| !words.is_empty());
    kinds.map(expression).collect::<Vec<_>>().join("|")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl KeywordRule {
        fn finds(&self, text: &str) -> bool {
            self.matches(text, &mut MAX_MESSAGE_WORK.clone()).unwrap()
        }
    }

    fn rule(words: &[&str], regex: Option<&str>) -> Result<KeywordRule, WrongSetting> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        KeywordRule::new(&words, regex)
    }

    #[test]
    fn whole_words_match_without_regard_to_case() {
        let words = rule(&["bill", "past due", "Überweisung", "c++", "счёт"], None).unwrap();
        for text in
            ["The BILL.", "past\n due", "ÜBERWEISUNG!", "C++ is", "(bill)", "u\u{308}berweisung", "СЧЁТ"]
        {
            assert!(words.finds(text), "{text}");
        }
        for text in ["billing", "a playbill", "pastdue", "Überweisungen", "c+", ""] {
            assert!(!words.finds(text), "{text}");
        }
    }

    #[test]
    fn regular_expressions_are_bounded() {
        assert!(rule(&[], Some(r"order #\d+")).unwrap().finds("about ORDER #12"));
        for bad in ["", "a*", "(a", "a)|(b", r"\w{1000}{1000}", "(?=a)"] {
            assert_eq!(rule(&["b"], Some(bad)).unwrap_err().pointer, "/regex", "{bad}");
        }
        assert_eq!(rule(&[], Some(&"a".repeat(501))).unwrap_err().pointer, "/regex");
        // What backtracks elsewhere takes linear time here.
        assert!(!rule(&[], Some("(a+)+$")).unwrap().finds(&format!("{}b", "a".repeat(60_000))));
        assert!(!rule(&["end"], None).unwrap().finds(&format!("{} end", "ä".repeat(60_000))));
    }

    /// Expressions that keep an automaton from being reused and whose other ways through a text are many.
    #[test]
    fn hostile_expressions_are_refused_or_end() {
        let mut state = 1_u32;
        let text: String = (0..65_000)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                char::from(b'a' + u8::try_from(state >> 30).unwrap())
            })
            .collect();
        for regex in [
            r"(?-i)(?:a?b?c?d?){1,1500}[^a-d]y",
            r"(?-i)(?:a?b?c?d?){1,150}[^a-d]y",
            r"(?-i)a[a-d]{250}[^a-d]",
            r"\b(?:[a-d]{1,60}){1,60}\by",
            r"(?:\pL\pN?){1,20}x",
        ] {
            let Ok(rule) = rule(&[], Some(regex)) else { continue };
            for text in [text.clone(), format!("ä{text}"), "ä".repeat(32_000)] {
                let mut left = MAX_MESSAGE_WORK;
                assert!(!rule.matches(&text, &mut left).unwrap_or(false), "{regex}");
            }
        }
        let most: Vec<String> = (0..50).map(|n| format!("{}{n:02}", "äk".repeat(49))).collect();
        let rule = KeywordRule::new(&most, None).unwrap();
        let mut left = MAX_MESSAGE_WORK;
        let found = rule.matches(&"äk".repeat(20_000), &mut left);
        assert!(found != Ok(true) && (found.is_err() || left > 0), "{found:?}");
    }

    proptest! {
        #[test]
        fn a_word_matches_itself_between_blanks(word in "[a-zä0-9]{1,8}") {
            let rule = rule(&[&word], None).unwrap();
            let (shouted, ended, inside) =
                (format!("x {} y", word.to_uppercase()), format!("x {word}, y"), format!("x{word}y"));
            prop_assert!(rule.finds(&shouted));
            prop_assert!(rule.finds(&ended));
            prop_assert!(!rule.finds(&inside));
        }
    }
}
