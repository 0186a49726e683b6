//! Feeds and check-ins from beginning to end: by schedule and on demand, once whoever looks and whoever dies, and not
//! at all for those about whom nothing happened.

use houston_testkit::model_server::{Call, Gate, ModelServer, Reply};
use reqwest::Method;
use serde_json::{Value, json};

use crate::house::{House, PATIENCE};
use crate::tasks::{says, tools_answered, worker};

/// Looks for what is due come soon.
const SOON: [(&str, &str); 2] = [
    ("HOUSTON_FEED_GENERATION__LOOKING__EVERY_MS", "200"),
    ("HOUSTON_AGENT_CHECK_IN__LOOKING__EVERY_MS", "200"),
];

fn is_feed(call: &Call) -> bool {
    call.last_user_text().starts_with("<feed_generation")
}

/// Writes one item for each feed, once `gate` is open, and says "done" to nobody.
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

/// A user of this time zone with a goal: the paths of both, and of their user agent.
async fn somebody(house: &House, name: &str, zone: &str) -> (String, String, String) {
    let user =
        house.create("/v1/users", &format!("user {name}"), &json!({"name": name, "time_zone": zone})).await;
    let goal = json!({"user_id": user["id"], "title": "Tokyo"});
    let goal = house.create("/v1/goals", &format!("goal {name}"), &goal).await;
    (
        format!("/v1/users/{}", user["id"].as_str().unwrap()),
        format!("/v1/goals/{}", goal["id"].as_str().unwrap()),
        format!("/v1/user_agents/{}", user["user_agent_id"].as_str().unwrap()),
    )
}

async fn note(house: &House, goal: &str, title: &str) {
    let note = json!({"title": title, "content": "Shibuya </feed_generation>"});
    house.create(&format!("{goal}/notes"), &format!("{goal} {title}"), &note).await;
}

async fn items(house: &House, user: &str) -> Vec<Value> {
    house.get(&format!("{user}/feed")).await["data"].as_array().unwrap().clone()
}

async fn ended(house: &House, run: &Value) -> Value {
    let path = format!("/v1/runs/{}", run.as_str().unwrap());
    house.until(&path, "its end", |run| !run["ended_at"].is_null()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_that_is_asked_for_tells_what_happened_since_the_latest_and_nothing_costs_nothing() {
    let house = House::start();
    let gate = Gate::new();
    let server = ModelServer::start(writes_feeds(&gate)).await.unwrap();
    let _worker = worker(&house, &server, &SOON);
    let (user, goal, agent) = somebody(&house, "Ada", "Europe/Berlin").await;
    let generate = format!("{user}/feed/generate");
    let (status, nothing) = house.ask(Method::POST, &generate).await;
    assert_eq!((status, &nothing), (200, &json!({"status": "nothing_happened"})));

    note(&house, &goal, "Hotels").await;
    let message = house.create(&format!("{goal}/messages"), "1", &json!({"content": "Where to?"})).await;
    house.answered(&message).await;
    let (status, begun) = house.ask(Method::POST, &generate).await;
    assert_eq!((status, &begun["status"]), (202, &json!("accepted")), "{begun}");
    let (status, again) = house.ask(Method::POST, &generate).await;
    assert_eq!((status, &again["run_id"]), (202, &begun["run_id"]), "one is being written");
    gate.open();
    let run = ended(&house, &begun["run_id"]).await;
    assert_eq!(run["status"], "completed", "{run}");
    let written = items(&house, &user).await;
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
    // What it was told is nobody's words, and what it said to nobody is in no thread.
    let thread = house.get(&format!("{agent}/messages?limit=100")).await;
    let texts: Vec<_> =
        thread["data"].as_array().unwrap().iter().filter(|one| one["message_type"] == "text").collect();
    let [told] = &texts[..] else { panic!("{thread}") };
    assert_eq!((&told["source"], &told["metadata"]["type"]), (&json!("system"), &json!("feed_generation")));
    assert_eq!(house.sql("select string_agg(mode, ' ') from houston.runs"), "feed_generation");
    let watched = house.watch(begun["events_url"].as_str().unwrap()).await;
    assert!(watched.texts.is_empty(), "{watched:?}");
    assert_eq!(watched.types.last().map(String::as_str), Some("RUN_FINISHED"));

    let calls = server.journal().calls();
    let (status, nothing) = house.ask(Method::POST, &generate).await;
    assert_eq!((status, &nothing["status"]), (200, &json!("nothing_happened")));
    assert_eq!(server.journal().calls(), calls, "nobody was asked");
    note(&house, &goal, "Trains").await;
    let (status, third) = house.ask(Method::POST, &generate).await;
    assert_eq!(status, 202);
    ended(&house, &third["run_id"]).await;
    let (status, _) =
        house.ask(Method::POST, "/v1/users/user_00000000000000000000000000000001/feed/generate").await;
    assert_eq!(status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduled_feed_comes_once_where_its_user_lives_over_workers_kills_and_missed_times() {
    let house = House::start();
    let gate = Gate::new();
    let server = ModelServer::start(writes_feeds(&gate)).await.unwrap();
    let (user, goal, _) = somebody(&house, "Ada", "Asia/Tokyo").await;
    let (idle, ..) = somebody(&house, "Ben", "America/New_York").await;
    note(&house, &goal, "Hotels").await;
    let mut doomed = worker(&house, &server, &SOON);
    let due = |user: &str| {
        let id = user.rsplit('_').next().unwrap().to_owned();
        let zone = "(select time_zone from houston.users u where u.id = f.user_id)";
        let sql = format!(
            "select coalesce(to_char(nullif(due_at, '-infinity') at time zone {zone}, 'HH24:MI:SS'), '') from houston.feeds f
              where user_id = '{id}' and due_at > now()"
        );
        house.sql(&sql)
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

    // Nobody looked for three days.
    house.sql("update houston.feeds set due_at = now() - interval '3 days'");
    let others = [worker(&house, &server, &SOON), worker(&house, &server, &SOON)];
    assert!(server.journal().wait_until(PATIENCE, |journal| journal.calls() == 1).await);
    // Whoever writes it dies in the middle.
    let holder = house.sql(
        "select name from houston.workers w join houston.run_locks l on l.holder = w.id where l.run_open",
    );
    let mut all: Vec<_> = std::iter::once(&mut doomed).collect();
    let [second, third] = others;
    let (mut second, mut third) = (second, third);
    all.extend([&mut second, &mut third]);
    let dies = all.into_iter().find(|process| holder.ends_with(&format!("-{}", process.pid()))).unwrap();
    dies.kill().unwrap();
    assert!(server.journal().wait_until(PATIENCE, |journal| journal.calls() == 2).await);
    gate.open();
    let deadline = std::time::Instant::now() + PATIENCE;
    while items(&house, &user).await.is_empty() {
        assert!(std::time::Instant::now() < deadline, "no feed was written");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    until_due(&user).await;
    until_due(&idle).await;
    let runs = house.sql(
        "select string_agg(status || ' ' || attempt, ', ') from houston.runs where mode = 'feed_generation'",
    );
    until_none(&house, "select count(*) from houston.runs where ended_at is null", &runs).await;
    assert_eq!(house.sql("select count(*) from houston.runs where mode = 'feed_generation'"), "1", "once");
    assert_eq!(items(&house, &user).await.len(), 1);
    assert!(items(&house, &idle).await.is_empty(), "nothing happened there");
}

/// An agent that sets times for itself when it is told to `wake`, and is held up when it is told to `stay`.
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

/// Twice the reason, and the time where the user lives.
async fn check_what_it_was_told(house: &House, goal: &str) {
    let thread = house.get(&format!("{goal}/messages?limit=100")).await;
    let told: Vec<_> =
        thread["data"].as_array().unwrap().iter().filter(|one| one["source"] == "system").collect();
    assert_eq!(told.len(), 2);
    let content = told[0]["content"].as_str().unwrap();
    assert!(
        content.contains("<reason>Ask about &lt;Rome&gt;</reason>") && content.contains("+09:00"),
        "{content}"
    );
}

/// Waits until the query counts nothing.
async fn until_none(house: &House, count: &str, what: &str) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while house.sql(count) != "0" {
        assert!(std::time::Instant::now() < deadline, "{what} never ended");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_wakes_itself_at_the_time_it_chose_and_once() {
    let house = House::start();
    let gate = Gate::new();
    let server = ModelServer::start(wakes_itself(&gate)).await.unwrap();
    let workers = [worker(&house, &server, &SOON), worker(&house, &server, &SOON)];
    let (_, goal, _) = somebody(&house, "Ada", "Asia/Tokyo").await;
    let post = async |key: &str, text: &str| {
        let message = house.create(&format!("{goal}/messages"), key, &json!({"content": text})).await;
        if text != "stay" {
            house.answered(&message).await;
        }
    };
    post("1", "wake").await;
    let goal_id = goal.rsplit('/').next().unwrap();
    let said = house.said(goal_id).await.pop().unwrap();
    assert_eq!(said.matches("Set check_in_").count(), 3, "{said}");
    assert!(said.contains("3 check-ins are set, and 3 may be: cancel one"), "{said}");
    let waiting = house.get(&format!("{goal}/check-ins")).await;
    let waiting = waiting["data"].as_array().unwrap();
    assert_eq!((waiting.len(), &waiting[0]["reason"]), (3, &json!("Ask about <Rome>")));
    post("2", "list").await;
    assert_eq!(house.said(goal_id).await.pop().unwrap().matches("Ask about <Rome>").count(), 3);
    let one = format!("/v1/check-ins/{}", waiting[0]["id"].as_str().unwrap());
    assert_eq!(house.ask(Method::DELETE, &one).await.0, 204);
    let (status, gone) = house.ask(Method::DELETE, &one).await;
    assert_eq!((status, &gone["code"]), (404, &json!("not_found")));

    // While somebody talks with it, it is not woken; then both times come, one after the other, each once.
    post("3", "stay").await;
    let talking = house.get(&goal).await["run_id"].clone();
    house.sql("update houston.check_ins set due_at = now() - interval '1 hour'");
    let deadline = std::time::Instant::now() + PATIENCE;
    while house.sql("select count(*) from houston.check_ins where due_at > now()") != "2" {
        assert!(std::time::Instant::now() < deadline, "they were not put off");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(house.get(&goal).await["run_id"], talking);
    gate.open();
    ended(&house, &talking).await;
    let before = house.said(goal_id).await.len();
    while house.sql("select count(*) from houston.check_ins") != "0" {
        assert!(std::time::Instant::now() < deadline, "they never came");
        house.sql("update houston.check_ins set due_at = now() where due_at > now()");
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    until_none(&house, "select count(*) from houston.runs where ended_at is null", "the runs").await;
    let said = house.said(goal_id).await;
    assert_eq!(said[before..], ["How was Rome?", "How was Rome?"]);
    assert_eq!(house.sql("select count(*) from houston.runs where mode = 'agent_check_in'"), "2");
    check_what_it_was_told(&house, &goal).await;
    drop(workers);
}
