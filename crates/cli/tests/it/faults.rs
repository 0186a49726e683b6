//! Promises that have enemies, and the enemies: nothing lost, nothing answered twice, the stream equal to the
//! thread.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::house::{House, PATIENCE};

/// Every prefix of a history must be one a provider accepts: each call answered in the next user turn.
fn assert_valid(history: &Value) {
    let mut open: Vec<String> = Vec::new();
    for entry in history["data"].as_array().unwrap() {
        for block in entry["content"].as_array().unwrap() {
            match block["type"].as_str().unwrap() {
                "tool_use" => open.push(block["id"].as_str().unwrap().to_owned()),
                "tool_result" => {
                    let id = block["tool_use_id"].as_str().unwrap();
                    let at = open.iter().position(|open| open == id).expect("a result nobody asked for");
                    open.remove(at);
                }
                _ => assert!(open.is_empty(), "a call was left without its result: {entry}"),
            }
        }
    }
    assert!(open.is_empty(), "calls without a result: {open:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_in_the_middle_of_a_tool_does_not_ring_twice() {
    let house = House::start();
    let goal = house.goal("bell").await;
    let mut doomed = house.worker();
    let message = house.post(&goal, "1", "/sim tool=ring_bell args={\"seconds\":40}").await;
    let deadline = Instant::now() + PATIENCE;
    while house.rings() == 0 {
        assert!(Instant::now() < deadline, "the bell was never rung: {}", doomed.log());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    doomed.kill().unwrap();
    let _rescuer = house.worker();
    assert_eq!(house.answered(&message).await["status"], "answered");
    assert_eq!(house.rings(), 1, "an effect is never repeated");
    let history = house.get(&format!("/v1/goals/{goal}/history?limit=100")).await;
    assert_valid(&history);
    assert!(history.to_string().contains("outcome unknown"), "the model is told: {history}");
    assert_eq!(house.said(&goal).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_in_the_middle_of_a_stream_leaves_one_whole_answer() {
    let house = House::start();
    let goal = house.goal("stream").await;
    let mut doomed = house.worker();
    let message = house.post(&goal, "1", "/sim chunks=150 delay_ms=20").await;
    let path = format!("/v1/goals/{goal}/events");
    let writing = tokio::sync::Notify::new();
    let watching = house.watch_with(&path, |event| {
        if event["type"] == "TEXT_MESSAGE_CONTENT" {
            writing.notify_one();
        }
    });
    let killing = async {
        // There are three seconds of writing to come.
        writing.notified().await;
        doomed.kill().unwrap();
        house.worker()
    };
    let (watched, _rescuer) = tokio::join!(watching, killing);
    assert_eq!(house.answered(&message).await["status"], "answered");
    let said = house.said(&goal).await;
    assert_eq!(said.len(), 1);
    let seen: Vec<&str> = watched.texts.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(seen, [said[0].as_str()], "what the client ends with is the thread");
    assert!(watched.types.iter().any(|kind| kind == "MESSAGES_SNAPSHOT"), "the partial text was taken back");
}

/// Posts to many goals while something bad happens; each message must be answered once.
async fn load(house: &House, goals: usize, rounds: usize, mut trouble: impl AsyncFnMut(usize)) {
    let mut names = Vec::new();
    for goal in 0..goals {
        names.push(house.goal(&format!("load {goal}")).await);
    }
    let mut posted = Vec::new();
    for round in 0..rounds {
        let posts = names.iter().enumerate().map(|(nth, goal)| {
            let key = format!("{round} {nth}");
            async move { house.post(goal, &key, &format!("/sim chunks=5 delay_ms=5 round {round}")).await }
        });
        posted.extend(futures_util::future::join_all(posts).await);
        trouble(round).await;
    }
    for message in &posted {
        assert_eq!(house.answered(message).await["status"], "answered", "{message}");
    }
    for goal in &names {
        let history = house.get(&format!("/v1/goals/{goal}/history?limit=100")).await;
        assert_valid(&history);
        // Messages that came together may share an answer; none gets two.
        let (said, asked) = (house.said(goal).await.len(), rounds);
        assert!((1..=asked).contains(&said), "{said} answers to {asked} messages");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_flushed_and_restarted_under_load_loses_nothing() {
    let house = House::start();
    let _workers = [house.worker(), house.worker()];
    let socket = house.servers.lock().unwrap().redis_url().replace("redis+unix://", "");
    load(&house, 20, 10, async |round| match round {
        2 | 5 => {
            let flushed = std::process::Command::new("redis-cli").args(["-s", &socket, "FLUSHALL"]).status();
            assert!(flushed.unwrap().success());
        }
        3 | 7 => tokio::task::block_in_place(|| house.servers.lock().unwrap().restart_redis().unwrap()),
        _ => tokio::time::sleep(Duration::from_millis(100)).await,
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_restarted_under_load_loses_nothing() {
    let house = House::start_with_own_postgres();
    let _workers = [house.worker(), house.worker()];
    load(&house, 10, 8, async |round| match round {
        2 | 5 => tokio::task::block_in_place(|| house.servers.lock().unwrap().restart_postgres().unwrap()),
        _ => tokio::time::sleep(Duration::from_millis(150)).await,
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_told_to_stop_hands_its_run_over() {
    let house = House::start();
    let goal = house.goal("drain").await;
    let mut leaving = house.worker();
    let message = house.post(&goal, "1", "/sim chunks=400 delay_ms=20").await;
    let run = format!("/v1/runs/{}", message["run_id"].as_str().unwrap());
    house.until(&run, "running", |run| run["status"] == "running").await;
    let _staying = house.worker();
    leaving.terminate().unwrap();
    assert!(leaving.wait(Duration::from_secs(25)).unwrap().success(), "{}", leaving.log());
    assert_eq!(house.answered(&message).await["status"], "answered");
    assert_eq!(house.said(&goal).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_reaches_a_tool_and_leaves_a_valid_history() {
    let house = House::start();
    let goal = house.goal("cancel").await;
    let _worker = house.worker();
    let message = house.post(&goal, "1", "/sim tool=ring_bell args={\"seconds\":50}").await;
    let deadline = Instant::now() + PATIENCE;
    while house.rings() == 0 {
        assert!(Instant::now() < deadline, "the bell was never rung");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let run = message["run_id"].as_str().unwrap();
    house.cancel(run).await;
    house.until(&format!("/v1/runs/{run}"), "cancelled", |run| run["status"] == "cancelled").await;
    assert_valid(&house.get(&format!("/v1/goals/{goal}/history?limit=100")).await);
    let next = house.post(&goal, "2", "hello").await;
    assert_eq!(house.answered(&next).await["status"], "answered");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_slept_through_its_lease_changes_nothing_and_begins_anew() {
    let house = House::start();
    let goal = house.goal("zombie").await;
    let short = [
        ("HOUSTON_ORCHESTRATOR__LEASE__TTL_S", "3"),
        ("HOUSTON_ORCHESTRATOR__LEASE__TRUST_S", "2"),
        ("HOUSTON_ORCHESTRATOR__LEASE__RENEW_S", "1"),
    ];
    let mut sleeper = house.worker_with(&short);
    let message = house.post(&goal, "1", "/sim chunks=100 delay_ms=20").await;
    let run = format!("/v1/runs/{}", message["run_id"].as_str().unwrap());
    house.until(&run, "running", |run| run["status"] == "running").await;
    sleeper.pause().unwrap();
    let _rescuer = house.worker_with(&short);
    assert_eq!(house.answered(&message).await["status"], "answered");
    sleeper.resume().unwrap();
    sleeper.wait_for_line(PATIENCE, |line| line.contains("beginning anew")).unwrap();
    let next = house.post(&goal, "2", "hello").await;
    assert_eq!(house.answered(&next).await["status"], "answered");
    assert_eq!(house.said(&goal).await.len(), 2);
    let history = house.get(&format!("/v1/goals/{goal}/history?limit=100")).await;
    assert_valid(&history);
    assert_eq!(history["data"].as_array().unwrap().len(), 6, "two questions, two messages, two results");
    assert_eq!(house.get(&run).await["attempt"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_key_fails_the_run_visibly_and_names_the_variable() {
    let house = House::start();
    let goal = house.goal("no key").await;
    let _worker =
        house.worker_with(&[("HOUSTON_MODEL", "anthropic/claude-sonnet-5-5"), ("ANTHROPIC_API_KEY", "")]);
    let message = house.post(&goal, "1", "hello").await;
    assert_eq!(house.answered(&message).await["status"], "failed");
    let run = house.get(&format!("/v1/runs/{}", message["run_id"].as_str().unwrap())).await;
    assert_eq!(run["status"], "failed", "{run}");
    let thread = house.get(&format!("/v1/goals/{goal}/messages")).await;
    let told = &thread["data"][0];
    assert_eq!(told["source"], "error");
    // The cause is for operators: it is in the run.
    assert_eq!(told["content"], "Failed permanently: This assistant cannot answer as it is set up now.");
    assert!(run["error"]["message"].as_str().unwrap().contains("ANTHROPIC_API_KEY"), "{run}");
    let watched = house.watch(&format!("/v1/goals/{goal}/events")).await;
    assert_eq!(watched.types.last().map(String::as_str), Some("RUN_ERROR"));
}

/// A step is committed with what its tools wrote. When that commit breaks, and what they write the second time is
/// something else, the history must not tell of the first time.
#[tokio::test(flavor = "multi_thread")]
async fn a_history_tells_of_what_was_written_however_often_the_commit_breaks() {
    let house = House::start();
    let goal = house.goal("doubt").await;
    // The first commit with a note breaks; the second try finds no room for it; the third one does.
    house.sql(
        "create sequence houston.tries;
         create function houston.no_room() returns trigger language plpgsql as
         $$ begin return case when nextval('houston.tries') <> 2 then new end; end $$;
         create trigger no_room before insert on houston.notes for each row execute function houston.no_room();
         create function houston.breaks() returns trigger language plpgsql as
         $$ begin
             if currval('houston.tries') = 1 then raise 'broken' using errcode = '40001'; end if;
             return null;
         end $$;
         create constraint trigger breaks after insert on houston.notes deferrable initially deferred
         for each row execute function houston.breaks();",
    );
    let _worker = house.worker();
    let message = house.post(&goal, "1", "Please create a note: buy milk").await;
    assert_eq!(house.answered(&message).await["status"], "answered");
    let history = house.get(&format!("/v1/goals/{goal}/history?limit=100")).await;
    assert_valid(&history);
    assert_eq!(house.sql("select last_value from houston.tries"), "3");
    assert_eq!(house.sql("select count(*) from houston.notes"), "1");
    assert_eq!(history.to_string().matches("Created note_").count(), 1, "{history}");
    assert_eq!(house.said(&goal).await.len(), 1);
}
