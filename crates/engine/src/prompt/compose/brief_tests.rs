//! What a prompt with beginnings saves, compared with one that has everything: an estimate of tokens, as for budgets.

use houston_domain::focus::{BRIEF_CHARS, BRIEF_CHILDREN, brief};
use houston_domain::history::{Block, Entry};
use houston_domain::id::NoteId;
use houston_llm::tokens;
use serde_json::json;
use uuid::Uuid;

use super::tests::{full_text, goal};
use super::*;

const NOTES: usize = 50;
const TASKS: usize = 20;
const RESULTS: usize = 30;

fn sentences(about: &str, count: usize) -> String {
    format!("The {about} is near the station, costs 120 euros a night, and has a quiet room to the garden. ")
        .repeat(count)
}

fn tokens_of(text: &str) -> u64 {
    tokens::of_entries(&[Entry::user(vec![Block::text(text)])])
}

#[test]
fn brief_prompt_has_at_most_30_percent_of_the_tokens() {
    let notes: Vec<(String, String)> = (0..NOTES)
        .map(|nth| (format!("Hotel {nth} in Rome"), sentences(&format!("hotel {nth}"), 6)))
        .collect();
    let tasks: Vec<(String, String)> =
        (0..TASKS).map(|nth| (format!("Compare hotels of street {nth}"), sentences("street", 3))).collect();
    let results: Vec<String> = (0..RESULTS).map(|nth| sentences(&format!("result {nth}"), 12)).collect();
    let context = RunContext {
        // As many as `context.notes` of orchestrator.toml.
        notes: notes.iter().take(20).map(|(title, _)| (NoteId(Uuid::from_u128(7)), title.clone())).collect(),
        has_results: true,
        ..RunContext::default()
    };
    let prompt = full_text(&goal(), "A trip to Rome", &context);
    let children = |texts: &[(String, String)]| -> Vec<_> {
        texts.iter().map(|(title, text)| json!({"title": title, "text": text})).collect()
    };
    let answer = json!({"title": "A trip to Rome", "tasks": children(&tasks), "results": results, "notes": children(&notes)});
    let (about, is_all) = brief(&answer.to_string());
    assert!(!is_all && about.chars().count() <= BRIEF_CHARS + BRIEF_CHILDREN * 110, "{about}");
    let all = notes.iter().chain(&tasks).flat_map(|(title, text)| [title, text]).chain(&results);
    let whole =
        all.fold(full_text(&goal(), "A trip to Rome", &RunContext::default()), |all, text| all + "\n" + text);
    let (short, long) = (tokens_of(&(prompt + &about)), tokens_of(&whole));
    assert!(short * 100 <= long * 30, "{short} of {long} tokens");
}
