//! [`Worker`]: commits the steps of a trace and publishes them, as a worker does that drives the run.
//!
//! A trace has only some of the events of a run. The others follow from its lines, as in the engine: a call and its result
//! ([`cells`](../../../engine/src/run/tool_runner/cells.rs)), the error message of a failed attempt, a compression.

use std::time::Duration;

use chrono::{DateTime, TimeDelta};
use houston_domain::agent::SEND_MESSAGE;
use houston_domain::clock::ManualClock;
use houston_domain::compression::CompressionReason;
use houston_domain::error_message::{CONTENT_FILTER, ErrorMessage, PendingRetry, user_text};
use houston_domain::event::{Delta, Event, Live, Part};
use houston_domain::history::{Block, Entry, Role};
use houston_domain::id::{AgentableId, Ids, MessageId, QuestionId, RunId, UserId};
use houston_domain::message::{MessageType, Source};
use houston_domain::model::{ModelError, ModelErrorCode, Usage};
use houston_domain::question::QuestionChanges;
use houston_domain::run::RunStatus;
use houston_domain::step::{Ending, NewMessage, RunTransition, Step};
use houston_domain::trace::{Line, Trace};
use houston_store::agentable::NewAgentable;
use houston_store::claim::{Claim, ClaimRequest, ClaimedRun, CrashPolicy, Trial};
use houston_store::idempotency::Created;
use houston_store::lease::{LeaseConnection, WorkerDescription};
use houston_store::message::NewPost;
use houston_store::step::Commit;
use houston_store::user::User;
use serde_json::{Value, json};

use crate::plan_events::PlanEvents;
use crate::streams::{Client, Service};

/// How long a frame may take to the client until what causes it is published again.
const AGAIN: Duration = Duration::from_millis(500);

pub(crate) struct Worker<'s> {
    service: &'s Service,
    clock: ManualClock,
    ids: Ids,
    goal: AgentableId,
    client: Client,
    lease: Option<LeaseConnection>,
    claimed: Option<ClaimedRun>,
    /// The id of the next message, and the iteration that is open.
    next_message: MessageId,
    iteration: u32,
    usage: Usage,
    /// The position of the last event.
    seq: i64,
    /// Calls without a result, with the messages that show them.
    cells: Vec<(String, MessageId)>,
    error: Option<ErrorMessage>,
    plan: Option<PlanEvents>,
}

fn text_of(blocks: &[Block]) -> String {
    blocks
        .iter()
        .filter_map(|block| match block {
            Block::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

impl<'s> Worker<'s> {
    /// A goal of a new user, and a client of its stream.
    pub(crate) async fn start(service: &'s Service, name: &str) -> Self {
        let seed = name.bytes().fold(0_u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
        let clock = ManualClock::at(DateTime::from_timestamp(1_790_000_000, 0).unwrap());
        let ids = Ids::seeded(std::sync::Arc::new(clock.clone()), seed);
        let now = ids.clock().now();
        let (cost, time_zone) = (houston_store::cost::Cost::NOTHING, "UTC".to_owned());
        let user: UserId = ids.next();
        let new =
            User { id: user, external_id: None, name: "Ann".to_owned(), time_zone, created_at: now, cost };
        let agentable = |id, kind| NewAgentable {
            id,
            user,
            kind,
            title: "Lisbon",
            description: "",
            status: None,
            tools: None,
            created_at: now,
        };
        let store = service.store.tenant(service.tenant);
        let own = agentable(ids.beside(user), "user_agent");
        store.create_user(&new, &[own], (None, &Value::Null)).await.unwrap();
        let goal = ids.beside(user);
        store.create_agentable(&agentable(goal, "goal"), (None, &Value::Null)).await.unwrap();
        let client = service.stream(&format!("/v1/goals/{}/events", goal.public_id("goal"))).await;
        Self {
            service,
            clock,
            next_message: ids.beside(goal),
            ids,
            goal,
            client,
            lease: None,
            claimed: None,
            iteration: 1,
            usage: Usage::default(),
            seq: 0,
            cells: Vec::new(),
            error: None,
            plan: None,
        }
    }

    /// Ids sort by time.
    fn id<T: From<uuid::Uuid>>(&self) -> T {
        self.clock.advance(TimeDelta::milliseconds(1));
        self.ids.beside(self.goal)
    }

    fn publish(&self, live: Live) {
        self.service.bus.publish(self.goal, live);
    }

    /// Carries out all lines; returns what the client has received, and the path of the stream.
    pub(crate) async fn carry_out(mut self, trace: &Trace) -> (String, String) {
        let mut lines = trace.lines.as_slice();
        if trace.header.driver.is_some() {
            self.post("Plan a weekend").await;
            self.claim().await;
            self.plan = Some(PlanEvents::new(self.id::<AgentableId>().public_id("plan")));
        }
        while let [line, rest @ ..] = lines {
            lines = rest;
            match line {
                Line::Before(_) | Line::Message { .. } | Line::Tool { .. } => {}
                Line::Event { event, .. } => lines = self.event(event, rest).await,
                Line::Answer { content, usage, .. } => lines = self.answer(content, *usage, rest).await,
                Line::Results { content, .. } => lines = self.results(content, rest).await,
                Line::Compressed { remaining, .. } => self.compressed(*remaining).await,
                Line::Plan(_) | Line::Step(_) | Line::Advance(_) => {
                    let events = self.plan.as_mut().unwrap().after(line);
                    self.commit(self.step(events, going_on(None))).await;
                }
            }
        }
        let path = format!("/v1/goals/{}/events", self.goal.public_id("goal"));
        if let Some(lease) = self.lease {
            lease.deregister().await.unwrap();
        }
        (self.client.rest().await, path)
    }

    async fn post(&mut self, content: &str) {
        let post = NewPost::new(self.id(), self.id(), content, json!({}));
        let store = self.service.store.tenant(self.service.tenant);
        let Created::New(posted) = store.post_message(self.goal, &post, None).await.unwrap() else {
            panic!("there is no idempotency key")
        };
        if std::mem::replace(&mut self.seq, posted.seq) > 0 {
            self.publish(Live::Committed(post.events(&posted)));
            return;
        }
        // The server has subscribed when it reads these events because of a nudge.
        loop {
            self.publish(Live::Nudge);
            if self.client.reads_until(AGAIN, |id| id == posted.seq.to_string()).await {
                return;
            }
        }
    }

    /// The run of the goal is claimed. A worker that has it has died.
    async fn claim(&mut self) {
        if let Some(dead) = self.lease.take() {
            dead.deregister().await.unwrap();
        }
        let (url, worker) = (self.service.servers.database_url(), self.id());
        let mut lease = LeaseConnection::open(url, worker, Duration::from_secs(600)).await.unwrap();
        lease
            .register(WorkerDescription { name: "test".into(), ..WorkerDescription::default() })
            .await
            .unwrap();
        self.next_message = self.id();
        let request = ClaimRequest {
            agentable: self.goal,
            worker,
            token: self.id(),
            next_message: self.next_message,
            crashes: CrashPolicy::default(),
            trial: Trial::None,
            context: None,
        };
        let claimed = match self.service.store.runs().claim(request).await.unwrap() {
            Claim::Run(claimed) => *claimed,
            other => panic!("a run is open: {other:?}"),
        };
        self.iteration = u32::try_from(claimed.iterations).unwrap() + 1;
        self.seq = claimed.event.seq;
        self.publish(Live::Committed(vec![claimed.event.clone()]));
        self.claimed = Some(claimed);
        self.lease = Some(lease);
    }

    /// The lines that follow those of the event.
    async fn event<'l>(&mut self, event: &Event, rest: &'l [Line]) -> &'l [Line] {
        match event {
            Event::RunQueued {} => {}
            Event::MessagePosted { .. } => {
                let [Line::Message { content, .. }, rest @ ..] = rest else { panic!("{rest:?}") };
                self.post(&text_of(content)).await;
                return rest;
            }
            Event::AttemptStarted { .. } => self.claim().await,
            Event::RetryScheduled { .. } => self.fails(event).await,
            Event::QuestionAsked(asked) => {
                let [Line::Event { event: waiting, .. }, rest @ ..] = rest else { panic!("{rest:?}") };
                let asked = houston_domain::question::NewQuestion { id: self.id(), ..(**asked).clone() };
                let (until, questions) = (None, vec![asked.id]);
                let open_calls = (!self.cells.is_empty()).then_some(0);
                let then = RunTransition::Wait { event: (**waiting).clone(), until, questions, open_calls };
                let mut step = self.step(vec![], then);
                let id = asked.id;
                step.questions = Some(Box::new(QuestionChanges { asked: vec![asked], superseded: vec![] }));
                self.commit(step).await;
                let [Line::Event { event: closed, .. }, rest @ ..] = rest else { panic!("{rest:?}") };
                self.close(id, closed).await;
                return rest;
            }
            Event::RunFinished { .. } => {
                let then = self.ending(event);
                self.commit(self.step(vec![], then)).await;
            }
            other => panic!("{other:?}"),
        }
        rest
    }

    async fn close(&self, id: QuestionId, closed: &Event) {
        let Event::QuestionClosed(closed) = closed else { panic!("{closed:?}") };
        let store = self.service.store.tenant(self.service.tenant);
        store.answer_question(id, closed.answer.as_ref().unwrap(), Some("Ann")).await.unwrap();
    }

    async fn fails(&mut self, event: &Event) {
        let Event::RetryScheduled { attempt, of, retry_at, code, message, .. } = event else {
            panic!("{event:?}")
        };
        assert_eq!(code, ModelErrorCode::RateLimited.as_str());
        let error = ModelError::new(ModelErrorCode::RateLimited, message.clone());
        let since = *retry_at - TimeDelta::seconds(30);
        let retry = PendingRetry { attempt: *attempt, of: *of, retry_at: *retry_at, since };
        let waiting = ErrorMessage::waiting(self.claimed.as_ref().unwrap().run, &error, &retry, &[]);
        let ending = self.ended(RunStatus::Retrying, Some(code.clone()), Some(message.clone()));
        // Due at once, whatever the clock of Postgres says.
        let then =
            RunTransition::Retry { event: event.clone(), at: DateTime::UNIX_EPOCH, counts: true, ending };
        let mut step = self.step(vec![], then);
        show(&mut step, &waiting);
        self.commit(step).await;
        self.error = Some(waiting);
    }

    /// An answer is streamed in part, and committed with the calls.
    async fn answer<'l>(&mut self, content: &[Block], usage: Usage, mut rest: &'l [Line]) -> &'l [Line] {
        self.usage += usage;
        let mut says = Vec::new();
        if let [Line::Event { event, .. }, others @ ..] = rest
            && matches!(**event, Event::MessageSent { .. })
        {
            says.push(text_of(content));
            rest = others;
        }
        let mut step = self.step(vec![], going_on(None));
        (step.usage, step.model) = (usage, Some("simulated/simulated".to_owned()));
        if !content.is_empty() {
            step.entries.push(Entry::assistant(content.to_vec()));
        }
        for block in content {
            if let Block::ToolUse { id, name, input, .. } = block {
                match name.as_str() {
                    SEND_MESSAGE => says.push(input["content"].as_str().unwrap().to_owned()),
                    name => self.call(&mut step, id, name, input),
                }
            }
        }
        for (nth, text) in says.iter().enumerate() {
            let id = if nth == 0 { self.next_message } else { self.id() };
            if nth == 0 {
                self.write(text).await;
            }
            say(&mut step, id, text);
        }
        if content.iter().any(|block| matches!(block, Block::ToolUse { .. })) {
            self.commit(step).await;
            return rest;
        }
        // The run ends, unless there is another message meanwhile.
        let [Line::Event { event, .. }, others @ ..] = rest else { panic!("{rest:?}") };
        match &**event {
            Event::MessagePosted { .. } => {
                rest = self.event(event, others).await;
                let completed = Event::RunFinished {
                    status: RunStatus::Completed,
                    iteration: None,
                    usage: Usage::default(),
                    message: None,
                    code: None,
                    result: None,
                };
                step.transition = self.ending(&completed);
            }
            _ => {
                step.transition = self.ending(event);
                rest = others;
            }
        }
        self.commit(step).await;
        rest
    }

    fn call(&mut self, step: &mut Step, id: &str, name: &str, input: &Value) {
        let cell: MessageId = self.id();
        step.messages.push(NewMessage {
            id: cell,
            event: step.events.len(),
            source: Source::Agent,
            message_type: MessageType::Tool,
            content: name.to_owned(),
            metadata: json!({"tool": name, "call_id": id, "status": "started"}),
        });
        step.events.push(Event::ToolCalled {
            call_id: id.to_owned(),
            name: name.to_owned(),
            input: input.clone(),
            message_id: cell,
            decided_by: None,
        });
        self.cells.push((id.to_owned(), cell));
    }

    /// The results of the calls, which end an iteration or the run.
    async fn results<'l>(&mut self, content: &[Block], rest: &'l [Line]) -> &'l [Line] {
        let mut events = Vec::new();
        for block in content {
            let Block::ToolResult { tool_use_id, content, is_error, code } = block else { continue };
            let Some(at) = self.cells.iter().position(|(call, _)| call == tool_use_id) else { continue };
            events.push(Event::ToolReturned {
                call_id: tool_use_id.clone(),
                content: content.clone(),
                is_error: *is_error,
                code: *code,
                message_id: self.cells.remove(at).1,
            });
        }
        let (then, rest) = match rest {
            [Line::Event { event, .. }, rest @ ..] if matches!(**event, Event::StepFinished { .. }) => {
                (going_on(Some(self.step_finished())), rest)
            }
            [Line::Event { event, .. }, rest @ ..] if matches!(**event, Event::RunFinished { .. }) => {
                (self.ending(event), rest)
            }
            rest => (going_on(None), rest),
        };
        let mut step = self.step(events, then);
        step.entries.push(Entry::user(content.to_vec()));
        self.commit(step).await;
        rest
    }

    async fn compressed(&mut self, remaining: usize) {
        let event = Event::ContextCompressed {
            compression_id: self.id(),
            reason: CompressionReason::Budget,
            entries_before: remaining + 12,
            entries_after: remaining + 1,
            tokens_before: 28_000,
            tokens_after: 9_000,
            model: Some("simulated/simulated".to_owned()),
        };
        self.commit(self.step(vec![event], going_on(None))).await;
    }

    /// Half of a text arrives before it is committed.
    async fn write(&mut self, text: &str) {
        let half: String = text.chars().take(text.chars().count() / 2).collect();
        let (before, id) = (self.seq, self.next_message);
        let has_all = |id: &str| id.split(':').next().is_some_and(|seq| seq.parse() == Ok(before));
        assert!(self.client.reads_until(Duration::from_secs(120), has_all).await, "event {before} arrives");
        let position = format!("{before}:{}", half.chars().count());
        loop {
            let (part, text) = (Part::Message, half.clone());
            self.publish(Live::Delta(Delta {
                message_id: id,
                part,
                reasoning_chars: 0,
                offset: 0,
                text,
                is_draft: false,
            }));
            if self.client.reads_until(AGAIN, |id| id == position).await {
                return;
            }
        }
    }

    fn step_finished(&mut self) -> Event {
        Event::StepFinished { iteration: self.iteration, next_message_id: self.id() }
    }

    fn ended(&self, status: RunStatus, error_code: Option<String>, error_message: Option<String>) -> Ending {
        // The ids of what follows are those of the recorded streams only if one is drawn here.
        let _: RunId = self.id();
        Ending { status, error_code, error_message }
    }

    /// The end of the run as the event of the trace says, with what that lacks.
    fn ending(&mut self, event: &Event) -> RunTransition {
        let Event::RunFinished { status, code, .. } = event else { panic!("{event:?}") };
        let message = match code.as_deref() {
            Some(CONTENT_FILTER) => Some("the model refused to answer".to_owned()),
            Some("AUTHENTICATION_ERROR") => Some("the key is not valid".to_owned()),
            _ => None,
        };
        let event = Event::RunFinished {
            status: *status,
            iteration: Some(self.iteration),
            usage: self.usage,
            message: message.clone().or_else(|| status.notice().map(str::to_owned)),
            code: code.clone(),
            result: None,
        };
        let ending = self.ended(*status, code.clone(), message);
        match status.answers() {
            true => RunTransition::Complete { event, continue_event: self.step_finished(), ending },
            false => RunTransition::Terminate { event, ending },
        }
    }

    fn step(&self, events: Vec<Event>, transition: RunTransition) -> Step {
        Step {
            write: self.id(),
            run: self.claimed.as_ref().unwrap().run,
            entries: vec![],
            frames: vec![],
            events,
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
            iterations: 0,
            usage: Usage::default(),
            model: None,
            call: None,
            transition,
        }
    }

    async fn commit(&mut self, mut step: Step) {
        let ending = step.transition.final_ending().cloned();
        let closes = match &step.transition {
            RunTransition::Continue { event, .. } => event.is_some(),
            _ => ending.is_some(),
        };
        step.iterations = self.iteration - u32::from(!closes);
        let answered = step.entries.iter().any(|entry| entry.role == Role::Assistant);
        if let Some(error) = self.error.take_if(|_| answered || ending.is_some()) {
            show(&mut step, &error.settled(true));
        }
        if let Some(notice) = ending.as_ref().and_then(|ending| ending.status.notice()) {
            let id = self.id();
            say(&mut step, id, notice);
        }
        if let Some(Ending { status, error_code: Some(code), .. }) = &ending {
            let run = step.run;
            match code.as_str() {
                CONTENT_FILTER => show(&mut step, &ErrorMessage::stopped(run, code)),
                code if *status == RunStatus::Failed => {
                    show(&mut step, &ErrorMessage::permanent(run, code, user_text(code)));
                }
                _ => {}
            }
        }
        let fence = self.claimed.as_ref().unwrap().fence;
        let Commit::Done(done) = self.service.store.runs().commit(&fence, &step).await.unwrap() else {
            panic!("a new step cannot be committed already")
        };
        for committed in &done.events {
            self.seq = committed.seq;
            if let Event::StepFinished { iteration, next_message_id } = &committed.event {
                (self.iteration, self.next_message) = (iteration + 1, *next_message_id);
            }
        }
        self.publish(Live::Committed(done.events));
    }
}

fn going_on(event: Option<Event>) -> RunTransition {
    RunTransition::Continue { read: event.is_some(), event }
}

fn say(step: &mut Step, id: MessageId, content: &str) {
    step.messages.push(NewMessage {
        id,
        event: step.events.len(),
        source: Source::Agent,
        message_type: MessageType::Text,
        content: content.to_owned(),
        metadata: json!({"simulated": true}),
    });
    step.events.push(Event::MessageSent { message_id: id });
}

fn show(step: &mut Step, error: &ErrorMessage) {
    step.messages.push(NewMessage {
        id: error.id,
        event: step.events.len(),
        source: Source::Error,
        message_type: MessageType::Text,
        content: error.content.clone(),
        metadata: error.metadata.clone(),
    });
    step.events.push(error.event());
}
