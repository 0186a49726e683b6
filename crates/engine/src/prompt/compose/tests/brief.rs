//! What a prompt with beginnings saves, compared with one that has everything: an estimate of tokens, as for budgets.

use houston_domain::focus::{BRIEF_CHARS, BRIEF_CHILDREN, brief};
use houston_domain::history::{Block, Entry};
use houston_domain::id::{NoteId, ResultId};
use houston_domain::tool_call::ToolResponse;
use houston_domain::tool_result::ResultLimits;
use houston_llm::tokens;
use houston_tools::builtin::preview;
use serde_json::json;
use uuid::Uuid;

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

/// The fixed user: titles with texts.
fn items(title: &str, count: usize, length: usize) -> Vec<(String, String)> {
    (0..count).map(|nth| (format!("{title} {nth}"), sentences(&format!("{title} {nth}"), length))).collect()
}

#[test]
fn brief_prompt_has_at_most_30_percent_of_the_tokens() {
    let (notes, tasks) = (items("Hotels in Rome", NOTES, 6), items("Compare hotels", TASKS, 3));
    // As long as a page that was fetched.
    let results = items("result", RESULTS, 200);
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
    let answer = json!({"title": "A trip to Rome", "tasks": children(&tasks), "notes": children(&notes)});
    let (about, is_all) = brief(&answer.to_string());
    assert!(!is_all && about.chars().count() <= BRIEF_CHARS + BRIEF_CHILDREN * 110, "{about}");
    let beginning = |(_, text): &(String, String)| {
        let (whole, most) = (ToolResponse::success(text.clone()), ResultLimits::default().beginning_bytes);
        assert!(text.len() > ResultLimits::default().inline_bytes);
        preview(&whole, ResultId(Uuid::from_u128(8)), most).text().to_owned()
    };
    let short = results.iter().map(beginning).fold(prompt + &about, |all, text| all + "\n" + &text);
    let all = notes.iter().chain(&tasks).chain(&results).flat_map(|(title, text)| [title, text]);
    let whole =
        all.fold(full_text(&goal(), "A trip to Rome", &RunContext::default()), |all, text| all + "\n" + text);
    let (short, long) = (tokens_of(&short), tokens_of(&whole));
    println!("{short} of {long} tokens");
    assert!(short * 100 <= long * 30, "{short} of {long} tokens");
}
