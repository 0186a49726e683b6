//! What a drive knows: the claim, the run's state machine, its prompt.

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
use houston_domain::local_time::zone;
use houston_domain::model::Usage;
use houston_domain::tool_call::ToolResponse;
use houston_llm::{ContextBudget, Description, Switch, SystemPart};
use houston_store::Store;
use houston_store::claim::Claimed;
use houston_store::cost::ModelCall;
use houston_tools::Offer;

use crate::compress::Sizes;
use crate::config::ContextConfig;
use crate::engine::{Engine, Setup};
use crate::error::Interrupted;
use crate::holder::Holder;
use crate::live::Entered;
use crate::prompt::preview::{compose, offers};
use crate::serve::Served;
use crate::task::fitted;

/// One run in the hands of this worker.
pub(crate) struct RunDriver<'e> {
    pub(crate) engine: &'e Engine,
    pub(crate) holder: &'e Holder,
    pub(crate) claimed: Claimed,
    pub(crate) entered: Entered,
    pub(crate) setup: Arc<Setup>,
    /// Of the setup's tools, those it may call now.
    pub(crate) offer: Offer,
    /// The same, once there are long results to read on in.
    pub(crate) offer_with_results: Offer,
    pub(crate) run: AgentRun,
    pub(crate) system: Vec<SystemPart>,
    /// What is true now: sent after the history.
    pub(crate) system_context: Option<String>,
    /// What Houston's frames carry in this session.
    pub(crate) mark: FrameMark,
    /// Where its user lives.
    pub(crate) zone: Tz,
    /// The id a message of the open iteration will have: streams were told of it.
    pub(crate) next_message: MessageId,
    /// The iteration that is open in the streams, from 1.
    pub(crate) open_step: u32,
    /// Tokens of the run so far, all attempts, and what is known of their cost.
    pub(crate) usage: Usage,
    /// Calls of which nobody knows what they cost.
    pub(crate) unpriced_calls: i32,
    /// Who answered last.
    pub(crate) answering: Description,
    /// The changes of model that no step has told of yet.
    pub(crate) switches: Vec<Switch>,
    /// How long the conversation is.
    pub(crate) budget: ContextBudget,
    /// How much of it is what.
    pub(crate) sizes: Sizes,
    /// Whether there are long results to read on in.
    pub(crate) has_results: bool,
    /// Whether it is to get a title.
    pub(crate) wants_title: bool,
    /// See [`cache_key`].
    pub(crate) cache_key: String,
    /// The call whose answer the next step takes.
    pub(crate) call: Option<ModelCall>,
    /// Who answers.
    pub(crate) served: Served,
    /// Past this, whatever is in flight is cut off.
    pub(crate) watchdog: tokio::time::Instant,
    /// When the claim was answered, by this machine.
    pub(crate) claimed_at: tokio::time::Instant,
}

impl<'e> RunDriver<'e> {
    pub(crate) async fn load(
        engine: &'e Engine,
        holder: &'e Holder,
        claimed: Claimed,
        entered: Entered,
        setup: Arc<Setup>,
    ) -> Result<Self, Interrupted> {
        let limits = setup.policy.limits;
        let most = Duration::from_secs(limits.max_duration_s + engine.config.watchdog.grace_s);
        let claimed_at = tokio::time::Instant::now();
        let mut driving = Self {
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
            served: Served::default(),
            claimed,
            entered,
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
        driving.read_context().await?;
        driving.request_title().await?;
        Ok(driving)
    }

    /// Reads the run's state from Postgres anew, after a commit whose answer was lost.
    pub(crate) async fn reload(&mut self) -> Result<(), Interrupted> {
        let agentable = self.claimed.fence.agentable;
        let open = self
            .retrying(|store| Box::pin(async move { store.open_message_at(agentable, i64::MAX).await }))
            .await?;
        if let Some(open) = open {
            self.next_message = open;
        }
        self.read_context().await?;
        // An iteration stays open until its tools are back.
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
        self.take_agent(&context).await?;
        if self.claimed.attempt > 1 {
            let cost = self.retrying(|store| Box::pin(async move { store.cost_of_run(run).await })).await?;
            (self.usage.cost, self.unpriced_calls) = (cost.known, cost.unpriced_calls);
        }
        self.setup = fitted(&self.setup, &context.setting);
        let now = self.now();
        [self.offer, self.offer_with_results] = offers(&self.setup, &context);
        self.has_results = context.has_results;
        let Claimed { title, description, .. } = &self.claimed;
        let composed = compose(&self.setup, &self.offer, title, description, &context, now, prompt_chars);
        if !composed.left_out.is_empty() {
            tracing::debug!(%agentable, left_out = ?composed.left_out, "the prompt was cut to its cap");
        }
        self.system = composed.parts();
        self.system_context = composed.system_context();
        self.mark = context.mark;
        self.zone = zone(&context.user.time_zone);
        self.budget = ContextBudget::default();
        self.sizes = Sizes::default();
        self.run = AgentRun::resume(self.setup.policy, context.history, context.of_this_run, now);
        if let Some(summary) = &context.summary {
            self.run.fold(context.folded, compression::entry(summary, &self.mark));
        }
        Ok(())
    }

    /// The database's time, from what it said at the claim. This machine's clock may be an hour off, and what it
    /// says would decide when a retry is due.
    pub(crate) fn now(&self) -> DateTime<Utc> {
        self.claimed.event.at + self.claimed_at.elapsed()
    }

    /// Ends some time after the process was told to stop: whatever may be repeated is given up then.
    pub(crate) fn drained(&self) -> impl Future<Output = ()> + use<> {
        let drain = self.holder.drain.clone();
        let grace = Duration::from_millis(self.engine.config.hand_over_ms);
        async move {
            drain.cancelled().await;
            tokio::time::sleep(grace).await;
        }
    }

    /// A tool's response as far as it may enter events and history: shortened, and without the mark of frames.
    pub(crate) fn cut(&self, response: ToolResponse) -> ToolResponse {
        let kept = match self.mark.keep_out(response.text()) {
            Cow::Borrowed(_) => None,
            Cow::Owned(kept) => Some(kept),
        };
        let response = match kept {
            Some(kept) => response.map_text(|_| kept),
            None => response,
        };
        response.cut(self.engine.config.context.max_tool_result_bytes)
    }

    /// Asks Postgres until it answers or the lease is no longer trusted.
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

    /// Waits a moment, unless the lease has run out meanwhile.
    pub(crate) async fn wait_for_postgres(
        &self,
        error: &houston_store::Error,
        pause: &mut Duration,
    ) -> Result<(), Interrupted> {
        if !(self.holder.trusted)() {
            return Err(Interrupted::Lost);
        }
        tracing::debug!(%error, "postgres did not answer, trying again");
        tokio::select! {
            () = tokio::time::sleep(*pause) => {}
            () = self.holder.lost.cancelled() => return Err(Interrupted::Lost),
        }
        *pause = (*pause * 2).min(Duration::from_secs(1));
        Ok(())
    }
}
