//! An installation of two cells behind one API server and one worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use houston_domain::id::{UserId, shard};
use houston_testkit::model_server::Reply;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

use crate::metrics::{LISTEN, scrape};
use crate::scripted::{Asked, Scripted, answer};
use crate::test_houston::{PATIENCE, TestHouston};

/// 32 bytes, in base64.
/// With it people can sign in to the console.
pub(crate) const SECRETS_KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

/// The number of the cell with this user: the shards are halved.
fn cell_of(user: &Value) -> usize {
    let user: UserId = user.as_str().unwrap().parse().unwrap();
    usize::from(shard(user).0 >= 0x8000)
}

/// Creates users until each cell has `count`; returns those of each cell.
pub(crate) async fn users(houston: &TestHouston, count: usize) -> [Vec<Value>; 2] {
    let mut users = [Vec::new(), Vec::new()];
    for nth in 0.. {
        let body = json!({"name": format!("user {nth}"), "external_id": format!("external {nth}")});
        let user = houston.create("/v1/users", &format!("user {nth}"), &body).await;
        users[cell_of(&user["id"])].push(user);
        if users.iter().all(|users| users.len() >= count) {
            return users;
        }
    }
    unreachable!("the loop returns")
}

async fn start(script: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Scripted {
    Scripted::over(TestHouston::with_two_cells(&[]), script).await
}

#[tokio::test(flavor = "multi_thread")]
async fn users_of_all_cells_are_served_and_listed_together() {
    let test = start(answer).await;
    let _worker = test.worker("local/one");
    let houston = &test.houston;
    let users = users(houston, 3).await;
    for user in users.iter().flatten() {
        let goal = json!({"user_id": user["id"], "title": "Tokyo", "message": {"content": "Hello?"}});
        let goal = houston.create("/v1/goals", &format!("goal of {}", user["id"]), &goal).await;
        let answered = houston.wait_until_answered(&goal["message"]).await;
        assert_eq!(answered["status"], "answered", "{answered}");
        let external_id = user["external_id"].as_str().unwrap().replace(' ', "%20");
        let found = houston.get(&format!("/v1/users?external_id={external_id}")).await;
        assert_eq!(found["data"][0]["id"], user["id"], "{found}");
    }
    for users in &users {
        let of_cell = users[0]["id"].as_str().unwrap();
        let goals = houston.sql_of(of_cell, "select count(*) from houston.agentables where kind = 'goal'");
        assert_eq!(goals, users.len().to_string(), "the goals in the cell of {of_cell}");
    }

    let mut newest: Vec<&Value> = users.iter().flatten().map(|user| &user["id"]).collect();
    newest.sort_by_key(|id| std::cmp::Reverse(id.as_str()));
    for path in ["/v1/users?limit=2", "/v1/goals?limit=2"] {
        let (mut listed, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = houston.get(&format!("{path}{cursor}")).await;
            let data = page["data"].as_array().unwrap();
            assert!(data.len() <= 2, "{page}");
            listed.extend(data.iter().map(|item| item.get("user_id").unwrap_or(&item["id"]).clone()));
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        if path.starts_with("/v1/users") {
            assert_eq!(listed.iter().collect::<Vec<_>>(), newest, "each user once, newest first");
        } else {
            assert_eq!(listed.len(), newest.len(), "each goal once");
        }
    }
    // At the same time in both cells, one on each page.
    houston.sql("insert into houston.health_changes values ('example', '2026-11-01 09:00Z', 'warn', '')");
    let path = "/v1/health/history?check=example&limit=1";
    let page = houston.get(path).await;
    let next = houston.get(&format!("{path}&cursor={}", page["next_cursor"].as_str().unwrap())).await;
    let cells = [&page, &next].map(|page| page["data"][0]["cell"].as_str().unwrap());
    assert_eq!((cells, &next["has_more"]), (["8000-ffff", "0000-7fff"], &json!(false)), "{page} {next}");
    let health = houston.get("/v1/health").await;
    let ids: Vec<&Value> = health["checks"].as_array().unwrap().iter().map(|check| &check["id"]).collect();
    assert!(ids.len() == ids.iter().collect::<std::collections::HashSet<_>>().len(), "{health}");
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_of_one_cell_answer_in_all() {
    let test = start(answer).await;
    let _worker = test.worker("local/one");
    let agent = test.agent("Butler", json!({})).await;
    let mut goals = Vec::new();
    for user in users(&test.houston, 1).await.into_iter().flatten() {
        let body = json!({"user_id": user["id"], "title": "Tokyo", "agent_id": agent});
        let goal = test.ok("POST", "/v1/goals", body).await["id"].as_str().unwrap().to_owned();
        assert_eq!(test.ask(&goal, "Hello?").await, "BUTLER by one");
        goals.push(goal);
    }
    // A change is in force everywhere at once.
    let path = format!("/v1/agents/{agent}");
    test.ok("PATCH", &path, json!({"role": "Valet", "name": "Valet"})).await;
    for goal in &goals {
        assert_eq!(test.ask(goal, "And now?").await, "Valet by one");
    }
    // So are the guards of the tenant.
    test.ok("PUT", "/v1/guards", json!({"denied": ["create_note"]})).await;
    for goal in &goals {
        let call = json!({"tool": "create_note", "input": {}});
        let explained = test.ok("POST", &format!("/v1/goals/{goal}/guards/explain"), call).await;
        assert_eq!(explained["verdict"]["by"]["layer"], "tenant", "{explained}");
    }
    // Each cell refuses to delete what its goals use.
    let (last, others) = goals.split_last().unwrap();
    for goal in others {
        test.ok("PATCH", &format!("/v1/goals/{goal}"), json!({"agent_id": null})).await;
    }
    let (status, refused) = test.refused("DELETE", &path, Value::Null).await;
    assert_eq!(status, 409, "{refused}");
    assert!(refused.contains(last.as_str()), "{refused}");
    assert_eq!(test.ask(last, "Still there?").await, "Valet by one");
    test.ok("PATCH", &format!("/v1/goals/{last}"), json!({"agent_id": null})).await;
    test.ok("DELETE", &path, Value::Null).await;
    assert_eq!(test.houston.sql("select count(*) from houston.agents where not is_default"), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_skills_that_have_changed_are_copied_again() {
    let test = start(answer).await;
    let users = users(&test.houston, 1).await;
    let other = users[1][0]["id"].as_str().unwrap();
    let skill = |name: &str, text: &str| {
        json!({"text": format!("---\nname: {name}\ndescription: For {name}.\n---\n{text}"),
               "files": {"references/more.md": format!("more {text}")}})
    };
    for name in ["first", "second"] {
        test.ok("PUT", &format!("/v1/skills/{name}"), skill(name, "old")).await;
    }
    let rows = || {
        let rows = "select string_agg(concat_ws(' ', s.name, s.xmin, right(s.text, 3), f.content), ',' order by s.name)
                      from houston.skills s join houston.skill_files f on f.owner_id = s.owner_id and f.skill = s.name";
        let rows = test.houston.sql_of(other, rows);
        rows.trim().split(',').map(str::to_owned).collect::<Vec<_>>()
    };
    let before = rows();
    test.ok("PUT", "/v1/skills/second", skill("second", "new")).await;
    let after = rows();
    assert_eq!(after[0], before[0], "the same row as before");
    assert!(after[1].ends_with("new more new"), "{after:?}");
    test.ok("DELETE", "/v1/skills/first", Value::Null).await;
    assert_eq!(rows(), after[1..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn external_id_of_another_cell_is_refused() {
    let test = start(answer).await;
    let users = users(&test.houston, 1).await;
    let path = format!("/v1/users/{}", users[0][0]["id"].as_str().unwrap());
    let taken = json!({"external_id": users[1][0]["external_id"]});
    let (status, refused) = test.refused("PATCH", &path, taken).await;
    assert!(status == 422 || status == 400, "{status} {refused}");
    assert!(refused.contains("/external_id"), "{refused}");
    test.ok("PATCH", &path, json!({"external_id": null})).await;
}

/// Pages of the console, as its viewer with the key gets them.
pub(crate) async fn console_pages<const N: usize>(houston: &TestHouston, paths: [&str; N]) -> [String; N] {
    let client =
        reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let sign_in = client
        .post(houston.url("/console/sign-in"))
        .header("origin", houston.url(""))
        .header("content-type", "application/x-www-form-urlencoded")
        .body(format!("key={}", houston.key));
    let signed_in = sign_in.send().await.unwrap();
    let cookie = signed_in.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let mut pages: [String; N] = std::array::from_fn(|_| String::new());
    for (page, path) in pages.iter_mut().zip(paths) {
        let response = client.get(houston.url(path)).header("cookie", &cookie).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        *page = response.text().await.unwrap();
    }
    pages
}

/// Waits until the metrics tell that the second cell is away. What was read of the cells is used again for some seconds.
async fn wait_for_metrics_without_a_cell(houston: &TestHouston) {
    let until = tokio::time::Instant::now() + PATIENCE;
    let mut metrics = scrape(&houston._serve).await;
    while !metrics.contains("houston_postgres_up{cell=\"8000-ffff\"} 0") {
        assert!(tokio::time::Instant::now() < until, "{metrics}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        metrics = scrape(&houston._serve).await;
    }
    assert!(metrics.contains("houston_postgres_up{cell=\"0000-7fff\"} 1"), "{metrics}");
    for of_queues in ["houston_queue_depth", "houston_queue_oldest_age_seconds", "houston_queue_paused"] {
        assert!(metrics.contains(&format!("{of_queues}{{cell=\"0000-7fff\"")), "{of_queues}: {metrics}");
        assert!(!metrics.contains(&format!("{of_queues}{{cell=\"8000-ffff\"")), "{of_queues}: {metrics}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "waits most of a minute; `cargo xtask test --long`, a part of `cargo xtask evidence`"]
async fn dead_cell_harms_only_its_own_users() {
    let variables = [LISTEN, ("HOUSTON_SECRETS_KEY", SECRETS_KEY)];
    let test = Scripted::over(TestHouston::with_two_postgres(&variables), answer).await;
    let _worker = test.worker("local/one");
    let mut goals = Vec::new();
    for users in users(&test.houston, 1).await {
        let body = json!({"user_id": users[0]["id"], "title": "Tokyo"});
        goals.push(test.ok("POST", "/v1/goals", body).await["id"].as_str().unwrap().to_owned());
    }
    test.ask(&goals[0], "Hello?").await;
    test.ask(&goals[1], "Hello?").await;
    let dead = 1;
    test.houston.sql("insert into houston.health_changes values ('example', now(), 'warn', 'is away')");
    test.houston.servers.lock().unwrap().cells().nth(dead).unwrap().kill_postgres().unwrap();
    test.ask(&goals[0], "Are you there?").await;
    let away = test.houston.open(&test.houston.url(&format!("/v1/goals/{}", goals[dead]))).await;
    assert_eq!(away.status(), 503);
    assert!(away.headers().contains_key("retry-after"), "{away:?}");
    test.houston.wait_until("/readyz", "ready", |ready| ready["status"] == "ready").await;
    let listed = test.houston.command().args(["cell", "list", "--json"]).output().unwrap();
    assert_eq!(listed.status.code(), Some(1), "{listed:?}");
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let up: Vec<_> =
        listed["data"].as_array().unwrap().iter().map(|cell| (&cell["cell"], &cell["is_up"])).collect();
    assert_eq!(up, [(&json!("0000-7fff"), &json!(true)), (&json!("8000-ffff"), &json!(false))]);
    // Lists have what the other cell has, and say which one is missing.
    for path in ["/v1/goals", "/v1/users", "/v1/runs", "/v1/queues", "/v1/overview", "/v1/usage"] {
        let response = test.houston.open(&test.houston.url(path)).await;
        assert_eq!(response.status(), 200, "{path}");
        assert_eq!(response.headers()["houston-missing-cells"], "8000-ffff", "{path}");
    }
    let models = test.houston.get("/v1/models").await;
    assert!(models["routes"].is_array(), "one answer, and no page of all cells: {models}");
    let health = test.houston.get("/v1/health").await;
    assert_eq!(health["status"], "red", "{health}");
    wait_for_metrics_without_a_cell(&test.houston).await;
    // So do the pages of the console.
    let pages = console_pages(&test.houston, ["/console/runs", "/console/health", "/console"]).await;
    assert!(pages[1].contains("<td class=\"keep\">0000-7fff</td>"), "the cell of a change: {}", pages[1]);
    for page in pages {
        assert!(page.contains("Cells that do not answer: 8000-ffff."), "{page}");
    }

    tokio::task::block_in_place(|| {
        test.houston.servers.lock().unwrap().others[dead - 1].restart_postgres().unwrap();
    });
    let path = format!("/v1/goals/{}", goals[dead]);
    test.houston
        .wait_until(&path, "the goal of the dead cell", |goal| goal["id"] == goals[dead].as_str())
        .await;
    let posted = test.houston.post(&goals[dead], "again", "Are you back?").await;
    let answered = test.houston.wait_until_answered(&posted).await;
    assert_eq!(answered["status"], "answered", "within {PATIENCE:?}: {answered}");
    assert_users_are_served_without_the_home(&test, &goals[dead]).await;
}

/// A goal of the other cell goes on, and what is for no user is answered by that cell.
async fn assert_users_are_served_without_the_home(test: &Scripted, goal: &str) {
    test.houston.servers.lock().unwrap().kill_postgres_of_cell().unwrap();
    test.ask(goal, "Are you there?").await;
    for path in ["/v1/models", "/v1/key"] {
        let until = tokio::time::Instant::now() + PATIENCE;
        // The first request finds out that the home is away.
        while test.houston.open(&test.houston.url(path)).await.status() != 200 {
            assert!(tokio::time::Instant::now() < until, "{path}");
        }
    }
    let response = test.houston.open(&test.houston.url("/v1/usage")).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["houston-missing-cells"], "0000-7fff");
    tokio::task::block_in_place(|| test.houston.servers.lock().unwrap().restart_postgres().unwrap());
}

/// A receiver of webhooks that answers 410 to all. Returns its address, and counts the requests.
async fn gone_receiver() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (url, count) = (format!("http://{}", listener.local_addr().unwrap()), Arc::new(AtomicUsize::new(0)));
    let heard = Arc::clone(&count);
    TaskTracker::new().spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut head = [0; 16 * 1024];
            let _ = socket.read(&mut head).await;
            heard.fetch_add(1, Ordering::SeqCst);
            let _ = socket
                .write_all(b"HTTP/1.1 410 Gone\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                .await;
        }
    });
    (url, count)
}

#[tokio::test(flavor = "multi_thread")]
async fn receiver_that_is_gone_is_gone_for_all_cells() {
    let (url, heard) = gone_receiver().await;
    let hosts = format!("[\"{url}\"]");
    let variables = [("HOUSTON_WEBHOOKS__HOSTS", hosts.as_str()), ("HOUSTON_SECRETS_KEY", SECRETS_KEY)];
    let test = Scripted::over(TestHouston::with_two_cells(&variables), answer).await;
    let model = [("HOUSTON_MODEL", "local/one"), ("HOUSTON_LOCAL_URL", &test.model.url())];
    let _worker = test.houston.worker_with(&[variables, model].concat());
    let webhook = json!({"url": format!("{url}/hook"), "topics": ["message.posted"]});
    let webhook = test.ok("POST", "/v1/webhooks", webhook).await["id"].clone();
    // The other cell than the home, where the webhook was made.
    let [_, others] = users(&test.houston, 1).await;
    let body = json!({"user_id": others[0]["id"], "title": "Tokyo", "message": {"content": "Hello?"}});
    test.ok("POST", "/v1/goals", body).await;
    let path = format!("/v1/webhooks/{}", webhook.as_str().unwrap());
    let off =
        test.houston.wait_until(&path, "it is switched off", |webhook| webhook["enabled"] == false).await;
    assert_eq!(off["disabled_because"], "gone");
    let count = "select count(*) from houston.webhooks where not enabled and disabled_because = 'gone'";
    let all = || async { test.houston.sql(count) };
    let until = tokio::time::Instant::now() + PATIENCE;
    while all().await != "2" {
        assert!(tokio::time::Instant::now() < until, "switched off in both cells");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(heard.load(Ordering::SeqCst), 1);
    // Switched on again, it is on in both.
    test.ok("PATCH", &path, json!({"enabled": true})).await;
    assert_eq!(test.houston.sql("select count(*) from houston.webhooks where enabled"), "2");
}
