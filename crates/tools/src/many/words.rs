//! The words of texts and queries: split, without those that say nothing, reduced to their stems.

use std::collections::HashSet;
use std::sync::LazyLock;

/// Words that say nothing about a tool.
static STOP: LazyLock<HashSet<&str>> = LazyLock::new(|| include_str!("stop.txt").lines().collect());

/// Words with one meaning as far as tools are concerned, a group on each line, as stems. A query for one of a group finds the
/// others as well.
static ALIKE: LazyLock<Vec<Vec<String>>> = LazyLock::new(|| {
    include_str!("alike.txt").lines().map(|group| group.split(' ').map(stem).collect()).collect()
});

/// How much a word counts that is only like one of the query.
const LIKE: f32 = 0.7;

/// Something that a query looks for, with all words that stand for it.
pub(super) struct Concept {
    /// The word itself, as a stem; `None` for neighbours written as one.
    pub(super) word: Option<String>,
    /// The stems that stand for it, with how much each counts: the word, and words with the same meaning.
    pub(super) stems: Vec<(String, f32)>,
}

/// The words of a text as stems, in order. `createIssue` has the words `create`, `issu` and `createissu`.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for run in text.split(|c: char| !c.is_alphanumeric()).filter(|run| !run.is_empty()) {
        let parts = parts(run);
        let has_parts = parts.len() > 1;
        words.extend(
            parts.into_iter().map(str::to_lowercase).filter(|word| !is_stop(word)).map(|word| stem(&word)),
        );
        if has_parts {
            words.push(stem(&run.to_lowercase()));
        }
    }
    words
}

/// What a query looks for: each of its words, and two or three neighbours written as one ("who am i", "file system").
pub(super) fn concepts(query: &str) -> Vec<Concept> {
    let all: Vec<String> = query
        .split(|c: char| !c.is_alphanumeric())
        .filter(|run| !run.is_empty())
        .flat_map(parts)
        .map(str::to_lowercase)
        .collect();
    let words = all.iter().filter(|word| !is_stop(word)).map(|word| Concept::of_word(stem(word)));
    let joined = all.windows(2).chain(all.windows(3)).map(|neighbours| stem(&neighbours.concat()));
    words.chain(joined.map(|word| Concept { word: None, stems: vec![(word, 1.0)] })).collect()
}

impl Concept {
    fn of_word(word: String) -> Self {
        let mut stems = vec![(word.clone(), 1.0)];
        let groups = ALIKE.iter().filter(|group| group.contains(&word));
        for like in groups.flatten() {
            if !stems.iter().any(|(other, _)| other == like) {
                stems.push((like.clone(), LIKE));
            }
        }
        Self { word: Some(word), stems }
    }
}

fn is_stop(word: &str) -> bool {
    STOP.contains(word)
}

/// The parts of a word in camel case: `getURLText2` has `get`, `URL`, `Text2`.
fn parts(word: &str) -> Vec<&str> {
    let chars: Vec<(usize, char)> = word.char_indices().collect();
    let (mut parts, mut start) = (Vec::new(), 0);
    for at in 1..chars.len() {
        let (before, (index, c)) = (chars[at - 1].1, chars[at]);
        let next_is_lower = chars.get(at + 1).is_some_and(|(_, next)| next.is_lowercase());
        let begins = c.is_uppercase() && (before.is_lowercase() || before.is_uppercase() && next_is_lower);
        if begins {
            parts.push(&word[start..index]);
            start = index;
        }
    }
    parts.push(&word[start..]);
    parts
}

/// A word without its ending: plural, `-ing`, `-ed`, `-ation`. Rough, but the same for texts and queries.
pub(super) fn stem(word: &str) -> String {
    if !word.is_ascii() || word.len() < 4 {
        return word.to_owned();
    }
    let endings = [
        ("izations", 3),
        ("ization", 3),
        ("ations", 4),
        ("ation", 4),
        ("ments", 4),
        ("ment", 4),
        ("ings", 3),
        ("ing", 3),
        ("ions", 4),
        ("ion", 4),
        ("ies", 3),
        ("ers", 4),
        ("er", 4),
        ("ed", 3),
        ("es", 3),
        ("s", 3),
    ];
    for (ending, least) in endings {
        let Some(head) = word.strip_suffix(ending).filter(|head| head.len() >= least) else { continue };
        if ending == "s" && (head.ends_with('s') || head.ends_with('u')) {
            continue;
        }
        let head = if ending == "ies" { format!("{head}y") } else { head.to_owned() };
        return bare(&head);
    }
    bare(word)
}

/// Without a final `e` or `ate`, and with one consonant instead of two at the end: `translate` and `translation`, `stop` and
/// `stopped` meet.
fn bare(head: &str) -> String {
    let head = head.strip_suffix('e').filter(|head| head.len() > 2).unwrap_or(head);
    let head = head.strip_suffix("at").filter(|head| head.len() > 3).unwrap_or(head);
    let mut last = head.chars().rev();
    match (last.next(), last.next()) {
        (Some(a), Some(b)) if a == b && !"aeiouls".contains(a) && head.len() > 3 => {
            head[..head.len() - 1].to_owned()
        }
        _ => head.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_where_their_authors_join_words() {
        for (text, expected) in [
            ("git__git_log", "git git log"),
            ("API-post-database-query", "api post databas query"),
            ("createIssue", "creat issu createissu"),
            ("getURLText", "get url text geturltext"),
            ("Search the web for news.", "search web new"),
        ] {
            assert_eq!(words(text).join(" "), expected, "{text}");
        }
    }

    #[test]
    fn forms_of_a_word_have_one_stem() {
        for forms in [
            &["delete", "deletes", "deleted", "deleting", "deletion"][..],
            &["translate", "translation", "translations", "translating"],
            &["query", "queries"],
            &["stop", "stopped", "stopping"],
            &["image", "images"],
            &["process", "processes"],
        ] {
            let stems: Vec<String> = forms.iter().map(|form| stem(form)).collect();
            assert!(stems.iter().all(|stem| *stem == stems[0]), "{forms:?}: {stems:?}");
        }
    }

    #[test]
    fn words_of_the_same_meaning_stand_for_one_for_less() {
        let concepts = concepts("make a folder");
        let words: Vec<&str> = concepts.iter().filter_map(|one| one.word.as_deref()).collect();
        assert_eq!(words, ["mak", "fold"]);
        let weight = |nth: usize, word: &str| {
            concepts[nth].stems.iter().find(|(other, _)| *other == stem(word)).map(|(_, weight)| *weight)
        };
        assert_eq!((weight(0, "make"), weight(2, "makea")), (Some(1.0), Some(1.0)));
        assert_eq!((weight(0, "create"), weight(1, "directory")), (Some(LIKE), Some(LIKE)));
        assert_eq!((weight(0, "delete"), weight(1, "make")), (None, None));
    }
}
