use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use houston_domain::guard::ToolFacts;
use houston_domain::tool_call::EffectClass;
use houston_domain::trace::compare::Way;
use houston_tools::{CallContext, InvalidInput, Plan, SharedTool, Tool};
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;

/// A tool that counts its calls.
struct Counting {
    definition: ToolDefinition,
    sends_out: bool,
    calls: Arc<AtomicUsize>,
}

impl Tool for Counting {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn facts(&self) -> ToolFacts {
        let untrusted_output = self.definition.name == "read_page";
        ToolFacts {
            sends_out: self.sends_out,
            untrusted_output,
            ..ToolFacts::of_effect(self.definition.effect)
        }
    }

    fn plan(&self, _input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let calls = Arc::clone(&self.calls);
        Ok(Plan::Execute(Box::pin(async move {
            calls.fetch_add(1, Ordering::SeqCst);
            ToolResponse::success("live")
        })))
    }
}

struct Fixture {
    context: Context,
    calls: Arc<AtomicUsize>,
    checkpoint: Checkpoint,
    definitions: Vec<ToolDefinition>,
}

impl Fixture {
    fn new() -> Self {
        let loaded = crate::config::load(None, &crate::toolbox::built_in()).unwrap();
        let calls = Arc::new(AtomicUsize::new(0));
        let mut registry = Registry::default();
        let mut definitions = Vec::new();
        for (name, effect, sends_out) in [
            ("look_up", EffectClass::Read, false),
            ("read_page", EffectClass::Read, false),
            ("send_query", EffectClass::Read, true),
            ("keep", EffectClass::Idempotent, false),
            ("check_out", EffectClass::Checkable, true),
            ("pay", EffectClass::Effect, true),
        ] {
            let definition = ToolDefinition {
                name: name.to_owned(),
                description: String::new(),
                input_schema: Arc::new(json!({"type": "object"})),
                effect,
                timeout: Duration::from_secs(5),
            };
            let calls = Arc::clone(&calls);
            let tool: SharedTool = Arc::new(Counting { definition: definition.clone(), sends_out, calls });
            registry.add(tool).unwrap();
            // What a trace says of a tool may be a lie.
            definitions.push(ToolDefinition { effect: EffectClass::Read, ..definition });
        }
        let folder = std::path::PathBuf::new();
        let context = Context { loaded, registry, folder, jobs: None };
        Self { context, calls, checkpoint: checkpoint(), definitions }
    }

    fn answers(&self, mode: Tools) -> Answers<'_> {
        let agent = Agent::of_kind(&self.context, "goal").unwrap();
        let run = RunId(Uuid::nil());
        let mut answers = Answers::new(&self.context, &self.checkpoint, &agent, run, mode).unwrap();
        answers.offer(&self.definitions);
        answers
    }

    fn called(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

fn call(name: &str, input: Value) -> ToolCall {
    ToolCall { id: "call_1".to_owned(), name: name.to_owned(), input, malformed: None }
}

/// Two recorded answers of one call, and one of a call of `pay`.
fn checkpoint() -> Checkpoint {
    let called = |name: &str, text: &str| {
        (Called { name: name.to_owned(), input: json!({}) }, ToolResponse::success(text))
    };
    let mut checkpoint = trace().checkpoint(None).unwrap();
    checkpoint.rest = Way::default();
    checkpoint.calls = vec![called("look_up", "one"), called("pay", "paid"), called("look_up", "two")];
    checkpoint
}

fn trace() -> houston_domain::trace::Trace {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces/one_tool.trace.jsonl");
    houston_domain::trace::Trace::parse(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[tokio::test]
async fn recorded_answers_come_first_and_in_order() {
    let fixture = Fixture::new();
    let mut answers = fixture.answers(Tools::LiveRead);
    for expected in ["one", "two", "two"] {
        let response = answers.answer(&call("look_up", json!({}))).await.unwrap();
        assert_eq!(response.text(), expected);
    }
    assert_eq!(answers.answer(&call("pay", json!({}))).await.unwrap().text(), "paid");
    assert_eq!(fixture.called(), 0);
}

#[tokio::test]
async fn only_tools_that_read_are_called_live() {
    let fixture = Fixture::new();
    let other = json!({"other": true});
    let mut answers = fixture.answers(Tools::LiveRead);
    for name in ["pay", "check_out", "keep", "no_such_tool"] {
        let response = answers.answer(&call(name, other.clone())).await.unwrap();
        assert!(response.text().contains("not available"), "{name}: {}", response.text());
    }
    assert_eq!(fixture.called(), 0, "tools with effects are never called");
    assert_eq!(answers.answer(&call("look_up", other.clone())).await.unwrap().text(), "live");
    assert_eq!(fixture.called(), 1);
    // Not offered to the agent.
    answers.offered.remove("look_up");
    assert!(!answers.answer(&call("look_up", other)).await.unwrap().is_success());
    assert_eq!(fixture.called(), 1);
}

#[tokio::test]
async fn what_strangers_wrote_sends_nothing_out() {
    let fixture = Fixture::new();
    let mut answers = fixture.answers(Tools::LiveRead);
    assert!(answers.answer(&call("read_page", json!({}))).await.unwrap().is_success());
    let response = answers.answer(&call("send_query", json!({"q": "secret"}))).await.unwrap();
    assert!(response.text().contains("guards"), "{}", response.text());
    assert_eq!(fixture.called(), 1);
}

#[tokio::test]
async fn skip_and_fail_call_nothing() {
    let fixture = Fixture::new();
    let other = call("look_up", json!({"other": true}));
    assert!(!fixture.answers(Tools::Skip).answer(&other).await.unwrap().is_success());
    let failure = fixture.answers(Tools::Fail).answer(&other).await.unwrap_err();
    let Failure::Other(error) = failure else { panic!("{failure:?}") };
    assert!(error.to_string().contains("does not answer look_up"), "{error}");
    assert_eq!(fixture.called(), 0);
}
