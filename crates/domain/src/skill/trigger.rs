//! Triggers: which messages call for a skill. Matching is the same on every machine, and its work is bounded whatever the words,
//! the patterns and the message are.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::bounded_regex::BoundedRegex;

/// Keywords of a skill, and as many verbs.
pub const MAX_WORDS: usize = 30;
/// Characters of a keyword or verb.
pub const MAX_WORD_CHARS: usize = 100;
/// Patterns of a skill.
pub const MAX_PATTERNS: usize = 10;
/// Characters of a pattern.
pub const MAX_PATTERN_CHARS: usize = 200;
/// Bytes of a compiled pattern: `\w` alone has 20,000.
const MAX_REGEX_BYTES: usize = 128 * 1024;
/// Characters of a message in which words are looked for.
const MESSAGE_CHARS: usize = 8_000;
/// Characters of a message that patterns read.
const PATTERN_CHARS: usize = 1_000;
/// Patterns that are tried for one message, over all skills.
const PATTERNS_PER_MESSAGE: usize = 30;
/// Work of matching them: sixteen milliseconds at worst.
const MESSAGE_WORK: u64 = 4 * 1024 * 1024;

/// What a message must contain. Case is ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Triggers {
    /// Words or phrases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
    /// Words for what is to be done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<String>,
    /// Regular expressions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<String>,
}

impl Triggers {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.keywords.is_empty() && self.verbs.is_empty() && self.patterns.is_empty()
    }

    /// Without what is not allowed; a warning says what was left out.
    pub(super) fn checked(mut self, warnings: &mut Vec<String>) -> Self {
        for (name, words) in [("keywords", &mut self.keywords), ("verbs", &mut self.verbs)] {
            let before = words.len();
            words.retain(|word| word.chars().count() <= MAX_WORD_CHARS && !normal(word).is_empty());
            words.truncate(MAX_WORDS);
            if words.len() < before {
                warnings.push(format!(
                    "`triggers.{name}`: {} of {before} were left out; {MAX_WORDS} of up to {MAX_WORD_CHARS} characters are \
                     allowed",
                    before - words.len()
                ));
            }
        }
        let before = self.patterns.len();
        self.patterns.retain(|pattern| match compile(pattern) {
            Ok(_) => true,
            Err(reason) => {
                warnings.push(format!("`triggers.patterns`: `{pattern:.40}` was left out: {reason}"));
                false
            }
        });
        if self.patterns.len() > MAX_PATTERNS {
            self.patterns.truncate(MAX_PATTERNS);
            warnings.push(format!("`triggers.patterns`: of {before} the first {MAX_PATTERNS} are used"));
        }
        self
    }
}

fn compile(pattern: &str) -> Result<BoundedRegex, String> {
    ensure!(pattern.chars().count() <= MAX_PATTERN_CHARS, "it has more than {MAX_PATTERN_CHARS} characters");
    BoundedRegex::new(pattern, true, MAX_REGEX_BYTES).map_err(|error| format!("it {error}"))
}

/// The words of a text in lower case, with single spaces between them.
fn normal(text: &str) -> String {
    let mut normal = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_alphanumeric() {
            normal.extend(c.to_lowercase());
        } else if !normal.is_empty() && !normal.ends_with(' ') {
            normal.push(' ');
        }
    }
    normal.truncate(normal.trim_end().len());
    normal
}

/// Whether a script writes words without spaces between them.
fn is_unspaced(text: &str) -> bool {
    text.chars().any(|c| matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}'))
}

/// How well a skill matches a message; better ones are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Match {
    /// Whether the message names the skill.
    pub named: bool,
    /// Words of the longest keyword or verb that the message has.
    pub phrase: usize,
    /// How many keywords, verbs and patterns match. Patterns count only if no word matches.
    pub count: usize,
}

/// A message, in the forms that triggers read. It counts the patterns that were tried.
#[derive(Debug)]
pub struct Message<'m> {
    text: &'m str,
    /// The words, with a space before and after each.
    words: String,
    set: HashSet<String>,
    patterns_left: usize,
    work_left: u64,
}

impl<'m> Message<'m> {
    /// The beginning of a message.
    pub fn new(text: &'m str) -> Self {
        let text = beginning(text, MESSAGE_CHARS);
        let words = normal(text);
        let set = words.split(' ').map(str::to_owned).collect();
        Self {
            text,
            words: format!(" {words} "),
            set,
            patterns_left: PATTERNS_PER_MESSAGE,
            work_left: MESSAGE_WORK,
        }
    }

    /// Whether it contains these words in a row.
    pub fn has(&self, words: &str) -> bool {
        let words = normal(words);
        if words.is_empty() {
            return false;
        }
        if is_unspaced(&words) {
            return self.words.contains(&words);
        }
        words.split(' ').all(|word| self.set.contains(word))
            && (!words.contains(' ') || self.words.contains(&format!(" {words} ")))
    }

    /// How well a skill matches; `None`: it does not.
    pub fn matches(&mut self, name: &str, triggers: &Triggers) -> Option<Match> {
        // As `weekly-review`, `weekly review` or `/weekly-review`.
        let named = self.has(name);
        let words = triggers.keywords.iter().chain(&triggers.verbs).filter(|words| self.has(words));
        let (mut phrase, mut count) = (0, 0);
        for words in words {
            phrase = phrase.max(normal(words).split(' ').count());
            count += 1;
        }
        if count == 0 && !named {
            count = usize::from(self.has_pattern(&triggers.patterns));
        }
        (named || count > 0).then_some(Match { named, phrase, count })
    }

    fn has_pattern(&mut self, patterns: &[String]) -> bool {
        let text = beginning(self.text, PATTERN_CHARS);
        patterns.iter().any(|pattern| {
            let Some(left) = self.patterns_left.checked_sub(1) else { return false };
            self.patterns_left = left;
            compile(pattern).is_ok_and(|regex| regex.is_match(text, &mut self.work_left).unwrap_or_default())
        })
    }
}

fn beginning(text: &str, chars: usize) -> &str {
    text.char_indices().nth(chars).map_or(text, |(end, _)| &text[..end])
}
