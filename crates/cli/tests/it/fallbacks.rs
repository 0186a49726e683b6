//! Tools that fail and have a fallback, and tools that ask a model, on real servers.

use std::sync::atomic::{AtomicUsize, Ordering};

use houston_testkit::model_server::Reply;
use serde_json::{Value, json};

use crate::scripted::Scripted;
use crate::site::{Answer, Site};
use crate::test_houston::TestHouston;

fn answer(request: &str) -> Answer {
    let (status, of_type, body) = match request.split(' ').nth(1).unwrap_or_default() {
        path if path.starts_with("/rates") => ("503 Service Unavailable", "text/plain", "Down."),
        path if path.starts_with("/old") => ("200 OK", "application/json", r#"{"rate": 1.1}"#),
        "/seen.png" => return ("200 OK", "image/png", b"\x89PNG\r\n\x1a\n...".to_vec()),
        "/words.png" => ("200 OK", "image/png", "no image"),
        _ => ("404 Not Found", "text/plain", "There is no such page."),
    };
    (status, of_type, body.into())
}

/// An installation whose goals have two endpoints of one site, of which one is the fallback of the other.
async fn setup() -> (TestHouston, Site) {
    let (houston, site) = (TestHouston::start(), Site::start(answer).await);
    let jobs = houston.folder.path();
    std::fs::create_dir_all(jobs.join("endpoints")).unwrap();
    let endpoint = |name: &str, path: &str, parameter: &str| {
        format!(
            "[[endpoint]]\nname = \"{name}\"\ndescription = \"Rates.\"\nmethod = \"GET\"\npath = \"{path}\"\n\
             [[endpoint.parameter]]\nname = \"{parameter}\"\nin = \"query\"\n"
        )
    };
    let rates = format!(
        "base = \"{}\"\n{}{}",
        site.url(""),
        endpoint("get_rates", "/rates", "currency"),
        endpoint("get_old_rates", "/old", "code")
    );
    std::fs::write(jobs.join("endpoints/rates.toml"), rates).unwrap();
    let fallback = "[get_rates]\nfallback = { tool = \"get_old_rates\", input = { code = \"/currency\" } }\n";
    std::fs::write(jobs.join("tools.toml"), fallback).unwrap();
    let goal = std::fs::read_to_string(jobs.join("agents/goal.toml")).unwrap();
    let added = "\"create_note\", \"get_rates\", \"get_old_rates\", \"translate\", \"analyze_image\",";
    std::fs::write(jobs.join("agents/goal.toml"), goal.replace("\"create_note\",", added)).unwrap();
    (houston, site)
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoint_that_is_down_is_replaced_by_its_fallback() {
    let (houston, site) = setup().await;
    let hosts = format!("[\"{}\"]", site.url(""));
    let _worker = houston.worker_with(&[("HOUSTON_WEB__HOSTS", hosts.as_str())]);
    let goal = houston.goal("rates").await;
    let posted = houston.post(&goal, "1", "/sim tool=get_rates args={\"currency\":\"EUR\"}").await;
    // The first endpoint answered with a text of others and may have private data: what is sent after that needs a yes.
    let open = |found: &Value| found["data"].as_array().is_some_and(|questions| !questions.is_empty());
    let questions = houston.wait_until("/v1/questions?kind=approval", "a question", open).await;
    assert_eq!(questions["data"][0]["approval"]["tool"], "get_old_rates", "{questions}");
    let url = houston.url(&format!("/v1/questions/{}/answer", questions["data"][0]["id"].as_str().unwrap()));
    houston.post_to(&url, &json!({"answer": {"decision": "approve"}})).await;
    let answered = houston.wait_until_answered(&posted).await;
    let run = houston.sql_of(&goal, "select row_to_json(r)::text from houston.runs r");
    assert_eq!(answered["status"], "answered", "{run}");
    let history =
        houston.sql_of(&goal, "select string_agg(row_to_json(h)::text, ' ') from houston.history h");
    for part in ["[get_rates failed", "get_old_rates, answered in its place]", "1.1"] {
        assert!(history.contains(part), "{part}: {history}");
    }
    let requests = site.requests();
    assert_eq!(requests.len(), 2, "{requests:?}");
    assert!(requests[1].starts_with("GET /old?code=EUR"), "{requests:?}");
    let rows = "select string_agg(name || ' ' || (response->>'code' is null), ',' order by started_at, call_id) \
                from houston.tool_calls";
    assert!(houston.sql_of(&goal, rows).contains("get_old_rates true"), "{}", houston.sql_of(&goal, rows));
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_that_ask_a_model_cost_what_the_run_pays() {
    let (houston, site) = setup().await;
    let (seen, words) = (site.url("/seen.png"), site.url("/words.png"));
    let calls = AtomicUsize::new(0);
    let [image, no_image] = [seen.clone(), words.clone()];
    let test = Scripted::over(houston, move |asked| {
        if asked.system.starts_with("You translate") {
            return Reply::text("Guten Morgen");
        }
        if asked.system.starts_with("You look at an image") {
            return Reply::text("A cat.");
        }
        let look = |url: &str| Reply::tool("analyze_image", json!({"url": url, "question": "What is it?"}));
        match calls.fetch_add(1, Ordering::Relaxed) {
            0 => look(&image),
            1 => look(&no_image),
            2 => Reply::tool("translate", json!({"text": "Good morning", "to": "German"})),
            _ => Reply::tool("send_message", json!({"content": "Done."})),
        }
    })
    .await;
    let hosts = format!("[\"{}\"]", site.url(""));
    let _worker = test.houston.worker_with(&[
        ("HOUSTON_MODEL", "local/small"),
        ("HOUSTON_LOCAL_URL", &test.model.url()),
        ("HOUSTON_WEB__HOSTS", &hosts),
    ]);
    let user = test.ok("POST", "/v1/users", json!({"name": "Ada"})).await;
    let body = json!({"user_id": user["id"], "title": "Words"});
    let goal = test.ok("POST", "/v1/goals", body).await["id"].as_str().unwrap().to_owned();
    assert_eq!(test.ask(&goal, &format!("What is {seen}, and {words}? And good morning?")).await, "Done.");
    let history =
        test.houston.sql_of(&goal, "select string_agg(row_to_json(h)::text, ' ') from houston.history h");
    for part in ["A cat.", "it is no PNG, JPEG, WebP or GIF image", "Guten Morgen"] {
        assert!(history.contains(part), "{part}: {history}");
    }
    let calls = "select count(*)::text from houston.model_calls";
    assert_eq!(test.houston.sql_of(&goal, calls).trim(), "6", "four of the agent, two of tools");
}
