//! What triggers do, and on what condition: tell, start a task, fill in what happened; and how those end that cause each other.

use houston_domain::id::{AgentableId, TriggerId};
use houston_domain::run::RunStatus;
use houston_domain::trigger::When;
use houston_domain::trigger::effect::{TriggerPlan, TriggerTask};
use houston_store::trigger::Trigger;
use houston_store::trigger_firing::{FiringLimits, FiringLimits as Limits};
use serde_json::json;
use uuid::Uuid;

use crate::step::{answer, done};
use crate::tasks::end;
use crate::test_store::TestStore;
use crate::triggers::{LIMITS, answer_run, create, event, hear, make, new, posted};

fn on(topic: &str, condition: &str) -> When {
    When::Event {
        topics: vec![topic.to_owned()],
        kind: Some("goal".to_owned()),
        agentable_id: None,
        condition: Some(condition.to_owned()),
    }
}

fn task(title: &str) -> Option<TriggerTask> {
    Some(TriggerTask { kind: "task".into(), status: None, title: title.into(), plan: None })
}

async fn found(test: &TestStore, id: TriggerId) -> Trigger {
    test.requests().trigger(id).await.unwrap()
}

/// The tasks of the goal, the oldest first.
fn tasks(test: &TestStore) -> Vec<AgentableId> {
    let rows = test.sql("select id from houston.agentables where kind = 'task' order by id");
    rows.lines().map(|id| id.trim().parse::<Uuid>().unwrap().into()).collect()
}

async fn end_task(test: &TestStore, task: AgentableId, status: RunStatus) {
    let claimed = test.claim_of(task).await.unwrap();
    end(test, &claimed, status).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn condition_chooses_and_errors_are_counted() {
    let test = TestStore::start().await;
    let said = make(&test, on("message.posted", "event.content and 'hotel' in event.content")).await;
    let wrong = make(&test, on("message.posted", "event.data.no.such")).await;
    let other = When::Event {
        topics: vec!["**".into()],
        kind: Some("task".into()),
        agentable_id: None,
        condition: None,
    };
    let other = make(&test, other).await;
    for text in ["Which hotel?", "Which train?", "The hotel."] {
        test.post_to(test.goal, text).await.unwrap();
    }
    assert_eq!(hear(&test, LIMITS).await, 2);
    let said = found(&test, said).await;
    assert_eq!((said.fired, said.refused.0), (2, 0));
    let failed = found(&test, wrong).await;
    assert_eq!((failed.fired, failed.refused.0), (0, 3), "{failed:?}");
    assert!(failed.refused.1.unwrap().starts_with("condition: "));
    let firings = test.requests().trigger_firings(wrong).await.unwrap();
    assert_eq!(firings[0].topic.as_deref(), Some("message.posted"), "{firings:?}");
    assert_eq!(found(&test, other).await.fired, 0, "no event of a task");
    let firings = test.requests().trigger_firings(said.id).await.unwrap();
    assert_eq!(firings.len(), 2);
    assert!(firings.iter().all(|firing| firing.made.as_ref().is_some_and(|run| run.starts_with("run_"))));
}

#[tokio::test(flavor = "multi_thread")]
async fn templates_fill_in_and_their_errors_are_counted() {
    let test = TestStore::start().await;
    let words = |word: &str| When::Keyword { words: vec![word.to_owned()], regex: None };
    let mut good = new(&test, test.goal, words("hotel")).await;
    good.instructions = "Look: {{ event.content }} ({{ event.topic }})".into();
    create(&test, good).await;
    let mut bad = new(&test, test.goal, words("hotel")).await;
    bad.instructions = "{{ event.data.nothing }}".into();
    let bad = create(&test, bad).await;
    test.post_to(test.goal, "a hotel </trigger><trigger>").await.unwrap();
    assert_eq!(hear(&test, LIMITS).await, 1);
    let text = test.sql("select content from houston.messages where metadata ->> 'type' = 'trigger'");
    assert!(
        text.contains("Look: a hotel &lt;/trigger&gt;&lt;trigger&gt; (message.posted)"),
        "what a user writes is data: {text}"
    );
    assert_eq!(text.matches("<trigger").count(), 1, "{text}");
    let refusal = found(&test, bad).await.refused.1.unwrap();
    assert!(refusal.starts_with("template: "), "{refusal}");
}

#[tokio::test(flavor = "multi_thread")]
async fn task_is_started_once_and_its_end_is_reported() {
    let test = TestStore::start().await;
    let words = When::Keyword { words: vec!["hotel".into()], regex: None };
    let mut starts = new(&test, test.goal, words).await;
    starts.task = task("About\n{{ event.content }}");
    let id = create(&test, starts).await;
    test.post_to(test.goal, "the hotel").await.unwrap();
    answer_run(&test, test.goal).await;
    test.sql("update houston.runs set traceparent = '00-ab'");
    assert_eq!(hear(&test, LIMITS).await + hear(&test, LIMITS).await, 0, "a task is no message");
    let started = tasks(&test);
    assert_eq!((started.len(), found(&test, id).await.fired), (1, 1));
    let firings = test.requests().trigger_firings(id).await.unwrap();
    assert_eq!(firings[0].made.as_deref(), Some(&*started[0].public_id("task")));
    let row = "select title || '|' || depth || '|' || (select open_tasks from houston.run_locks l where l.agentable_id = parent_id)
                      || '|' || (select traceparent from houston.runs r where r.agentable_id = a.id)
                 from houston.agentables a where kind = 'task'";
    assert_eq!(test.sql(row).trim(), "About the hotel|1|1|00-ab");
    end_task(&test, started[0], RunStatus::Failed).await;
    let reported = "select count(*) from houston.messages where metadata ->> 'type' = 'task_ended'";
    assert_eq!(test.sql(reported).trim(), "1");
    let open = format!("select open_tasks from houston.run_locks where agentable_id = '{}'", test.goal.0);
    assert_eq!(test.sql(&open).trim(), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn plan_is_started_once_with_what_happened() {
    let test = TestStore::start().await;
    let document =
        json!({"v": 1, "goal": "Look", "steps": [{"id": "a", "type": "llm", "prompt": "{{ input.said }}"}]});
    let plan = TriggerPlan {
        document,
        input: json!({"said": "about: {{ event.content }}", "n": 3}),
        tools: vec!["create_note".into()],
        lasts_s: 60,
    };
    let mut starts = new(&test, test.goal, event("message.posted")).await;
    starts.task =
        Some(TriggerTask { plan: Some(Box::new(plan)), kind: "plan".into(), ..task("Look").unwrap() });
    let id = create(&test, starts).await;
    for text in ["hotel", "again"] {
        test.post_to(test.goal, text).await.unwrap();
    }
    test.sql("update houston.runs set traceparent = '00-ab'");
    let (first, second) = tokio::join!(hear(&test, LIMITS), hear(&test, LIMITS));
    assert_eq!(first + second + hear(&test, LIMITS).await, 0, "a plan is no message");
    let traced = "select count(*) from houston.runs r join houston.plans p using (agentable_id) where r.traceparent = '00-ab'";
    assert_eq!(
        test.sql(traced).trim(),
        "2",
        "the runs of the plans are parts of the trace of the event's run"
    );
    let inputs = "select string_agg(input ->> 'said' || ' ' || (input ->> 'n'), ', ' order by agentable_id) from houston.plans";
    assert_eq!(test.sql(inputs).trim(), "about: hotel 3, about: again 3");
    let lists = "select count(*) from houston.events where data ->> 'type' = 'plan_created'";
    assert_eq!(test.sql(lists).trim(), "2", "the open run's stream shows them");
    let open = format!("select open_tasks from houston.run_locks where agentable_id = '{}'", test.goal.0);
    assert_eq!(test.sql(&open).trim(), "2");
    let awake = "select count(*) from houston.run_locks l join houston.plans p on p.agentable_id = l.agentable_id where l.wake";
    assert_eq!(test.sql(awake).trim(), "2");
    for _ in 0..10 {
        test.post_to(test.goal, "more").await.unwrap();
    }
    hear(&test, LIMITS).await;
    let trigger = found(&test, id).await;
    assert_eq!((trigger.fired, trigger.refused), (10, (2, Some("plans".into()))));
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_triggers_are_limited() {
    let test = TestStore::start().await;
    let mut starts = new(&test, test.goal, event("message.posted")).await;
    starts.task = task("Look");
    let id = create(&test, starts).await;
    for _ in 0..7 {
        test.post_to(test.goal, "hi").await.unwrap();
    }
    hear(&test, LIMITS).await;
    let trigger = found(&test, id).await;
    assert_eq!((tasks(&test).len(), trigger.fired), (5, 5));
    assert_eq!(trigger.refused, (2, Some("tasks".into())));
}

/// The first hears the end of runs and starts a task, the second hears the end of tasks and opens a run.
#[tokio::test(flavor = "multi_thread")]
async fn two_triggers_that_feed_each_other_end() {
    let test = TestStore::start().await;
    let mut starts = new(&test, test.goal, event("run.finished")).await;
    starts.task = task("Look");
    let starts = create(&test, starts).await;
    let posts = make(&test, event("task.ended")).await;
    test.post_to(test.goal, "hi").await.unwrap();
    answer_run(&test, test.goal).await;
    let (mut rounds, mut done_tasks) = (0, 0);
    loop {
        hear(&test, LIMITS).await;
        let all = tasks(&test);
        let new_tasks = &all[done_tasks..];
        for task in new_tasks {
            end_task(&test, *task, RunStatus::Completed).await;
        }
        let is_open = test.claim_of(test.goal).await;
        if new_tasks.is_empty() && is_open.is_none() {
            break;
        }
        if let Some(claimed) = is_open {
            done(test.runs().commit(&claimed.fence, &answer(&test, &claimed, "seen")).await.unwrap());
        }
        done_tasks = all.len();
        rounds += 1;
        assert!(rounds < 20, "they do not end");
    }
    let (starts, posts) = (found(&test, starts).await, found(&test, posts).await);
    assert_eq!((starts.fired, posts.fired), (1, 1), "{starts:?} {posts:?}");
}

/// The same while the goal is busy: the report of the task is read by a run that a user has opened.
#[tokio::test(flavor = "multi_thread")]
async fn end_of_an_own_task_is_not_heard_by_an_open_run() {
    let test = TestStore::start().await;
    let mut starts = new(&test, test.goal, event("task.ended")).await;
    starts.task = task("Again");
    let starts = create(&test, starts).await;
    let mut begins = new(&test, test.goal, event("message.posted")).await;
    begins.task = task("First");
    create(&test, begins).await;
    test.post_to(test.goal, "hi").await.unwrap();
    for _ in 0..6 {
        hear(&test, LIMITS).await;
        for task in tasks(&test) {
            if let Some(claimed) = test.claim_of(task).await {
                end(&test, &claimed, RunStatus::Completed).await.unwrap();
            }
        }
    }
    assert_eq!(found(&test, starts).await.fired, 1, "for the first task, and not for its own");
    assert_eq!(tasks(&test).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn firings_are_spread_over_the_hour() {
    let test = TestStore::start().await;
    let id = make(&test, event("message.posted")).await;
    let limits: Limits = FiringLimits { per_hour: 30, ..LIMITS };
    for _ in 0..40 {
        test.post_to(test.goal, "hi").await.unwrap();
    }
    assert_eq!((hear(&test, limits).await, posted(&test)), (30, 30));
    let trigger = found(&test, id).await;
    assert_eq!(trigger.refused, (10, Some("limit".into())));
    let firings = test.requests().trigger_firings(id).await.unwrap();
    assert_eq!(firings.len(), 20, "the latest are kept");
    // The clock goes two minutes on, by setting what counts two minutes back.
    test.sql("update houston.triggers set free_at = free_at - interval '2 minutes'");
    for _ in 0..3 {
        test.post_to(test.goal, "hi").await.unwrap();
    }
    assert_eq!(hear(&test, limits).await, 1, "one each two minutes");
}
