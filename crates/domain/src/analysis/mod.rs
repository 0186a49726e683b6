//! How complex a message is, by rules: a hint for the model whether to plan.
//!
//! Clauses that begin with an action, words of sequence, and words that the descriptions of the offered tools contain are
//! counted. What the rules do not understand, such as another language, is simple: then nothing changes.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

/// Characters that are read of the beginning and of the end of a message. Longer ones say there what is to be done.
const READ: (usize, usize) = (1_200, 400);
/// Texts this short are conversation.
const SHORT: usize = 12;
/// From this length on, two operations are complex without a word of sequence.
const LONG: usize = 90;
/// Actions.
const VERBS: &str = "add analyse analyze apply arrange attend book borrow buy call cancel change check collect compare \
    compile consult convert create delete deliver discuss download draft email enrol enroll export fetch \
    file fill find fix generate get give help install join launch list look make move notify open order \
    organise organize pay pick plan play post prepare print purchase read record remind rent reply \
    research reserve retrieve review run save schedule search see sell send set share shop show sign \
    start stop store submit subscribe summarise summarize take talk tell track transfer translate turn \
    update upload use verify view visit watch write";
/// Words of descriptions that say nothing about a tool.
const STOP: &str = "a all an and any api are as at be by can date example for from get given i id in is it its me my \
    name new of on one or perform specific that the this time to use user using will with you your";
static SEQ: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"\b(then|after that|afterwards?|after (?:\w+ing|i|the|we|you|this|arriving)|before (?:that|i)|fi",
        r"nally|next,|lastly|first(?:ly)?,|second(?:ly)?,|third(?:ly)?,|once|as well as|additionally|in a",
        r"ddition|also|followed by|and at the same time|meanwhile|for each|each of|every one of|simultane",
        r"ously)\b",
    ))
    .ok()
});
static LEAD: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"^(?:please|kindly|i(?: would|'d)? (?:like|want|need|have)(?: you)? to|i also (?:want|need) to|(",
        r"?:can|could|would|will) you(?: please)?(?: help me(?: to)?)?|i(?:'ll| will| am|'m)(?: going| pl",
        r"anning)? to|help me(?: to)?|let's|let us|i(?:'d)? (?:want|need|plan|wis[h]|love) to|we (?:need|wa",
        r"nt) to|lastly|secondly|first|second|third|thirdly|to|i|me|it|once)\b\s*",
    ))
    .ok()
});
static CLAUSE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"[.;!?\n]+|,|\b(?:and|then|also|after that|finally|next|afterwards|as well as|but|so|followed by",
        r"|before|after)\b",
    ))
    .ok()
});
static QUESTION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"^(what|why|who|how|when|where|which|is|are|do|does|did|can you explain|could you explain|explai",
        r"n|tell me about)\b",
    ))
    .ok()
});
static CREATIVE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"^(write|compose|imagine|pretend|act as|edit|explain|describe|suppose|given|could you|picture|yo",
        r"u are|please (?:take|assume|address)|embrace|assume|craft|draft|improve|implement|evaluate|solv",
        r"e|think|consider)\b",
    ))
    .ok()
});
static QUOTED: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r#"'[^']{0,80}'|"[^"]{0,200}""#).ok());
static ITEM: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(?m)^\s*(?:\d+[.)]|[-*•])\s").ok());

names! {
    /// What a message needs.
    #[derive(PartialOrd, Ord)]
    pub enum Complexity {
        /// An answer.
        Simple = "simple",
        /// A tool.
        Tool = "tool",
        /// Several operations.
        Complex = "complex",
    }
}

/// What the model reads about a message, if anything: it may plan, it need not. `tool`: the one that makes plans.
pub fn hint(complexity: Complexity, operations: usize, tool: &str) -> Option<String> {
    let is_complex = complexity == Complexity::Complex;
    is_complex.then(|| {
        format!(
            "The message seems to need {operations} operations. If some of them do not depend on each other, consider {tool}; if \
             each depends on what the one before it said, call the tools yourself."
        )
    })
}

/// The words of the offered tools.
#[derive(Debug, Clone, Default)]
pub struct Vocabulary(BTreeSet<String>);

impl Vocabulary {
    /// The words of names and descriptions.
    pub fn new<'t>(texts: impl IntoIterator<Item = &'t str>) -> Self {
        let stop: BTreeSet<&str> = STOP.split(' ').map(stem).collect();
        let mut found = BTreeSet::new();
        for text in texts {
            let lower = text.to_lowercase();
            found.extend(words(&lower).map(stem).filter(|word| !stop.contains(word)).map(str::to_owned));
        }
        Self(found)
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    // As the expression [a-z][a-z']+ finds them.
    let parts = text.split(|c: char| !c.is_ascii_lowercase() && c != '\'');
    parts.map(|word| word.trim_start_matches('\'')).filter(|word| word.len() > 1)
}

fn stem(word: &str) -> &str {
    let ends = ["ing", "ed", "es", "s"];
    let cut = ends.iter().find_map(|end| word.strip_suffix(end).filter(|rest| rest.len() >= 3));
    cut.unwrap_or(word)
}

fn count(pattern: &Option<Regex>, text: &str) -> usize {
    pattern.as_ref().map_or(0, |pattern| pattern.find_iter(text).count())
}

fn begins(pattern: &Option<Regex>, text: &str) -> bool {
    pattern.as_ref().is_some_and(|pattern| pattern.is_match(text))
}

/// Whether a clause begins with an action.
fn acts(clause: &str, verbs: &BTreeSet<&str>) -> bool {
    let mut clause = clause.trim();
    for _ in 0..4 {
        match LEAD.as_ref().and_then(|lead| lead.find(clause)) {
            Some(lead) => clause = &clause[lead.end()..],
            None => break,
        }
    }
    let word = clause.split(|c: char| !c.is_ascii_lowercase() && c != '\'').next().unwrap_or_default();
    let infinitive = word.strip_suffix("ing").map(|rest| format!("{rest}e"));
    verbs.contains(word)
        || verbs.contains(stem(word))
        || infinitive.is_some_and(|verb| verbs.contains(verb.as_str()))
}

/// The complexity of a message, and the number of operations in it.
pub fn analyse(text: &str, vocabulary: &Vocabulary) -> (Complexity, usize) {
    static ACTIONS: LazyLock<BTreeSet<&str>> = LazyLock::new(|| VERBS.split(' ').collect());
    let length = text.chars().count();
    let read: String = match length > READ.0 + READ.1 {
        true => text.chars().take(READ.0).chain(['\n']).chain(text.chars().skip(length - READ.1)).collect(),
        false => text.to_owned(),
    };
    let lower = read.to_lowercase().replace('’', "'");
    let plain =
        QUOTED.as_ref().map_or_else(|| lower.clone(), |quoted| quoted.replace_all(&lower, "q").into_owned());
    let clauses = CLAUSE.iter().flat_map(|clause| clause.split(&plain));
    let operations = clauses.filter(|clause| acts(clause, &ACTIONS)).count();
    let overlap =
        words(&plain).map(stem).filter(|word| vocabulary.0.contains(*word)).collect::<BTreeSet<_>>().len();
    let is_chat = length <= SHORT || begins(&QUESTION, &lower);
    let complexity = match operations {
        3.. if count(&ITEM, &read) >= 3 || overlap >= 2 => Complexity::Complex,
        2 if overlap >= 2 && (length > LONG || count(&SEQ, &plain) >= 1) => Complexity::Complex,
        _ if begins(&CREATIVE, &lower) && overlap < 4 => Complexity::Simple,
        _ if is_chat && overlap < 2 => Complexity::Simple,
        1.. if overlap >= 1 => Complexity::Tool,
        _ if overlap >= 2 => Complexity::Tool,
        _ => Complexity::Simple,
    };
    (complexity, operations)
}
