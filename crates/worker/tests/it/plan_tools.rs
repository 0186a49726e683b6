//! The tools for plans on real servers: a plan is read and changed by the agent that made it, and some ask first.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use houston_domain::agentable::Planning;
use houston_domain::guard::Risk;
use houston_domain::id::{AgentableId, RunId};
use houston_domain::model::ModelError;
use houston_domain::question::QuestionKind;
use houston_domain::run::RunStatus;
use houston_llm::{Description, EventStream, Model, Request};
use serde_json::{Value, json};

use crate::approvals::Wipe;
use crate::cluster::{TestCluster, assert_status, eventually};
use crate::plans::note;
use crate::workers::simulated;

impl TestCluster {
    /// Lets the model call a tool. Returns what the model reads of it.
    async fn call(&self, goal: AgentableId, tool: &str, arguments: &Value) -> String {
        let posted = self.post(goal, &format!("/sim tool={tool} args={arguments}")).await;
        assert_status(&self.wait_for_end(posted.run).await, RunStatus::MessageSent);
        let query = format!(
            "select data ->> 'content' from houston.events
              where run_id = '{}' and data ->> 'type' = 'tool_returned' order by seq limit 1",
            posted.run.0
        );
        self.servers.sql(&query).unwrap()
    }

    /// The only plan there is.
    async fn plan_id(&self) -> String {
        let id = self.servers.sql("select agentable_id from houston.plans").unwrap();
        format!("plan_{}", id.trim().replace('-', ""))
    }
}

/// A plan that waits for its user, and then writes a note.
fn asking() -> Value {
    json!({"goal": "Ask, then write", "detached": true, "output": "{{ late.result }}", "steps": [
        {"id": "ask", "type": "input", "title": "Ask", "question": "Which city?", "schema": {"type": "string"}},
        note("late", "{{ ask.result }}"),
        note("first", "x"),
    ]})
}

#[tokio::test(flavor = "multi_thread")]
async fn plan_is_read_and_changed_by_its_agent() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker();
    let goal = cluster.goal;
    assert_eq!(cluster.call(goal, "read_plan", &json!({})).await.trim(), "You have made no plans.");
    let made = cluster.call(goal, "create_plan", &asking()).await;
    assert!(made.contains("A message says when it has ended."), "{made}");
    let id = cluster.plan_id().await;
    let listed = cluster.call(goal, "read_plan", &json!({})).await;
    assert!(listed.starts_with(&id) && listed.contains("version 1: Ask, then write"), "{listed}");
    eventually("a step settles", || async {
        let status =
            cluster.servers.sql("select status from houston.plan_steps where path = 'first'").ok()?;
        (status.trim() == "succeeded").then_some(())
    })
    .await;
    let read = cluster.call(goal, "read_plan", &json!({"plan_id": id})).await;
    for part in ["1 of 3 done", "ask [asking] input: Ask", "late [pending] tool: Write late (after ask)"] {
        assert!(read.contains(part), "{part}: {read}");
    }
    assert!(read.contains("first [succeeded] tool: Write first\n  Created note_"), "{read}");
    let of_step = cluster.call(goal, "read_plan", &json!({"plan_id": id, "path": "first"})).await;
    assert!(of_step.starts_with("first [succeeded] tool: Write first\nCreated note_"), "{of_step}");
    let change = json!({"plan_id": id, "version": 1, "reason": "Another note", "remove": ["late"],
                        "add": [note("other", "{{ ask.result }}")], "output": "{{ other.status }}"});
    let changed = cluster.call(goal, "change_plan", &change).await;
    assert!(changed.contains("which has version 2 now"), "{changed}");
    let question = cluster.question_of_plan().await;
    cluster.requests().answer_question(question, &json!("Oslo"), Some("Ann")).await.unwrap();
    eventually("the plan ends", || async {
        let output = "select output #>> '{}' from houston.plans where ended_at is not null";
        (cluster.servers.sql(output).ok()?.trim() == "succeeded").then_some(())
    })
    .await;
    let notes = "select string_agg(title, ' ' order by title) from houston.knowledge_items
                  where title in ('late', 'first', 'other')";
    assert_eq!(cluster.servers.sql(notes).unwrap().trim(), "first other");
    let late = cluster.call(goal, "change_plan", &change).await;
    assert!(late.contains("has ended (completed)"), "{late}");
    worker.drain().await;
}

impl TestCluster {
    async fn question_of_plan(&self) -> houston_domain::id::QuestionId {
        let open = self.requests().open_questions(None, None, None, 10).await.unwrap();
        open[0].question.asked.id
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_changes_of_plans_are_refused_with_a_pointer() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker();
    cluster.call(cluster.goal, "create_plan", &asking()).await;
    let id = cluster.plan_id().await;
    for (change, pointer) in [
        (
            json!({"add": [{"id": "fly", "type": "tool", "tool": "fly"}]}),
            "/add/0/tool: there is no tool `fly`",
        ),
        (json!({"remove": ["ask"]}), "/remove/0: `ask` cannot be removed: it is asking"),
        (json!({"version": 7, "remove": ["late"]}), "/version:"),
        (json!({}), "changes nothing"),
    ] {
        let mut given = json!({"plan_id": id, "version": 1, "reason": "Why not"});
        given.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let answer = cluster.call(cluster.goal, "change_plan", &given).await;
        assert!(answer.contains(pointer), "{pointer}: {answer}");
    }
    let version = "select version || ' ' || changes from houston.plans";
    assert!(cluster.servers.sql(version).unwrap().starts_with("1 "));
    // Plans of other goals do not exist for an agent.
    let other = cluster.new_goal().await;
    let read = cluster.call(other, "read_plan", &json!({"plan_id": id})).await;
    assert!(read.contains("you have no plan"), "{read}");
    let change = json!({"plan_id": id, "version": 1, "reason": "Mine", "remove": ["late"]});
    let changed = cluster.call(other, "change_plan", &change).await;
    assert!(changed.contains("you have no plan"), "{changed}");
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plan_with_repeated_effects_asks_first() {
    let cluster = TestCluster::start().await;
    let executed = Arc::default();
    let wipe = Wipe::of_risk(&executed, Duration::ZERO, Risk::Write);
    let worker = cluster.worker_with(simulated(), vec![wipe]);
    let wipe = |id: &str| json!({"id": id, "type": "tool", "tool": "wipe", "args": {"what": id}});
    let once = json!({"goal": "One", "detached": true, "steps": [wipe("a")]});
    let made = cluster.call(cluster.goal, "create_plan", &once).await;
    assert!(made.starts_with("Made plan_"), "a single one needs no question about the plan: {made}");
    let steps = json!([{"id": "both", "type": "parallel", "steps": [wipe("a"), wipe("b")]}]);
    let arguments = json!({"goal": "Two", "detached": true, "steps": steps});
    let other = cluster.new_goal().await;
    let posted = cluster.post(other, &format!("/sim tool=create_plan args={arguments}")).await;
    cluster.waits(posted.run).await;
    let question = cluster.question(other).await;
    let text = format!("select text from houston.questions where id = '{}'", question.0);
    let text = cluster.servers.sql(&text).unwrap();
    assert!(text.contains("`both.a`, `both.b`"), "{text}");
    let plans = "select count(*) from houston.plans";
    assert_eq!(cluster.servers.sql(plans).unwrap().trim(), "1");
    cluster.decide(question, json!({"decision": "approve"})).await;
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
    assert_eq!(cluster.servers.sql(plans).unwrap().trim(), "2");
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn call_of_a_plan_is_approved_like_any_other() {
    let cluster = TestCluster::start().await;
    let executed = Arc::<AtomicUsize>::default();
    let worker = cluster.worker_with(simulated(), vec![Wipe::new(&executed, Duration::ZERO)]);
    let old =
        "update houston.questions set kind = 'input', subject = 'a', schema = '{\"type\": \"boolean\"}',
                      approval = null where state = 'open'";
    for (is_old, answer, became, calls) in [
        (false, json!({"decision": "approve"}), "succeeded Wiped mail.", 1),
        (false, json!({"decision": "edit", "input": {"what": "less"}}), "succeeded Wiped less.", 2),
        (false, json!({"decision": "respond", "message": "I did it"}), "succeeded I did it", 2),
        (false, json!({"decision": "reject", "message": "not today"}), "failed PERMISSION_DENIED", 2),
        (true, json!(false), "failed PERMISSION_DENIED", 2),
        (true, json!(true), "succeeded Wiped mail.", 3),
    ] {
        let goal = cluster.new_goal().await;
        let step = json!({"id": "a", "type": "tool", "tool": "wipe", "args": {"what": "mail"}});
        let plan = json!({"goal": "One", "detached": true, "steps": [step]});
        assert!(cluster.call(goal, "create_plan", &plan).await.starts_with("Made plan_"));
        let asked = eventually("it asks", || async {
            let open = cluster.requests().open_questions(None, None, None, 10).await.ok()?;
            open.first().map(|of| of.question.asked.clone())
        })
        .await;
        let approval = asked.approval.as_deref().unwrap();
        assert_eq!((asked.kind, asked.subject.as_deref()), (QuestionKind::Approval, Some("a#1")));
        assert_eq!((approval.tool.as_str(), &approval.input), ("wipe", &json!({"what": "mail"})));
        if is_old {
            cluster.servers.sql(old).unwrap();
        } else {
            asked.check_answer(&answer).unwrap();
        }
        cluster.decide(asked.id, answer).await;
        let query = "select concat(state ->> 'status', ' ', coalesce(state -> 'error' ->> 'code', state ->> 'result'))
                       from houston.plan_steps order by started_at desc limit 1";
        eventually("the step settles", || async {
            (cluster.servers.sql(query).ok()?.trim() == became).then_some(())
        })
        .await;
        assert_eq!(executed.load(Ordering::SeqCst), calls, "{became}");
    }
    worker.drain().await;
}

/// A model that remembers requests.
struct Listening {
    inner: Arc<dyn Model>,
    heard: Mutex<Vec<Heard>>,
}

/// What a request contained.
struct Heard {
    context: String,
    tools: Vec<String>,
    must_call: Option<String>,
}

impl Listening {
    fn new() -> Arc<Self> {
        Arc::new(Self { inner: simulated(), heard: Mutex::default() })
    }

    fn take(&self) -> Vec<Heard> {
        std::mem::take(&mut *self.heard.lock().unwrap())
    }
}

impl Model for Listening {
    fn description(&self) -> &Description {
        self.inner.description()
    }

    fn stream<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Result<EventStream, ModelError>> {
        let heard = Heard {
            context: request.system_context.unwrap_or_default().to_owned(),
            tools: request.tools.iter().map(|tool| tool.name.clone()).collect(),
            must_call: request.must_call.map(str::to_owned),
        };
        self.heard.lock().unwrap().push(heard);
        self.inner.stream(request)
    }
}

/// What the rules find complex.
const COMPLEX: &str = "Search the web for hotels in Rome, fetch the page of each, write a note for every one and then list \
                       all my notes.";

#[tokio::test(flavor = "multi_thread")]
async fn complex_message_gets_a_hint_and_others_do_not() {
    let cluster = TestCluster::start().await;
    let model = Listening::new();
    let worker = cluster.worker_with(model.clone(), vec![]);
    let contexts = || model.take().into_iter().map(|heard| heard.context).collect::<Vec<_>>();
    let said = async |run: RunId| {
        let query = format!(
            "select data ->> 'strategy' from houston.events where run_id = '{}' and data ->> 'type' = 'analysed'",
            run.0
        );
        cluster.servers.sql(&query).unwrap().trim().to_owned()
    };
    let posted = cluster.post(cluster.goal, COMPLEX).await;
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
    let first = contexts().remove(0);
    assert!(first.contains("<analysis>\nThe message seems to need 4 operations."), "{first}");
    assert_eq!(said(posted.run).await, "complex", "one event");
    let posted = cluster.post(cluster.goal, "Thank you, that was helpful.").await;
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
    assert!(contexts().iter().all(|context| !context.contains("<analysis>")));
    assert_eq!(said(posted.run).await, "");
    // A kind that creates no plans.
    let user_agent = "select id from houston.agentables where kind = 'user_agent' limit 1";
    let user_agent = AgentableId(cluster.servers.sql(user_agent).unwrap().trim().parse().unwrap());
    let posted = cluster.post(user_agent, COMPLEX).await;
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
    assert!(contexts().iter().all(|context| !context.contains("<analysis>")));
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn run_of_a_kind_that_must_plan_begins_with_a_plan() {
    let mut cluster = TestCluster::start().await;
    cluster.plans = Planning::Force;
    let model = Listening::new();
    let worker = cluster.worker_with(model.clone(), vec![]);
    let posted = cluster.post(cluster.goal, "Hello there").await;
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
    let answer = cluster.agent_messages(cluster.goal).await.pop().unwrap();
    assert!(answer.starts_with("The plan is done."), "{answer}");
    let plans = "select count(*) from houston.plans where ended_at is not null and attached";
    assert_eq!(cluster.servers.sql(plans).unwrap().trim(), "1");
    let of_goal = model.take().into_iter().filter(|heard| !heard.tools.is_empty()).collect::<Vec<_>>();
    assert_eq!(of_goal[0].tools, ["create_plan"]);
    assert_eq!(of_goal[0].must_call.as_deref(), Some("create_plan"));
    assert!(of_goal.len() > 1 && of_goal[1..].iter().all(|heard| heard.must_call.is_none()));
    assert!(of_goal[1].tools.contains(&"send_message".to_owned()), "{:?}", of_goal[1].tools);
    // The next message gets a plan of its own.
    let posted = cluster.post(cluster.goal, "Hello again").await;
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
    assert_eq!(cluster.servers.sql(plans).unwrap().trim(), "2");
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_makes_a_plan_of_a_template() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker();
    for (given, expected) in [
        (
            json!({"goal": "Notes", "template": "notes", "input": {"titles": []}}),
            "create_plan: /input/titles:",
        ),
        (json!({"goal": "Notes", "template": "note"}), "create_plan: /template: there is no template `note`"),
        (json!({"goal": "Notes"}), "give either `steps` or `template`"),
    ] {
        let answer = cluster.call(cluster.goal, "create_plan", &given).await;
        assert!(answer.contains(expected), "{expected}: {answer}");
    }
    let given = json!({"goal": "Two notes", "template": "notes", "input": {"titles": ["one", "two"]}});
    let posted = cluster.post(cluster.goal, &format!("/sim tool=create_plan args={given}")).await;
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
    let plan = "select document ->> 'goal' || ', ' || (output #>> '{}') from houston.plans";
    assert_eq!(cluster.servers.sql(plan).unwrap().trim(), "Two notes, 2");
    let notes =
        "select string_agg(title, ' ' order by title) from houston.knowledge_items where kind = 'note'";
    assert_eq!(cluster.servers.sql(notes).unwrap().trim(), "one two");
    worker.drain().await;
}
