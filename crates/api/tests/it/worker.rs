//! A test worker: it commits steps and publishes them on the bus, without an engine.

use std::time::Duration;

use houston_domain::error_message::ErrorMessage;
use houston_domain::event::{Delta, Event, Live, Part};
use houston_domain::history::{Block, Entry};
use houston_domain::id::{AgentableId, MessageId, RunId, WorkerId};
use houston_domain::message::{MessageType, Source};
use houston_domain::model::Usage;
use houston_domain::question::{NewQuestion, QuestionChanges};
use houston_domain::run::RunStatus;
use houston_domain::step::ModelCall;
use houston_domain::step::{Ending, NewMessage, RunTransition, Step};
use houston_store::claim::{Claim, ClaimRequest, ClaimedRun, CrashPolicy, Trial};
use houston_store::lease::{LeaseConnection, WorkerDescription};
use houston_store::step::{Commit, CommittedStep};
use serde_json::{Value, json};

use crate::test_api::TestApi;

pub(crate) struct Worker<'a> {
    api: &'a TestApi,
    pub(crate) id: WorkerId,
    _lease: LeaseConnection,
}

/// A run claimed by the test worker.
pub(crate) struct TestRun<'a> {
    api: &'a TestApi,
    pub(crate) claimed: ClaimedRun,
    pub(crate) message: MessageId,
    iteration: u32,
    /// Whether commits are published on the bus.
    pub(crate) publishes: bool,
    /// Whether the cost of its model calls is unknown.
    pub(crate) unpriced: bool,
}

impl<'a> Worker<'a> {
    pub(crate) async fn start(api: &'a TestApi) -> Self {
        let id = api.state.ids.next();
        let mut lease =
            LeaseConnection::open(api.servers.database_url(), id, Duration::from_secs(60)).await.unwrap();
        lease
            .register(WorkerDescription { name: "test".into(), ..WorkerDescription::default() })
            .await
            .unwrap();
        Self { api, id, _lease: lease }
    }

    pub(crate) async fn claim(&self) -> TestRun<'a> {
        self.claim_of(self.api.agentable()).await
    }

    pub(crate) async fn claim_of(&self, agentable: AgentableId) -> TestRun<'a> {
        let ids = &self.api.state.ids;
        let message = ids.next();
        let request = ClaimRequest {
            agentable,
            worker: self.id,
            token: ids.next(),
            next_message: message,
            crashes: CrashPolicy::default(),
            trial: Trial::None,
            context: None,
        };
        let Claim::Run(claimed) = self.api.store.runs().claim(request).await.unwrap() else {
            panic!("nothing to claim")
        };
        self.api.state.bus.publish(agentable, Live::Committed(vec![claimed.event.clone()]));
        let iteration = u32::try_from(claimed.iterations).unwrap() + 1;
        TestRun { api: self.api, claimed: *claimed, message, iteration, publishes: true, unpriced: false }
    }
}

impl TestRun<'_> {
    pub(crate) fn run(&self) -> RunId {
        self.claimed.run
    }

    /// Publishes a delta.
    pub(crate) fn write(&self, part: Part, reasoning_chars: u32, offset: u32, text: &str) {
        let delta = Delta {
            message_id: self.message,
            part,
            reasoning_chars,
            offset,
            text: text.to_owned(),
            is_draft: false,
        };
        self.api.publish(Live::Delta(delta));
    }

    async fn commit(
        &self,
        events: Vec<Event>,
        messages: Vec<NewMessage>,
        entries: Vec<Entry>,
        then: RunTransition,
    ) -> CommittedStep {
        let step = Step { entries, events, messages, ..self.step(then) };
        self.send(&step).await
    }

    fn step(&self, then: RunTransition) -> Step {
        Step {
            write: self.api.state.ids.next(),
            run: self.run(),
            entries: vec![],
            frames: vec![],
            events: vec![],
            messages: vec![],
            intents: vec![],
            responses: vec![],
            cells: vec![],
            pauses: vec![],
            large_results: vec![],
            more_calls: vec![],
            questions: None,
            state: None,
            plan: None,
            untrusted: false,
            iterations: self.iteration,
            usage: usage(),
            model: Some("simulated/fast".into()),
            call: Some(ModelCall {
                provider: "simulated".into(),
                model: "fast".into(),
                iteration: self.iteration,
                usage: Usage { cost: usage().cost.filter(|_| !self.unpriced), ..usage() },
                estimated: false,
                reported: true,
                timing: None,
            }),
            transition: then,
        }
    }

    async fn send(&self, step: &Step) -> CommittedStep {
        match self.api.store.runs().commit(&self.claimed.fence, step).await.unwrap() {
            Commit::Done(done) => {
                if self.publishes {
                    let committed = Live::Committed(done.events.clone());
                    self.api.state.bus.publish(self.claimed.fence.agentable, committed);
                }
                done
            }
            Commit::AlreadyCommitted => panic!("a fresh write cannot have landed"),
        }
    }

    /// Commits reasoning and a tool call with its result, and starts the next iteration.
    pub(crate) async fn use_tool(&mut self, thought: &str) {
        let cell: MessageId = self.api.state.ids.next();
        let called = Event::ToolCalled {
            call_id: "call_1_1".into(),
            name: "create_note".into(),
            input: json!({"title": "x"}),
            message_id: cell,
            decided_by: None,
        };
        let returned = Event::ToolReturned {
            call_id: "call_1_1".into(),
            content: "Created note".into(),
            is_error: false,
            code: None,
            message_id: cell,
        };
        let message = NewMessage {
            id: cell,
            event: 1,
            source: Source::Agent,
            message_type: MessageType::Tool,
            content: "create_note".into(),
            metadata: json!({"status": "done"}),
        };
        let call = Block::ToolUse {
            id: "call_1_1".into(),
            name: "create_note".into(),
            input: json!({"title": "x"}),
            raw: None,
        };
        let result = Block::ToolResult {
            tool_use_id: "call_1_1".into(),
            content: "Created note".into(),
            is_error: false,
            code: None,
        };
        let entries = vec![Entry::assistant(vec![call]), Entry::user(vec![result])];
        let next_message_id = self.api.state.ids.next();
        let finished = Event::StepFinished { iteration: self.iteration, next_message_id };
        let events = vec![Event::Thought { text: thought.into(), withdrawn_at: None }, called, returned];
        self.commit(
            events,
            vec![message],
            entries,
            RunTransition::Continue { read: true, event: Some(finished) },
        )
        .await;
        self.iteration += 1;
        self.message = next_message_id;
    }

    /// Commits a message and ends the run.
    pub(crate) async fn answer(self, text: &str) -> CommittedStep {
        let message = NewMessage {
            id: self.message,
            event: 0,
            source: Source::Agent,
            message_type: MessageType::Text,
            content: text.into(),
            metadata: Value::Object(serde_json::Map::new()),
        };
        let events = vec![Event::MessageSent { message_id: self.message }];
        let entries = vec![Entry::assistant(vec![Block::text(text)])];
        let then = self.finish(RunStatus::MessageSent, None);
        self.commit(events, vec![message], entries, then).await
    }

    /// Ends the run without a message.
    pub(crate) async fn end(self, status: RunStatus, error: Option<(&str, &str)>) -> CommittedStep {
        let RunTransition::Complete { event, ending, .. } = self.finish(status, error) else {
            unreachable!()
        };
        self.commit(vec![], vec![], vec![], RunTransition::Terminate { event, ending }).await
    }

    /// Fails and schedules a retry that is due at once.
    pub(crate) async fn schedule_retry(self, error: &ErrorMessage) {
        let field = |name: &str| error.metadata[name].as_i64().and_then(|n| i32::try_from(n).ok()).unwrap();
        let at = self.api.state.ids.clock().now();
        let event = Event::RetryScheduled {
            attempt: field("attempt"),
            of: field("of"),
            retry_at: at,
            code: "RATE_LIMITED".into(),
            message: error.content.clone(),
            iteration: self.iteration,
        };
        let RunTransition::Complete { mut ending, .. } = self.finish(RunStatus::Retrying, None) else {
            unreachable!()
        };
        ending.error_code = Some("RATE_LIMITED".into());
        let then = RunTransition::Retry { event, at, counts: true, ending };
        self.commit(vec![error.event()], vec![error_message(error)], vec![], then).await;
    }

    /// Commits a message after an earlier failure, and the resolved error message.
    pub(crate) async fn recover(self, text: &str, error: &ErrorMessage) {
        let message = NewMessage {
            id: self.message,
            event: 0,
            source: Source::Agent,
            message_type: MessageType::Text,
            content: text.into(),
            metadata: json!({}),
        };
        let error_message = NewMessage { event: 1, ..error_message(error) };
        let events = vec![Event::MessageSent { message_id: self.message }, error.event()];
        let then = self.finish(RunStatus::MessageSent, None);
        self.commit(events, vec![message, error_message], vec![], then).await;
    }

    /// Ends the run as failed, with a permanent error message.
    pub(crate) async fn fail_permanently(self, error: &ErrorMessage) {
        let RunTransition::Complete { event, ending, .. } =
            self.finish(RunStatus::Failed, Some(("RATE_LIMITED", "no")))
        else {
            unreachable!()
        };
        let then = RunTransition::Terminate { event, ending };
        self.commit(vec![error.event()], vec![error_message(error)], vec![], then).await;
    }

    /// Asks a question, and waits for its answer.
    pub(crate) async fn ask(self, question: NewQuestion) {
        let event = Event::RunWaiting { until: None, iteration: self.iteration };
        let questions = vec![question.id];
        let mut step = self.step(RunTransition::Wait { event, until: None, questions, open_calls: None });
        step.questions = Some(Box::new(QuestionChanges { asked: vec![question], superseded: vec![] }));
        self.send(&step).await;
    }

    pub(crate) async fn hand_over(self) {
        let event = Event::HandedOver { iteration: self.iteration };
        self.commit(vec![], vec![], vec![], RunTransition::Release { event }).await;
    }

    fn finish(&self, status: RunStatus, error: Option<(&str, &str)>) -> RunTransition {
        let ids = &self.api.state.ids;
        let (code, message) =
            (error.map(|(code, _)| code.to_owned()), error.map(|(_, text)| text.to_owned()));
        let iteration = Some(self.iteration);
        let continue_event = Event::StepFinished { iteration: self.iteration, next_message_id: ids.next() };
        RunTransition::Complete {
            event: Event::RunFinished {
                status,
                iteration,
                usage: usage(),
                message: message.clone(),
                code: code.clone(),
                result: None,
            },
            continue_event,
            ending: Ending { status, error_code: code, error_message: message },
        }
    }
}

/// Usage and cost of each model call.
fn usage() -> Usage {
    Usage { input_tokens: 10, output_tokens: 5, cost: Some("0.00150".parse().unwrap()), ..Usage::default() }
}

fn error_message(error: &ErrorMessage) -> NewMessage {
    NewMessage {
        id: error.id,
        event: 0,
        source: Source::Error,
        message_type: MessageType::Text,
        content: error.content.clone(),
        metadata: error.metadata.clone(),
    }
}
