//! Records plans: drives the state machine of plans with given outcomes, and writes down what it says.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, TimeDelta, Utc};
use houston_domain::event::Event;
use houston_domain::model::Usage;
use houston_domain::plan::{
    Advance, Document, End, Failure, Given, Offer, States, Step, advance, answer, fail, succeed,
};
use houston_domain::run::RunStatus;
use houston_domain::trace::plan::{Advanced, DRIVER, Outcome, Report, Version};
use houston_domain::trace::{Line, Trace};
use serde_json::{Value, json};

use crate::recorder::Recorder;

const TOOLS: [&str; 2] = ["search", "book"];

struct PlanRecorder {
    lines: Vec<Line>,
    document: Document,
    version: Version,
    states: States,
    settled: BTreeSet<String>,
    now: DateTime<Utc>,
    ended: Option<End>,
}

impl PlanRecorder {
    fn start(document: Value) -> Self {
        let now = DateTime::from_timestamp(1_790_000_000, 0).unwrap();
        let version = Version {
            at: now,
            version: 1,
            document,
            tools: TOOLS.map(str::to_owned).to_vec(),
            input: json!({"city": "Lisbon"}),
            deadline: now + TimeDelta::minutes(10),
            at_once: 3,
            may_replan: true,
            forgotten: Vec::new(),
        };
        let mut recorder = Self {
            lines: vec![Line::Plan(Box::new(version.clone()))],
            document: parsed(&version.document),
            version,
            states: States::new(),
            settled: BTreeSet::new(),
            now,
            ended: None,
        };
        recorder.advance(false);
        recorder
    }

    fn advance(&mut self, cancelled: bool) -> Advance {
        let Version { input, deadline, may_replan, at_once, .. } = &self.version;
        let given = Given {
            input,
            now: self.now,
            paused: false,
            cancelled,
            deadline: *deadline,
            may_replan: *may_replan,
            at_once: *at_once,
        };
        let next = advance(&self.document, &mut self.states, &given);
        let new = self
            .states
            .iter()
            .filter(|(path, state)| state.status.is_settled() && !self.settled.contains(*path));
        let settled: BTreeMap<String, String> =
            new.map(|(path, state)| (path.clone(), state.status.as_str().to_owned())).collect();
        self.settled.extend(settled.keys().cloned());
        self.ended = next.end.clone();
        self.lines.push(Line::Advance(Box::new(Advanced {
            at: self.now,
            paused: false,
            cancelled,
            start: next.start.clone(),
            cancel: next.cancel.clone(),
            settled,
            wait_until: next.wait_until,
            end: self.ended.clone(),
        })));
        next
    }

    /// A second later the step has this outcome.
    fn report(&mut self, path: &str, outcome: Outcome) {
        self.now += TimeDelta::seconds(1);
        let retry_at = match outcome.clone() {
            Outcome::Succeeded { result } => {
                assert!(succeed(&mut self.states, path, result), "{path}");
                None
            }
            Outcome::Answered { result } => {
                assert!(answer(&mut self.states, path, result), "{path}");
                None
            }
            Outcome::Failed { code, message, .. } => {
                let step = step_of(&self.document, path).clone();
                let error = Failure { code, message };
                assert!(fail(&step, &mut self.states, path, error, self.now, 0.5), "{path}");
                self.states[path].due
            }
        };
        let outcome = match outcome {
            Outcome::Failed { code, message, .. } => Outcome::Failed { code, message, retry_at },
            outcome => outcome,
        };
        self.lines.push(Line::Step(Box::new(Report { at: self.now, path: path.to_owned(), outcome })));
        self.advance(false);
        if let Some(retry_at) = retry_at {
            self.now = retry_at;
            self.advance(false);
        }
    }

    fn returns(&mut self, path: &str, result: &str) {
        self.report(path, Outcome::Succeeded { result: result.into() });
    }

    fn fails(&mut self, path: &str, code: &str) {
        let (code, message) = (code.to_owned(), "it did not work".to_owned());
        self.report(path, Outcome::Failed { code, message, retry_at: None });
    }

    fn change(&mut self, document: Value, forgotten: &[&str]) {
        self.now += TimeDelta::seconds(2);
        let forgotten: Vec<String> = forgotten.iter().map(|path| (*path).to_owned()).collect();
        self.states.forget(|path| forgotten.iter().any(|of| of == path));
        self.settled.retain(|path| !forgotten.contains(path));
        self.version = Version { at: self.now, version: 2, document, forgotten, ..self.version.clone() };
        self.document = parsed(&self.version.document);
        self.lines.push(Line::Plan(Box::new(self.version.clone())));
        self.advance(false);
    }

    fn end(mut self) -> Trace {
        let status = match self.ended {
            Some(End::Completed { .. }) => RunStatus::Completed,
            Some(End::Cancelled) => RunStatus::Cancelled,
            Some(End::Failed { .. }) => RunStatus::Failed,
            other => panic!("the plan has not ended: {other:?}"),
        };
        let event = Event::RunFinished {
            status,
            iteration: None,
            usage: Usage::default(),
            message: None,
            code: None,
            result: None,
        };
        self.lines.push(Line::Event { seq: 1, at: self.now, event: Box::new(event) });
        let mut header = Recorder::new().header;
        header.driver = Some(DRIVER.to_owned());
        Trace { header, lines: self.lines }
    }
}

fn parsed(document: &Value) -> Document {
    Document::parse(&document.to_string(), Offer { tools: &TOOLS, steps: 100 }).unwrap()
}

/// The step with the last id of the path: ids are unique in these documents.
fn step_of<'d>(document: &'d Document, path: &str) -> &'d Step {
    document.steps.iter().find(|step| step.id == path).unwrap()
}

fn document(steps: Value, output: &str) -> Value {
    json!({"v": 1, "goal": "Plan a weekend", "steps": steps, "output": output})
}

fn tool(id: &str, name: &str, query: &str) -> Value {
    json!({"id": id, "type": "tool", "tool": name, "args": {"query": query}})
}

fn llm(id: &str, prompt: &str) -> Value {
    json!({"id": id, "type": "llm", "prompt": prompt})
}

pub(crate) fn all() -> Vec<(&'static str, Trace)> {
    let text = llm("text", "Write about {{ hotels.result }} and {{ flights.result }}.");
    let flights = json!({"id": "flights", "type": "tool", "tool": "search", "args": {}, "retry": {"max": 1}});
    let steps = json!([tool("hotels", "search", "{{ input.city }}"), flights, text]);
    let mut both = PlanRecorder::start(document(steps, "{{ text.result }}"));
    both.returns("hotels", "Hotel Lisboa");
    both.fails("flights", "IO_ERROR");
    both.returns("flights", "TP 575");
    both.returns("text", "The Hotel Lisboa and flight TP 575.");
    let steps = |name: &str| {
        json!([
            tool("hotels", "search", "Lisbon"),
            tool("reserve", name, "{{ hotels.result }}"),
            llm("text", "{{ reserve.result }}")
        ])
    };
    let mut changed = PlanRecorder::start(document(steps("book"), "{{ text.result }}"));
    changed.returns("hotels", "Hotel Lisboa");
    changed.fails("reserve", "FORBIDDEN");
    assert!(matches!(changed.ended, Some(End::Replan { .. })), "{:?}", changed.ended);
    changed.change(document(steps("search"), "{{ text.result }}"), &["reserve", "text"]);
    changed.returns("reserve", "call them");
    changed.returns("text", "Please call the Hotel Lisboa.");
    let ask = json!({"id": "ask", "type": "input", "question": "Which nights?", "expires_s": 300});
    let each = json!({"id": "each", "type": "loop", "over": "ask.result", "max": 5, "at_once": 1,
                      "steps": [llm("night", "{{ item }}")]});
    let mut asked = PlanRecorder::start(document(json!([ask.clone(), each]), "{{ each.result }}"));
    asked.report("ask", Outcome::Answered { result: json!(["Friday", "Saturday"]) });
    asked.returns("each[0].night", "Hotel Lisboa");
    asked.returns("each[1].night", "Pensão Central");
    let mut cancelled =
        PlanRecorder::start(document(json!([ask, tool("hotels", "search", "Lisbon")]), "{{ ask.result }}"));
    cancelled.returns("hotels", "Hotel Lisboa");
    cancelled.now += TimeDelta::seconds(5);
    cancelled.advance(true);
    vec![
        ("plan_side_by_side", both.end()),
        ("plan_changed", changed.end()),
        ("plan_with_question_and_loop", asked.end()),
        ("plan_cancelled", cancelled.end()),
    ]
}
