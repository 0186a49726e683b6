use houston_domain::event::{Live, Part};
use houston_domain::run::RunStatus;
use houston_queue::BegunRun;

use crate::http::{End, Frame, kinds};
use crate::test_api::{TestApi, make_tenant};
use crate::worker::Worker;

fn deltas(frames: &[Frame], kind: &str) -> String {
    frames
        .iter()
        .filter(|frame| frame.kind() == kind)
        .map(|frame| frame.data["delta"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn run_is_streamed_live_and_the_stream_ends_with_it() {
    let api = TestApi::start().await;
    let message = api.post_message("hello").await;
    let mut stream = api.stream_at(message["events_url"].as_str().unwrap(), None).await.unwrap();
    let header = |name: &str| stream.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    assert_eq!(stream.status, 200);
    assert_eq!(header("content-type").as_deref(), Some("text/event-stream"));
    assert_eq!(header("cache-control").as_deref(), Some("no-cache, no-transform"));
    assert_eq!(header("x-accel-buffering").as_deref(), Some("no"));
    assert_eq!(header("location"), Some(api.path("/events?after=0")));
    assert_eq!(header("content-length"), None);

    // Before a worker claims the run.
    let begun = stream.until("houston.message.posted").await;
    assert_eq!(kinds(&begun), ["RUN_STARTED", "houston.message.posted"]);
    assert_eq!((begun[0].retry_ms, begun[1].retry_ms), (Some(2000), None));
    assert_eq!(begun[0].data["threadId"], api.goal.as_str());
    assert_eq!(begun[0].data["runId"], message["run_id"]);
    assert_eq!(begun[1].data["value"]["message"]["content"], "hello");

    let worker = Worker::start(&api).await;
    let mut run = worker.claim().await;
    run.use_tool("hm").await;
    stream.until("TOOL_CALL_RESULT").await;
    stream.until("STEP_STARTED").await;
    run.write(Part::Reasoning, 0, 0, "Let me ");
    run.write(Part::Reasoning, 0, 7, "see.");
    run.write(Part::Message, 11, 0, "Grüß");
    let live = stream.until("TEXT_MESSAGE_CONTENT").await;
    assert_eq!(deltas(&live, "REASONING_MESSAGE_CONTENT"), "Let me see.");
    let id = run.message.to_string();
    run.answer("Grüße!").await;
    let (rest, end) = stream.rest().await;
    assert_eq!(deltas(&live, "TEXT_MESSAGE_CONTENT") + &deltas(&rest, "TEXT_MESSAGE_CONTENT"), "Grüße!");
    assert_eq!(kinds(&rest), ["TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "STEP_FINISHED", "RUN_FINISHED"]);
    assert_eq!(rest[0].data["messageId"], id);
    assert_eq!(end, End::Clean);
    assert_eq!(rest[3].data["outcome"]["type"], "success");
    assert_eq!(rest[3].data["result"]["status"], "message_sent");
    assert_eq!(rest[3].data["usage"][0]["totalTokens"], 15);
    assert_eq!(rest[3].data["result"]["cost"], "0.0015");
}

#[tokio::test]
async fn stream_of_a_run_that_began_here_needs_no_postgres() {
    let api = TestApi::start().await;
    api.post_message("hello").await;
    let store = api.store.tenant(api.tenant);
    let (head, mut events) = store.open_stream("goal", api.agentable(), None, 10).await.unwrap();
    let (run, first_seq) = head.run.unwrap();
    // What Postgres does not say, to tell where it comes from.
    events[1].body.as_mut().unwrap().content = "from memory".into();
    let begin = |of: &BegunRun| {
        api.state.bus.keep(api.agentable(), of.clone());
        api.publish(Live::Committed(events.clone()));
    };
    let of = BegunRun { tenant: api.tenant, kind: "goal".into(), run, first_seq };
    let posted = async || {
        let frames = api.stream("", None).await.until("houston.message.posted").await;
        assert_eq!(kinds(&frames), ["RUN_STARTED", "houston.message.posted"]);
        frames[1].data["value"]["message"]["content"].as_str().unwrap().to_owned()
    };

    // Again on a machine that is so busy that the stream opens late.
    let mut tries = 0..20;
    while {
        begin(&of);
        posted().await != "from memory"
    } {
        tries.next().expect("the stream reads Postgres");
    }
    let mut tries = 0..20;
    while {
        begin(&of);
        let resumed = api.stream("?after=1", None).await.until("houston.message.posted").await;
        resumed.last().unwrap().data["value"]["message"]["content"] != "from memory"
    } {
        tries.next().expect("the stream reads Postgres");
    }
    api.state.bus.forget(api.agentable());
    assert_eq!(posted().await, "hello");
    // Of another tenant, or of another kind.
    let stranger = make_tenant(&api.store, &api.state.ids, "other", "a-key-of-another-tenant").await;
    for of in [BegunRun { tenant: stranger, ..of.clone() }, BegunRun { kind: "task".into(), ..of }] {
        begin(&of);
        assert_eq!(posted().await, "hello");
    }
}

#[tokio::test]
async fn events_lost_by_the_bus_are_read_from_postgres() {
    let api = TestApi::start().await;
    let mut stream = api.stream("", None).await;
    api.post_message("hello").await;
    let worker = Worker::start(&api).await;
    let mut run = worker.claim().await;
    run.publishes = false;
    run.use_tool("hm").await;
    // Nothing was published: the poll finds the events.
    stream.until("TOOL_CALL_RESULT").await;
    // The next published event leaves a gap, which is filled first.
    run.publishes = true;
    run.answer("done").await;
    let (rest, end) = stream.rest().await;
    assert_eq!(deltas(&rest, "TEXT_MESSAGE_CONTENT"), "done");
    assert_eq!(end, End::Clean);
}

#[tokio::test]
async fn late_client_gets_the_text_written_so_far() {
    let api = TestApi::start().await;
    api.post_message("hello").await;
    let worker = Worker::start(&api).await;
    let run = worker.claim().await;
    let mut control = api.state.bus.subscribe_control();
    let mut stream = api.stream("", None).await;
    stream.until("STEP_STARTED").await;
    let houston_queue::Received::Item(asked) = control.recv().await else { panic!("lagged") };
    assert_eq!((asked.agentable, &asked.live), (api.agentable(), &Live::TranscriptWanted));
    run.write(Part::Message, 0, 0, "so far");
    run.write(Part::Message, 0, 6, ", so good");
    let first = stream.until("TEXT_MESSAGE_CONTENT").await;
    // The client reconnects; the rest was published in between.
    let last = first.last().unwrap().id.clone();
    drop(stream);
    let mut stream = api.stream("", Some(&last)).await;
    run.answer("so far, so good!").await;
    let (rest, end) = stream.rest().await;
    let text = deltas(&first, "TEXT_MESSAGE_CONTENT") + &deltas(&rest, "TEXT_MESSAGE_CONTENT");
    assert_eq!((text.as_str(), end), ("so far, so good!", End::Clean));
    assert!(!kinds(&rest).contains(&"TEXT_MESSAGE_START"));
}

#[tokio::test]
async fn text_of_a_broken_attempt_is_removed_by_a_snapshot() {
    let api = TestApi::start().await;
    api.post_message("hello").await;
    let worker = Worker::start(&api).await;
    let run = worker.claim().await;
    let mut stream = api.stream("", None).await;
    stream.until("STEP_STARTED").await;
    run.write(Part::Message, 0, 0, "I think");
    stream.until("TEXT_MESSAGE_CONTENT").await;
    run.hand_over().await;
    let broken = stream.until("houston.run.handed_over").await;
    assert_eq!(
        kinds(&broken),
        ["TEXT_MESSAGE_END", "MESSAGES_SNAPSHOT", "STEP_FINISHED", "houston.run.handed_over"]
    );
    let messages = broken[1].data["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 1, "without the broken answer");
    assert_eq!((&messages[0]["role"], &messages[0]["content"]), (&"user".into(), &"hello".into()));
    worker.claim().await.answer("Hi!").await;
    let (rest, end) = stream.rest().await;
    assert_eq!((deltas(&rest, "TEXT_MESSAGE_CONTENT").as_str(), end), ("Hi!", End::Clean));
    assert_eq!(rest.last().unwrap().kind(), "RUN_FINISHED");
}

#[tokio::test]
async fn stream_without_a_run_waits_and_follow_outlives_runs() {
    let api = TestApi::start().await;
    let mut once = api.stream("", None).await;
    let mut follower = api.stream("?follow=true", None).await;
    let location = follower.headers.get("location").unwrap().to_str().unwrap();
    assert_eq!(location, api.path("/events?after=0&follow=true"));
    let worker = Worker::start(&api).await;
    for (number, status) in [(1, RunStatus::Cancelled), (2, RunStatus::Failed)] {
        api.post_message("hello").await;
        worker.claim().await.end(status, None).await;
        let run = follower.until(if number == 1 { "RUN_FINISHED" } else { "RUN_ERROR" }).await;
        assert_eq!(run[0].kind(), "RUN_STARTED");
        if number == 1 {
            assert_eq!(run.last().unwrap().data["outcome"]["type"], "cancelled");
            assert_eq!(once.rest().await.1, End::Clean);
        } else {
            assert_eq!(run.last().unwrap().data["code"], "failed");
        }
    }
    assert_eq!(api.stream("?follow=true", Some("9999")).await.status, 200);
}

#[tokio::test]
async fn silent_stream_sends_heartbeats() {
    let api = TestApi::start_with(|config| config.heartbeat_ms = 1_000).await;
    let mut stream = api.stream("", None).await;
    for _ in 0..2 {
        assert_eq!(stream.chunk().await.unwrap(), ":\n".as_bytes());
    }
    api.post_message("hello").await;
    stream.until("houston.message.posted").await;
    assert_eq!(stream.chunk().await.unwrap(), ":\n".as_bytes());
}

#[tokio::test]
async fn lagging_client_is_aborted_and_can_resume() {
    let api = TestApi::start().await;
    api.post_message("hello").await;
    let worker = Worker::start(&api).await;
    let run = worker.claim().await;
    let mut stream = api.stream("", None).await;
    let mut frames = stream.until("STEP_STARTED").await;
    // All at once, before the server's task runs: more items than the subscription holds.
    for number in 0..300 {
        run.write(Part::Message, 0, number, "x");
    }
    let (seen, end) = stream.rest().await;
    assert_eq!(end, End::Aborted);
    frames.extend(seen);
    let mut stream = api.stream("", Some(&frames.last().unwrap().id)).await;
    run.answer(&"x".repeat(300)).await;
    let (rest, end) = stream.rest().await;
    frames.extend(rest);
    assert_eq!((deltas(&frames, "TEXT_MESSAGE_CONTENT"), end), ("x".repeat(300), End::Clean));
}
