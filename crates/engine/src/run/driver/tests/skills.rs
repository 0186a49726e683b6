//! Runs with skills: what a message calls for enters the history once, whatever happens to the worker.

use houston_domain::history::{Block, Entry};
use houston_domain::run::RunStatus;
use houston_domain::skill::USE_SKILL;
use serde_json::json;

use crate::run::driver::DriveOutcome;
use crate::run::tests::fixture::{Process, Script, ScriptedModel, TestTool, calls_with, says};
use crate::run::tests::memory_storage::Fault;

const ENDED: DriveOutcome = DriveOutcome::Ended(RunStatus::Completed);
const GREETING: &str =
    "---\nname: greeting\ndescription: Greets.\ntriggers: {keywords: [hello]}\n---\nSay <moin>.";
const TEA: &str = "---\nname: tea\ndescription: Makes tea.\n---\nBoil.";

fn process(scripts: Vec<Script>, skills: &[&str]) -> Process {
    let process = Process::new(ScriptedModel::new(scripts), Vec::<TestTool>::new());
    skills.iter().for_each(|skill| process.storage.add_skill(skill));
    process
}

/// The texts of frames of skills in the history.
fn frames(history: &[Entry]) -> Vec<&str> {
    let blocks = history.iter().flat_map(|entry| &entry.content);
    let texts = blocks.filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.filter(|text| text.starts_with("<skill ")).collect()
}

#[tokio::test(start_paused = true)]
async fn skill_follows_the_message_that_calls_for_it() {
    let process = process(vec![says("Moin.")], &[GREETING, TEA]);
    assert_eq!(process.drive(1).await.unwrap(), ENDED);
    let history = process.storage.history();
    let frame = "<skill mark=\"1234\" name=\"greeting\">\nSay &lt;moin&gt;.\n</skill>";
    assert_eq!(frames(&history), [frame]);
    assert_eq!(history.len(), 3, "message, skill, answer: {history:?}");
    assert_eq!(process.storage.committed().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn run_whose_message_calls_for_no_skill_commits_no_more() {
    let process = process(vec![says("Moin.")], &[TEA]);
    assert_eq!(process.drive(1).await.unwrap(), ENDED);
    assert_eq!((process.storage.history().len(), process.storage.committed().len()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn skill_is_disclosed_once_despite_crashes() {
    for fault in [Fault::BrokenBefore, Fault::BrokenAfter] {
        let process = process(vec![says("Moin.")], &[GREETING]);
        process.storage.fail([fault]);
        assert_eq!(process.drive(1).await.unwrap(), ENDED, "{fault:?}");
        assert_eq!(frames(&process.storage.history()).len(), 1, "{fault:?}");
    }
    // Another worker goes on after the skill was disclosed.
    let process = process(vec![says("Moin."), says("Moin.")], &[GREETING]);
    process.storage.fail_after(1, Fault::TakenOver);
    assert!(process.drive(1).await.is_err());
    assert_eq!(process.drive(2).await.unwrap(), ENDED);
    assert_eq!(frames(&process.storage.history()).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn model_reads_a_skill_once() {
    let asks = |id: &'static str, name: &str| calls_with([(id, USE_SKILL, json!({"name": name}))]);
    let scripts = vec![
        asks("c1", "greeting"),
        asks("c2", "tea"),
        asks("c3", "tea"),
        asks("c4", "coffee"),
        says("Done."),
    ];
    let process = process(scripts, &[GREETING, TEA]);
    assert_eq!(process.drive(1).await.unwrap(), ENDED);
    assert_eq!(process.storage.records().len(), 1, "only the text of tea is read");
    let history = process.storage.history();
    let results: Vec<&str> = history
        .iter()
        .flat_map(|entry| &entry.content)
        .filter_map(|block| match block {
            Block::ToolResult { content, .. } => Some(content.as_str()),
            _ => None,
        })
        .collect();
    assert!(results[0].contains("already") && results[2].contains("already"), "{results:?}");
    assert!(results[3].contains("there are: greeting, tea"), "{results:?}");
}
