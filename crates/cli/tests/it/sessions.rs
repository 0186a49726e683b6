//! Sessions of a conversation that is paused and continued: closed, summarised, listed in the prompt and found by
//! search, despite failures. Real processes, a scripted model.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use houston_testkit::model_server::{Call, Gate, ModelServer, Reply};
use houston_testkit::process::Process;
use serde_json::{Value, json};

use crate::test_houston::{PATIENCE, TestHouston};

/// The beginning of the system prompt for summaries.
const SUMMARISER: &str = "You write the summary";

/// The recorded calls of the model, in order.
pub(crate) type Asked = std::sync::Arc<Mutex<Vec<RecordedCall>>>;

#[derive(Debug, Clone)]
pub(crate) struct RecordedCall {
    pub(crate) system: String,
    pub(crate) tools: Vec<String>,
    pub(crate) texts: Vec<String>,
}

fn is_summary(call: &Call) -> bool {
    call.system().contains(SUMMARISER)
}

pub(crate) fn says(text: &str) -> Reply {
    Reply::tool("send_message", json!({"content": text})).usage(100, 10)
}

/// A model that answers `Re: ` and the message, or searches when asked to; `summary` makes its summaries.
pub(crate) async fn model(summary: impl Fn(&Call) -> Reply + Send + Sync + 'static) -> (ModelServer, Asked) {
    let asked = Asked::default();
    let heard = std::sync::Arc::clone(&asked);
    let server = ModelServer::start(move |call: &Call| {
        if is_summary(call) {
            return summary(call);
        }
        let seen = RecordedCall { system: call.system(), tools: call.tools(), texts: call.user_texts() };
        heard.lock().unwrap().push(seen);
        if let Some(result) = call.tool_results().first() {
            return says(&format!("I found: {}", result.content));
        }
        match call.last_user_text().strip_prefix("search: ") {
            Some(query) => {
                Reply::tool("search_agent_history", json!({"query": query, "timeframe": "last_month"}))
            }
            None => says(&format!("Re: {}", call.last_user_text())),
        }
    });
    (server.await.unwrap(), asked)
}

/// Starts a worker with the model `server` that looks for sessions to close ten times a second.
pub(crate) fn worker(houston: &TestHouston, server: &ModelServer, more: &[(&str, &str)]) -> Process {
    let url = server.url();
    let mut variables = vec![
        ("HOUSTON_MODEL", "openai/scripted"),
        ("OPENAI_BASE_URL", url.as_str()),
        ("OPENAI_API_KEY", "sk-test"),
        ("HOUSTON_ORCHESTRATOR__RETRY__IMMEDIATE__ATTEMPTS", "0"),
        ("HOUSTON_SESSION_ARCHIVE__EVERY_MS", "100"),
    ];
    variables.extend(more);
    houston.worker_with(&variables)
}

/// Moves all timestamps an hour into the past.
pub(crate) fn age_by_an_hour(houston: &TestHouston) {
    houston.sql(
        "update houston.history set created_at = created_at - interval '1 hour';
         update houston.session_states set look_at = look_at - interval '1 hour'",
    );
}

pub(crate) async fn exchange(houston: &TestHouston, goal: &str, text: &str) -> Value {
    let message = houston.post(goal, &format!("{goal} {text}"), text).await;
    let answered = houston.wait_until_answered(&message).await;
    assert_eq!(answered["status"], "answered", "{answered}");
    message
}

/// Waits until there are `count` closed sessions and all have summaries; returns them, newest first.
pub(crate) async fn wait_for_summaries(houston: &TestHouston, goal: &str, count: usize) -> Vec<Value> {
    let is_it = |found: &Value| {
        let data = found["data"].as_array();
        data.is_some_and(|data| data.len() == count && data.iter().all(|one| one["pending"] == false))
    };
    let path = format!("/v1/goals/{goal}/sessions?limit=100");
    houston.wait_until(&path, "summaries", is_it).await["data"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_session_is_summarised_and_searchable() {
    let houston = TestHouston::start();
    let (server, asked) =
        model(|_| Reply::text("They planned a journey to Tokyo in spring.").usage(50, 20)).await;
    let _worker = worker(&houston, &server, &[]);
    let goal = houston.goal("journey").await;
    exchange(&houston, &goal, "Tokyo in spring, by night train?").await;
    age_by_an_hour(&houston);

    let [session] = &wait_for_summaries(&houston, &goal, 1).await[..] else { panic!("one session") };
    assert_eq!(session["summary"], "They planned a journey to Tokyo in spring.");
    assert_eq!(
        (&session["summary_source"], &session["completion_reason"]),
        (&json!("model"), &json!("session_timeout"))
    );
    assert_eq!((&session["number"], &session["message_count"]), (&json!(1), &json!(2)));
    assert!(session["token_count"].as_i64().unwrap() > 10, "{session}");
    assert_eq!(session["goal_id"], goal.as_str());
    let id = session["id"].as_str().unwrap();
    assert_eq!(&houston.get(&format!("/v1/sessions/{id}")).await, session);
    let page = houston.get(&format!("/v1/sessions/{id}/history?limit=2")).await;
    assert_eq!((page["data"].as_array().unwrap().len(), &page["has_more"]), (2, &json!(true)));
    let rest = format!("/v1/sessions/{id}/history?cursor={}", page["next_cursor"].as_str().unwrap());
    assert_eq!(houston.get(&rest).await["data"].as_array().unwrap().len(), 1, "the result of send_message");
    let unknown = houston.get("/v1/sessions/session_00000000000000000000000000000000").await;
    assert_eq!(unknown["status"], 404);

    // Between two runs the stream has no event: the next run begins with that of the closed session.
    let message = houston.post(&goal, "2", "search: night train").await;
    let events = Mutex::new(Vec::new());
    let received = houston
        .watch_with(message["events_url"].as_str().unwrap(), |event| {
            if event["name"] == "houston.session.archived" {
                events.lock().unwrap().push(event["value"].clone());
            }
        })
        .await;
    let events = events.into_inner().unwrap();
    let [archived] = &events[..] else { panic!("once: {events:?}") };
    assert_eq!(
        (&archived["session_id"], &archived["completion_reason"]),
        (&session["id"], &json!("session_timeout"))
    );
    assert_eq!(received.types.last().map(String::as_str), Some("RUN_FINISHED"));
    let said = houston.agent_texts(&goal).await;
    assert!(said[1].contains(id) && said[1].contains("They planned a journey to Tokyo"), "{said:?}");
    let again = houston.watch(&format!("/v1/goals/{goal}/events?after=0")).await;
    let archived = again.types.iter().filter(|kind| *kind == "RUN_STARTED").count();
    assert_eq!(archived, 2, "reading the whole stream gives the same");

    let asked = asked.lock().unwrap().clone();
    let [first, second, _] = &asked[..] else { panic!("three calls of the agent: {asked:?}") };
    assert!(!first.tools.contains(&"search_agent_history".to_owned()), "there is no history yet");
    assert!(!first.system.contains("<sessions>"));
    assert!(second.tools.contains(&"search_agent_history".to_owned()));
    let entry = "\">They planned a journey to Tokyo in spring.</session>\n";
    assert!(second.system.contains(entry), "{}", second.system);
    assert_eq!(second.texts, ["search: night train"], "the closed session is not sent again");
    // The model has no known price: its calls are counted as unpriced, including the summary.
    let shown = houston.get(&format!("/v1/goals/{goal}")).await;
    assert_eq!(shown["unpriced_calls"], 4, "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn prompt_has_the_last_five_summaries_during_a_session() {
    let houston = TestHouston::start();
    let (server, asked) = model(|call| {
        let about = call.last_user_text();
        let nth = about.split("number ").nth(1).and_then(|rest| rest.chars().next()).unwrap();
        Reply::text(format!("Summary {nth} <done>."))
    })
    .await;
    let _worker = worker(&houston, &server, &[]);
    let goal = houston.goal("many").await;
    for nth in 1..=6 {
        exchange(&houston, &goal, &format!("number {nth}")).await;
        age_by_an_hour(&houston);
        wait_for_summaries(&houston, &goal, nth).await;
    }
    asked.lock().unwrap().clear();
    exchange(&houston, &goal, "one").await;
    exchange(&houston, &goal, "two").await;
    let asked = asked.lock().unwrap().clone();
    let [one, two] = &asked[..] else { panic!("two calls: {asked:?}") };
    assert_eq!(one.system, two.system, "equal byte for byte");
    let lines: Vec<&str> = one.system.lines().filter(|line| line.starts_with("<session ")).collect();
    let ends: Vec<String> =
        (2..=6).rev().map(|nth| format!(">Summary {nth} &lt;done&gt;.</session>")).collect();
    assert_eq!(lines.len(), 5, "{lines:?}");
    assert!(lines.iter().zip(&ends).all(|(line, end)| line.ends_with(end)), "newest first: {lines:?}");
    let at = |what: &str| one.system.find(what).unwrap();
    assert!(at("<goal>") < at("<sessions>") && at("<sessions>") < at("<system_context mark="));
    assert!(at("<system_context mark=") < at("<time_context>"), "what changes is sent last");
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_summary_falls_back_to_an_extract() {
    let houston = TestHouston::start();
    let (server, asked) = model(|_| Reply::status(401)).await;
    let _worker = worker(&houston, &server, &[]);
    let goal = houston.goal("extract").await;
    exchange(&houston, &goal, "Find me a boat").await;
    exchange(&houston, &goal, "A small one").await;
    age_by_an_hour(&houston);
    let [session] = &wait_for_summaries(&houston, &goal, 1).await[..] else { panic!("one session") };
    assert_eq!(session["summary_source"], "extract");
    assert_eq!(session["summary"], "The user wrote: Find me a boat / A small one");
    assert_eq!(session["message_count"], 4);
    exchange(&houston, &goal, "search: boat").await;
    assert!(houston.agent_texts(&goal).await[2].contains("Find me a boat"), "and it is found");
    let asked = asked.lock().unwrap();
    assert!(asked[2].system.contains(">The user wrote: Find me a boat / A small one</session>"));
}

#[tokio::test(flavor = "multi_thread")]
async fn summary_of_a_killed_worker_is_taken_over() {
    let houston = TestHouston::start();
    let (asked, gate) = (std::sync::Arc::new(Mutex::new(0)), Gate::new());
    let (counted, held) = (std::sync::Arc::clone(&asked), gate.clone());
    let (server, _) = model(move |_| {
        let mut asked = counted.lock().unwrap();
        *asked += 1;
        let summary = Reply::text("They talked of boats.");
        if *asked == 1 { summary.held_by(&held) } else { summary }
    })
    .await;
    // 30 s more than the model gets for its answer.
    let lease = ("HOUSTON_SESSION_ARCHIVE__SUMMARY_LEASE_S", "36");
    let mut victim = worker(&houston, &server, &[lease]);
    let goal = houston.goal("killed").await;
    exchange(&houston, &goal, "boats").await;
    age_by_an_hour(&houston);
    let deadline = Instant::now() + PATIENCE;
    while *asked.lock().unwrap() == 0 {
        assert!(Instant::now() < deadline, "no summary was ever asked for: {}", victim.log());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    victim.kill().unwrap();
    let path = format!("/v1/goals/{goal}/sessions");
    let waiting = houston.get(&path).await;
    assert_eq!(waiting["data"][0]["pending"], true, "{waiting}");
    assert_eq!(waiting["data"][0]["summary"], "The user wrote: boats");
    let _successor = worker(&houston, &server, &[lease]);
    exchange(&houston, &goal, "are you there?").await;
    let sessions = wait_for_summaries(&houston, &goal, 1).await;
    assert_eq!((&sessions[0]["summary"], sessions.len()), (&json!("They talked of boats."), 1));
    gate.open();
}

/// Sessions end after milliseconds, two workers look for them permanently, and one is killed repeatedly: each message
/// is answered once, each entry belongs to one session, each session is summarised.
#[tokio::test(flavor = "multi_thread")]
async fn messages_posted_during_session_close_are_answered() {
    let houston = TestHouston::start();
    let (server, _) = model(|_| Reply::text("Summary.")).await;
    let restless = [
        ("HOUSTON_SESSION_ARCHIVE__QUIET_MS", "20"),
        ("HOUSTON_SESSION_ARCHIVE__EVERY_MS", "5"),
        ("HOUSTON_SESSION_ARCHIVE__SUMMARY_LEASE_S", "1"),
    ];
    let mut victim = worker(&houston, &server, &restless);
    let _other = worker(&houston, &server, &restless);
    let mut goals = Vec::new();
    for nth in 0..4 {
        goals.push(houston.goal(&format!("restless {nth}")).await);
    }
    for round in 0..15 {
        let posting = goals.iter().map(|goal| {
            let (houston, text) = (&houston, format!("message {round}"));
            async move {
                // Each at another moment of a session's short life.
                tokio::time::sleep(Duration::from_millis(7 * (round % 5))).await;
                exchange(houston, goal, &text).await;
            }
        });
        futures_util::future::join_all(posting).await;
        if round % 4 == 3 {
            victim.kill().unwrap();
            victim = worker(&houston, &server, &restless);
        }
    }
    for goal in &goals {
        let said = houston.agent_texts(goal).await;
        assert_eq!(said.len(), 15, "{said:?}");
        let history = houston.get(&format!("/v1/goals/{goal}/history?limit=100")).await.to_string();
        for round in 0..15 {
            let text = format!("\"message {round}\"");
            assert_eq!(history.matches(&text).count(), 1, "{text} in {history}");
        }
        let path = format!("/v1/goals/{goal}/sessions?limit=100");
        let written =
            |found: &Value| found["data"].as_array().unwrap().iter().all(|one| one["pending"] == false);
        let sessions = houston.wait_until(&path, "summaries", written).await;
        let sessions = sessions["data"].as_array().unwrap();
        assert!(sessions.len() >= 5, "most pauses were longer than a blink: {}", sessions.len());
        let mut next = 1;
        for session in sessions.iter().rev() {
            assert_eq!(session["first_position"], next, "{sessions:?}");
            next = session["last_position"].as_i64().unwrap() + 1;
        }
    }
}
