//! Guarantees under faults: no message is lost or answered twice, and the stream equals the thread.

use std::time::{Duration, Instant};

use houston_testkit::model_server::script::in_turn;
use houston_testkit::model_server::{Gate, ModelServer, Reply};
use houston_testkit::process::Signal;
use serde_json::{Value, json};

use crate::test_houston::{PATIENCE, TestHouston};

/// Checks that a provider accepts every prefix of a history: each call has its result in the next user turn.
fn assert_valid(history: &Value) {
    let mut open: Vec<String> = Vec::new();
    for entry in history["data"].as_array().unwrap() {
        for block in entry["content"].as_array().unwrap() {
            match block["type"].as_str().unwrap() {
                "tool_use" => open.push(block["id"].as_str().unwrap().to_owned()),
                "tool_result" => {
                    let id = block["tool_use_id"].as_str().unwrap();
                    let at = open.iter().position(|open| open == id).expect("a result without a call");
                    open.remove(at);
                }
                _ => assert!(open.is_empty(), "a call was left without its result: {entry}"),
            }
        }
    }
    assert!(open.is_empty(), "calls without a result: {open:?}");
}

/// An answer of six pieces.
pub(crate) fn answer() -> Reply {
    Reply::tool("send_message", json!({"content": "Hello, dear reader!"})).in_pieces(6)
}

/// A model whose first answer stops in the middle until `gate` opens. Later ones are whole at once.
pub(crate) async fn model_held_by(gate: &Gate) -> ModelServer {
    ModelServer::start(in_turn([answer().held_after(4, gate), answer()])).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_killed_during_a_tool_does_not_repeat_it() {
    let houston = TestHouston::start();
    let goal = houston.goal("bell").await;
    let mut victim = houston.worker();
    let message = houston.post(&goal, "1", "/sim tool=ring_bell args={\"seconds\":40}").await;
    let deadline = Instant::now() + PATIENCE;
    while houston.rings() == 0 {
        assert!(Instant::now() < deadline, "ring_bell was never called: {}", victim.log());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    victim.kill().unwrap();
    let _successor = houston.worker();
    assert_eq!(houston.wait_until_answered(&message).await["status"], "answered");
    assert_eq!(houston.rings(), 1, "an effect is never repeated");
    let history = houston.get(&format!("/v1/goals/{goal}/history?limit=100")).await;
    assert_valid(&history);
    assert!(history.to_string().contains("outcome unknown"), "the model reads it: {history}");
    assert_eq!(houston.agent_texts(&goal).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_killed_during_a_stream_leaves_one_answer() {
    let houston = TestHouston::start();
    let goal = houston.goal("stream").await;
    let model = model_held_by(&Gate::new()).await;
    let mut victim = houston.worker_of(&model);
    let message = houston.post(&goal, "1", "hello").await;
    let path = format!("/v1/goals/{goal}/events");
    let writing = tokio::sync::Notify::new();
    let watching = houston.watch_with(&path, |event| {
        if event["type"] == "TEXT_MESSAGE_CONTENT" {
            writing.notify_one();
        }
    });
    let killing = async {
        writing.notified().await;
        victim.kill().unwrap();
        houston.worker_of(&model)
    };
    let (received, _successor) = tokio::join!(watching, killing);
    assert_eq!(houston.wait_until_answered(&message).await["status"], "answered");
    let said = houston.agent_texts(&goal).await;
    assert_eq!(said.len(), 1);
    let seen: Vec<&str> = received.texts.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(seen, [said[0].as_str()], "what the client ends with is the thread");
    assert!(received.types.iter().any(|kind| kind == "MESSAGES_SNAPSHOT"), "the partial text was taken back");
}

/// Posts to many goals while `trouble` injects faults; each message must be answered once.
async fn load(houston: &TestHouston, goals: usize, rounds: usize, mut trouble: impl AsyncFnMut(usize)) {
    let mut names = Vec::new();
    for goal in 0..goals {
        names.push(houston.goal(&format!("load {goal}")).await);
    }
    let mut posted = Vec::new();
    for round in 0..rounds {
        let posts = names.iter().enumerate().map(|(nth, goal)| {
            let key = format!("{round} {nth}");
            async move { houston.post(goal, &key, &format!("/sim chunks=5 delay_ms=5 round {round}")).await }
        });
        posted.extend(futures_util::future::join_all(posts).await);
        trouble(round).await;
    }
    for message in &posted {
        assert_eq!(houston.wait_until_answered(message).await["status"], "answered", "{message}");
    }
    for goal in &names {
        let history = houston.get(&format!("/v1/goals/{goal}/history?limit=100")).await;
        assert_valid(&history);
        // Messages read by one run share an answer; no message gets two.
        let (said, asked) = (houston.agent_texts(goal).await.len(), rounds);
        assert!((1..=asked).contains(&said), "{said} answers to {asked} messages");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_flushed_and_restarted_under_load_loses_nothing() {
    let houston = TestHouston::start();
    let _workers = [houston.worker(), houston.worker()];
    let socket = houston.servers.lock().unwrap().redis_url().replace("redis+unix://", "");
    load(&houston, 20, 10, async |round| match round {
        2 | 5 => {
            let flushed = std::process::Command::new("redis-cli").args(["-s", &socket, "FLUSHALL"]).status();
            assert!(flushed.unwrap().success());
        }
        3 | 7 => tokio::task::block_in_place(|| houston.servers.lock().unwrap().restart_redis().unwrap()),
        _ => tokio::time::sleep(Duration::from_millis(100)).await,
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_restarted_under_load_loses_nothing() {
    let houston = TestHouston::own_postgres_with(&[]);
    let _workers = [houston.worker(), houston.worker()];
    load(&houston, 10, 8, async |round| match round {
        2 | 5 => tokio::task::block_in_place(|| houston.servers.lock().unwrap().restart_postgres().unwrap()),
        _ => tokio::time::sleep(Duration::from_millis(150)).await,
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_worker_hands_its_run_over() {
    let houston = TestHouston::start();
    let goal = houston.goal("drain").await;
    let model = model_held_by(&Gate::new()).await;
    let mut leaving = houston.worker_of(&model);
    let message = houston.post(&goal, "1", "hello").await;
    assert!(model.journal().wait_until(PATIENCE, |journal| journal.calls() == 1).await);
    let _staying = houston.worker_of(&model);
    leaving.terminate().unwrap();
    assert!(leaving.wait(PATIENCE).unwrap().success(), "{}", leaving.log());
    assert_eq!(houston.wait_until_answered(&message).await["status"], "answered");
    assert_eq!(houston.agent_texts(&goal).await.len(), 1);
    assert_eq!(model.journal().calls(), 2, "the other worker asked again");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_reaches_a_tool_and_leaves_a_valid_history() {
    let houston = TestHouston::start();
    let goal = houston.goal("cancel").await;
    let _worker = houston.worker();
    let message = houston.post(&goal, "1", "/sim tool=ring_bell args={\"seconds\":50}").await;
    let deadline = Instant::now() + PATIENCE;
    while houston.rings() == 0 {
        assert!(Instant::now() < deadline, "ring_bell was never called");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let run = message["run_id"].as_str().unwrap();
    houston.cancel(run).await;
    houston.wait_until(&format!("/v1/runs/{run}"), "cancelled", |run| run["status"] == "cancelled").await;
    assert_valid(&houston.get(&format!("/v1/goals/{goal}/history?limit=100")).await);
    let next = houston.post(&goal, "2", "hello").await;
    assert_eq!(houston.wait_until_answered(&next).await["status"], "answered");
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_without_lease_writes_nothing_and_restarts() {
    let houston = TestHouston::start();
    let goal = houston.goal("zombie").await;
    let gate = Gate::new();
    let model = model_held_by(&gate).await;
    let mut sleeper = houston.worker_with(&[
        ("HOUSTON_MODEL", "local/scripted"),
        ("HOUSTON_LOCAL_URL", &model.url()),
        ("HOUSTON_ORCHESTRATOR__LEASE__TTL_S", "10"),
        ("HOUSTON_ORCHESTRATOR__LEASE__TRUST_S", "8"),
        ("HOUSTON_ORCHESTRATOR__LEASE__RENEW_S", "1"),
    ]);
    let message = houston.post(&goal, "1", "hello").await;
    let run = format!("/v1/runs/{}", message["run_id"].as_str().unwrap());
    assert!(model.journal().wait_until(PATIENCE, |journal| journal.calls() == 1).await);
    sleeper.signal(Signal::STOP).unwrap();
    let _successor = houston.worker_of(&model);
    assert_eq!(houston.wait_until_answered(&message).await["status"], "answered");
    // The sleeper gets the rest of its answer, too.
    gate.open();
    sleeper.signal(Signal::CONT).unwrap();
    sleeper.wait_for_line(PATIENCE, |line| line.contains("continuing under a new id")).unwrap();
    let next = houston.post(&goal, "2", "hello").await;
    assert_eq!(houston.wait_until_answered(&next).await["status"], "answered");
    assert_eq!(houston.agent_texts(&goal).await.len(), 2);
    let history = houston.get(&format!("/v1/goals/{goal}/history?limit=100")).await;
    assert_valid(&history);
    assert_eq!(history["data"].as_array().unwrap().len(), 6, "two questions, two messages, two results");
    assert_eq!(houston.get(&run).await["attempt"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_key_fails_the_run_and_names_the_variable() {
    let houston = TestHouston::start();
    let goal = houston.goal("no key").await;
    let _worker =
        houston.worker_with(&[("HOUSTON_MODEL", "anthropic/claude-sonnet-5-5"), ("ANTHROPIC_API_KEY", "")]);
    let message = houston.post(&goal, "1", "hello").await;
    assert_eq!(houston.wait_until_answered(&message).await["status"], "failed");
    let run = houston.get(&format!("/v1/runs/{}", message["run_id"].as_str().unwrap())).await;
    assert_eq!(run["status"], "failed", "{run}");
    let thread = houston.get(&format!("/v1/goals/{goal}/messages")).await;
    let message = &thread["data"][0];
    assert_eq!(message["source"], "error");
    // The cause is for operators: only the run has it.
    assert_eq!(message["content"], "Failed permanently: This assistant cannot answer as it is set up now.");
    assert!(run["error"]["message"].as_str().unwrap().contains("ANTHROPIC_API_KEY"), "{run}");
    let received = houston.watch(&format!("/v1/goals/{goal}/events")).await;
    assert_eq!(received.types.last().map(String::as_str), Some("RUN_ERROR"));
}

/// A step is committed together with what its tools wrote. When the commit fails and the second attempt writes
/// something else, the history must contain only the second result.
#[tokio::test(flavor = "multi_thread")]
async fn history_matches_what_was_written_after_failed_commits() {
    let houston = TestHouston::start();
    let goal = houston.goal("doubt").await;
    // The first commit with a note fails, the second attempt hits the limit on notes, the third one succeeds.
    houston.sql(
        "create sequence houston.tries;
         create function houston.no_room() returns trigger language plpgsql as
         $$ begin return case when nextval('houston.tries') <> 2 then new end; end $$;
         create trigger no_room before insert on houston.knowledge_items for each row execute function houston.no_room();
         create function houston.breaks() returns trigger language plpgsql as
         $$ begin
             if currval('houston.tries') = 1 then raise 'broken' using errcode = '40001'; end if;
             return null;
         end $$;
         create constraint trigger breaks after insert on houston.knowledge_items deferrable initially deferred
         for each row execute function houston.breaks();",
    );
    let _worker = houston.worker();
    let message = houston.post(&goal, "1", "Please create a note: buy milk").await;
    assert_eq!(houston.wait_until_answered(&message).await["status"], "answered");
    let history = houston.get(&format!("/v1/goals/{goal}/history?limit=100")).await;
    assert_valid(&history);
    assert_eq!(houston.sql_of(&goal, "select last_value from houston.tries"), "3");
    assert_eq!(houston.sql("select count(*) from houston.knowledge_items"), "1");
    assert_eq!(history.to_string().matches("Created note_").count(), 1, "{history}");
    assert_eq!(houston.agent_texts(&goal).await.len(), 1);
}
