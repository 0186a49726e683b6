//! Traces of real runs: exported over HTTP and by command, replayed, compared with another model, evaluated.

use std::path::Path;
use std::process::Output;

use houston_domain::event::Event;
use houston_domain::history::Entry;
use houston_domain::tool_call::{ToolErrorCode, ToolResponse};
use houston_domain::trace::{Line, Trace};
use houston_testkit::model_server::{Call, ModelServer, Reply};
use serde_json::{Value, json};

use crate::cells::console_pages;
use crate::people::People;
use crate::test_houston::{TestHouston, environment, houston_command};

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn run(arguments: &[&str]) -> Output {
    let mut command = houston_command();
    command.env_remove("DATABASE_URL").env_remove("HOUSTON_REDIS_URL").args(arguments).output().unwrap()
}

/// Writes the trace of the newest run of the goal to `file`; returns its run.
async fn write_trace(people: &People, goal: &str, file: &Path) -> String {
    let runs = people.of(goal, "runs").await;
    let run = runs["data"][0]["id"].as_str().unwrap().to_owned();
    people.output(&["trace", &run, "-o", file.to_str().unwrap()]);
    run
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_traced_and_replayed_without_difference() {
    let (people, _) = People::start().await;
    let goal = people.houston.goal("Tokyo").await;
    people.talk(&goal, "hello").await;
    people.talk(&goal, "note").await;
    people.talk(&goal, "my key is sk-0123456789abcdefghijklmnop").await;
    let file = people.houston.folder.path().join("run.trace.jsonl");
    let runs = people.of(&goal, "runs").await;
    for listed in runs["data"].as_array().unwrap() {
        let run = listed["id"].as_str().unwrap();
        let over_http = people.houston.open(&people.houston.url(&format!("/v1/runs/{run}/trace"))).await;
        let over_http = text(&over_http.bytes().await.unwrap());
        assert!(!over_http.contains("sk-0123"), "{over_http}");
        people.output(&["trace", run, "-o", file.to_str().unwrap()]);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), over_http, "both ways are one");
        for of in [run, file.to_str().unwrap()] {
            let replayed = people.json(&["replay", of, "--json"]);
            assert_eq!((&replayed["same"], &replayed["run_id"]), (&json!(true), &json!(run)), "{replayed}");
        }
    }
    assert_eq!(people.run(&["replay", "run_0192a3b4c5d67e8f9a0b1c2d3e4f5061"]).status.code(), Some(1));
}

/// A line without what was said: its texts are empty.
fn silent(mut line: Line) -> Option<Line> {
    match &mut line {
        Line::Before(_) => return None,
        Line::Event { event, .. } => match &mut **event {
            Event::MessagePosted { .. } | Event::MessageSent { .. } => return None,
            Event::ToolCalled { input, .. } => *input = json!({}),
            Event::ToolReturned { content, .. } => content.clear(),
            Event::Thought { text, .. } => text.clear(),
            _ => {}
        },
        Line::Tool { input, response, .. } => {
            *input = json!({});
            *response = match response.is_success() {
                true => ToolResponse::success(""),
                false => ToolResponse::failure(ToolErrorCode::Unknown, ""),
            };
        }
        Line::Message { content, .. } | Line::Answer { content, .. } | Line::Results { content, .. } => {
            content.clear();
        }
        _ => {}
    }
    Some(line)
}

#[tokio::test(flavor = "multi_thread")]
async fn outline_of_a_trace_has_its_steps_and_no_texts() {
    let (people, _) = People::start().await;
    let goal = people.houston.goal("Tokyo").await;
    people.talk(&goal, "note").await;
    people.talk(&goal, "hello").await;
    people.talk(&goal, "note").await;
    let runs = people.of(&goal, "runs").await;
    for listed in runs["data"].as_array().unwrap() {
        let path = format!("/v1/runs/{}/trace", listed["id"].as_str().unwrap());
        let read = async |query: &str| {
            let response = people.houston.open(&people.houston.url(&format!("{path}{query}"))).await;
            text(&response.bytes().await.unwrap())
        };
        let (whole, outline) = (read("").await, read("?contents=false").await);
        for said in ["hello", "Milk", "buy it", "Noted"] {
            assert!(!outline.contains(said), "{outline}");
        }
        let steps = |text: &str| -> Vec<Line> {
            Trace::parse(text).unwrap().lines.into_iter().filter_map(silent).collect()
        };
        assert_eq!(steps(&outline), steps(&whole), "{outline}");
        // A part of it has the lines of its time, with their texts.
        let lines = |text: &str| Trace::parse(text).unwrap().lines.into_iter();
        let committed: Vec<Line> = lines(&whole).filter(|line| silent(line.clone()).is_some()).collect();
        for part in committed.windows(3) {
            let (since, until) = (part[0].at().unwrap(), part[2].at().unwrap());
            let [first, last] = [since, until].map(|at| json!(at).as_str().unwrap().to_owned());
            let found: Vec<Line> = lines(&read(&format!("?since={first}&until={last}")).await).collect();
            let is_within = |line: &&Line| line.at().is_some_and(|at| since <= at && at <= until);
            let expected: Vec<Line> = committed.iter().filter(is_within).cloned().collect();
            assert_eq!(found, expected, "from {first} to {last}");
        }
    }
    console_has_the_texts(&people, runs["data"][0]["id"].as_str().unwrap()).await;
}

/// The texts of what the model was sent for the first answer of the goal's last run, by the trace of the run.
pub(crate) async fn sent_in_the_last_run(houston: &TestHouston, goal: &str) -> Vec<String> {
    let runs = houston.get(&format!("/v1/goals/{goal}/runs?limit=1")).await;
    let path = format!("/v1/runs/{}/trace", runs["data"][0]["id"].as_str().unwrap());
    let trace = houston.open(&houston.url(&path)).await.text().await.unwrap();
    let sent = Trace::parse(&trace).unwrap().history_before_answer(1).unwrap();
    sent.iter().map(Entry::text).collect()
}

/// The page of a run with a note, and the page of one of its texts.
async fn console_has_the_texts(people: &People, run: &str) {
    let path = format!("/console/runs/{run}");
    let [page] = console_pages(&people.houston, [format!("{path}?contents=true").as_str()]).await;
    let before = page.split("<span>create_note</span>").next().unwrap();
    let step = before.rsplit("id=\"s").next().unwrap().split('"').next().unwrap();
    let (arguments, result) = (format!("{path}/texts/{step}/0"), format!("{path}/texts/{step}/1"));
    let [arguments, result] = console_pages(&people.houston, [arguments.as_str(), result.as_str()]).await;
    let arguments: Value = serde_json::from_str(&arguments).unwrap();
    assert_eq!(arguments["content"], "buy it");
    assert!(result.starts_with("Created"), "{result}");
    assert!(page.contains("buy it") && page.contains(&result), "{page}");
    let [first, second] = [format!("{path}/calls/1"), format!("{path}/calls/2")];
    assert!(page.contains(&first) && page.contains(&second), "{page}");
    let [first, second] = console_pages(&people.houston, [first.as_str(), second.as_str()]).await;
    let calls = |page: &str| page.matches("calls create_note").count();
    assert_eq!(calls(&second), calls(&first) + 1, "{first}\n{second}");
    assert!(first.contains("hello") && second.contains(&result), "{first}\n{second}");
}

/// A command that asks the scripted model.
fn with_model(people: &People, arguments: &[&str]) -> Output {
    let servers = people.houston.servers.lock().unwrap();
    let mut command = environment(houston_command(), &servers, people.houston.folder.path());
    command
        .args(arguments)
        .envs([("ANTHROPIC_BASE_URL", people.model.url().as_str()), ("ANTHROPIC_API_KEY", "sk-test")]);
    command.output().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_replayed_as_another_agent_and_often() {
    let (people, _) = People::start().await;
    let goal = people.houston.goal("Tokyo").await;
    people.talk(&goal, "note").await;
    let runs = people.of(&goal, "runs").await;
    let run_id = runs["data"][0]["id"].as_str().unwrap().to_owned();
    let body = json!({"name": "clerk", "kind": "goal", "role": "You are a clerk.",
                      "tools": ["send_message", "create_note"], "limits": {"max_iterations": 1}});
    let agent = people.create("/v1/agents", &body).await;
    let model = ["--model", "anthropic/scripted", "--json"];
    let output = with_model(&people, &[&["replay", &run_id, "--agent", &agent], &model[..]].concat());
    let comparison: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    assert_eq!(comparison["replayed"]["status"], "max_iterations", "{output:?}");
    let sent = String::from_utf8_lossy(&people.model.journal().last().unwrap().body).into_owned();
    assert!(sent.contains("You are a clerk."), "{sent}");
    let junit = people.houston.folder.path().join("junit.xml");
    let often = ["replay", &run_id, "--repeat", "3", "--from", "3", "--junit", junit.to_str().unwrap()];
    let output = with_model(&people, &[&often[..], &model[..]].concat());
    let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let stability = &found["stability"];
    assert_eq!((&stability["replays"], &stability["same_answer"]), (&json!(3), &json!(3)), "{output:?}");
    assert_eq!(stability["distance"]["most"], 0, "{output:?}");
    assert_eq!(
        found["replays"][0]["recorded"]["calls"].as_array().unwrap().len(),
        1,
        "after the first results"
    );
    assert!(std::fs::read_to_string(&junit).unwrap().contains("tests=\"3\" failures=\"0\""));
    let output = with_model(&people, &[&["replay", &run_id, "--from", "99"], &model[..]].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("there is none at 99"), "{output:?}");
    let none = "agent_0192a3b4c5d67e8f9a0b1c2d3e4f5061";
    assert_eq!(with_model(&people, &["replay", &run_id, "--agent", none]).status.code(), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_in_prompts_and_results_are_not_traced() {
    let (people, _) = People::start().await;
    let key = "sk-0123456789abcdefghijklmnop";
    let body =
        json!({"name": "clerk", "kind": "goal", "role": format!("Use {key}."), "tools": ["send_message"]});
    let agent = people.create("/v1/agents", &body).await;
    let goal = people.houston.goal("Tokyo").await;
    let answering = json!({"agent_id": agent});
    let changed = people.client.patch(people.houston.url(&format!("/v1/goals/{goal}")));
    let changed = changed.bearer_auth(&people.houston.key).header("Content-Type", "application/json");
    assert!(changed.body(answering.to_string()).send().await.unwrap().status().is_success());
    // The model repeats it, so that it is in a call, in an answer, and in a message.
    people.talk(&goal, key).await;
    let file = people.houston.folder.path().join("run.trace.jsonl");
    write_trace(&people, &goal, &file).await;
    let traced = std::fs::read_to_string(&file).unwrap();
    assert!(!traced.contains("sk-0123") && traced.contains("[redacted]"), "{traced}");
    let header = &Trace::parse(&traced).unwrap().header;
    let names: Vec<&str> = header.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["send_message"], "the tools of its agent");
    assert_eq!(run(&["replay", file.to_str().unwrap()]).status.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_difference_fails_with_its_place() {
    let (people, _) = People::start().await;
    let goal = people.houston.goal("Tokyo").await;
    people.talk(&goal, "note").await;
    let file = people.houston.folder.path().join("run.trace.jsonl");
    write_trace(&people, &goal, &file).await;
    let path = file.to_str().unwrap();
    let mut trace = Trace::parse(&std::fs::read_to_string(&file).unwrap()).unwrap();
    trace.header.limits.max_iterations = 1;
    std::fs::write(&file, trace.to_text()).unwrap();
    let output = run(&["replay", path]);
    let stdout = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{stdout}");
    let second = |(_, line): &(usize, &Line)| matches!(line, Line::Answer { .. });
    let (at, _) = trace.lines.iter().enumerate().filter(second).nth(1).unwrap();
    assert!(stdout.contains(&format!("line {}, iteration 1", at + 2)), "{stdout}");
    assert!(stdout.contains("max_iterations"), "{stdout}");
    std::fs::write(&file, trace.to_text().replacen("Milk", "Beer", 1)).unwrap();
    let output = run(&["replay", path]);
    assert!(text(&output.stderr).contains("digest"), "{output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_model_gets_recorded_tools_only() {
    let (people, _) = People::start().await;
    let goal = people.houston.goal("Tokyo").await;
    people.talk(&goal, "note").await;
    let file = people.houston.folder.path().join("run.trace.jsonl");
    write_trace(&people, &goal, &file).await;
    let before = people.rows();
    let replay =
        |path: &str| with_model(&people, &["replay", path, "--model", "anthropic/scripted", "--json"]);
    let output = replay(file.to_str().unwrap());
    let comparison: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    assert_eq!(
        (&comparison["distance"], &comparison["same_answer"]),
        (&json!(0), &json!(true)),
        "{output:?}"
    );
    assert_eq!(people.rows(), before, "nothing was written");

    // A call that the record does not answer.
    let mut trace = Trace::parse(&std::fs::read_to_string(&file).unwrap()).unwrap();
    trace.lines.retain(|line| !matches!(line, Line::Tool { name, .. } if name == "create_note"));
    std::fs::write(&file, trace.to_text()).unwrap();
    let output = replay(file.to_str().unwrap());
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("does not answer create_note"), "{output:?}");
}

#[test]
fn cases_are_evaluated_with_baseline_and_junit() {
    let folder = tempfile::tempdir().unwrap();
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces/one_tool.trace.jsonl");
    let case = |name: &str, expect: &str| {
        let file = folder.path().join(format!("{name}.case.toml"));
        std::fs::write(file, format!("trace = \"{golden}\"\n[expect]\n{expect}")).unwrap();
    };
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (cases, baseline, junit) =
        (folder.path().to_str().unwrap(), path("baseline.json"), path("junit.xml"));
    case("found", "calls = ['search']\nnever_calls = ['pay']\nanswer = { contains = ['90 EUR'] }");
    let output = run(&["eval", cases, "--write-baseline", &baseline]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    case("paid", "calls = ['pay']");
    let output = run(&["eval", cases, "--baseline", &baseline, "--junit", &junit]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let stdout = text(&output.stdout);
    assert!(stdout.contains("ok found") && stdout.contains("FAILED paid"), "{stdout}");
    let xml = std::fs::read_to_string(&junit).unwrap();
    assert!(xml.contains("tests=\"2\" failures=\"1\"") && xml.contains("`pay` was not called"), "{xml}");
    case("wrong", "call = ['x']");
    assert_eq!(run(&["eval", cases]).status.code(), Some(2));
    for name in ["wrong", "paid", "found"] {
        std::fs::remove_file(folder.path().join(format!("{name}.case.toml"))).unwrap();
    }
    case("other", "calls = ['search']");
    let output = run(&["eval", cases, "--baseline", &baseline]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stdout).contains("FAILED found") && text(&output.stdout).contains("is missing"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_judge_is_asked_about_the_answer() {
    let model = ModelServer::start(|call: &Call| {
        let asked = call.last_user_text();
        let is_price = asked.contains("90 EUR") && asked.contains("names a price");
        Reply::text(json!({"met": is_price, "why": "I looked"}).to_string())
    });
    let model = model.await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces/one_tool.trace.jsonl");
    for (name, statement) in [("good", "It names a price."), ("bad", "It is a poem.")] {
        let text = format!("trace = \"{golden}\"\nexpect.judge = \"{statement}\"\n");
        std::fs::write(folder.path().join(format!("{name}.case.toml")), text).unwrap();
    }
    let mut command = houston_command();
    command.args(["eval", folder.path().to_str().unwrap(), "--judge", "anthropic/scripted"]);
    command.envs([("ANTHROPIC_BASE_URL", model.url().as_str()), ("ANTHROPIC_API_KEY", "sk-test")]);
    let output = command.output().unwrap();
    let stdout = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        stdout.contains("ok good") && stdout.contains("judge: not true: It is a poem. (I looked)"),
        "{stdout}"
    );
}
