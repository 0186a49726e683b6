//! [`RunDriver`]: the state of one claimed run while this worker drives it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use futures_util::future::BoxFuture;
use houston_domain::agent::AgentRun;
use houston_domain::agent::step::Next;
use houston_domain::agentable::cache_key;
use houston_domain::compression;
use houston_domain::frame::FrameMark;
use houston_domain::id::MessageId;
use houston_domain::local_time::parse_zone;
use houston_domain::model::Usage;
use houston_domain::step::ModelCall;
use houston_domain::tool_call::ToolResponse;
use houston_llm::{ContextBudget, Description, Switch, SystemPart};
use houston_store::Store;
use houston_store::claim::ClaimedRun;
use houston_tools::Offer;

use crate::answering_agent::AnsweringAgent;
use crate::compress::Sizes;
use crate::config::ContextConfig;
use crate::engine::{Engine, Setup};
use crate::error::Interrupted;
use crate::holder::Holder;
use crate::live::Registration;
use crate::prompt::compose::{compose, offers};
use crate::task::setup_of_run;

/// Drives one claimed run: the claim, the agent's state machine, the prompt, and what the attempt has used. Other modules
/// add its methods: `drive` (the loop), `model_call`, `turn`, `tool_call`, `commit`, `release`.
pub(crate) struct RunDriver<'e> {
    pub(crate) engine: &'e Engine,
    pub(crate) holder: &'e Holder,
    pub(crate) claimed: ClaimedRun,
    pub(crate) registration: Registration,
    pub(crate) setup: Arc<Setup>,
    /// The tools the run may call, without `read_result`.
    pub(crate) offer: Offer,
    /// The same with `read_result`, for runs that have large results.
    pub(crate) offer_with_results: Offer,
    pub(crate) run: AgentRun,
    pub(crate) system: Vec<SystemPart>,
    /// The system context, sent after the history.
    pub(crate) system_context: Option<String>,
    /// The mark of Houston's frames in this session.
    pub(crate) mark: FrameMark,
    /// The user's time zone.
    pub(crate) zone: Tz,
    /// The id that a message of the open iteration will have. Streams received it already.
    pub(crate) next_message: MessageId,
    /// The open iteration as streams count it, from 1.
    pub(crate) open_step: u32,
    /// Tokens of the run so far, over all attempts, and their cost as far as prices are known.
    pub(crate) usage: Usage,
    /// Model calls without a price.
    pub(crate) unpriced_calls: i32,
    /// The model that answered last.
    pub(crate) answering: Description,
    /// Fallbacks to other models that no step has reported yet.
    pub(crate) switches: Vec<Switch>,
    /// Estimates the tokens of requests from what the provider counted before.
    pub(crate) budget: ContextBudget,
    /// Estimated tokens of the history, entry by entry.
    pub(crate) sizes: Sizes,
    /// Whether the session has large results, so that `read_result` is offered.
    pub(crate) has_results: bool,
    /// Whether a title is requested for the agentable.
    pub(crate) wants_title: bool,
    /// See [`cache_key`].
    pub(crate) cache_key: String,
    /// The model call that the next step records.
    pub(crate) call: Option<ModelCall>,
    /// The agent that answers the run.
    pub(crate) answered_by: AnsweringAgent,
    /// The time at which the attempt is cut off, whatever it does.
    pub(crate) watchdog: tokio::time::Instant,
    /// When the claim returned, by this machine's monotonic clock.
    pub(crate) claimed_at: tokio::time::Instant,
}

impl<'e> RunDriver<'e> {
    pub(crate) async fn load(
        engine: &'e Engine,
        holder: &'e Holder,
        claimed: ClaimedRun,
        registration: Registration,
        setup: Arc<Setup>,
    ) -> Result<Self, Interrupted> {
        let limits = setup.policy.limits;
        let most = Duration::from_secs(limits.max_duration_s + engine.config.watchdog.grace_s);
        let claimed_at = tokio::time::Instant::now();
        let mut driver = Self {
            engine,
            holder,
            next_message: claimed.next_message,
            open_step: u32::try_from(claimed.iterations).unwrap_or(0) + 1,
            usage: claimed.usage,
            unpriced_calls: 0,
            answering: setup.model.description().clone(),
            switches: Vec::new(),
            budget: ContextBudget::default(),
            sizes: Sizes::default(),
            has_results: false,
            wants_title: false,
            cache_key: cache_key(claimed.fence.agentable),
            call: None,
            answered_by: AnsweringAgent::default(),
            claimed,
            registration,
            run: AgentRun::resume(setup.policy, Vec::new(), 0, DateTime::UNIX_EPOCH),
            offer: setup.offer.clone(),
            offer_with_results: setup.offer_with_results.clone(),
            setup,
            system: Vec::new(),
            system_context: None,
            mark: FrameMark::default(),
            zone: Tz::UTC,
            watchdog: claimed_at + most,
            claimed_at,
        };
        driver.read_context().await?;
        driver.request_title().await?;
        Ok(driver)
    }

    /// Reads the run's state from Postgres again, after a commit whose response was lost.
    pub(crate) async fn reload(&mut self) -> Result<(), Interrupted> {
        let agentable = self.claimed.fence.agentable;
        let open = self
            .retrying(|store| Box::pin(async move { store.open_message_at(agentable, i64::MAX).await }))
            .await?;
        if let Some(open) = open {
            self.next_message = open;
        }
        self.read_context().await?;
        // An iteration stays open until all of its tools have returned.
        let tools_open = matches!(self.run.next(self.now()), Next::CallTools(_));
        self.open_step = self.run.iterations() + u32::from(!tools_open);
        Ok(())
    }

    async fn read_context(&mut self) -> Result<(), Interrupted> {
        let (agentable, run) = (self.claimed.fence.agentable, self.claimed.run);
        let ContextConfig { notes, prompt, prompt_chars, .. } = self.engine.config.context;
        let context = self
            .retrying(|store| {
                Box::pin(async move { store.run_context(agentable, run, notes, &prompt).await })
            })
            .await?;
        self.resolve_agent(&context).await?;
        if self.claimed.attempt > 1 {
            let cost = self.retrying(|store| Box::pin(async move { store.cost_of_run(run).await })).await?;
            (self.usage.cost, self.unpriced_calls) = (cost.total, cost.unpriced_calls);
        }
        self.setup = setup_of_run(&self.setup, &context.setting);
        let now = self.now();
        [self.offer, self.offer_with_results] = offers(&self.setup, &context);
        self.has_results = context.has_results;
        let ClaimedRun { title, description, .. } = &self.claimed;
        let prompt = compose(&self.setup, &self.offer, title, description, &context, now, prompt_chars);
        if !prompt.left_out.is_empty() {
            tracing::debug!(%agentable, left_out = ?prompt.left_out, "the prompt was cut to prompt_chars");
        }
        self.system = prompt.parts();
        self.system_context = prompt.system_context();
        self.mark = context.mark;
        self.zone = parse_zone(&context.user.time_zone);
        self.budget = ContextBudget::default();
        self.sizes = Sizes::default();
        self.run = AgentRun::resume(self.setup.policy, context.history, context.run_entries, now);
        if let Some(summary) = &context.summary {
            self.run.replace_prefix_with_summary(
                context.summarised_entries,
                compression::summary_entry(summary, &self.mark),
            );
        }
        Ok(())
    }

    /// The database's time, computed from the time of the claim. Retries are due by the database's clock, and this
    /// machine's may be an hour off.
    pub(crate) fn now(&self) -> DateTime<Utc> {
        self.claimed.event.at + self.claimed_at.elapsed()
    }

    /// Completes `hand_over_ms` after the process was asked to stop: calls that may be repeated are abandoned then.
    pub(crate) fn drained(&self) -> impl Future<Output = ()> + use<> {
        let drain = self.holder.drain.clone();
        let grace = Duration::from_millis(self.engine.config.hand_over_ms);
        async move {
            drain.cancelled().await;
            tokio::time::sleep(grace).await;
        }
    }

    /// A tool's response, cut to `max_tool_result_bytes` and without the mark of frames.
    pub(crate) fn cut(&self, response: ToolResponse) -> ToolResponse {
        let unmarked = match self.mark.remove_mark(response.text()) {
            Cow::Borrowed(_) => None,
            Cow::Owned(text) => Some(text),
        };
        let response = match unmarked {
            Some(text) => response.map_text(|_| text),
            None => response,
        };
        response.cut(self.engine.config.context.max_tool_result_bytes)
    }

    /// Repeats a query while Postgres is unreachable and the lease is trusted.
    ///
    /// # Errors
    /// [`Interrupted::Lost`] when the lease is no longer trusted, [`Interrupted::Store`] when Postgres refuses the query.
    pub(crate) async fn retrying<T>(
        &self,
        ask: impl for<'s> Fn(&'s Store) -> BoxFuture<'s, houston_store::Result<T>>,
    ) -> Result<T, Interrupted> {
        let mut pause = Duration::from_millis(20);
        loop {
            match ask(&self.engine.store).await {
                Ok(answer) => return Ok(answer),
                Err(error) if error.is_transient() => self.wait_for_postgres(&error, &mut pause).await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits before the next attempt at a query, twice as long each time, up to 1 s.
    ///
    /// # Errors
    /// [`Interrupted::Lost`] when the lease is no longer trusted.
    pub(crate) async fn wait_for_postgres(
        &self,
        error: &houston_store::Error,
        pause: &mut Duration,
    ) -> Result<(), Interrupted> {
        if !(self.holder.trusted)() {
            return Err(Interrupted::Lost);
        }
        tracing::debug!(%error, "postgres did not answer; trying again");
        tokio::select! {
            () = tokio::time::sleep(*pause) => {}
            () = self.holder.lost.cancelled() => return Err(Interrupted::Lost),
        }
        *pause = (*pause * 2).min(Duration::from_secs(1));
        Ok(())
    }
}
