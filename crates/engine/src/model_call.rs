//! One model call: streamed, cancellable, bounded in time and size.

use std::ops::ControlFlow;

use futures_util::StreamExt;
use houston_domain::agent::SEND_MESSAGE;
use houston_domain::agent::partial_json::StringProperty;
use houston_domain::agentable::Reply;
use houston_domain::compression::CompressionReason;
use houston_domain::event::Part;
use houston_domain::model::{ModelError, ModelErrorCode, ModelTurn};
use houston_domain::run::RunStatus;
use houston_llm::{Description, Event, EventStream, Request, Switch};

use crate::drive::DriveOutcome;
use crate::error::Interrupted;
use crate::live::LiveRun;
use crate::run_driver::RunDriver;

/// How a model call ended.
enum Outcome {
    Answered(Box<ModelTurn>),
    Failed(ModelError),
    Cancelled,
    Drained,
    OutOfTime,
}

/// The model that answers, and the fallbacks before it, where several models may answer.
#[derive(Default)]
struct Answerer {
    answering: Option<Box<Description>>,
    switches: Vec<Switch>,
}

impl RunDriver<'_> {
    /// Calls the model and commits its answer. What follows the call is boxed, so that a run that waits for its model does
    /// not hold the memory for committing.
    pub(crate) async fn model_step(&mut self) -> Result<ControlFlow<DriveOutcome>, Interrupted> {
        let mut budget = std::mem::take(&mut self.budget);
        let tokens = budget.tokens(&self.request(None), &self.answering.provider);
        self.budget = budget;
        if self.exceeds_token_budget(tokens)
            && Box::pin(self.compress(CompressionReason::Budget, tokens)).await?
        {
            return Ok(ControlFlow::Continue(()));
        }
        if let Some(over) = self.check_budget(tokens).await? {
            return Box::pin(self.stop_for_budget(&over)).await.map(ControlFlow::Break);
        }
        let mut answerer = Answerer::default();
        self.registration.live.begin(self.next_message);
        let outcome = tokio::select! {
            biased;
            () = self.holder.lost.cancelled() => return Err(Interrupted::Lost),
            () = self.registration.live.cancel.cancelled() => Outcome::Cancelled,
            () = self.drained() => Outcome::Drained,
            () = tokio::time::sleep_until(self.watchdog) => Outcome::OutOfTime,
            outcome = self.call_model(tokens, &mut answerer) => outcome,
        };
        let (reasoning, message) = self.registration.live.end();
        self.switches.extend(answerer.switches);
        self.answering =
            answerer.answering.map_or_else(|| self.setup.model.description().clone(), |answering| *answering);
        match outcome {
            Outcome::Answered(turn) => {
                houston_faults::fault!("C8")?;
                self.sizes.was_refused = false;
                let mut usage = turn.usage;
                self.call = Some(self.price(&mut usage));
                self.add_usage(usage);
                let answered = self.run.on_model(*turn);
                self.budget.reported(&usage, self.run.history().len());
                match answered {
                    Ok(turn) => Box::pin(self.commit_turn(turn, reasoning, message, usage)).await,
                    Err(empty) => {
                        let error = ModelError::new(ModelErrorCode::InvalidResponse, empty.to_string());
                        Box::pin(self.fail(&error)).await.map(ControlFlow::Break)
                    }
                }
            }
            Outcome::Failed(error) => {
                let is_without_text = reasoning.is_empty() && message.is_empty();
                let too_long = error.code == ModelErrorCode::ContextLengthExceeded && is_without_text;
                if too_long && !std::mem::replace(&mut self.sizes.was_refused, true) {
                    tracing::warn!(run = %self.claimed.run, %error, "the conversation is too long for the model");
                    if Box::pin(self.compress(CompressionReason::ContextLength, tokens)).await? {
                        return Ok(ControlFlow::Continue(()));
                    }
                }
                Box::pin(self.fail(&error)).await.map(ControlFlow::Break)
            }
            Outcome::Cancelled => Box::pin(self.cancel()).await.map(ControlFlow::Break),
            Outcome::Drained => Box::pin(self.hand_over()).await.map(ControlFlow::Break),
            Outcome::OutOfTime => Box::pin(self.end(RunStatus::MaxDuration)).await.map(ControlFlow::Break),
        }
    }

    /// The request of the next model call. `input_tokens` is its estimated size.
    pub(crate) fn request(&self, input_tokens: Option<u64>) -> Request<'_> {
        Request {
            system: &self.system,
            system_context: self.system_context.as_deref(),
            entries: self.run.history(),
            tools: self.offer().definitions(),
            max_output_tokens: self.setup.policy.limits.max_output_tokens,
            answer_schema: None,
            cache_key: Some(&self.cache_key),
            input_tokens,
        }
    }

    async fn call_model(&self, tokens: u64, answerer: &mut Answerer) -> Outcome {
        let request = self.request(Some(tokens));
        let stream = match self.setup.model.stream(&request).await {
            Ok(stream) => stream,
            Err(error) => return Outcome::Failed(error),
        };
        let most = self.engine.config.context.max_answer_bytes;
        match read(stream, &self.registration.live, self.setup.policy.reply, most, answerer).await {
            Ok(turn) => Outcome::Answered(turn),
            Err(error) => Outcome::Failed(error),
        }
    }
}

/// Reads the answer to its end and streams its text. Events that are ready together are streamed as one delta. Fails with
/// `InvalidResponse` after `most` bytes.
async fn read(
    stream: EventStream,
    live: &LiveRun,
    reply: Reply,
    most: usize,
    answerer: &mut Answerer,
) -> Result<Box<ModelTurn>, ModelError> {
    let mut bytes = 0;
    let mut chunks = stream.ready_chunks(64);
    let mut writer = Writer { live, reply, sending: None, message_begun: false };
    while let Some(events) = chunks.next().await {
        let mut done = None;
        let mut pending = Pending::default();
        for event in events {
            match event? {
                Event::Done(turn) => done = Some(turn),
                Event::Fallback(switch) => answerer.switches.push(*switch),
                Event::Answering(answering) => answerer.answering = Some(answering),
                event => {
                    bytes += length(&event);
                    writer.take(event, &mut pending);
                }
            }
        }
        if bytes > most {
            let message = format!("the model's answer is longer than {most} bytes: it was cut off");
            return Err(ModelError::new(ModelErrorCode::InvalidResponse, message));
        }
        pending.flush(live);
        houston_faults::fault!("C7").map_err(|error| broken(error.into()))?;
        if let Some(turn) = done {
            return Ok(turn);
        }
    }
    Err(ModelError::new(ModelErrorCode::InvalidResponse, "the model's answer ended before it was complete"))
}

/// The error of an injected fault, as a broken stream. Only in tests.
fn broken(error: houston_store::Error) -> ModelError {
    ModelError::new(ModelErrorCode::NetworkError, error.to_string())
}

/// Bytes the model wrote in this event.
fn length(event: &Event) -> usize {
    match event {
        Event::Text(text) | Event::Thinking(text) => text.len(),
        Event::ToolArguments { json, .. } => json.len(),
        _ => 0,
    }
}

/// Text of one part (reasoning or message) that is not streamed yet.
#[derive(Default)]
struct Pending {
    part: Option<Part>,
    text: String,
}

impl Pending {
    fn add(&mut self, part: Part, text: &str, live: &LiveRun) {
        if self.part != Some(part) {
            self.flush(live);
            self.part = Some(part);
        }
        self.text.push_str(text);
    }

    fn flush(&mut self, live: &LiveRun) {
        if let Some(part) = self.part.take() {
            live.write(part, &self.text);
            self.text.clear();
        }
    }
}

/// Decides which parts of an answer are streamed as reasoning, and which as the message.
struct Writer<'l> {
    live: &'l LiveRun,
    reply: Reply,
    /// Index of the `send_message` call that is being written, and the decoder of its `content`.
    sending: Option<(usize, StringProperty)>,
    message_begun: bool,
}

impl Writer<'_> {
    fn take(&mut self, event: Event, pending: &mut Pending) {
        match event {
            Event::Thinking(text) if !self.message_begun => pending.add(Part::Reasoning, &text, self.live),
            Event::Text(text) => match self.reply {
                Reply::Text => {
                    self.message_begun = true;
                    pending.add(Part::Message, &text, self.live);
                }
                Reply::SendMessage if !self.message_begun => pending.add(Part::Reasoning, &text, self.live),
                Reply::SendMessage => {}
            },
            Event::ToolStart { index, name, .. }
                if self.reply == Reply::SendMessage && name == SEND_MESSAGE && self.sending.is_none() =>
            {
                self.sending = Some((index, StringProperty::new("content")));
            }
            Event::ToolArguments { index, json } => {
                if let Some((_, content)) = self.sending.as_mut().filter(|(sending, _)| *sending == index) {
                    let text = content.push(&json);
                    if !text.is_empty() {
                        self.message_begun = true;
                        pending.add(Part::Message, &text, self.live);
                    }
                }
            }
            _ => {}
        }
    }
}
