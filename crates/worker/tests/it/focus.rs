//! Runs whose message is about something, with a provider that says more about it: what it said is kept, and asked for again
//! behind the run.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use houston_domain::client_offer::ClientOffer;
use houston_domain::event::Event;
use houston_domain::focus::{ContextProvider, ContextProviders, Focus, Tier};
use houston_domain::guard::ToolFacts;
use houston_domain::history::Entry;
use houston_domain::id::AgentableId;
use houston_domain::model::ModelError;
use houston_domain::run::RunStatus;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use houston_engine::prompt::preview::NextRun;
use houston_llm::{Description, EventStream, Model, Request, SystemPart};
use houston_store::idempotency::Created;
use houston_store::message::NewPost;
use houston_tools::{CallContext, InvalidInput, Plan, SharedTool, Tool};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::cluster::{TestCluster, assert_status, eventually};
use crate::serving::{cost, log_statements, times};
use crate::workers::{TestWorker, config, simulated};

/// What a model was sent.
struct Sent {
    system: Vec<SystemPart>,
    entries: Vec<Entry>,
    context: String,
}

/// A model that remembers what it was sent.
struct Reader {
    inner: Arc<dyn Model>,
    sent: Mutex<Vec<Sent>>,
}

impl Model for Reader {
    fn description(&self) -> &Description {
        self.inner.description()
    }

    fn stream<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Result<EventStream, ModelError>> {
        self.sent.lock().unwrap().push(Sent {
            system: request.system.to_vec(),
            entries: request.entries.to_vec(),
            context: request.system_context.unwrap_or_default().to_owned(),
        });
        self.inner.stream(request)
    }
}

/// A tool about orders. It answers how often it was called, once it is open.
struct OrderTool {
    definition: ToolDefinition,
    executed: Arc<AtomicUsize>,
    open: watch::Receiver<bool>,
}

impl OrderTool {
    fn shared(name: &str, effect: EffectClass, open: &watch::Sender<bool>) -> (SharedTool, Arc<AtomicUsize>) {
        let definition = ToolDefinition {
            name: name.to_owned(),
            description: "About an order.".to_owned(),
            input_schema: json!({"type": "object", "properties": {"order_id": {"type": "string"}}}).into(),
            effect,
            timeout: Duration::from_secs(60),
        };
        let executed: Arc<AtomicUsize> = Arc::default();
        let tool = Self { definition, executed: Arc::clone(&executed), open: open.subscribe() };
        (Arc::new(tool), executed)
    }
}

impl Tool for OrderTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn facts(&self) -> ToolFacts {
        ToolFacts::of_effect(EffectClass::Read)
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let (input, executed, mut open) = (input.clone(), Arc::clone(&self.executed), self.open.clone());
        Ok(Plan::Execute(Box::pin(async move {
            let number = executed.fetch_add(1, Ordering::SeqCst) + 1;
            open.wait_for(|open| *open).await.unwrap();
            ToolResponse::success(json!({"id": input["order_id"], "asked": number}).to_string())
        })))
    }
}

/// A worker with a provider for orders, and a tool that changes them.
struct Orders {
    cluster: TestCluster,
    worker: TestWorker,
    model: Arc<Reader>,
    asked: Arc<AtomicUsize>,
    open: watch::Sender<bool>,
}

impl Orders {
    async fn start(mut cluster: TestCluster) -> Self {
        let provider = ContextProvider {
            tool: "get_order".to_owned(),
            argument: "order_id".to_owned(),
            tier: Tier::Brief,
        };
        cluster.providers = ContextProviders::from([("order".to_owned(), provider)]);
        let model = Arc::new(Reader { inner: simulated(), sent: Mutex::default() });
        let open = watch::channel(true).0;
        let (get, asked) = OrderTool::shared("get_order", EffectClass::Read, &open);
        let (pay, _) = OrderTool::shared("pay_order", EffectClass::Idempotent, &open);
        let worker = cluster.worker_with(Arc::clone(&model) as _, vec![get, pay]);
        Self { cluster, worker, model, asked, open }
    }

    /// Posts a message about an order, and waits for the answer. Returns the last system context.
    async fn ask(&self, id: &str, content: &str) -> String {
        let focus = Focus { kind: "order".to_owned(), id: id.to_owned(), data: None };
        let offer = ClientOffer { focus: Some(focus), ..ClientOffer::default() };
        let cluster = &self.cluster;
        let post = NewPost::new(cluster.ids.next(), cluster.ids.next(), content, json!({}));
        let requests = cluster.requests();
        let posted = match requests.post_message_with_offer(cluster.goal, &post, &offer, None).await.unwrap()
        {
            Created::New(posted) => posted,
            other => panic!("{other:?}"),
        };
        cluster.send_hint(cluster.goal);
        assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
        self.model.sent.lock().unwrap().last().unwrap().context.clone()
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn sql(&self, sql: &str) -> String {
        self.cluster.servers.sql(sql).unwrap().trim().to_owned()
    }

    /// Waits until this is kept as the provider's answer.
    async fn kept(&self, answer: &str) {
        let found = || async {
            (self.sql("select coalesce(answer, '') from houston.context_cache").contains(answer))
                .then_some(())
        };
        eventually("the answer is kept", found).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn old_answer_is_shown_while_the_provider_is_asked_again() {
    let orders = Orders::start(TestCluster::start().await).await;
    let first = orders.ask("17", "hello").await;
    assert!(first.contains("The message is about order 17.") && first.contains("asked: 1"), "{first}");
    let again = orders.ask("17", "hello").await;
    assert!(again.contains("asked: 1") && !again.contains("min ago"), "{again}");
    assert_eq!(orders.asked(), 1, "it is kept for five minutes");

    orders.sql("update houston.context_cache set fetched_at = fetched_at - interval '301 s'");
    orders.open.send(false).unwrap();
    // The provider does not answer until this run has ended.
    let stale = orders.ask("17", "hello").await;
    assert!(stale.contains("get_order said this 5 min ago:") && stale.contains("asked: 1"), "{stale}");
    eventually("it is asked again", async || (orders.asked() == 2).then_some(())).await;
    let meanwhile = orders.ask("17", "hello").await;
    assert!(meanwhile.contains("asked: 1"), "{meanwhile}");
    assert_eq!(orders.asked(), 2, "one run asks for all");
    orders.open.send(true).unwrap();
    orders.kept("\"asked\":2").await;
    let fresh = orders.ask("17", "hello").await;
    assert!(fresh.contains("asked: 2") && !fresh.contains("min ago"), "{fresh}");
    assert_eq!(orders.asked(), 2);
    orders.worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn late_answer_is_for_the_next_run() {
    let orders = Orders::start(TestCluster::start().await).await;
    orders.open.send(false).unwrap();
    let late = orders.ask("17", "hello").await;
    assert!(late.contains("get_order has not answered in time"), "{late}");
    assert!(late.contains("More of it: get_order with order_id = 17."), "{late}");
    orders.open.send(true).unwrap();
    orders.kept("\"asked\":1").await;
    assert!(orders.ask("17", "hello").await.contains("asked: 1"));
    assert_eq!(orders.asked(), 1);
    orders.worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn preview_has_what_is_kept_and_asks_no_provider() {
    let orders = Orders::start(TestCluster::start().await).await;
    orders.ask("17", "hello").await;
    orders.kept("\"asked\":1").await;
    let cluster = &orders.cluster;
    let (get, asked) = OrderTool::shared("get_order", EffectClass::Read, &orders.open);
    let setups = cluster.setups(simulated(), vec![get]);
    let agentable = cluster.requests().agentable("goal", cluster.goal).await.unwrap();
    let seen = async || {
        let context = config().context;
        let next = NextRun::read(cluster.runs(), &setups, &context, &agentable).await.unwrap();
        next.preview(cluster.ids.clock().now()).system_context.unwrap()
    };
    let kept = seen().await;
    assert!(kept.contains("The message is about order 17.") && kept.contains("asked: 1"), "{kept}");
    orders.sql("delete from houston.context_cache");
    let unasked = seen().await;
    assert!(unasked.contains("get_order is asked when a run begins."), "{unasked}");
    assert_eq!(asked.load(Ordering::SeqCst) + orders.asked(), 1);
    orders.worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn call_that_names_the_thing_makes_its_answer_void() {
    let orders = Orders::start(TestCluster::start().await).await;
    orders.ask("17", "hello").await;
    orders.ask("17", "/sim tool=pay_order args={\"order_id\": \"18\"}").await;
    assert_eq!(orders.asked(), 1, "another order was paid");
    orders.ask("17", "/sim tool=pay_order args={\"order_id\": \"17\"}").await;
    let paid = orders.ask("17", "hello").await;
    assert!(paid.contains("asked: 2"), "{paid}");

    // An agent of another kind, without providers of its own.
    let other = orders.sql("select id from houston.agentables where kind = 'user_agent'");
    let other = AgentableId(other.parse().unwrap());
    let posted = orders.cluster.post(other, "/sim tool=pay_order args={\"order_id\": \"17\"}").await;
    orders.cluster.wait_for_end(posted.run).await;
    let paid = orders.ask("17", "hello").await;
    assert!(paid.contains("asked: 3"), "{paid}");
    orders.worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shift_is_reported_once_and_leaves_history_and_prefix() {
    let orders = Orders::start(TestCluster::start().await).await;
    orders.ask("17", "hello").await;
    let same = orders.ask("17", "hello").await;
    assert!(!same.contains("context_shift"), "{same}");
    let before = orders.model.sent.lock().unwrap().len();
    let shifted = orders.ask("18", "hello").await;
    assert!(
        shifted.contains(
            "<context_shift from=\"order 17\" to=\"order 18\">\nWhat was said last was about order 17; this message is about \
             order 18.\n</context_shift>"
        ),
        "{shifted}"
    );
    {
        let sent = orders.model.sent.lock().unwrap();
        let (earlier, now) = (&sent[before - 1], sent.last().unwrap());
        assert_eq!(earlier.system, now.system, "byte for byte");
        assert_eq!(earlier.entries, now.entries[..earlier.entries.len()], "the history stays as it was");
    }
    let events = orders.cluster.events(orders.cluster.goal).await;
    let shifts: Vec<(String, String)> = events
        .iter()
        .filter_map(|committed| match &committed.event {
            Event::ContextShifted { from, to } => Some((from.to_string(), to.to_string())),
            _ => None,
        })
        .collect();
    assert_eq!(shifts, [("order 17".to_owned(), "order 18".to_owned())]);
    orders.cluster.history(orders.cluster.goal).await;
    orders.worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn run_without_a_focus_executes_no_more_statements() {
    let cluster = TestCluster::start_with_own_postgres().await;
    log_statements(&cluster);
    let orders = Orders::start(cluster).await;
    let goal = orders.cluster.goal;
    let warm = orders.cluster.post(goal, "hello").await;
    assert_status(&orders.cluster.wait_for_end(warm.run).await, RunStatus::MessageSent);
    let usual = times(&[("store::step::statement::write", 5)]);
    assert_eq!(cost(&orders.cluster, goal, 5).await, usual);
    orders.ask("17", "hello").await;
    orders.kept("\"asked\":1").await;
    assert_eq!(cost(&orders.cluster, goal, 5).await, usual, "also after one with a focus");
    orders.worker.drain().await;
}
