//! Plans on real servers: steps side by side, executors, ends that are reported once, whatever dies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use houston_domain::history::Block;
use houston_domain::id::RunId;
use houston_domain::model::ModelError;
use houston_domain::plan::evaluate_elsewhere;
use houston_domain::run::RunStatus;
use houston_engine::Config;
use houston_llm::{Choice, Description, Event as ModelEvent, EventStream, Model, Request, Simulated};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::cluster::{TestCluster, assert_status, eventually};
use crate::workers::{TestWorker, config, simulated};

/// A message that makes the simulated model make this plan.
fn asks_for(goal: &str, steps: &Value, output: &str) -> String {
    let arguments = json!({"goal": goal, "steps": steps, "output": output});
    format!("/sim tool=create_plan args={arguments}")
}

pub(crate) fn note(id: &str, content: &str) -> Value {
    json!({"id": id, "type": "tool", "title": format!("Write {id}"), "tool": "create_note",
           "args": {"title": id, "content": content}})
}

impl TestCluster {
    async fn sql(&self, query: &str) -> String {
        self.servers.sql(query).unwrap().trim().to_owned()
    }

    /// The types of the events of a run, with repetitions left out.
    async fn topics(&self, run: RunId) -> Vec<String> {
        let query =
            format!("select data ->> 'type' from houston.events where run_id = '{}' order by seq", run.0);
        let mut topics: Vec<String> = self.sql(&query).await.lines().map(str::to_owned).collect();
        topics.dedup();
        topics
    }
}

/// A worker that stops must not wait for an evaluation: the next one begins it again.
#[tokio::test(flavor = "multi_thread")]
async fn stopping_worker_hands_over_a_plan_that_evaluates() {
    static MAY_END: AtomicBool = AtomicBool::new(false);
    let begun = Arc::new(Notify::new());
    let noted = Arc::clone(&begun);
    evaluate_elsewhere(Box::new(move |evaluation| {
        let evaluation = serde_json::to_value(evaluation).unwrap();
        if evaluation["context"].to_string().contains("held up") {
            noted.notify_one();
            while !MAY_END.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        Ok(json!("evaluated"))
    }));
    let cluster = TestCluster::start().await;
    let steps = json!([{"id": "first", "type": "llm", "title": "Say it", "prompt": "held up"}, note("second", "{{ first.result|upper|list|join }}")]);
    let (worker, begins) = (cluster.worker(), begun.notified());
    let posted = cluster.post(cluster.goal, &asks_for("Two notes", &steps, "{{ second.result }}")).await;
    begins.await;
    worker.drain().await;
    let held = cluster.sql("select count(*) from houston.run_locks where holder is not null").await;
    MAY_END.store(true, Ordering::Relaxed);
    assert_eq!(held, "0");
    let _worker = cluster.worker();
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
}

#[tokio::test(flavor = "multi_thread")]
async fn plan_runs_tools_executors_and_models_and_is_reported_once() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker();
    let steps = json!([
        note("first", "one"),
        note("second", "{{ first.result }}"),
        {"id": "look", "type": "task", "title": "Look around", "instructions": "Say hello", "after": ["first"]},
        {"id": "sum", "type": "llm", "title": "Sum up", "prompt": "Repeat {{ look.result }}", "after": ["second"]},
    ]);
    let posted = cluster.post(cluster.goal, &asks_for("Two notes", &steps, "{{ sum.result }}")).await;
    let ended = cluster.wait_for_end(posted.run).await;
    assert_status(&ended, RunStatus::MessageSent);
    let states = "select string_agg(path || ' ' || status || ' ' || attempt, ', ' order by path) from houston.plan_steps";
    assert_eq!(
        cluster.sql(states).await,
        "first succeeded 1, look succeeded 1, second succeeded 1, sum succeeded 1"
    );
    let notes = "select string_agg(title, ', ' order by title) from houston.knowledge_items where title in ('first', 'second')";
    assert_eq!(cluster.sql(notes).await, "first, second");
    let reported =
        "select count(*) from houston.messages where source = 'system' and content like '<plan_ended%'";
    assert_eq!(cluster.sql(reported).await, "1");
    assert_eq!(cluster.sql("select count(*) from houston.agentables where kind = 'executor'").await, "1");
    // Regression: quick steps never began in the stream, and others began before those that they wait for had ended.
    let events =
        "select string_agg(concat_ws(' ', replace(data ->> 'type', 'plan_step_', ''), data ->> 'path',
                                              left(data ->> 'task_id', 9)), ', ' order by seq)
                    from houston.events where data ->> 'type' like 'plan_step_%'";
    let events = cluster.sql(events).await;
    let mut rest = events.as_str();
    for event in [
        "started first",
        "finished first",
        "started second",
        "finished second",
        "started sum",
        "finished sum",
    ] {
        let at = rest.find(event).unwrap_or_else(|| panic!("{event}: {events}"));
        rest = &rest[at..];
    }
    assert!(events.contains("started look executor_"), "{events}");
    let runs = format!("select count(*) from houston.runs where agentable_id = '{}'", cluster.goal.0);
    assert_eq!(cluster.sql(&runs).await, "1", "the run that made the plan waits for it");
    assert_eq!(cluster.held().await, "0", "neither a lock nor a slot is left");
    let topics = cluster.topics(posted.run).await;
    let plan: Vec<&str> =
        topics.iter().map(String::as_str).filter(|topic| topic.starts_with("plan")).collect();
    assert_eq!((plan.first(), plan.last()), (Some(&"plan_created"), Some(&"plan_ended")), "{topics:?}");
    worker.drain().await;
}

/// A plan whose steps need each other in several ways: tools, an executor in a loop, a condition, a model.
fn larger_plan() -> Value {
    json!([
        note("first", "one"),
        {"id": "three", "type": "loop", "over": "[1, 2, 3]", "as": "n", "max": 3, "at_once": 3, "steps": [
            {"id": "look", "type": "task", "title": "Look", "instructions": "Say {{ n }}"}]},
        {"id": "both", "type": "parallel", "steps": [note("left", "{{ first.result }}"), note("right", "{{ first.result }}")]},
        {"id": "check", "type": "condition", "if": "three.result | length == 3", "then": [note("last", "{{ both.result.left }}")]},
        {"id": "sum", "type": "llm", "title": "Sum up", "prompt": "Repeat three", "after": ["check"]},
    ])
}

/// A worker that gives no run up because others died: each of the runs may be among those that are killed thrice.
fn patient(cluster: &TestCluster) -> TestWorker {
    cluster.worker_of(Config { max_crashes: 1000, ..config() }, simulated(), vec![])
}

/// Makes plans, and kills workers while they work. Returns how many were killed.
async fn wave_of_plans(cluster: &TestCluster, workers: &mut Vec<TestWorker>, plans: usize) -> usize {
    const KILLS: usize = 10;
    let mut posted = Vec::new();
    for goal in cluster.create_agentables("goal", plans).await {
        posted.push(cluster.post(goal, &asks_for("Many", &larger_plan(), "{{ sum.result }}")).await.run);
    }
    for _ in 0..KILLS {
        tokio::time::sleep(Duration::from_millis(400)).await;
        let killed = workers.remove(0);
        workers.push(patient(cluster));
        killed.kill().await;
    }
    for run in posted {
        assert_status(&cluster.wait_for_end(run).await, RunStatus::MessageSent);
    }
    KILLS
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::disallowed_methods, reason = "set by a command that makes many plans")]
async fn plans_end_once_while_workers_are_killed() {
    let plans: usize = std::env::var("HOUSTON_PLANS").map_or(12, |plans| plans.parse().unwrap());
    let (cluster, mut kills) = (TestCluster::start().await, 0);
    let mut workers = vec![patient(&cluster), patient(&cluster)];
    let mut left = plans;
    while left > 0 {
        let wave = left.min(60);
        left -= wave;
        kills += wave_of_plans(&cluster, &mut workers, wave).await;
    }
    println!("{plans} plans ended once, {kills} workers were killed");
    assert_eq!(
        cluster.sql("select count(*) from houston.plans where ended_at is not null").await,
        plans.to_string()
    );
    let open = "select count(*) from houston.plan_steps where status not in ('succeeded', 'skipped')";
    assert_eq!(cluster.sql(open).await, "0");
    let executors = "select count(*) from houston.agentables where kind = 'executor'";
    let steps = "select count(*) from houston.plan_steps where task_id is not null";
    assert_eq!(cluster.sql(executors).await, cluster.sql(steps).await, "one executor for each step");
    assert_eq!(cluster.sql(steps).await, (plans * 3).to_string());
    // Each tool wrote once, whatever died.
    let notes =
        "select count(*) from houston.knowledge_items where title in ('first', 'left', 'right', 'last')";
    assert_eq!(cluster.sql(notes).await, (plans * 4).to_string());
    let reported =
        "select count(*) from houston.messages where source = 'system' and content like '<plan_ended%'";
    assert_eq!(cluster.sql(reported).await, plans.to_string());
    assert_eq!(cluster.held().await, "0");
    for worker in workers {
        worker.drain().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn message_while_a_plan_works_is_answered_and_the_plan_goes_on() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker();
    let steps = json!([{"id": "look", "type": "task", "title": "Look", "instructions": "/sim hold_ms=8000"}]);
    let first = cluster.post(cluster.goal, &asks_for("Slow", &steps, "{{ look.result }}")).await;
    cluster.waits(first.run).await;
    let second = cluster.post(cluster.goal, "hello").await;
    assert_eq!(second.run, first.run, "the open run reads it");
    assert_status(&cluster.wait_for_end(first.run).await, RunStatus::MessageSent);
    assert_eq!(cluster.sql("select count(*) from houston.plans where ended_at is null").await, "1");
    let next = eventually("the end of the plan opens a run", || async {
        let runs = cluster.requests().runs(cluster.goal, None, None, 10).await.ok()?;
        runs.first().filter(|run| run.id != first.run && run.ended_at.is_some()).cloned()
    })
    .await;
    assert_status(&next, RunStatus::MessageSent);
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_of_a_run_that_waits_ends_its_plan_and_executors() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker();
    let steps =
        json!([{"id": "look", "type": "task", "title": "Look", "instructions": "/sim hold_ms=60000"}]);
    let posted = cluster.post(cluster.goal, &asks_for("Slow", &steps, "")).await;
    cluster.waits(posted.run).await;
    eventually("the executor works", || async {
        let query = "select count(*) from houston.runs r join houston.agentables a on a.id = r.agentable_id
                      where a.kind = 'executor' and r.status = 'running'";
        (cluster.sql(query).await == "1").then_some(())
    })
    .await;
    cluster.requests().cancel_agentable("goal", cluster.goal, false).await.unwrap();
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::Cancelled);
    eventually("all runs end", || async {
        let open = "select count(*) from houston.runs where ended_at is null";
        (cluster.sql(open).await == "0").then_some(())
    })
    .await;
    let statuses = "select string_agg(distinct r.status, ' ') from houston.runs r";
    assert_eq!(cluster.sql(statuses).await, "cancelled");
    let step = "select path || ' ' || status from houston.plan_steps";
    assert_eq!(cluster.sql(step).await, "look cancelled");
    let plans = "select count(*) from houston.plans where ended_at is not null";
    assert_eq!(cluster.sql(plans).await, "1");
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn end_of_a_replaced_executor_is_no_message_to_its_plan() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker();
    let steps = json!([{"id": "look", "type": "task", "title": "Look", "instructions": "/sim hold_ms=8000"}]);
    let posted = cluster.post(cluster.goal, &asks_for("Slow", &steps, "")).await;
    cluster.waits(posted.run).await;
    let begun = "select count(*) from houston.runs r join houston.agentables a on a.id = r.agentable_id
                  where a.kind = 'executor' and r.status = 'running'";
    eventually("the executor works", || async { (cluster.sql(begun).await == "1").then_some(()) }).await;
    // As if it had taken too long, and another one had begun.
    cluster.sql("update houston.plan_steps set task_id = gen_random_uuid()").await;
    let ended = "select count(*) from houston.runs r join houston.agentables a on a.id = r.agentable_id
                  where a.kind = 'executor' and r.ended_at is not null";
    eventually("the executor ends", || async { (cluster.sql(ended).await == "1").then_some(()) }).await;
    let ends =
        "select count(*) from houston.messages m join houston.plans p on p.agentable_id = m.agentable_id
                 where m.metadata ->> 'type' = 'task_ended'";
    assert_eq!(cluster.sql(ends).await, "0", "it would open a run of a plan that has ended");
    let open = "select count(*) from houston.run_locks l join houston.plans p using (agentable_id) where open_tasks <> 0";
    assert_eq!(cluster.sql(open).await, "0");
    cluster.requests().cancel_agentable("goal", cluster.goal, false).await.unwrap();
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::Cancelled);
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plan_asks_a_person_and_goes_on_beside_the_question() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker();
    let steps = json!([
        {"id": "ask", "type": "input", "title": "Ask", "question": "Which city?", "schema": {"type": "string"}},
        note("beside", "x"),
        {"id": "sum", "type": "llm", "title": "Sum up", "prompt": "City: {{ ask.result }}"},
    ]);
    let posted = cluster.post(cluster.goal, &asks_for("Ask", &steps, "{{ sum.result }}")).await;
    let question = eventually("it asks", || async {
        let open = cluster.requests().open_questions(None, None, None, 100).await.ok()?;
        open.first().map(|of| of.question.asked.clone())
    })
    .await;
    assert_eq!((question.text.as_str(), question.subject.as_deref()), ("Which city?", Some("ask")));
    eventually("the other step goes on", || async {
        let beside = "select status from houston.plan_steps where path = 'beside'";
        (cluster.sql(beside).await == "succeeded").then_some(())
    })
    .await;
    eventually("nothing is held", || async { (cluster.held().await == "0").then_some(()) }).await;
    // Regression: the plan died of its own deadline after ten minutes, whatever the question said.
    let later =
        "select p.deadline_at > q.expires_at, p.deadline_at - q.expires_at <= make_interval(secs => 600)
                   from houston.plans p, houston.questions q where q.state = 'open'";
    assert_eq!(cluster.sql(later).await, "t|t", "it may be answered as long as it says");
    cluster.requests().answer_question(question.id, &json!("Oslo"), Some("Ann")).await.unwrap();
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
    let left = "select deadline_at - now() between interval '0' and interval '10 minutes' from houston.plans";
    assert_eq!(cluster.sql(left).await, "t", "it had as long as before the question");
    let result = "select state ->> 'result' from houston.plan_steps where path = 'sum'";
    assert!(cluster.sql(result).await.contains("City: <result step=\"ask\">Oslo</result>"));
    worker.drain().await;
}

/// Regression: a plan that waited for longer than its time in a paused lane, or for a worker, was dead when it was claimed.
#[tokio::test(flavor = "multi_thread")]
async fn plan_that_nobody_took_has_its_time_afterwards() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker();
    let posted =
        cluster.post(cluster.goal, &asks_for("Slow", &json!([note("one", "x")]), "{{ one.status }}")).await;
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
    let plan = cluster.sql("select agentable_id from houston.plans").await;
    worker.drain().await;
    // As if it had been made two hours ago, with ten minutes of time, and claimed now for the first time.
    let again = format!(
        "delete from houston.plan_steps;
         update houston.plans set ended_at = null, created_at = now() - interval '2 hours',
                deadline_at = now() - interval '110 minutes';
         update houston.runs set status = 'queued', ended_at = null, started_at = null, attempt = 0, iterations = 0
          where agentable_id = '{plan}';
         update houston.run_locks set run_open = true, wake = true, holder = null where agentable_id = '{plan}'"
    );
    cluster.sql(&again).await;
    let worker = cluster.worker();
    eventually("it has ended", || async {
        let ended = "select count(*) from houston.plans where ended_at is not null";
        (cluster.sql(ended).await == "1").then_some(())
    })
    .await;
    assert_eq!(cluster.sql("select path || ' ' || status from houston.plan_steps").await, "one succeeded");
    worker.drain().await;
}

/// Regression: an executor that waited, for a person or for a worker, was out of time as if it had worked.
#[tokio::test(flavor = "multi_thread")]
async fn executor_that_nobody_drives_is_not_out_of_time() {
    let cluster = TestCluster::start().await;
    // Before there is a worker, so that the worker knows it from its start.
    cluster.store.api().set_lane_paused("background", true).await.unwrap();
    let worker = cluster.worker();
    let steps =
        json!([{"id": "look", "type": "task", "title": "Look", "instructions": "Say hello", "timeout_s": 1}]);
    let posted = cluster.post(cluster.goal, &asks_for("Look", &steps, "{{ look.result }}")).await;
    cluster.waits(posted.run).await;
    let due = "select state ->> 'due' from houston.plan_steps where status = 'running'";
    let first = eventually("the executor is there", || async {
        let due = cluster.sql(due).await;
        (!due.is_empty()).then_some(due)
    })
    .await;
    eventually("its time has passed, and it has more", || async {
        let due = cluster.sql(due).await;
        (due > first).then_some(())
    })
    .await;
    worker.drain().await;
    // A second is not always enough for a run on a busy machine.
    let longer = "update houston.plan_steps
                     set state = jsonb_set(state, '{due}', to_jsonb(now() + interval '1 hour'))
                   where path = 'look'";
    cluster.sql(longer).await;
    cluster.store.api().set_lane_paused("background", false).await.unwrap();
    let worker = cluster.worker();
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
    assert_eq!(
        cluster.sql("select path || ' ' || status || ' ' || attempt from houston.plan_steps").await,
        "look succeeded 1"
    );
    worker.drain().await;
}

/// A model that changes plans: first with a tool that does not exist, then with a step that works.
struct Planner(Description);

const REPLANNER: &str = "A step of a plan failed";

impl Model for Planner {
    fn description(&self) -> &Description {
        &self.0
    }

    fn stream<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Result<EventStream, ModelError>> {
        let plans = request.system.iter().any(|part| part.text.starts_with(REPLANNER));
        let is_refused = request.entries.iter().any(|entry| entry.text().contains("was refused"));
        let step = if is_refused {
            note("other", "y")
        } else {
            json!({"id": "other", "type": "tool", "tool": "fly"})
        };
        let patch = json!({"add": [step], "output": "{{ other.status }}"}).to_string();
        Box::pin(async move {
            let inner = Simulated::new().with_delay(Duration::ZERO).stream(request).await?;
            let reported = inner.map(move |event| match event {
                Ok(ModelEvent::Done(mut turn)) if plans => {
                    turn.content = vec![Block::text(format!("Here it is: {patch}"))];
                    Ok(ModelEvent::Done(turn))
                }
                other => other,
            });
            Ok(Box::pin(reported) as EventStream)
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plan_whose_step_failed_is_changed_and_completes() {
    let cluster = TestCluster::start().await;
    let model = Planner(Choice::new("openai", "gpt-test").description());
    let worker = cluster.worker_with(Arc::new(model), vec![]);
    let steps = json!([
        {"id": "read", "type": "tool", "title": "Read", "tool": "read_note",
         "args": {"note_id": "note_00000000000000000000000000000000"}},
        note("after", "{{ read.result }}"),
    ]);
    let posted = cluster.post(cluster.goal, &asks_for("Mend", &steps, "{{ after.result }}")).await;
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
    let plan =
        "select concat_ws(' ', version, replans, output #>> '{}', ended_at is not null) from houston.plans";
    assert_eq!(cluster.sql(plan).await, "2 1 succeeded t");
    let versions = "select count(*) from houston.plan_versions";
    assert_eq!(cluster.sql(versions).await, "2");
    let topics = cluster.topics(posted.run).await;
    assert!(topics.contains(&"plan_changed".to_owned()), "{topics:?}");
    worker.drain().await;
}
