//! Feeds and check-ins end to end, scheduled and on demand: each happens once, whichever workers look or die, and a
//! feed is skipped when nothing happened.

use houston_testkit::model_server::{Call, Gate, ModelServer, Reply};
use reqwest::Method;
use serde_json::{Value, json};

use crate::tasks::{says, tools_answered, worker};
use crate::test_houston::{PATIENCE, TestHouston};

/// Short intervals for finding due feeds and check-ins.
const SOON: [(&str, &str); 2] =
    [("HOUSTON_FEED_GENERATION__POLL__EVERY_MS", "200"), ("HOUSTON_AGENT_CHECK_IN__POLL__EVERY_MS", "200")];

fn is_feed(call: &Call) -> bool {
    call.last_user_text().starts_with("<feed_generation")
}

/// Writes one item for each feed once `gate` is open, then ends with the text "done".
fn writes_feeds(gate: &Gate) -> impl Fn(&Call) -> Reply + Send + Sync + 'static {
    let gate = gate.clone();
    move |call| match (is_feed(call), tools_answered(call)) {
        (true, false) => {
            Reply::tool("create_feed_item", json!({"title": "Hotels", "content": "Two were found."}))
                .held_by(&gate)
        }
        (true, true) => Reply::text("done"),
        (false, _) => says("Hello."),
    }
}

/// Creates a user in this time zone with a goal; returns the paths of the user, the goal and the user agent.
async fn user_with_goal(houston: &TestHouston, name: &str, zone: &str) -> (String, String, String) {
    let user =
        houston.create("/v1/users", &format!("user {name}"), &json!({"name": name, "time_zone": zone})).await;
    let goal = json!({"user_id": user["id"], "title": "Tokyo"});
    let goal = houston.create("/v1/goals", &format!("goal {name}"), &goal).await;
    (
        format!("/v1/users/{}", user["id"].as_str().unwrap()),
        format!("/v1/goals/{}", goal["id"].as_str().unwrap()),
        format!("/v1/user_agents/{}", user["user_agent_id"].as_str().unwrap()),
    )
}

async fn create_note(houston: &TestHouston, goal: &str, title: &str) {
    let note = json!({"title": title, "content": "Shibuya </feed_generation>"});
    houston.create(&format!("{goal}/notes"), &format!("{goal} {title}"), &note).await;
}

async fn feed_items(houston: &TestHouston, user: &str) -> Vec<Value> {
    houston.get(&format!("{user}/feed")).await["data"].as_array().unwrap().clone()
}

async fn wait_for_end(houston: &TestHouston, run: &Value) -> Value {
    let path = format!("/v1/runs/{}", run.as_str().unwrap());
    houston.wait_until(&path, "its end", |run| !run["ended_at"].is_null()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn requested_feed_covers_what_is_new_and_skips_when_empty() {
    let houston = TestHouston::start();
    let gate = Gate::new();
    let server = ModelServer::start(writes_feeds(&gate)).await.unwrap();
    let _worker = worker(&houston, &server, &SOON);
    let (user, goal, agent) = user_with_goal(&houston, "Ada", "Europe/Berlin").await;
    let generate = format!("{user}/feed/generate");
    let (status, nothing) = houston.ask(Method::POST, &generate).await;
    assert_eq!((status, &nothing), (200, &json!({"status": "nothing_happened"})));

    create_note(&houston, &goal, "Hotels").await;
    let message = houston.create(&format!("{goal}/messages"), "1", &json!({"content": "Where to?"})).await;
    houston.wait_until_answered(&message).await;
    let (status, begun) = houston.ask(Method::POST, &generate).await;
    assert_eq!((status, &begun["status"]), (202, &json!("accepted")), "{begun}");
    let (status, again) = houston.ask(Method::POST, &generate).await;
    assert_eq!((status, &again["run_id"]), (202, &begun["run_id"]), "one is being written");
    gate.open();
    let run = wait_for_end(&houston, &begun["run_id"]).await;
    assert_eq!(run["status"], "completed", "{run}");
    let written = feed_items(&houston, &user).await;
    let [item] = &written[..] else { panic!("one item: {written:?}") };
    assert_eq!(item["title"], "Hotels");

    let asked = server.journal().exchanges().into_iter().find_map(|exchange| {
        let body: Value = serde_json::from_slice(&exchange.body).ok()?;
        let last = body["messages"].as_array()?.last()?["content"].to_string();
        last.contains("<feed_generation").then_some(last)
    });
    let asked = asked.unwrap();
    for part in
        ["Hotels: Shibuya &lt;/feed_generation&gt;", "Where to?", "from=\\\"agent\\\"", "Write one to three"]
    {
        assert!(asked.contains(part), "{part}: {asked}");
    }
    // The system message is no user message, and the final text of a feed run is in no thread.
    let thread = houston.get(&format!("{agent}/messages?limit=100")).await;
    let texts: Vec<_> =
        thread["data"].as_array().unwrap().iter().filter(|one| one["message_type"] == "text").collect();
    let [message] = &texts[..] else { panic!("{thread}") };
    assert_eq!(
        (&message["source"], &message["metadata"]["type"]),
        (&json!("system"), &json!("feed_generation"))
    );
    assert_eq!(houston.sql("select string_agg(mode, ' ') from houston.runs"), "feed_generation");
    let received = houston.watch(begun["events_url"].as_str().unwrap()).await;
    assert!(received.texts.is_empty(), "{received:?}");
    assert_eq!(received.types.last().map(String::as_str), Some("RUN_FINISHED"));

    let calls = server.journal().calls();
    let (status, nothing) = houston.ask(Method::POST, &generate).await;
    assert_eq!((status, &nothing["status"]), (200, &json!("nothing_happened")));
    assert_eq!(server.journal().calls(), calls, "no model was called");
    create_note(&houston, &goal, "Trains").await;
    let (status, third) = houston.ask(Method::POST, &generate).await;
    assert_eq!(status, 202);
    wait_for_end(&houston, &third["run_id"]).await;
    let (status, _) =
        houston.ask(Method::POST, "/v1/users/user_00000000000000000000000000000001/feed/generate").await;
    assert_eq!(status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn scheduled_feed_is_generated_once_in_the_users_time_zone() {
    let houston = TestHouston::start();
    let gate = Gate::new();
    let server = ModelServer::start(writes_feeds(&gate)).await.unwrap();
    let (user, goal, _) = user_with_goal(&houston, "Ada", "Asia/Tokyo").await;
    let (idle, ..) = user_with_goal(&houston, "Ben", "America/New_York").await;
    create_note(&houston, &goal, "Hotels").await;
    let mut victim = worker(&houston, &server, &SOON);
    let due = |user: &str| {
        let id = user.rsplit('_').next().unwrap().to_owned();
        let zone = "(select time_zone from houston.users u where u.id = f.user_id)";
        let sql = format!(
            "select coalesce(to_char(nullif(due_at, '-infinity') at time zone {zone}, 'HH24:MI:SS'), '') from houston.feeds f
              where user_id = '{id}' and due_at > now()"
        );
        houston.sql(&sql)
    };
    let until_due = async |user: &str| {
        let deadline = std::time::Instant::now() + PATIENCE;
        while due(user) != "07:00:00" {
            assert!(std::time::Instant::now() < deadline, "{user} is due at {}", due(user));
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    until_due(&user).await;
    until_due(&idle).await;
    assert_eq!(server.journal().calls(), 0, "a new user has no feed before its time");

    // No worker has looked for three days.
    houston.sql("update houston.feeds set due_at = now() - interval '3 days'");
    let others = [worker(&houston, &server, &SOON), worker(&houston, &server, &SOON)];
    assert!(server.journal().wait_until(PATIENCE, |journal| journal.calls() == 1).await);
    // The worker that generates the feed dies.
    let holder = houston.sql(
        "select name from houston.workers w join houston.run_locks l on l.holder = w.id where l.run_open",
    );
    let mut all: Vec<_> = std::iter::once(&mut victim).collect();
    let [second, third] = others;
    let (mut second, mut third) = (second, third);
    all.extend([&mut second, &mut third]);
    let dies = all.into_iter().find(|process| holder.ends_with(&format!("-{}", process.pid()))).unwrap();
    dies.kill().unwrap();
    assert!(server.journal().wait_until(PATIENCE, |journal| journal.calls() == 2).await);
    gate.open();
    let deadline = std::time::Instant::now() + PATIENCE;
    while feed_items(&houston, &user).await.is_empty() {
        assert!(std::time::Instant::now() < deadline, "no feed was written");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    until_due(&user).await;
    until_due(&idle).await;
    let runs = houston.sql(
        "select string_agg(status || ' ' || attempt, ', ') from houston.runs where mode = 'feed_generation'",
    );
    until_none(&houston, "select count(*) from houston.runs where ended_at is null", &runs).await;
    assert_eq!(houston.sql("select count(*) from houston.runs where mode = 'feed_generation'"), "1", "once");
    assert_eq!(feed_items(&houston, &user).await.len(), 1);
    assert!(feed_items(&houston, &idle).await.is_empty(), "nothing happened there");
}

/// Schedules check-ins on the message `wake`; its answer to `stay` is held by the gate.
fn wakes_itself(gate: &Gate) -> impl Fn(&Call) -> Reply + Send + Sync + 'static {
    let held = gate.clone();
    move |call: &Call| {
        let text = call.last_user_text();
        let check_in = |minutes: u32| {
            ("schedule_check_in", json!({"in_minutes": minutes, "reason": "Ask about <Rome>"}))
        };
        match (text.starts_with("<agent_check_in"), tools_answered(call)) {
            (true, _) => says("How was Rome?"),
            (false, _) if text == "stay" => says("ok").held_by(&held),
            (false, false) if text == "wake" => {
                let (name, input) = check_in(600);
                let more = [check_in(601), check_in(602), check_in(603), check_in(1)];
                more.into_iter()
                    .fold(Reply::tool(name, input), |reply, (name, input)| reply.then_tool(name, input))
            }
            (false, true) => says(
                &call.tool_results().iter().map(|one| one.content.as_str()).collect::<Vec<_>>().join("|"),
            ),
            (false, false) => Reply::tool("manage_check_ins", json!({"action": "list"})),
        }
    }
}

/// Checks that both check-ins have the reason and the time in the user's time zone.
async fn check_check_in_messages(houston: &TestHouston, goal: &str) {
    let thread = houston.get(&format!("{goal}/messages?limit=100")).await;
    let messages: Vec<_> =
        thread["data"].as_array().unwrap().iter().filter(|one| one["source"] == "system").collect();
    assert_eq!(messages.len(), 2);
    let content = messages[0]["content"].as_str().unwrap();
    assert!(
        content.contains("<reason>Ask about &lt;Rome&gt;</reason>") && content.contains("+09:00"),
        "{content}"
    );
}

/// Waits until the query returns 0.
async fn until_none(houston: &TestHouston, count: &str, what: &str) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while houston.sql(count) != "0" {
        assert!(std::time::Instant::now() < deadline, "{what} never ended");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn check_in_wakes_its_agent_once_at_the_chosen_time() {
    let houston = TestHouston::start();
    let gate = Gate::new();
    let server = ModelServer::start(wakes_itself(&gate)).await.unwrap();
    let workers = [worker(&houston, &server, &SOON), worker(&houston, &server, &SOON)];
    let (_, goal, _) = user_with_goal(&houston, "Ada", "Asia/Tokyo").await;
    let post = async |key: &str, text: &str| {
        let message = houston.create(&format!("{goal}/messages"), key, &json!({"content": text})).await;
        if text != "stay" {
            houston.wait_until_answered(&message).await;
        }
    };
    post("1", "wake").await;
    let goal_id = goal.rsplit('/').next().unwrap();
    let said = houston.agent_texts(goal_id).await.pop().unwrap();
    assert_eq!(said.matches("Set check_in_").count(), 3, "{said}");
    assert!(said.contains("3 check-ins are set, and at most 3 are allowed: cancel one"), "{said}");
    let waiting = houston.get(&format!("{goal}/check-ins")).await;
    let waiting = waiting["data"].as_array().unwrap();
    assert_eq!((waiting.len(), &waiting[0]["reason"]), (3, &json!("Ask about <Rome>")));
    post("2", "list").await;
    assert_eq!(houston.agent_texts(goal_id).await.pop().unwrap().matches("Ask about <Rome>").count(), 3);
    let one = format!("/v1/check-ins/{}", waiting[0]["id"].as_str().unwrap());
    assert_eq!(houston.ask(Method::DELETE, &one).await.0, 204);
    let (status, gone) = houston.ask(Method::DELETE, &one).await;
    assert_eq!((status, &gone["code"]), (404, &json!("not_found")));

    // During a run no check-in starts; afterwards both happen, one after the other, once each.
    post("3", "stay").await;
    let talking = houston.get(&goal).await["run_id"].clone();
    houston.sql("update houston.check_ins set due_at = now() - interval '1 hour'");
    let deadline = std::time::Instant::now() + PATIENCE;
    while houston.sql("select count(*) from houston.check_ins where due_at > now()") != "2" {
        assert!(std::time::Instant::now() < deadline, "they were not put off");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(houston.get(&goal).await["run_id"], talking);
    gate.open();
    wait_for_end(&houston, &talking).await;
    let before = houston.agent_texts(goal_id).await.len();
    while houston.sql("select count(*) from houston.check_ins") != "0" {
        assert!(std::time::Instant::now() < deadline, "they never came");
        houston.sql("update houston.check_ins set due_at = now() where due_at > now()");
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    until_none(&houston, "select count(*) from houston.runs where ended_at is null", "the runs").await;
    let said = houston.agent_texts(goal_id).await;
    assert_eq!(said[before..], ["How was Rome?", "How was Rome?"]);
    assert_eq!(houston.sql("select count(*) from houston.runs where mode = 'agent_check_in'"), "2");
    check_check_in_messages(&houston, &goal).await;
    drop(workers);
}
