//! Plans: making and reading them, what people do to them, and what streams show. The tests act as the plan's run.

use houston_domain::shared_state::apply;
use serde_json::{Value, json};

use crate::http::{Answer, Frame, kinds};
use crate::test_api::TestApi;
use crate::worker::Worker;

pub(crate) fn document() -> Value {
    json!({"v": 1, "goal": "Compare hotels", "steps": [
        {"id": "find", "type": "tool", "title": "Search", "tool": "search_web", "args": {"query": "{{ input.city }}"}},
        {"id": "each", "type": "loop", "over": "find.result", "as": "hotel", "max": 3, "steps": [
            {"id": "read", "type": "task", "title": "Read reviews", "instructions": "Judge {{ hotel }}."}]},
        {"id": "pick", "type": "llm", "title": "Pick one", "prompt": "Pick one: {{ each.result }}"}],
        "output": "{{ pick.result }}"})
}

/// Makes a plan of the goal. Returns its id.
pub(crate) async fn make(api: &TestApi) -> String {
    let body = json!({"document": document(), "input": {"city": "Rome"}});
    let answer = api.post(&api.path("/plans"), body).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["id"].as_str().unwrap().to_owned()
}

/// Writes states of steps, as the plan's run does.
fn write(api: &TestApi, plan: &str, states: &[(&str, Value)]) {
    let uuid = plan.strip_prefix("plan_").unwrap();
    for (path, state) in states {
        api.sql(&format!(
            "insert into houston.plan_steps (plan_id, tenant_id, path, state)
             select agentable_id, tenant_id, '{path}', '{state}' from houston.plans where agentable_id = '{uuid}'
             on conflict (plan_id, path) do update set state = excluded.state"
        ));
    }
}

/// How often a plan was changed from outside, and whether its run is awake; then lets it sleep.
fn take_wake(api: &TestApi, plan: &str) -> String {
    let uuid = plan.strip_prefix("plan_").unwrap();
    let seen = api.sql(&format!(
        "select p.changes, l.wake from houston.plans p join houston.run_locks l on l.agentable_id = p.agentable_id
          where p.agentable_id = '{uuid}'"
    ));
    api.sql(&format!("update houston.run_locks set wake = false where agentable_id = '{uuid}'"));
    seen.trim().to_owned()
}

fn pointers(answer: &Answer) -> Vec<String> {
    let problem = answer.refused(422, "invalid_request");
    let errors = problem["errors"].as_array().unwrap();
    errors.iter().map(|error| error["pointer"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn plan_is_made_once_and_read_in_all_its_parts() {
    let api = TestApi::start().await;
    let body = json!({"document": document(), "input": {"city": "Rome"}});
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let key = [("idempotency-key", "hotels"), ("traceparent", trace)];
    let first = api.post_with(&api.path("/plans"), &key, body.clone()).await;
    assert_eq!(first.status, 201, "{}", first.text());
    let made = first.json();
    let id = made["id"].as_str().unwrap();
    assert_eq!(first.header("location"), format!("/v1/plans/{id}"));
    assert_eq!((&made["status"], &made["parent_id"]), (&json!("queued"), &json!(api.goal)));
    let again = api.post_with(&api.path("/plans"), &key, body).await;
    assert_eq!((again.header("idempotent-replayed"), &again.body), ("true", &first.body));

    let one = format!("/v1/plans/{id}");
    let read = api.get(&one).await.ok();
    assert_eq!((&read["document"], &read["checklist"]), (&document(), &made["checklist"]));
    assert_eq!(read["checklist"]["steps"][1]["title"], made["steps"][1]["title"]);
    let listed = api.get(&api.path("/plans?limit=1")).await.ok();
    assert_eq!((&listed["data"][0]["id"], &listed["has_more"]), (&json!(id), &json!(false)), "{listed}");
    let versions = api.get(&format!("{one}/versions")).await.ok();
    assert_eq!(versions["data"][0]["document"], document());
    let kind = api.get("/v1/plans").await.ok();
    assert_eq!(kind["data"][0]["parent_id"], json!(api.goal), "{kind}");
    let uuid = id.strip_prefix("plan_").unwrap();
    let run = format!("select traceparent from houston.runs where agentable_id = '{uuid}'");
    assert_eq!(api.sql(&run).trim(), trace, "its run is a part of the client's trace");
}

#[tokio::test]
async fn steps_come_in_order_with_their_results() {
    let api = TestApi::start().await;
    let plan = make(&api).await;
    let long = "x".repeat(1_000);
    write(
        &api,
        &plan,
        &[
            ("find", json!({"status": "succeeded", "attempt": 1, "result": ["a", "b"]})),
            ("each", json!({"status": "running", "attempt": 1, "turns": ["a", "b"]})),
            ("each[0].read", json!({"status": "succeeded", "attempt": 2, "result": long})),
        ],
    );
    let read = api.get(&format!("/v1/plans/{plan}")).await.ok();
    let paths: Vec<&str> =
        read["steps"].as_array().unwrap().iter().map(|step| step["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["find", "each", "each[0].read", "each[1].read", "pick"]);
    assert_eq!((&read["steps"][2]["is_cut"], &read["steps"][3]["status"]), (&json!(true), &json!("pending")));
    assert_eq!(read["checklist"]["steps"][1]["detail"], "1 of 2", "{read}");
    let mut cursor = String::new();
    let mut all = Vec::new();
    loop {
        let page = api.get(&format!("/v1/plans/{plan}/steps?limit=2{cursor}")).await.ok();
        all.extend(page["data"].as_array().unwrap().clone());
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!((all.len(), &all[2]["result"]), (5, &json!(long)));
}

#[tokio::test]
async fn bad_documents_are_refused_with_every_pointer() {
    let api = TestApi::start().await;
    let post = async |document: Value| api.post(&api.path("/plans"), json!({"document": document})).await;
    let cycle = json!({"v": 1, "goal": "g", "steps": [
        {"id": "a", "type": "llm", "prompt": "{{ b.result }}"}, {"id": "b", "type": "llm", "prompt": "{{ a.result }}"}]});
    let refused = post(cycle).await;
    assert_eq!(pointers(&refused).len(), 1);
    assert!(refused.text().contains("a → b → a"), "{}", refused.text());
    let two = json!({"v": 1, "goal": "g", "steps": [
        {"id": "A", "type": "llm", "prompt": "x"}, {"id": "b", "type": "tool", "tool": "create_plan", "args": {}}]});
    let found = pointers(&post(two).await);
    assert_eq!(found, ["/document/steps/0/id", "/document/steps/1/tool"]);
    assert_eq!(pointers(&post(json!({"goal": "a\0"})).await), ["/document"]);
    let none =
        api.post("/v1/goals/goal_00000000000000000000000000000001/plans", json!({"document": document()}));
    none.await.refused(404, "not_found");
    let count = api.sql("select count(*) from houston.plans");
    assert_eq!(count.trim(), "0");
}

#[tokio::test]
async fn tasks_and_plans_have_no_plans_and_no_messages() {
    let api = TestApi::start().await;
    let plan = make(&api).await;
    let body = json!({"document": document()});
    api.post(&format!("/v1/plans/{plan}/plans"), body).await.refused(409, "not_creatable");
    let message = api.post(&format!("/v1/plans/{plan}/messages"), json!({"content": "hi"})).await;
    assert!((400..500).contains(&message.status), "{}", message.text());
    for _ in 1..10 {
        make(&api).await;
    }
    let full = api.post(&api.path("/plans"), json!({"document": document()})).await;
    assert_eq!(full.refused(409, "full")["limit"], 10);
}

#[tokio::test]
async fn document_is_changed_only_in_its_present_version() {
    let api = TestApi::start().await;
    let plan = make(&api).await;
    let one = format!("/v1/plans/{plan}");
    write(
        &api,
        &plan,
        &[(
            "find",
            json!({"status": "failed", "attempt": 1, "error": {"code": "NOT_FOUND", "message": "no"}}),
        )],
    );
    take_wake(&api, &plan);
    let again = json!({"id": "look", "type": "llm", "prompt": "Which hotels are in {{ input.city }}?"});
    let patch =
        json!({"version": 1, "add": [again], "remove": ["each", "pick"], "output": "{{ look.result }}"});
    let changed = api.send("PATCH", &one, patch.clone()).await.ok();
    assert_eq!((&changed["version"], &changed["document"]["steps"][1]), (&json!(2), &patch["add"][0]));
    assert_eq!(take_wake(&api, &plan), "1|t");
    api.send("PATCH", &one, patch).await.refused(409, "stale_version");
    let versions = api.get(&format!("{one}/versions")).await.ok();
    assert_eq!(versions["data"][0]["reason"], "changed by a request");
    let begun = api.send("PATCH", &one, json!({"version": 2, "remove": ["find"]})).await;
    assert_eq!(pointers(&begun), ["/remove/0"]);
    let bad = json!({"version": 2, "add": [{"id": "x", "type": "llm", "prompt": "{{ nope.result }}"}]});
    assert_eq!(pointers(&api.send("PATCH", &one, bad).await), ["/add/0"]);
    let twice = json!({"version": 2, "remove": ["nope", "each"]});
    assert_eq!(pointers(&api.send("PATCH", &one, twice).await), ["/remove/0", "/remove/1"]);
    assert_eq!(take_wake(&api, &plan), "1|f", "what was refused changes nothing");
}

#[tokio::test]
async fn paused_plan_is_woken_once_for_each_change() {
    let api = TestApi::start().await;
    let plan = make(&api).await;
    take_wake(&api, &plan);
    let act = async |what: &str| api.post(&format!("/v1/plans/{plan}/{what}"), Value::Null).await;
    let paused = act("pause").await.ok();
    assert_eq!((&paused["status"], &paused["checklist"]["status"]), (&json!("paused"), &json!("paused")));
    assert_eq!(take_wake(&api, &plan), "1|t");
    act("pause").await.ok();
    assert_eq!(take_wake(&api, &plan), "1|f");
    assert_eq!(act("resume").await.ok()["status"], "queued");
    assert_eq!(take_wake(&api, &plan), "2|t");
    let cancelled = act("cancel").await;
    assert_eq!((cancelled.status, &cancelled.json()["data"][0]["plan_id"]), (202, &json!(plan)));
}

#[tokio::test]
async fn steps_are_repeated_and_skipped_by_hand() {
    let api = TestApi::start().await;
    let plan = make(&api).await;
    let gone = json!({"code": "dependency_failed", "message": "was not needed"});
    write(
        &api,
        &plan,
        &[
            (
                "find",
                json!({"status": "failed", "attempt": 1, "error": {"code": "NOT_FOUND", "message": "no"}}),
            ),
            ("each", json!({"status": "skipped", "attempt": 0, "error": gone})),
            ("pick", json!({"status": "skipped", "attempt": 0, "error": gone})),
        ],
    );
    take_wake(&api, &plan);
    let act = async |step: &str, what: &str| {
        api.post(&format!("/v1/plans/{plan}/steps/{step}/{what}"), Value::Null).await
    };
    let status = |plan: &Value| {
        plan["steps"].as_array().unwrap().iter().map(|step| step["status"].clone()).collect::<Vec<_>>()
    };
    let again = act("find", "retry").await.ok();
    assert_eq!(status(&again), ["pending", "pending", "pending"]);
    assert_eq!(take_wake(&api, &plan), "1|t");
    act("find", "retry").await.refused(409, "invalid_step_status");
    act("each%5B7%5D.read", "retry").await.refused(404, "not_found");
    act("nope", "skip").await.refused(404, "not_found");
    let skipped = act("pick", "skip").await.ok();
    assert_eq!(skipped["steps"][2]["error"]["code"], "by_hand", "{skipped}");
    act("pick", "skip").await.refused(409, "invalid_step_status");
}

#[tokio::test]
async fn ended_plan_stays_as_it_is() {
    let api = TestApi::start().await;
    let plan = make(&api).await;
    let uuid = plan.strip_prefix("plan_").unwrap();
    api.sql(&format!(
        "update houston.plans set ended_at = now(), output = '\"done\"' where agentable_id = '{uuid}';
         update houston.runs set status = 'completed', ended_at = now() where agentable_id = '{uuid}';
         update houston.run_locks set run_open = false, wake = false where agentable_id = '{uuid}'"
    ));
    let one = format!("/v1/plans/{plan}");
    for path in ["/pause", "/resume", "/steps/find/retry", "/steps/find/skip"] {
        let problem = api.post(&format!("{one}{path}"), Value::Null).await.refused(409, "invalid_state");
        assert_eq!(problem["current_status"], "completed");
    }
    api.send("PATCH", &one, json!({"version": 1, "remove": ["pick"]})).await.refused(409, "invalid_state");
    let read = api.get(&one).await.ok();
    assert_eq!((&read["status"], &read["output"]), (&json!("completed"), &json!("done")));
}

/// The list of steps that a client has after these frames.
fn list(frames: &[Frame]) -> Value {
    let mut list = Value::Null;
    for frame in frames {
        match frame.kind() {
            "ACTIVITY_SNAPSHOT" => list = frame.data["content"].clone(),
            "ACTIVITY_DELTA" => apply(&mut list, frame.data["patch"].as_array().unwrap()),
            _ => {}
        }
    }
    list
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_of_the_goal_shows_the_list_to_all_alike() {
    let api = TestApi::start().await;
    api.post_message("plan it").await;
    let mut early = api.stream("", None).await;
    let worker = Worker::start(&api).await;
    let run = worker.claim().await;
    let plan = make(&api).await;
    let mut seen = early.until("ACTIVITY_SNAPSHOT").await;
    let created = seen.iter().rev().take(2).map(|frame| frame.data.clone()).collect::<Vec<_>>();
    assert_eq!(
        (&created[1]["name"], &created[1]["value"]["plan_id"]),
        (&json!("houston.plan.created"), &json!(plan))
    );
    assert_eq!(
        (&created[0]["messageId"], &created[0]["activityType"]),
        (&json!(plan), &json!("houston.plan"))
    );
    assert_eq!(created[0]["content"], api.get(&format!("/v1/plans/{plan}")).await.ok()["checklist"]);

    let patch =
        json!({"version": 1, "remove": ["pick"], "output": "{{ each.result }}", "reason": "I pick myself"});
    api.send("PATCH", &format!("/v1/plans/{plan}"), patch).await.ok();
    seen.extend(early.until("ACTIVITY_SNAPSHOT").await);
    assert_eq!(list(&seen)["steps"].as_array().unwrap().len(), 2, "{:?}", kinds(&seen));
    run.answer("done").await;
    seen.extend(early.rest().await.0);
    assert_eq!(seen.last().unwrap().kind(), "RUN_FINISHED");
    let (late, _) = api.stream("?after=0", None).await.rest().await;
    assert_eq!(list(&late), list(&seen));
}

#[tokio::test]
async fn documents_have_at_most_the_steps_that_are_set() {
    let api = TestApi::start().await;
    let steps = |from: usize, to: usize| -> Vec<Value> {
        (from..to).map(|n| json!({"id": format!("s{n}"), "type": "llm", "prompt": "x"})).collect()
    };
    let document = |count| json!({"v": 1, "goal": "Many", "steps": steps(0, count)});
    let path = api.path("/plans");
    // The setting of these tests: 12.
    let refused = api.post(&path, json!({"document": document(13)})).await;
    assert_eq!(pointers(&refused), ["/document/steps"]);
    let made = api.post(&path, json!({"document": document(12)})).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let plan = made.json()["id"].as_str().unwrap().to_owned();
    let more =
        api.send("PATCH", &format!("/v1/plans/{plan}"), json!({"version": 1, "add": steps(12, 13)})).await;
    assert_eq!(pointers(&more), ["/add"]);
}

#[tokio::test]
async fn plan_is_made_of_a_template_with_an_input() {
    let api = TestApi::start().await;
    let input = json!({"question": "Which is best?", "queries": ["hotels in Rome", "hostels in Rome"]});
    let body = json!({"template": "research", "input": input});
    let answer = api.post(&api.path("/plans"), body).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let plan = answer.json();
    assert_eq!((&plan["input"], &plan["document"]["goal"]), (&input, &json!("Research a question")));
    for (body, pointer) in [
        (json!({"template": "research", "input": {"question": "Which?", "queries": []}}), "/input/queries"),
        (json!({"template": "reserch", "input": input}), "/template"),
        (json!({"template": "research", "document": document(), "input": input}), "/document"),
        (json!({"input": input}), "/document"),
    ] {
        assert_eq!(pointers(&api.post(&api.path("/plans"), body).await), [pointer]);
    }
}

/// Regression: `why` and the console proposed to try a failed plan again, which was answered with `no_message`.
#[tokio::test]
async fn failed_plan_is_made_again_without_what_it_has_done() {
    let api = TestApi::start().await;
    let plan = make(&api).await;
    let uuid = plan.strip_prefix("plan_").unwrap();
    let done = json!({"status": "succeeded", "attempt": 1, "result": ["a", "b"]});
    let failed =
        json!({"status": "failed", "attempt": 3, "error": {"code": "TIMEOUT", "message": "too long"}});
    write(
        &api,
        &plan,
        &[("find", done.clone()), ("each[0].read", done), ("each[1].read", failed.clone()), ("each", failed)],
    );
    let run = api.sql(&format!("select run_id from houston.run_locks where agentable_id = '{uuid}'"));
    let run = format!("run_{}", run.trim().replace('-', ""));
    let retry = async || api.post("/v1/runs/retry", json!({"ids": [run]})).await.ok();
    assert_eq!(retry().await["skipped"][0]["reason"], "not_failed");
    api.sql(&format!(
        "update houston.plans set ended_at = now() where agentable_id = '{uuid}';
         update houston.runs set status = 'failed', ended_at = now(), error_code = 'TIMEOUT' where agentable_id = '{uuid}';
         update houston.run_locks set run_open = false, wake = false where agentable_id = '{uuid}'"
    ));
    let first = retry().await;
    assert_eq!((&first["changed"], &first["skipped"]), (&json!(1), &json!([])), "{first}");
    assert_eq!(retry().await["changed"], 1, "once, however often it is asked for");
    let listed = api.get(&api.path("/plans")).await.ok();
    let plans = listed["data"].as_array().unwrap();
    assert_eq!(plans.len(), 2, "{listed}");
    let again = api.get(&format!("/v1/plans/{}", plans[0]["id"].as_str().unwrap())).await.ok();
    assert_eq!(
        (&again["document"], &again["input"], &again["status"]),
        (&document(), &json!({"city": "Rome"}), &json!("queued"))
    );
    let id = again["id"].as_str().unwrap().strip_prefix("plan_").unwrap();
    let steps = format!(
        "select string_agg(path || ' ' || status, ', ' order by path) from houston.plan_steps where plan_id = '{id}'"
    );
    assert_eq!(api.sql(&steps).trim(), "each[0].read succeeded, find succeeded");
}
