//! [`ModelTurn`]: one model call, streamed, cancellable, bounded in time and size; and what it costs.

mod answer;
mod attachments;
mod refused;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use houston_domain::attachment::ContextAttachments;
use houston_domain::budget::{BudgetScope, OverBudget, Raises};
use houston_domain::client_offer::ClientOffer;
use houston_domain::history::{Block, Entry};
use houston_domain::image::ContextImages;
use houston_domain::model::{ModelAnswer as Answer, ModelError, ModelErrorCode, StopReason, Usage};
use houston_domain::submission::{Submission, SubmittedCall};
use houston_llm::{
    ContextBudget, Deferred, Description, Request, Submitting, SystemPart, more_room, tokens, used_up,
};
use houston_tools::{FINDING_TOOLS, Offer};
use rust_decimal::Decimal;
use tokio::time::Instant;
use tracing::{Instrument as _, Span};
use uuid::Uuid;

use self::answer::{Answerer, Plain, Read, read};
use self::attachments::{Attachments, Images, Insertion, inserted};
use self::refused::{Refused, SentFile, refused_by, without};
use crate::error::Result;
use crate::live::{LiveRun, Streamed};
use crate::observer::Observed;
use crate::run::journal::Journal;
use crate::run::signals::Stop;
use crate::run::storage::RunStorage;
use crate::setup::guards::{Shown, shown};
use crate::setup::{Setup, answer_schema};

/// The model calls of an attempt: what each request contains besides the history, and what the last answer says about it.
pub(crate) struct ModelTurn {
    setup: Arc<Setup>,
    live: Arc<LiveRun>,
    /// Boxed, like the images, because it is held while the run waits for its model.
    pub(crate) frame: Box<Frame>,
    /// The model that answered last.
    pub(crate) answering: Description,
    /// Estimates the tokens of requests from what the provider counted before.
    budget: ContextBudget,
    images: Box<Images>,
    attachments: Box<Attachments>,
    /// Whether addresses in what the user is shown of the next answer must lead nowhere.
    pub(crate) inert: bool,
    /// Whether the text of the next answer is the message, if it has no calls.
    pub(crate) is_answered_by_text: bool,
}

/// What requests contain around the history.
#[derive(Default)]
pub(crate) struct Frame {
    system: Vec<SystemPart>,
    /// The system context, sent after the history.
    system_context: Option<String>,
    /// See [`cache_key`](houston_domain::agentable::cache_key).
    cache_key: String,
    /// The pauses between requests so far, in seconds.
    pauses: Vec<u32>,
    /// When the last answer of this attempt had come.
    answered: Option<Instant>,
    /// The offer with the one tool that the next answer must call. `None`: the model decides.
    pub(crate) forced: Option<Offer>,
    /// Files that a provider has refused.
    refused: Refused,
    /// What people have added to the budgets, in case that an answer is asked for again.
    pub(crate) raises: Raises,
    /// The limit of an answer that is asked for again, because thinking has used up the first one.
    more: Option<u32>,
    /// The call whose answer is waited for: the next call fetches it.
    pub(crate) submission: Option<Box<Submission>>,
    /// Whether the last answer was that of a submitted call.
    pub(crate) has_fetched: bool,
    /// Whether a call that was submitted has got no answer: it is made as usual now.
    hurries: bool,
    /// What the client offers the run, if its calls may be submitted: kept with such a call.
    pub(crate) offer: Option<Box<ClientOffer>>,
}

/// How often one answer is let go on after its provider has paused it.
const MAX_PAUSES: usize = 8;

/// How a model call ended.
pub(crate) enum ModelOutcome {
    /// The model has answered.
    Answered { answer: Box<Answer>, usage: Usage, streamed: Streamed },
    /// The call failed. Streams may have `streamed` a part of an answer, which is taken back.
    Failed { error: ModelError, streamed: bool },
    /// The provider answers later; `None`: what was submitted gets no answer.
    Submitted(Option<Box<SubmittedCall>>),
    /// The call was abandoned, and nothing of it is kept.
    Stopped(Stop),
}

impl ModelTurn {
    pub(crate) fn new(
        setup: Arc<Setup>,
        live: Arc<LiveRun>,
        (cache_key, pauses): (String, Vec<u32>),
        system: Vec<SystemPart>,
        system_context: Option<String>,
        (images, attachments): (ContextImages, ContextAttachments),
    ) -> Self {
        let answering = setup.model.description().clone();
        let budget = ContextBudget::default();
        let attachments = Box::new(Attachments::new(attachments, images, setup.takes));
        let images = Box::new(Images::new(images, setup.takes.images));
        let frame = Box::new(Frame { system, system_context, cache_key, pauses, ..Frame::default() });
        let is_answered_by_text = false;
        Self { setup, live, frame, answering, budget, images, attachments, inert: false, is_answered_by_text }
    }

    /// What was submitted gets no answer: the next call is made as usual.
    pub(crate) fn hurry(&mut self) {
        (self.frame.submission, self.frame.hurries) = (None, true);
    }

    /// Tells the provider of a submitted call that nobody waits for it any more.
    pub(crate) async fn withdraw(&self, call: &SubmittedCall) {
        let request = Request { submitting: Submitting::Withdraw(call), ..Request::default() };
        if let Err(error) = self.setup.model.stream(&request).await {
            tracing::warn!(%error, call = call.id, "a submitted call was not withdrawn");
        }
    }

    /// A text of the last answer as the user is shown it.
    pub(crate) fn shown(&self, content: &str) -> String {
        if self.inert { shown(content, &self.setup.guards) } else { content.to_owned() }
    }

    /// Whether images and files that the history refers to must be read before the next request.
    pub(crate) fn must_read_files(&mut self, history: &[Entry]) -> bool {
        let must_read_images = self.images.search(history);
        self.attachments.search(history) || must_read_images
    }

    /// Reads the images and files that the history refers to.
    pub(crate) async fn read_files<S: RunStorage>(&mut self, journal: &Journal<'_, S>) -> Result<()> {
        self.images.read(journal).await?;
        self.attachments.read(journal).await?;
        let sent: Vec<Uuid> = self.sent_files().into_iter().map(|file| file.id).collect();
        if !sent.is_empty() {
            let tenant = journal.owner.tenant;
            self.frame
                .refused
                .extend(journal.of_postgres(|store| store.tenant(tenant).refused_files(&sent)).await?);
        }
        Ok(())
    }

    fn insertions(&self) -> impl Iterator<Item = Insertion> {
        self.images.insertions().chain(self.attachments.insertions())
    }

    /// The files that the next request has.
    fn sent_files(&self) -> Vec<SentFile> {
        let sent = self.insertions().filter_map(|insertion| SentFile::of(&insertion));
        sent.filter(|file| !self.frame.refused.contains_key(&file.id)).collect()
    }

    /// Leaves out of further requests what the provider has refused, if the error says that it was an image or a PDF. Returns
    /// the files and the reason; `None`: it was something else.
    pub(crate) fn leave_out(&mut self, error: &ModelError, history: &[Entry]) -> Option<(Vec<Uuid>, String)> {
        let (files, why) = refused_by(error, history, &self.sent_files())?;
        let ids: Vec<Uuid> = files.into_iter().map(|file| file.id).collect();
        self.frame.refused.extend(ids.iter().map(|id| (*id, why.clone())));
        // What the provider counts changes.
        self.budget = ContextBudget::default();
        Some((ids, why))
    }

    /// The history with the images and files that it refers to.
    fn with_files<'h>(&self, history: &'h [Entry]) -> Cow<'h, [Entry]> {
        let refused = &self.frame.refused;
        inserted(history, self.insertions().map(|insertion| without(insertion, refused)).collect())
    }

    /// Estimates the tokens of the next request.
    pub(crate) fn estimate(&mut self, history: &[Entry], offer: &Offer) -> u64 {
        let mut budget = std::mem::take(&mut self.budget);
        let history = self.with_files(history);
        let tokens = budget.tokens(&self.request(&history, offer, None), &self.answering.provider);
        self.budget = budget;
        tokens
    }

    /// Estimated tokens of system prompt, tools and system context.
    pub(crate) fn preamble_tokens(&self, offer: &Offer) -> u64 {
        tokens::of_frame(&self.request(&[], offer, None), &self.answering.provider)
    }

    /// Takes over what the provider counted. `entries` is the length of the history including the answer.
    pub(crate) fn reported(&mut self, usage: &Usage, entries: usize) {
        self.budget.reported(usage, entries);
    }

    /// Forgets what the provider counted, because the history was compressed.
    pub(crate) fn forget_counts(&mut self) {
        self.budget = ContextBudget::default();
        // An empty history refers to no files: the next one is searched from its beginning.
        self.must_read_files(&[]);
    }

    fn request<'r>(
        &'r self,
        history: &'r [Entry],
        offer: &'r Offer,
        input_tokens: Option<u64>,
    ) -> Request<'r> {
        let forced = self.frame.forced.as_ref();
        let offer = forced.unwrap_or(offer);
        let sampling = &self.setup.agent_type.sampling;
        let policy = self.setup.agent_type.model_policy;
        let latency = policy.latency.filter(|_| !self.frame.hurries).unwrap_or_default();
        let submitting = match &self.frame.submission {
            Some(submission) => Submitting::Fetch(&submission.call),
            None if latency.is_patient() => Submitting::Allowed,
            None => Submitting::No,
        };
        Request {
            system: &self.frame.system,
            system_context: self.frame.system_context.as_deref(),
            entries: history,
            tools: offer.definitions(),
            deferred: offer.deferred().map(|tools| Deferred { tools, finding: FINDING_TOOLS }),
            must_call: forced.and_then(|only| only.definitions().first()).map(|tool| tool.name.as_str()),
            max_output_tokens: self.limit(),
            temperature: sampling.temperature,
            top_p: sampling.top_p,
            stop: &sampling.stop,
            effort: sampling.effort,
            answer_schema: self.setup.wanted.output.as_ref().filter(|_| forced.is_none()).map(answer_schema),
            cache_key: Some(&self.frame.cache_key),
            cache: policy.cache.unwrap_or_default(),
            pauses: &self.frame.pauses,
            latency,
            submitting,
            input_tokens,
            ..Request::default()
        }
    }

    /// Calls the model with the history and streams its answer; once more, with more room, if thinking has used up the first one
    /// and the budgets allow it. `tokens` is the estimated size of the request. What it used and the fallbacks to other models
    /// are left in the journal for the next step.
    ///
    /// # Errors
    /// [`Interrupted::Lost`](crate::error::Interrupted::Lost) when the lease is lost: write nothing.
    pub(crate) async fn call<S: RunStorage>(
        &mut self,
        journal: &mut Journal<'_, S>,
        history: &[Entry],
        offer: &Offer,
        tokens: u64,
    ) -> Result<ModelOutcome> {
        let shown = self.inert.then(|| Shown::new(Arc::clone(&self.setup.guards)));
        let (began, owed) = (Instant::now(), journal.owed());
        let pause = self.frame.answered.map(|answered| (began - answered).as_secs());
        self.frame.pauses.extend(pause.map(|pause| u32::try_from(pause).unwrap_or(u32::MAX)));
        let takes_text = self.is_answered_by_text && self.frame.forced.is_none();
        let plain = if takes_text { Plain::Held(String::new()) } else { Plain::Thought };
        let config = &journal.services.config;
        let (most_bytes, repeated) = (config.context.max_answer_bytes, config.overseer.repeated_text);
        let mut answerer = Box::new(Answerer { shown, plain, most_bytes, repeated, ..Answerer::default() });
        self.live.begin(journal.next_message);
        let asked = self.setup.model.description();
        let span =
            journal.services.observers.span(|| tracing::info_span!("engine.model.call", model = %asked));
        observe(journal, &span, Observed::ModelCallStarted { model: asked });
        if !journal.iteration.is_on() {
            journal.span.asks(&asked.provider);
        }
        journal.iteration = journal.span.iteration(journal.open_iteration);
        let chat = self.chat(journal, history);
        let waited_ms = AtomicU64::new(0);
        let outcome = loop {
            let outcome = {
                let history = self.with_files(history);
                let request = Request {
                    avoid: &journal.hung,
                    waited_ms: Some(&waited_ms),
                    ledger: Some(&journal.ledger),
                    ..self.request(&history, offer, Some(tokens))
                };
                let call = self.stream(&request, &mut answerer);
                let call = pin!(call.instrument(span.clone()));
                journal.signals.until_stopped(call).await?
            };
            if !matches!(&outcome, Ok(Ok(Read::Answer(answer))) if answer.is_used_up()) {
                break outcome;
            }
            match Box::pin(self.room_after(journal, &answerer, tokens)).await? {
                Ok(more) => (self.frame.more, self.frame.submission) = (Some(more), None),
                Err(used_up) => break Ok(Err(used_up)),
            }
        };
        (self.frame.more, self.frame.answered) = (None, Some(Instant::now()));
        journal.has_waited(Duration::from_millis(waited_ms.into_inner()));
        let streamed = self.live.end();
        for switch in answerer.switches.iter().filter(|switch| switch.code == ModelErrorCode::Timeout) {
            journal.has_hung(&switch.from);
        }
        journal.switches.extend(answerer.switches);
        self.answering = answerer.answering.map_or_else(|| asked.clone(), |answering| *answering);
        Ok(match outcome {
            Ok(Ok(Read::Submitted(call))) => {
                observe(journal, &span, Observed::ModelCallStopped { model: &self.answering });
                ModelOutcome::Submitted(call)
            }
            Ok(Ok(Read::Answer(answer))) => {
                self.frame.has_fetched = self.frame.submission.take().is_some();
                self.frame.hurries = false;
                houston_faults::fault!("C8")?;
                let usage = Usage { cost: journal.cost_since(owed), ..answer.usage };
                let first = answerer.first.map(|first| first - began);
                chat.answered(&self.answering.model, &answer, &usage, first);
                observe(journal, &span, Observed::ModelCallEnded { model: &self.answering, usage: &usage });
                ModelOutcome::Answered { answer, usage, streamed }
            }
            Ok(Err(error)) => {
                chat.failed(error.code.as_str());
                let is_one_of_several = self.setup.model.candidates().len() > 1;
                if error.code == ModelErrorCode::Timeout && !error.breaker_open && is_one_of_several {
                    journal.has_hung(&self.answering);
                }
                observe(journal, &span, Observed::ModelCallFailed { model: asked, error: &error });
                ModelOutcome::Failed { error, streamed: streamed != Streamed::default() }
            }
            Err(stop) => {
                observe(journal, &span, Observed::ModelCallStopped { model: asked });
                ModelOutcome::Stopped(stop)
            }
        })
    }

    /// The limit with which an answer is asked for again that thinking has used up, if that was not done before and the budgets
    /// allow it; else the error of the call. The first answer, for which `tokens` were sent, is not booked yet.
    async fn room_after<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        answerer: &Answerer,
        tokens: u64,
    ) -> Result<Result<u32, ModelError>> {
        let answering = answerer.answering.as_deref().unwrap_or(self.setup.model.description());
        let limit = self.limit();
        let more = more_room(limit, answering).filter(|_| self.frame.more.is_none());
        let Some(more) = more else { return Ok(Err(used_up(limit, answering))) };
        let both = (tokens.saturating_mul(2), limit.saturating_add(more));
        if check_budget(journal, &self.setup, both, &self.frame.raises).await?.over.is_some() {
            return Ok(Err(used_up(limit, answering)));
        }
        tracing::warn!(model = %answering, limit, more, "thinking has used up an answer; asking again with more room");
        Ok(Ok(more))
    }

    /// Longest answer allowed, in tokens.
    fn limit(&self) -> u32 {
        self.frame.more.unwrap_or(self.setup.policy.limits.max_output_tokens)
    }

    /// The span of a call.
    fn chat<S: RunStorage>(&self, journal: &Journal<'_, S>, history: &[Entry]) -> houston_spans::Span {
        let asked = self.setup.model.description();
        let max_tokens = self.setup.policy.limits.max_output_tokens;
        let chat = journal.iteration.chat(&asked.provider, &asked.model, max_tokens);
        chat.sends(self.frame.system.iter().map(|part| part.text.as_str()), history, &journal.mark);
        chat
    }

    async fn stream(&self, request: &Request<'_>, answerer: &mut Answerer) -> Result<Read, ModelError> {
        let stream = self.setup.model.stream(request).await?;
        let mut read = read(stream, &self.live, self.setup.policy.reply, answerer).await?;
        if let Read::Answer(answer) = &mut read
            && answer.stop == StopReason::Paused
        {
            Box::pin(self.go_on(request, answer, answerer)).await?;
        }
        Ok(read)
    }

    /// Lets the provider go on with an answer that it has paused, up to [`MAX_PAUSES`] times: it is sent back as it is, as the
    /// end of the history.
    async fn go_on(
        &self,
        request: &Request<'_>,
        answer: &mut Answer,
        answerer: &mut Answerer,
    ) -> Result<(), ModelError> {
        let mut entries = request.entries.to_vec();
        // The system context precedes the answer, as in the request before.
        entries.extend(
            self.frame.system_context.iter().map(|text| Entry::user(vec![Block::text(text.as_str())])),
        );
        for _ in 0..MAX_PAUSES {
            entries.push(Entry::assistant(answer.content.clone()));
            let request = Request {
                system_context: None,
                entries: &entries,
                input_tokens: None,
                submitting: Submitting::No,
                ..*request
            };
            let stream = self.setup.model.stream(&request).await?;
            let read = read(stream, &self.live, self.setup.policy.reply, answerer).await?;
            let Read::Answer(more) = read else { break };
            entries.pop();
            answer.content.extend(more.content);
            answer.malformed.extend(more.malformed);
            answer.usage += more.usage;
            answer.stop = more.stop;
            if answer.stop != StopReason::Paused {
                return Ok(());
            }
        }
        answer.stop = StopReason::MaxTokens;
        Ok(())
    }
}

/// Calls the observers.
fn observe<S: RunStorage>(journal: &Journal<'_, S>, span: &Span, what: Observed<'_>) {
    journal.services.observers.notify(&journal.owner, span, what);
}

/// What a check of the budgets has found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CheckedBudget {
    /// The budget that the next call might exceed.
    pub(crate) over: Option<OverBudget>,
    /// The budget that is nearly spent, and its limit.
    pub(crate) nearly: Option<(BudgetScope, Decimal)>,
}

/// Checks the next call, which sends about `tokens` and may receive `answer`, against the budgets and what people have added to them.
pub(crate) async fn check_budget<S: RunStorage>(
    journal: &Journal<'_, S>,
    setup: &Setup,
    (tokens, answer): (u64, u32),
    raises: &Raises,
) -> Result<CheckedBudget> {
    let budget = journal.services.config.budget.raised(raises);
    if !budget.is_set() {
        return Ok(CheckedBudget::default());
    }
    let spent = journal.spent(&budget).await?;
    let next = setup.prices.max_cost(tokens, answer, journal.now(), budget.refuse_unpriced);
    let nearly = budget.nearly_spent(&spent, journal.services.config.overseer.budget.warn_percent);
    let over = budget.check(&spent, next).err();
    if over.is_some() {
        journal.services.metrics.models.over_budget.inc();
    }
    Ok(CheckedBudget { over, nearly })
}
