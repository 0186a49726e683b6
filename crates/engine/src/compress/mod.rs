//! Compression: when a history has more tokens than it may, a cheap model summarises its beginning, and the summary is
//! sent in its place from then on. What is kept and why that is valid: [`houston_domain::compression`].
//!
//! It is committed behind the fence before the model is asked again, so a crash after it costs nothing. While a history
//! has room, nothing here is done but an addition per entry.

mod transcript;

use std::time::Duration;

use houston_domain::agent::token_budget::Room;
use houston_domain::compression::{self, Keep, Reason, Weight};
use houston_domain::event::Event;
use houston_domain::history::{Block, Entry};
use houston_domain::model::Usage;
use houston_llm::tokens;
use houston_store::compression::{Metrics, NewCompression};
use houston_store::record::Owner;
use houston_store::step::{Commit, Done, Step, RunTransition};

use crate::context::RunDriver;
use crate::error::Interrupted;
use crate::side_model::{Answered, Question, SideModel};

/// About how many tokens what is put around a summary has.
const AROUND_SUMMARY: u64 = 80;

/// What is known of the sizes of a history: each entry is looked at once.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    weights: Vec<Weight>,
    /// System prompt, tools and system context.
    frame: Option<u64>,
    /// The iteration before which it was compressed, or could not be.
    tried: Option<u32>,
    /// Whether the provider has refused what is sent now for its length before.
    pub(crate) was_refused: bool,
}

fn weigh(entry: &Entry) -> Weight {
    let is_result = |block: &&Block| matches!(block, Block::ToolResult { .. });
    let tokens = tokens::of_entries(std::slice::from_ref(entry));
    let results = entry.content.iter().filter(is_result).count();
    let tool_results = if results == 0 {
        0
    } else if results == entry.content.len() {
        tokens
    } else {
        tokens::of_entries(&[Entry::user(entry.content.iter().filter(is_result).cloned().collect())])
    };
    Weight { tokens, tool_results }
}

impl RunDriver<'_> {
    /// Whether the history has more tokens than it may; the whole request has about `tokens`.
    pub(crate) fn is_crowded(&mut self, tokens: u64) -> bool {
        let budget = self.setup.tokens;
        let answer = u64::from(self.setup.policy.limits.max_output_tokens);
        let room = budget.room(0, answer, self.setup.window);
        // What all of it has room for, none of its parts can be too long for.
        if tokens <= room.history.min(room.tool_results) || self.sizes.tried == Some(self.open_step) {
            return false;
        }
        let room = self.room();
        !self.weight(tokens).fits(room)
    }

    /// What the history may have.
    fn room(&mut self) -> Room {
        let frame = self.frame();
        let answer = u64::from(self.setup.policy.limits.max_output_tokens);
        self.setup.tokens.room(frame, answer, self.setup.window)
    }

    fn frame(&mut self) -> u64 {
        if let Some(known) = self.sizes.frame {
            return known;
        }
        let frame = tokens::of_frame(&self.request(None), &self.answering.provider);
        let share = self.setup.tokens.system;
        if frame > share {
            let kind = &self.setup.agent_type.kind;
            tracing::warn!(
                kind,
                frame,
                share,
                "prompt and tools have more tokens than budget_tokens.system: the history gets less"
            );
        }
        self.sizes.frame = Some(frame);
        frame
    }

    /// What the history has, of a request of `tokens`: what the provider counted is better than what is estimated.
    fn weight(&mut self, tokens: u64) -> Weight {
        let history = self.run.history();
        let known = self.sizes.weights.len().min(history.len());
        self.sizes.weights.truncate(known);
        self.sizes.weights.extend(history[known..].iter().map(weigh));
        let frame = self.frame();
        let sum = Weight::sum(&self.sizes.weights);
        Weight { tokens: tokens.saturating_sub(frame), ..sum }
    }

    /// Puts a summary in the place of the history's beginning. Returns whether it did: not when nothing can be taken
    /// away that is worth it, nor when the drive is to end.
    pub(crate) async fn compress(&mut self, reason: Reason, tokens: u64) -> Result<bool, Interrupted> {
        self.sizes.tried = Some(self.open_step);
        let weight = self.weight(tokens);
        let config = self.engine.config.context.compression;
        let room = match reason {
            Reason::Budget => self.room(),
            // What the provider takes nobody knows: less than this.
            Reason::ContextLength => {
                let (room, half) = (self.room(), weight.tokens / 2);
                Room { history: room.history.min(half), tool_results: room.tool_results.min(half) }
            }
        };
        let summary_tokens = u64::from(config.summary_tokens);
        let keep = Keep {
            turns: config.keep_turns,
            room: room.share(config.target_percent, summary_tokens + AROUND_SUMMARY),
            least_gain: if reason == Reason::Budget { 2 * summary_tokens } else { 1 },
        };
        let Some(at) = compression::cut(self.run.history(), &self.sizes.weights, &keep) else {
            return Ok(false);
        };
        let Some((summary, answered)) = self.summarise(at).await? else { return Ok(false) };
        Box::pin(self.fold(reason, tokens, at, summary, answered)).await?;
        Ok(true)
    }

    /// What stands for the first `at` entries, and who wrote it, if a model did. `None` when the drive is to end.
    async fn summarise(&self, at: usize) -> Result<Option<(String, Option<Answered>)>, Interrupted> {
        let config = self.engine.config.context.compression;
        let folded = &self.run.history()[..at];
        let question = Question {
            instructions: transcript::INSTRUCTIONS,
            text: transcript::of(folded, config.read_chars, &self.mark),
            max_output_tokens: config.summary_tokens,
            within: Duration::from_secs(config.timeout_s),
        };
        let answered = tokio::select! {
            biased;
            () = self.holder.lost.cancelled() => return Err(Interrupted::Lost),
            // Whoever asks the model next finds out the same, and ends the drive.
            () = self.entered.live.cancel.cancelled() => return Ok(None),
            () = self.drained() => return Ok(None),
            () = tokio::time::sleep_until(self.watchdog) => return Ok(None),
            answered = self.ask(self.engine.summaries.as_ref(), question) => answered?,
        };
        let bytes = usize::try_from(config.summary_tokens).unwrap_or(usize::MAX).saturating_mul(4);
        let said = answered.as_ref().map(|answered| answered.text.clone());
        let mut summary = said.unwrap_or_else(|| transcript::extract(folded, bytes, &self.mark));
        // What the run is about must not be a matter of how well somebody summarises.
        if !self.run.history()[at..].iter().any(|entry| transcript::is_message(entry, &self.mark))
            && let Some(message) = transcript::last_message(folded, config.read_chars, &self.mark)
        {
            summary.push_str(&message);
        }
        houston_domain::storable::storable(&mut summary);
        Ok(Some((summary, answered)))
    }

    /// Asks `model`; `None` when it cannot be asked, or fails: there is another way.
    async fn ask(&self, model: Option<&SideModel>, question: Question<'_>) -> Result<Option<Answered>, Interrupted> {
        let Some(model) = model else { return Ok(None) };
        let (agentable, run) = (self.claimed.fence.agentable, self.claimed.run);
        let budget = self.engine.config.budget;
        let spent = if budget.is_set() {
            self.retrying(|store| Box::pin(async move { store.spent(agentable, run).await })).await?
        } else {
            Default::default()
        };
        match Box::pin(model.ask(question, (&budget, &spent), self.now())).await {
            Ok(answered) => Ok(Some(answered)),
            Err(reason) => {
                tracing::info!(%run, %reason, "no model summarises this conversation: taking an extract");
                Ok(None)
            }
        }
    }

    /// Commits the compression, and goes on with what it leaves.
    async fn fold(
        &mut self,
        reason: Reason,
        tokens_before: u64,
        at: usize,
        summary: String,
        answered: Option<Answered>,
    ) -> Result<(), Interrupted> {
        let entry = compression::entry(&summary, &self.mark);
        let weight = weigh(&entry);
        let kept = Weight::sum(&self.sizes.weights[at..]).tokens;
        let entries_before = self.run.history().len();
        let metrics = Metrics {
            entries_before,
            entries_after: entries_before - at + 1,
            tokens_before,
            tokens_after: self.frame() + weight.tokens + kept,
        };
        let usage = answered.as_ref().map_or(Usage::default(), |answered| answered.call.usage);
        let new = NewCompression {
            id: self.engine.ids.next(),
            kept: entries_before - at,
            own: self.run.own_entries(),
            summary,
            reason,
            metrics,
            model: answered.as_ref().map(|answered| answered.model()),
            cost: usage.cost,
        };
        let mut step = self.step(usage, RunTransition::Continue { read: false, event: None });
        step.model = None;
        step.call = answered.map(|answered| answered.in_iteration(self.open_step));
        step.events.push(Event::ContextCompressed {
            compression_id: new.id,
            reason,
            entries_before,
            entries_after: metrics.entries_after,
            tokens_before,
            tokens_after: metrics.tokens_after,
            model: new.model.clone(),
        });
        if step.call.is_some() {
            self.count(usage);
        }
        self.commit_compression(&new, step).await?;
        tracing::info!(run = %self.claimed.run, ?reason, ?metrics, "conversation compressed");
        self.run.fold(at, entry);
        self.sizes.weights.splice(..at, [weight]);
        self.budget = houston_llm::ContextBudget::default();
        Ok(())
    }

    /// Commits a step in one transaction with its compression, however often the connection breaks.
    async fn commit_compression(&mut self, new: &NewCompression, mut step: Step) -> Result<Done, Interrupted> {
        self.count_iteration(&mut step);
        let mut pause = Duration::from_millis(20);
        loop {
            match self.try_compression(new, &step).await {
                Ok(Commit::Done(done)) => return Ok(self.committed(&step, done)),
                Ok(Commit::Landed) => return Err(Interrupted::Landed),
                Err(error) if error.is_transient() => self.wait_for_postgres(&error, &mut pause).await?,
                Err(error) => return Err(error.into()),
            }
            let (fence, write) = (self.claimed.fence, step.write);
            if self.retrying(|store| Box::pin(async move { store.has_landed(&fence, write).await })).await? {
                return Err(Interrupted::Landed);
            }
        }
    }

    async fn try_compression(&self, new: &NewCompression, step: &Step) -> houston_store::Result<Commit> {
        let claimed = &self.claimed;
        let owner = Owner {
            tenant: claimed.tenant,
            user: claimed.user,
            agentable: claimed.fence.agentable,
            run: claimed.run,
        };
        let mut tx = self.engine.store.begin_fenced(&claimed.fence).await?;
        tx.compress(owner, new).await?;
        tx.commit(step).await
    }
}
