//! Where the labelled messages come from: `messages.md`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::*;

fn counts() -> BTreeMap<(Complexity, Complexity), usize> {
    let mut lines =
        include_str!("messages.jsonl").lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let shared = Vocabulary::new([lines.next().unwrap()["tools"].as_str().unwrap()]);
    let mut counts = BTreeMap::new();
    for line in lines {
        let label = match line["label"].as_str().unwrap() {
            "simple" => Complexity::Simple,
            "tool" => Complexity::Tool,
            _ => Complexity::Complex,
        };
        let own = line["tools"].as_str().map(|tools| Vocabulary::new([tools]));
        let (found, _) = analyse(line["text"].as_str().unwrap(), own.as_ref().unwrap_or(&shared));
        *counts.entry((label, found)).or_default() += 1;
    }
    counts
}

#[test]
fn labelled_messages_are_recognised() {
    let counts = counts();
    let sum = |fits: &dyn Fn(bool, bool, bool) -> bool| -> f64 {
        let is = |one: Complexity| one == Complexity::Complex;
        let fitting =
            counts.iter().filter(|((label, found), _)| fits(is(*label), is(*found), label == found));
        fitting.map(|(_, count)| *count as f64).sum()
    };
    let all = sum(&|_, _, _| true);
    assert!((all - 180.0).abs() < 0.1);
    assert!(sum(&|_, _, same| same) / all >= 0.78, "{counts:?}");
    assert!(sum(&|label, found, _| label == found) / all >= 0.90, "{counts:?}");
    let hits = sum(&|label, found, _| label && found);
    assert!(
        hits / sum(&|label, _, _| label) >= 0.85 && hits / sum(&|_, found, _| found) >= 0.88,
        "{counts:?}"
    );
    let simple: usize =
        counts.iter().filter(|((label, _), _)| *label == Complexity::Simple).map(|(_, count)| count).sum();
    let wrong = counts.get(&(Complexity::Simple, Complexity::Complex)).copied().unwrap_or_default();
    assert!(wrong as f64 / simple as f64 <= 0.12, "{counts:?}");
}

#[test]
fn only_complex_messages_get_a_hint() {
    let hint_of = |complexity| hint(complexity, 5, "make_plan");
    assert_eq!((hint_of(Complexity::Simple), hint_of(Complexity::Tool)), (None, None));
    let text = hint_of(Complexity::Complex).unwrap();
    assert!(text.contains("5 operations") && text.contains("consider make_plan"), "{text}");
    assert!(text.len() < 260, "about 50 tokens: {}", text.len());
}

#[test]
fn patterns_compile() {
    for pattern in [&SEQ, &LEAD, &CLAUSE, &QUESTION, &CREATIVE, &QUOTED, &ITEM] {
        assert!(pattern.is_some());
    }
}

#[test]
fn other_languages_are_simple() {
    let vocabulary = Vocabulary::new(["search hotels", "book a room"]);
    assert_eq!(analyse("Bitte suche drei Hotels und buche das beste.", &vocabulary).0, Complexity::Simple);
    assert_eq!(analyse("", &vocabulary).0, Complexity::Simple);
}
