//! The recorded runs, by name.

use houston_domain::error_message::CONTENT_FILTER;
use houston_domain::event::Event;
use houston_domain::history::{Block, Entry};
use houston_domain::model::StopReason;
use houston_domain::overseer::Signal;
use houston_domain::run::RunStatus;
use houston_domain::trace::Trace;
use serde_json::json;

use crate::plans;
use crate::recorder::{Recorder, call};

pub(crate) fn all() -> Vec<(&'static str, Trace)> {
    let mut all = answers();
    all.extend(tools());
    all.extend(interrupted());
    all.extend(questions());
    all.extend(limits());
    all.extend(plans::all());
    all
}

fn started() -> Recorder {
    let mut run = Recorder::new();
    run.start("Find a hotel in Lisbon, please.");
    run
}

fn search(number: usize) -> (String, serde_json::Value, String) {
    let query = json!({"query": format!("hotel {number}")});
    (format!("call_{number}"), query, format!("Hotel {number}, Lisbon"))
}

fn answers() -> Vec<(&'static str, Trace)> {
    let mut plain = started();
    plain.says("Try the Hotel Lisboa.");
    let mut later = Recorder::new();
    later.before(Entry::user(vec![Block::text("Hello")]));
    later.before(Entry::assistant(vec![Block::text("Hello, how can I help?")]));
    later.start("Where were we?");
    later.says("You said hello.");
    let mut sent = started();
    sent.calls(vec![call("call_1", "send_message", json!({"content": "Try the Hotel Lisboa."}))]);
    sent.returns(&[Ok("sent")]);
    let mut two = started();
    two.says("Try the Hotel Lisboa.");
    two.message("Cheaper, please.");
    two.says("Try the Pensão Central.");
    let mut silent = Recorder::new();
    silent.header.expects_reply = false;
    silent.start("It is time for the check-in.");
    silent.answer_with(Vec::new(), StopReason::EndTurn);
    let mut declined = started();
    declined.answer_with(vec![Block::text("I cannot help with that.")], StopReason::Refusal);
    vec![
        ("plain_answer", plain.end()),
        ("answer_in_a_session", later.end()),
        ("sent_message", sent.end()),
        ("two_messages", two.end()),
        ("silent_end", silent.end()),
        ("declined", declined.end_as(RunStatus::Completed, Some(CONTENT_FILTER))),
    ]
}

fn tools() -> Vec<(&'static str, Trace)> {
    let mut one = started();
    one.turn("call_1", "search", json!({"query": "hotels Lisbon"}), "Hotel Lisboa, 90 EUR");
    one.says("The Hotel Lisboa costs 90 EUR.");
    let mut parallel = started();
    let calls = (1..=3).map(|number| call(&format!("call_{number}"), "search", json!({"page": number})));
    parallel.calls(calls.collect());
    parallel.returns(&[Ok("one"), Err("timed out"), Ok("three")]);
    parallel.says("I found two of three pages.");
    let mut failed = started();
    failed.calls(vec![
        call("call_1", "create_note", json!({"title": ""})),
        call("call_2", "send_message", json!({"content": "I noted it."})),
    ]);
    failed.returns(&[Err("`title` is empty"), Ok("sent")]);
    failed.turn("call_3", "create_note", json!({"title": "Lisbon"}), "saved");
    let mut repeated = started();
    for number in 1..=3 {
        repeated.turn(&format!("call_{number}"), "search", json!({}), "nothing");
    }
    repeated.says("I found nothing.");
    let mut messaged = started();
    messaged.turn("call_1", "search", json!({"query": "Lisbon"}), "Hotel Lisboa");
    messaged.message("Porto instead.");
    messaged.turn("call_2", "search", json!({"query": "Porto"}), "Hotel Porto");
    messaged.says("The Hotel Porto.");
    vec![
        ("one_tool", one.end()),
        ("parallel_tools", parallel.end()),
        ("failure_beside_a_message", failed.end()),
        ("repeats_warned", repeated.end()),
        ("message_between_turns", messaged.end()),
    ]
}

fn interrupted() -> Vec<(&'static str, Trace)> {
    let mut retried = started();
    let retry_at = chrono::DateTime::from_timestamp(1_790_000_030, 0).unwrap();
    let (code, message) = ("RATE_LIMITED".to_owned(), "too many requests".to_owned());
    retried.event(Event::RetryScheduled { attempt: 1, of: 3, retry_at, code, message, iteration: 1 });
    retried.later(30);
    retried.attempt(false, false);
    retried.says("Try the Hotel Lisboa.");
    let mut failed = started();
    failed.turn("call_1", "search", json!({}), "Hotel Lisboa");
    let mut crashed = started();
    crashed.calls(vec![call("call_1", "search", json!({})), call("call_2", "pay", json!({"amount": 90}))]);
    crashed.later(20);
    crashed.attempt(true, false);
    crashed.returns(&[Ok("Hotel Lisboa"), Err("outcome unknown")]);
    crashed.says("I do not know whether it is paid.");
    let mut between = started();
    between.turn("call_1", "search", json!({}), "Hotel Lisboa");
    between.later(20);
    between.attempt(true, false);
    between.says("The Hotel Lisboa.");
    let mut cancelled = started();
    cancelled.calls(vec![call("call_1", "search", json!({}))]);
    cancelled.returns(&[Err("cancelled while this call ran")]);
    vec![
        ("error_and_retry", retried.end()),
        ("failed", failed.end_as(RunStatus::Failed, Some("AUTHENTICATION_ERROR"))),
        ("crash_with_open_calls", crashed.end()),
        ("crash_between_turns", between.end()),
        ("cancelled", cancelled.end_as(RunStatus::Cancelled, Some("user"))),
        ("compression", compressed(false)),
        ("compression_and_crash", compressed(true)),
    ]
}

fn compressed(crashes: bool) -> Trace {
    let mut run = Recorder::new();
    for number in 0..6 {
        run.before(Entry::user(vec![Block::text(format!("Question {number}"))]));
        run.before(Entry::assistant(vec![Block::text(format!("Answer {number}"))]));
    }
    run.start("And now?");
    run.turn("call_1", "search", json!({}), "much text");
    run.compress("Six questions were answered.", 3);
    if crashes {
        run.later(15);
        run.attempt(true, false);
    }
    run.turn("call_2", "read", json!({}), "a page");
    run.says("That is all.");
    run.end()
}

fn questions() -> Vec<(&'static str, Trace)> {
    let mut approved = started();
    approved.calls(vec![call("call_1", "pay", json!({"amount": 90}))]);
    approved.asks("call_1", "May I pay 90 EUR?");
    approved.answered(json!({"decision": "approve"}), None);
    approved.returns(&[Ok("paid")]);
    approved.says("It is paid.");
    let mut paused = started();
    for number in 1..=4 {
        paused.turn(&format!("call_{number}"), "search", json!({}), "nothing");
    }
    paused.asks("houston:overseer:repeats:4", "Go on?");
    paused.answered(json!({"decision": "continue"}), Some((Signal::Repeats, 4)));
    for number in 5..=7 {
        paused.turn(&format!("call_{number}"), "search", json!({}), "nothing");
    }
    paused.says("There is nothing.");
    vec![("question_answered", approved.end()), ("pause_continued", paused.end())]
}

fn limits() -> Vec<(&'static str, Trace)> {
    let turns = |count: usize, change: fn(&mut Recorder)| {
        let mut run = Recorder::new();
        change(&mut run);
        run.start("Find all hotels in Lisbon.");
        for number in 1..=count {
            let (id, query, result) = search(number);
            let name = if number % 2 == 0 { "search" } else { "fetch_page" };
            run.turn(&id, name, query, &result);
        }
        run
    };
    let mut twenty = turns(19, |_| ());
    twenty.says("That was all.");
    let mut same = started();
    for number in 1..=5 {
        let (id, query, result) = search(number);
        same.turn(&id, "search", query, &result);
    }
    let mut almost = started();
    for number in 1..=4 {
        let (id, query, result) = search(number);
        almost.turn(&id, "search", query, &result);
    }
    almost.says("Four hotels.");
    let mut slow = turns(2, |_| ());
    slow.later(600);
    let mut cut = started();
    cut.answer_with(vec![Block::text("There are many hotels, such as")], StopReason::MaxTokens);
    vec![
        ("twenty_iterations", twenty.end()),
        ("max_iterations", turns(20, |_| ()).end()),
        ("same_tool", same.end()),
        ("five_of_one_tool_almost", almost.end()),
        ("max_duration", slow.end()),
        ("history_full", turns(3, |run| run.header.limits.max_history_entries = 7).end()),
        ("max_tokens", cut.end()),
    ]
}
