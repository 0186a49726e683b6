//! Simulated people who decide about calls that wait for a yes. Several do so at once, some twice, and each sends its decision
//! until an API has answered.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use houston_protocol::page::Page;
use houston_protocol::question::QuestionResponse;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::apis::{Apis, Request};
use super::reader::bare_id;
use super::seed::Seed;

/// The beginning of operations that need a yes.
const ASKED: &str = "ask ";
/// The rule of the guards for them.
pub(crate) const RULE: &str = r##"
[[rule]]
tool = "charge"
when = { "/op" = "ask *" }
decide = "ask"
why = "people decide about it"
match = [{ op = "ask #1/0/0" }]
not_match = [{ op = "#1/0/0" }]
"##;

/// The operation `op`, as one that needs a yes.
pub(crate) fn needs_yes(op: &str) -> String {
    format!("{ASKED}{op}")
}

/// Whether an operation needs a yes.
pub(crate) fn is_asked(op: &str) -> bool {
    op.starts_with(ASKED)
}

/// A decision that an API has accepted.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Decided {
    /// The question, without prefix and hyphens.
    pub(crate) question: String,
    pub(crate) answer: Value,
}

/// What was decided.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    /// As the API accepted it.
    pub(crate) decided: Vec<Decided>,
    /// Responses that must not happen.
    pub(crate) wrong: Vec<String>,
}

/// What all deciders share.
#[derive(Debug, Clone)]
pub(crate) struct DeciderPool {
    pub(crate) apis: Apis,
    pub(crate) decisions: Arc<Mutex<Decisions>>,
}

impl DeciderPool {
    /// Runs one decider until it is dropped.
    pub(crate) async fn run(self, mut seed: Seed) {
        loop {
            sleep(seed.millis(50, 900)).await;
            let api = seed.one_of(&self.apis.addresses);
            let Ok(open) = self.open(api).await else { continue };
            if open.is_empty() {
                continue;
            }
            // All deciders see the same list: often several take the same question.
            let question = &open[seed.below(open.len().min(4))];
            let answer = draw(question, &mut seed);
            // Some are not sure that it arrived.
            if self.decide(question, &answer, &mut seed).await
                && seed.permille(300)
                && !self.decide(question, &answer, &mut seed).await
            {
                let wrong = format!("{}: the same answer again was refused", question.id);
                self.decisions.lock().wrong.push(wrong);
            }
            if seed.permille(200) {
                let other = draw(question, &mut seed);
                self.decide(question, &other, &mut seed).await;
            }
        }
    }

    async fn open(&self, api: SocketAddr) -> Result<Vec<QuestionResponse>> {
        let page = self.apis.get(api, "/v1/questions?kind=approval&limit=100").await?;
        Ok(page.json::<Page<QuestionResponse>>()?.data)
    }

    /// Sends an answer until an API has responded; whether it was accepted.
    async fn decide(&self, question: &QuestionResponse, answer: &Value, seed: &mut Seed) -> bool {
        let path = format!("/v1/questions/{}/answer", question.id);
        let request = Request { path: &path, body: &json!({ "answer": answer }).to_string(), once: None };
        let response = self.apis.post_until_answered(&request, None, seed, || ()).await;
        let Some(response) = response else { return false };
        match response.status {
            200 => {
                let question = bare_id(&question.id.to_string());
                self.decisions.lock().decided.push(Decided { question, answer: answer.clone() });
            }
            // Decided by another, or not asked any more.
            409 => {}
            status => {
                let body = String::from_utf8_lossy(&response.body).into_owned();
                self.decisions.lock().wrong.push(format!("{}: {status} {body}", question.id));
            }
        }
        response.status == 200
    }
}

/// A random decision. What is not about a call is a pause: then the run goes on.
fn draw(question: &QuestionResponse, seed: &mut Seed) -> Value {
    let Some(call) = &question.approval else { return json!({"decision": "continue"}) };
    match seed.below(10) {
        0..5 => json!({"decision": "approve"}),
        5..7 => {
            let mut input = call.input.clone();
            input["op"] = json!(format!("{} edited", input["op"].as_str().unwrap_or_default()));
            json!({"decision": "edit", "input": input})
        }
        7..9 => json!({"decision": "reject", "message": "no"}),
        _ => json!({"decision": "respond", "message": "I have done it."}),
    }
}
