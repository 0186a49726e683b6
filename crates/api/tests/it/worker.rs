//! A worker as the API knows it: what it commits, and what it tells the bus.

use std::time::Duration;

use houston_domain::error_message::ErrorMessage;
use houston_domain::event::{Delta, Event, Live, Part};
use houston_domain::history::{Block, Entry};
use houston_domain::id::{AgentableId, MessageId, RunId, WorkerId};
use houston_domain::message::{MessageType, Source};
use houston_domain::model::Usage;
use houston_domain::run::RunStatus;
use houston_store::claim::{Claimed, Crashes};
use houston_store::cost::ModelCall;
use houston_store::lease::LeaseConnection;
use houston_store::step::{Commit, Done, Ending, NewMessage, Step, RunTransition};
use serde_json::{Value, json};

use crate::app::App;

pub(crate) struct Worker<'a> {
    app: &'a App,
    pub(crate) id: WorkerId,
    _lease: LeaseConnection,
}

/// A run in its hands.
pub(crate) struct Driven<'a> {
    app: &'a App,
    pub(crate) claimed: Claimed,
    pub(crate) message: MessageId,
    iteration: u32,
    /// Whether the bus hears of it.
    pub(crate) loud: bool,
    /// Whether nobody knows what its calls cost.
    pub(crate) unpriced: bool,
}

impl<'a> Worker<'a> {
    pub(crate) async fn start(app: &'a App) -> Self {
        let id = app.state.ids.next();
        let mut lease =
            LeaseConnection::open(app.servers.database_url(), id, Duration::from_secs(60)).await.unwrap();
        lease.register("test").await.unwrap();
        Self { app, id, _lease: lease }
    }

    pub(crate) async fn claim(&self) -> Driven<'a> {
        self.claim_of(self.app.agentable()).await
    }

    pub(crate) async fn claim_of(&self, agentable: AgentableId) -> Driven<'a> {
        let ids = &self.app.state.ids;
        let message = ids.next();
        let claimed = self
            .app
            .state
            .store
            .claim_run(agentable, self.id, ids.next(), message, Crashes::default())
            .await
            .unwrap()
            .expect("something to claim");
        self.app.state.bus.publish(agentable, Live::Committed(vec![claimed.event.clone()]));
        let iteration = u32::try_from(claimed.iterations).unwrap() + 1;
        Driven { app: self.app, claimed, message, iteration, loud: true, unpriced: false }
    }
}

impl Driven<'_> {
    pub(crate) fn run(&self) -> RunId {
        self.claimed.run
    }

    /// Streams a piece of text.
    pub(crate) fn write(&self, part: Part, reasoning_chars: u32, offset: u32, text: &str) {
        let delta = Delta { message_id: self.message, part, reasoning_chars, offset, text: text.to_owned() };
        self.app.publish(Live::Delta(delta));
    }

    async fn commit(
        &self,
        events: Vec<Event>,
        messages: Vec<NewMessage>,
        entries: Vec<Entry>,
        then: RunTransition,
    ) -> Done {
        let step = Step {
            write: self.app.state.ids.next(),
            run: self.run(),
            entries,
            events,
            messages,
            intents: vec![],
            responses: vec![],
            cells: vec![],
            large_results: vec![],
            iterations: self.iteration,
            usage: usage(),
            model: Some("simulated/fast".into()),
            call: Some(ModelCall {
                provider: "simulated".into(),
                model: "fast".into(),
                iteration: self.iteration,
                usage: Usage { cost: usage().cost.filter(|_| !self.unpriced), ..usage() },
                reported: true,
            }),
            transition: then,
        };
        match self.app.state.store.commit(&self.claimed.fence, &step).await.unwrap() {
            Commit::Done(done) => {
                if self.loud {
                    let committed = Live::Committed(done.events.clone());
                    self.app.state.bus.publish(self.claimed.fence.agentable, committed);
                }
                done
            }
            Commit::Landed => panic!("a fresh write cannot have landed"),
        }
    }

    /// Thinks, calls a tool, and begins the next iteration.
    pub(crate) async fn use_tool(&mut self, thought: &str) {
        let cell: MessageId = self.app.state.ids.next();
        let called = Event::ToolCalled {
            call_id: "call_1_1".into(),
            name: "create_note".into(),
            input: json!({"title": "x"}),
            message_id: cell,
        };
        let returned = Event::ToolReturned {
            call_id: "call_1_1".into(),
            content: "Created note".into(),
            is_error: false,
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
        };
        let entries = vec![Entry::assistant(vec![call]), Entry::user(vec![result])];
        let next_message_id = self.app.state.ids.next();
        let finished = Event::StepFinished { iteration: self.iteration, next_message_id };
        let events = vec![Event::Thought { text: thought.into() }, called, returned];
        self.commit(events, vec![message], entries, RunTransition::Continue { read: true, event: Some(finished) }).await;
        self.iteration += 1;
        self.message = next_message_id;
    }

    /// Says something and ends the run.
    pub(crate) async fn answer(self, text: &str) -> Done {
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

    /// Ends the run without a word.
    pub(crate) async fn end(self, status: RunStatus, error: Option<(&str, &str)>) -> Done {
        let RunTransition::Complete { event, ending, .. } = self.finish(status, error) else { unreachable!() };
        self.commit(vec![], vec![], vec![], RunTransition::Terminate { event, ending }).await
    }

    /// Fails; the next attempt is due at once.
    pub(crate) async fn wait(self, error: &ErrorMessage) {
        let field = |name: &str| error.metadata[name].as_i64().and_then(|n| i32::try_from(n).ok()).unwrap();
        let at = self.app.state.ids.clock().now();
        let event = Event::RetryScheduled {
            attempt: field("attempt"),
            of: field("of"),
            retry_at: at,
            code: "RATE_LIMITED".into(),
            message: error.content.clone(),
            iteration: self.iteration,
        };
        let RunTransition::Complete { mut ending, .. } = self.finish(RunStatus::Retrying, None) else { unreachable!() };
        ending.error_code = Some("RATE_LIMITED".into());
        let then = RunTransition::Retry { event, at, counts: true, ending };
        self.commit(vec![error.event()], vec![shown(error)], vec![], then).await;
    }

    /// Answers after it had failed.
    pub(crate) async fn recover(self, text: &str, error: &ErrorMessage) {
        let message = NewMessage {
            id: self.message,
            event: 0,
            source: Source::Agent,
            message_type: MessageType::Text,
            content: text.into(),
            metadata: json!({}),
        };
        let error_message = NewMessage { event: 1, ..shown(error) };
        let events = vec![Event::MessageSent { message_id: self.message }, error.event()];
        let then = self.finish(RunStatus::MessageSent, None);
        self.commit(events, vec![message, error_message], vec![], then).await;
    }

    /// Fails for good.
    pub(crate) async fn give_up(self, error: &ErrorMessage) {
        let RunTransition::Complete { event, ending, .. } = self.finish(RunStatus::Failed, Some(("RATE_LIMITED", "no")))
        else {
            unreachable!()
        };
        let then = RunTransition::Terminate { event, ending };
        self.commit(vec![error.event()], vec![shown(error)], vec![], then).await;
    }

    pub(crate) async fn hand_over(self) {
        let event = Event::HandedOver { iteration: self.iteration };
        self.commit(vec![], vec![], vec![], RunTransition::Release { event }).await;
    }

    fn finish(&self, status: RunStatus, error: Option<(&str, &str)>) -> RunTransition {
        let ids = &self.app.state.ids;
        let (code, message) =
            (error.map(|(code, _)| code.to_owned()), error.map(|(_, text)| text.to_owned()));
        let iteration = Some(self.iteration);
        let go_on = Event::StepFinished { iteration: self.iteration, next_message_id: ids.next() };
        RunTransition::Complete {
            event: Event::RunFinished {
                status,
                iteration,
                usage: usage(),
                message: message.clone(),
                code: code.clone(),
            },
            go_on,
            ending: Ending { status, next_run: ids.next(), error_code: code, error_message: message },
        }
    }
}

/// Of each of its model calls, and what each costs.
fn usage() -> Usage {
    Usage { input_tokens: 10, output_tokens: 5, cost: Some("0.00150".parse().unwrap()), ..Usage::default() }
}

fn shown(error: &ErrorMessage) -> NewMessage {
    NewMessage {
        id: error.id,
        event: 0,
        source: Source::Error,
        message_type: MessageType::Text,
        content: error.content.clone(),
        metadata: error.metadata.clone(),
    }
}
