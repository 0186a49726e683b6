use std::collections::{BTreeMap, HashSet};

use houston_domain::event::Part;
use houston_domain::run::RunStatus;
use serde_json::json;

use crate::http::{End, Frame, kinds};
use crate::questions::question;
use crate::test_api::TestApi;
use crate::worker::Worker;

/// Two runs: one that uses a tool, is handed over and answers, and one that fails.
async fn two_runs(api: &TestApi) {
    let worker = Worker::start(api).await;
    api.post_message("first").await;
    let mut run = worker.claim().await;
    run.use_tool("hm").await;
    api.post_message("in between").await;
    run.hand_over().await;
    let mut run = worker.claim().await;
    run.use_tool("hm, hm").await;
    run.answer("Grüße!").await;
    // The message in between was read by the first run; this one opens the second.
    api.post_message("second").await;
    worker.claim().await.end(RunStatus::Failed, Some(("TIMEOUT", "too slow"))).await;
}

#[tokio::test]
async fn finished_run_is_replayed_from_every_position() {
    let api = TestApi::start().await;
    two_runs(&api).await;
    let (all, end) = api.stream("?after=0", None).await.rest().await;
    assert_eq!(end, End::Clean);
    assert_eq!(kinds(&all).iter().filter(|kind| **kind == "RUN_STARTED").count(), 2);
    let error = all.last().unwrap();
    assert_eq!(
        (
            error.kind(),
            &error.data["code"],
            &error.data["metadata"]["houston"]["cause"],
            &error.data["message"]
        ),
        ("RUN_ERROR", &"TIMEOUT".into(), &"too slow".into(), &"The AI model could not be reached.".into())
    );

    let plain = |frames: &[Frame]| frames.iter().map(|f| (f.id.clone(), f.data.clone())).collect::<Vec<_>>();
    for (number, frame) in all.iter().enumerate().take(all.len() - 1) {
        let (by_header, end) = api.stream("", Some(&frame.id)).await.rest().await;
        assert_eq!((plain(&by_header), &end), (plain(&all[number + 1..]), &End::Clean), "after {}", frame.id);
        assert_eq!(by_header[0].retry_ms, Some(2000));
    }
    let middle = &all[all.len() / 2];
    let (by_query, _) = api.stream(&format!("?after={}", middle.id), None).await.rest().await;
    assert_eq!(plain(&by_query), plain(&all[all.len() / 2 + 1..]));
    // The header is newer than the URL.
    let (by_both, _) = api.stream("?after=0", Some(&middle.id)).await.rest().await;
    assert_eq!(plain(&by_both), plain(&by_query));

    // Without a position: the latest run.
    let (latest, _) = api.stream("", None).await.rest().await;
    let begin = kinds(&all).iter().rposition(|kind| *kind == "RUN_STARTED").unwrap();
    assert_eq!(plain(&latest), plain(&all[begin..]));
}

/// The texts a client has after `frames`, and whether each message started only once.
fn texts_of(frames: &[Frame]) -> (BTreeMap<String, String>, bool) {
    let (mut texts, mut started) = (BTreeMap::<String, String>::new(), true);
    let mut seen = HashSet::new();
    for frame in frames {
        let id = || frame.data["messageId"].as_str().unwrap().to_owned();
        match frame.kind() {
            "TEXT_MESSAGE_START" => {
                started &= seen.insert(id());
                texts.insert(id(), String::new());
            }
            "TEXT_MESSAGE_CONTENT" => {
                texts.get_mut(&id()).unwrap().push_str(frame.data["delta"].as_str().unwrap())
            }
            "MESSAGES_SNAPSHOT" => {
                let remaining = frame.data["messages"].as_array().unwrap();
                texts.retain(|id, _| remaining.iter().any(|message| message["id"] == id.as_str()));
            }
            _ => {}
        }
    }
    (texts, started)
}

#[tokio::test]
async fn live_stream_resumes_from_every_position_within_a_text() {
    let api = TestApi::start().await;
    api.post_message("hello").await;
    let worker = Worker::start(&api).await;
    let run = worker.claim().await;
    let mut stream = api.stream("", None).await;
    let mut recorded = stream.until("STEP_STARTED").await;
    for (part, reasoning, text) in [(Part::Reasoning, 0, "Hm…"), (Part::Message, 3, "Well, I")] {
        for (offset, character) in (0..).zip(text.chars()) {
            run.write(part, reasoning, offset, &character.to_string());
        }
    }
    recorded.extend(stream.until("TEXT_MESSAGE_START").await);
    run.hand_over().await;
    recorded.extend(stream.until("houston.run.handed_over").await);
    let run = worker.claim().await;
    run.write(Part::Message, 0, 0, "Grü");
    recorded.extend(stream.until("TEXT_MESSAGE_CONTENT").await);
    run.answer("Grüße!").await;
    recorded.extend(stream.rest().await.0);

    let whole = texts_of(&recorded);
    assert!(whole.0.values().eq(["Grüße!"]) && whole.1, "{whole:?}");
    let ids: Vec<&str> = recorded.iter().map(|frame| frame.id.as_str()).collect();
    for kind in ["3:r2", "3:d", "3:0", "3:4", "3:7f1", "3:7f2", "5:3"] {
        assert!(ids.contains(&kind), "{kind} is among {ids:?}");
    }
    for (number, id) in ids.iter().enumerate().take(ids.len() - 1) {
        let (rest, end) = api.stream("", Some(id)).await.rest().await;
        let joined: Vec<Frame> = recorded[..=number].iter().cloned().chain(rest).collect();
        assert_eq!((texts_of(&joined), end), (whole.clone(), End::Clean), "after {id}");
    }
}

/// The events of a stream that texts do not consist of.
fn facts(frames: &[Frame]) -> Vec<&str> {
    kinds(frames).into_iter().filter(|kind| kind.starts_with("houston.")).collect()
}

#[tokio::test]
async fn stream_resumed_at_a_waiting_run_continues_when_it_wakes() {
    let api = TestApi::start().await;
    api.post_message("Delete all notes").await;
    let worker = Worker::start(&api).await;
    let run = worker.claim().await;
    let mut stream = api.stream("", None).await;
    let mut recorded = stream.until("STEP_STARTED").await;
    // A text that the run does not commit: clients take it back when the next attempt begins.
    run.write(Part::Message, 0, 0, "Let me");
    recorded.extend(stream.until("TEXT_MESSAGE_CONTENT").await);
    let asked = question(&api);
    let answer = format!("/v1/questions/{}/answer", asked.id);
    run.ask(asked).await;
    recorded.extend(stream.until("houston.run.waiting").await);
    let waiting = recorded.last().unwrap().id.clone();
    drop(stream);

    let by_header = api.stream("", Some(&waiting)).await;
    let by_query = api.stream(&format!("?after={waiting}"), None).await;
    let mut resumed = [(by_header, Vec::new()), (by_query, Vec::new())];
    api.post(&answer, json!({"answer": {"yes": true}})).await.ok();
    let run = worker.claim().await;
    for (stream, frames) in &mut resumed {
        frames.extend(stream.until("houston.attempt.started").await);
    }
    run.write(Part::Message, 0, 0, "Don");
    for (stream, frames) in &mut resumed {
        frames.extend(stream.until("TEXT_MESSAGE_CONTENT").await);
        assert_eq!(frames.last().unwrap().data["delta"], "Don", "while the run writes");
    }
    run.answer("Done.").await;
    for (mut stream, mut frames) in resumed {
        let (rest, end) = stream.rest().await;
        frames.extend(rest);
        assert_eq!((frames[0].kind(), end), ("houston.question.closed", End::Clean));
        let texts = texts_of(&[recorded.clone(), frames.clone()].concat());
        assert!(texts.0.values().eq(["Done."]) && texts.1, "{texts:?}");
        let received = [recorded.clone(), frames].concat();
        let (all, _) = api.stream("", None).await.rest().await;
        assert_eq!(facts(&received), facts(&all), "none is missing, none is sent twice");
        let (again, end) = api.stream("", Some(&waiting)).await.rest().await;
        assert_eq!((again[0].kind(), end), ("houston.question.closed", End::Clean), "after the end as well");
    }
}

#[tokio::test]
async fn no_newer_events_is_204() {
    let api = TestApi::start().await;
    two_runs(&api).await;
    let (all, _) = api.stream("?after=0", None).await.rest().await;
    let last = &all.last().unwrap().id;
    for query in [format!("?after={last}"), "?after=99999".into()] {
        assert_eq!(api.get(&api.path(&format!("/events{query}"))).await.status, 204, "{query}");
    }
    api.post_message("third").await;
    let mut stream = api.stream("", Some(last)).await;
    assert_eq!(
        kinds(&stream.until("houston.message.posted").await),
        ["RUN_STARTED", "houston.message.posted"]
    );
}

#[tokio::test]
async fn long_log_is_read_page_by_page() {
    let api = TestApi::start().await;
    let mut posted_into = String::new();
    for number in 0..600 {
        let message = api.post_message(&format!("message {number}")).await;
        message["run_id"].as_str().unwrap().clone_into(&mut posted_into);
    }
    let worker = Worker::start(&api).await;
    let run = worker.claim().await;
    let mut stream = api.stream("?after=0", None).await;
    stream.until("STEP_STARTED").await;
    // The cancel takes along unread messages, so nothing is left for a next run.
    assert_eq!(api.post(&format!("/v1/runs/{posted_into}/cancel"), json!({})).await.status, 202);
    run.end(RunStatus::Cancelled, None).await;
    let (rest, end) = stream.rest().await;
    assert_eq!((rest.last().unwrap().kind(), end), ("RUN_FINISHED", End::Clean));
    let (all, _) = api.stream("?after=0", None).await.rest().await;
    let posted: Vec<_> = all
        .iter()
        .filter(|frame| frame.kind() == "houston.message.posted")
        .map(|frame| frame.data["value"]["message"]["content"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(posted, (0..600).map(|number| format!("message {number}")).collect::<Vec<_>>());
}
