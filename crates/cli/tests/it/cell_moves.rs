//! Users move to another cell while they write, and while a client watches; a cell is added.

use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use houston_domain::id::{UserId, shard};
use houston_testkit::installation::TestInstallation;
use houston_testkit::process::Process;
use reqwest::header::RETRY_AFTER;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::cells::users;
use crate::scripted::{Scripted, answer};
use crate::test_houston::{PATIENCE, TestHouston, environment, houston_command, serve};

/// The shards of a user, as `houston cell move` takes them.
fn shards_of(user: &Value) -> String {
    let user: UserId = user.as_str().unwrap().parse().unwrap();
    format!("{0}-{0}", shard(user))
}

fn command(houston: &TestHouston) -> Command {
    environment(houston_command(), &houston.servers.lock().unwrap(), houston.folder.path())
}

/// Posts until it is accepted, and checks that each refusal says when to repeat it. Returns the message, and how often it was
/// refused.
async fn post(houston: &TestHouston, goal: &str, key: &str) -> (Value, usize) {
    post_to(houston, &houston.url(&format!("/v1/goals/{goal}/messages")), key).await
}

/// As [`post`], to the messages of a goal at any address.
async fn post_to(houston: &TestHouston, url: &str, key: &str) -> (Value, usize) {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let until = Instant::now() + PATIENCE;
    for refused in 0.. {
        let request = client.post(url).bearer_auth(&houston.key);
        let request = request.header("Idempotency-Key", key).header("Content-Type", "application/json");
        let response = request.body(json!({"content": key}).to_string()).send().await.unwrap();
        if response.status().is_success() {
            return (serde_json::from_slice(&response.bytes().await.unwrap()).unwrap(), refused);
        }
        assert_eq!(response.status(), 503, "{key}");
        assert!(response.headers().contains_key(RETRY_AFTER), "{key}");
        assert!(Instant::now() < until, "{key} was never accepted");
        sleep(Duration::from_millis(50)).await;
    }
    unreachable!("the loop returns")
}

/// Moves a user while the target is busy for some seconds, so that the move waits with its locks again and again.
async fn move_slowly(houston: &TestHouston, user: &Value, to: &str) {
    let busy = "begin; lock table houston.messages in share mode; select pg_sleep(3)";
    let mut busy = houston.servers.lock().unwrap().cells().nth(1).unwrap().psql(busy);
    let mut busy = busy.stdout(Stdio::null()).spawn().unwrap();
    let mut moving = command(houston);
    let mut moving = moving.args(["cell", "move", &shards_of(user), "--to", to]).spawn().unwrap();
    let until = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = moving.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < until, "the move never ended");
        sleep(Duration::from_millis(20)).await;
    };
    assert!(status.success(), "{status}");
    busy.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn watched_user_moves_and_nothing_is_lost() {
    let test = Scripted::over(TestHouston::with_two_postgres(&[]), answer).await;
    let (houston, _worker) = (&test.houston, test.worker("local/one"));
    let [here, there] = users(houston, 1).await;
    let user = &here[0]["id"];
    let goal = test.ok("POST", "/v1/goals", json!({"user_id": user, "title": "Tokyo"})).await;
    let goal = goal["id"].as_str().unwrap();
    let seen = Mutex::new(Vec::new());
    let watched = format!("/v1/goals/{goal}/events?after=0&follow=true");
    let watch = houston.watch_with(&watched, |event| seen.lock().unwrap().push(event.clone()));
    let is_moved = Mutex::new(false);
    let write = async {
        let mut posted = Vec::new();
        // Before, during and after the move.
        while posted.len() < 10 || !*is_moved.lock().unwrap() {
            let key = format!("message {}", posted.len());
            posted.push((post(houston, goal, &key).await.0, key));
            // Between two runs the user can move.
            sleep(Duration::from_millis(100)).await;
        }
        let key = format!("message {}", posted.len());
        posted.push((post(houston, goal, &key).await.0, key));
        posted
    };
    let moves = async {
        move_slowly(houston, user, "8000-ffff").await;
        *is_moved.lock().unwrap() = true;
    };
    let all_said = async {
        let (posted, ()) = tokio::join!(write, moves);
        for (message, key) in &posted {
            // The same request again, in the other cell, is the same message.
            assert_eq!(&post(houston, goal, key).await.0["id"], &message["id"], "{key}");
            houston.wait_until_answered(message).await;
        }
        let said = houston.agent_texts(goal).await;
        let until = Instant::now() + PATIENCE;
        while texts(&seen.lock().unwrap()).len() < said.len() {
            assert!(Instant::now() < until, "the stream has all answers: {said:?}");
            sleep(Duration::from_millis(20)).await;
        }
        (posted, said)
    };
    let (posted, said) = tokio::select! {
        ended = watch => panic!("the stream ended: {ended:?}"),
        done = all_said => done,
    };
    assert_eq!(texts(&seen.lock().unwrap()), said, "each once, in order");
    assert_each_once(houston, (goal, &there[0]["id"]), posted.len());
}

/// The texts of the agent in a stream.
fn texts(events: &[Value]) -> Vec<String> {
    let (mut texts, mut is_agents) = (Vec::new(), false);
    for event in events {
        match event["type"].as_str().unwrap() {
            "TEXT_MESSAGE_START" => {
                is_agents = event["role"] == "assistant";
                texts.extend(is_agents.then(String::new));
            }
            "TEXT_MESSAGE_CONTENT" if is_agents => {
                let text: &mut String = texts.last_mut().unwrap();
                text.push_str(event["delta"].as_str().unwrap());
            }
            _ => {}
        }
    }
    texts
}

/// Checks that all messages of the user are in the other cell, each once.
fn assert_each_once(houston: &TestHouston, (goal, other): (&str, &Value), count: usize) {
    let messages =
        "select count(*) || ' ' || count(distinct content) from houston.messages where source = 'user'";
    assert_eq!(houston.sql_of(other.as_str().unwrap(), messages), format!("{count} {count}"));
    assert_eq!(houston.sql_of(goal, messages), "0 0");
}

#[tokio::test(flavor = "multi_thread")]
async fn client_token_goes_with_its_user() {
    let houston = TestHouston::with_two_postgres(&[]);
    let [here, _] = users(&houston, 1).await;
    let user = &here[0]["id"];
    let goal = houston.create("/v1/goals", "goal", &json!({"user_id": user, "title": "Tokyo"})).await;
    let token = houston.create("/v1/client-tokens", "token", &json!({"user_id": user})).await;
    let of_token = format!("/v1/client-tokens/{}", token["id"].as_str().unwrap());
    let events = houston.url(&format!("/v1/users/{}/events", user.as_str().unwrap()));
    let position = houston.open(&events).await.headers()["location"].to_str().unwrap().to_owned();
    let messages = format!("/v1/goals/{}/messages", goal["id"].as_str().unwrap());
    houston.create(&messages, "hello", &json!({"content": "Hello?"})).await;
    houston.run(&["cell", "move", &shards_of(user), "--to", "8000-ffff"], &[]);
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let (goal, token) = (goal["id"].as_str().unwrap(), token["token"].as_str().unwrap());
    for path in [format!("/v1/goals/{goal}"), "/v1/goals".to_owned()] {
        let answer = client.get(houston.url(&path)).bearer_auth(token).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        assert!(answer.text().await.unwrap().contains(goal), "{path}");
    }
    // A stream with a position of the other cell goes on here, with what its client has not read there.
    let mut resumed = houston.open(&houston.url(&position)).await;
    let mut read = String::new();
    while !read.contains("message.posted") {
        let chunk = tokio::time::timeout(PATIENCE, resumed.chunk()).await.unwrap().unwrap().unwrap();
        read.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    assert!(read.contains("8000-ffff!"), "{read}");
    // Commands find the user there, too.
    assert!(houston.run(&["why", goal], &[]).contains(goal));
    // An attempt to end it that came no further than its cell has left the copy of the home.
    let tokens = "from houston.api_keys where parent_id is not null";
    houston.servers.lock().unwrap().cells().nth(1).unwrap().sql(&format!("delete {tokens}")).unwrap();
    assert_eq!(houston.ask(reqwest::Method::DELETE, &of_token).await.0, 404);
    assert_eq!(houston.sql(&format!("select count(*) {tokens}")), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn process_that_reads_no_moves_loses_nothing() {
    let houston = TestHouston::with_two_postgres(&[]);
    let [here, _] = users(&houston, 1).await;
    let user = &here[0]["id"];
    let path = format!("/v1/users/{}", user.as_str().unwrap());
    // It cannot read them: 404 would be wrong, so it is 503.
    let rename = |from: &str, to: &str| houston.sql(&format!("alter table houston.{from} rename to {to}"));
    houston.run(&["cell", "move", &shards_of(user), "--to", "8000-ffff"], &[]);
    rename("moved_shards", "hidden");
    let unknown = "/v1/goals/goal_0190000000007000800000000000".to_owned();
    let shard = &shards_of(user)[..4];
    let (status, _) = houston.ask(reqwest::Method::DELETE, &format!("{unknown}{shard}")).await;
    assert_eq!(status, 503);
    rename("hidden", "moved_shards");
    let found = houston.get(&path).await;
    assert_eq!(found["id"], *user, "{found}");
    let (status, missing) = houston.ask(reqwest::Method::GET, &format!("{unknown}{shard}")).await;
    assert_eq!(status, 404, "{missing}");
}

/// Adds a cell with this name and database; returns the exit code and what was printed as errors.
fn add_cell(
    first: &TestHouston,
    second: &TestInstallation,
    (name, url): (&str, &str),
) -> (Option<i32>, String) {
    let mut command = command(first);
    command.env_remove("DATABASE_URL").env_remove("HOUSTON_REDIS_URL");
    let home = {
        let servers = first.servers.lock().unwrap();
        format!("database_url=\"{}\",redis_url=\"{}\"", servers.database_url(), servers.redis_url())
    };
    let added = format!("name=\"{name}\",database_url=\"{url}\",redis_url=\"{}\"", second.redis_url());
    command.env("HOUSTON_CELLS__CELLS", format!("[{{shards=\"0000-ffff\",{home}}},{{{added}}}]"));
    let output = command.args(["cell", "add", name]).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// Checks that a database of another installation, and one that is a cell already, are refused before anything is written.
fn check_refused_databases(first: &TestHouston, second: &TestInstallation) {
    let others = "create schema houston; create table houston.tenants (id uuid);
                  insert into houston.tenants values (gen_random_uuid())";
    second.sql(others).unwrap();
    let (code, refused) = add_cell(first, second, ("second", second.database_url()));
    assert!(code == Some(2) && refused.contains("belongs to another installation"), "{refused}");
    let tables = "select count(*) from pg_class where relnamespace = 'houston'::regnamespace";
    assert_eq!(second.sql(tables).unwrap(), "1");
    second.sql("drop schema houston cascade").unwrap();
    let url = first.servers.lock().unwrap().database_url().to_owned();
    let separator = if url.contains('?') { '&' } else { '?' };
    let (code, refused) =
        add_cell(first, second, ("second", &format!("{url}{separator}application_name=again")));
    assert!(code == Some(2) && refused.contains("is that of the cell 0000-ffff"), "{refused}");
}

/// Checks that the move to the cell is in the audit log from its beginning, and that the cell may be added again by its own name only.
fn check_cell_with_users(first: &TestHouston, second: &TestInstallation) {
    let recorded =
        "select string_agg(concat_ws(' ', operation, target, code), ', ' order by id) from houston.audit
                     where operation like '%move_shards'";
    let target = "0000-ffff from 0000-ffff to second";
    assert_eq!(first.sql(recorded), format!("begin_move_shards {target}, move_shards {target}"));
    let (code, refused) = add_cell(first, second, ("renamed", second.database_url()));
    assert!(code == Some(2) && refused.contains("is that of the cell second"), "{refused}");
    let (code, again) = add_cell(first, second, ("second", second.database_url()));
    assert_eq!(code, Some(0), "{again}");
}

#[tokio::test(flavor = "multi_thread")]
async fn added_cell_gets_the_users_it_is_given() {
    let first = TestHouston::own_postgres_with(&[]);
    let old_worker = first.worker();
    let goal = first.goal("ann").await;
    let events =
        first.open(&first.url("/v1/events")).await.headers()["location"].to_str().unwrap().to_owned();
    let second = TestInstallation::start_with_own_postgres(|_| async {}).unwrap();
    let with_cells = |mut command: Command| {
        let servers = first.servers.lock().unwrap();
        let cells =
            [("shards=\"0000-ffff\"", &*servers), ("name=\"second\"", &second)].map(|(name, cell)| {
                let (database, redis) = (cell.database_url(), cell.redis_url());
                format!("{{{name},database_url=\"{database}\",redis_url=\"{redis}\"}}")
            });
        command.env_remove("DATABASE_URL").env_remove("HOUSTON_REDIS_URL");
        command.env("HOUSTON_CELLS__CELLS", format!("[{}]", cells.join(",")));
        command
    };
    let run = |arguments: &[&str]| {
        let output = with_cells(command(&first)).args(arguments).output().unwrap();
        let text = if output.stdout.starts_with(b"{") {
            output.stdout
        } else {
            [output.stdout, output.stderr].concat()
        };
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let (code, listed) = run(&["cell", "list"]);
    assert!(code == Some(1) && listed.contains("second"), "{listed}");
    let (code, unknown) = run(&["cell", "add", "third"]);
    assert!(code == Some(2) && unknown.contains("name = \"third\""), "{unknown}");
    check_refused_databases(&first, &second);
    let (code, added) = run(&["cell", "add", "second"]);
    assert!(code == Some(0) && added.contains("houston cell move f000-ffff --to second"), "{added}");
    let keys = "select count(*) from houston.api_keys";
    assert_eq!(second.sql(keys).unwrap(), first.sql(keys));
    let (code, refused) = run(&["cell", "move", "0000-ffff", "--to", "second"]);
    assert!(code == Some(2) && refused.contains("no worker claims"), "{refused}");

    let (address, _serve) = serve(with_cells(command(&first)));
    let worker = Process::spawn(with_cells(first.command()).arg("work")).unwrap();
    worker.wait_for_line(PATIENCE, |line| line == "working").unwrap();
    assert_eq!(first.open(&format!("http://{address}{events}")).await.status(), 200, "before anyone moves");
    let (code, moved) = run(&["cell", "move", "0000-ffff", "--to", "second"]);
    assert!(code == Some(0) && moved.contains("1 of 2 workers do not know that cell"), "{moved}");
    assert_eq!(first.sql("select count(*) from houston.users"), "0");
    check_cell_with_users(&first, &second);
    let (code, listed) = run(&["cell", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!((code, &listed["data"][1]["shards"]), (Some(0), &json!(["0000-ffff"])), "{listed}");
    let path = format!("http://{address}/v1/goals/{goal}/messages");
    let (posted, _) = post_to(&first, &path, "Are you there?").await;
    let until = Instant::now() + PATIENCE;
    let answered = format!("http://{address}/v1/messages/{}", posted["id"].as_str().unwrap());
    while !first.open(&answered).await.text().await.unwrap().contains("\"answered\"") {
        assert!(Instant::now() < until, "the new worker answers");
        sleep(Duration::from_millis(20)).await;
    }
    // A process that was not restarted creates no user where none would be found.
    let (status, refused) = first.send(reqwest::Method::POST, "/v1/users", &json!({"name": "Bob"})).await;
    assert_eq!(status, 503, "{refused}");
    drop(old_worker);
}
