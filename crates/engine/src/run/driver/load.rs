//! What an attempt starts from: the context of its run, read from Postgres.

use std::sync::Arc;
use std::time::Duration;

use futures_util::TryFutureExt as _;
use houston_domain::agent::{AgentRun, Next};
use houston_domain::agentable::cache_key;
use houston_domain::client_offer::ClientOffer;
use houston_domain::compression;
use houston_domain::event::Event;
use houston_domain::history::Role;
use houston_domain::model_policy::Latency;
use houston_store::claim::ClaimedRun;
use houston_store::cost::Cost;
use houston_store::record::Owner;
use houston_store::run_context::RunContext;

use super::RunDriver;
use super::compression::Sizes;
use super::oversight::Oversight;
use super::routing::{AnsweringAgent, answering_agent};
use crate::config::TitleConfig;
use crate::error::Result;
use crate::hook::{PromptSection, RunInfo};
use crate::live::{LiveRun, Registration};
use crate::prompt::analysis::analysis;
use crate::prompt::compose::{compose, offers};
use crate::run::journal::Journal;
use crate::run::model_turn::ModelTurn;
use crate::run::storage::RunStorage;
use crate::run::tool_runner::ToolRunner;
use crate::setup::Setup;
use crate::setup::client::with_state;

/// What follows from the run's context.
struct Loaded {
    setup: Arc<Setup>,
    answered_by: AnsweringAgent,
    model: ModelTurn,
    tools: Box<ToolRunner>,
    run: AgentRun,
}

impl<'e, S: RunStorage> RunDriver<'e, S> {
    /// `kind` is the setup of the agentable's kind, `context` what was read with the claim.
    pub(super) async fn load(
        mut journal: Journal<'e, S>,
        claimed: Box<ClaimedRun>,
        registration: Registration,
        kind: Arc<Setup>,
        context: Option<Box<RunContext>>,
    ) -> Result<Self> {
        let loaded = load(&mut journal, &claimed, &registration.live, kind, context).await?;
        let Loaded { setup, answered_by, model, tools, run } = loaded;
        let wants_title = claimed.title.is_empty() && setup.agent_type.titles;
        let sizes = Sizes::default();
        let mut driver = Self {
            journal,
            model,
            tools,
            run,
            claimed,
            registration,
            setup,
            answered_by,
            sizes,
            oversight: Oversight::default(),
            wants_title,
            waits_for_plan: false,
        };
        driver.request_title().await?;
        Ok(driver)
    }

    /// Reads the run's state from Postgres again, after a commit whose response was lost.
    pub(super) async fn reload(&mut self) -> Result<()> {
        let Owner { tenant, agentable, .. } = self.journal.owner;
        let journal = &mut self.journal;
        let open =
            journal.of_postgres(|store| store.tenant(tenant).open_iteration_at(agentable, i64::MAX)).await?;
        if let Some(open) = open {
            journal.next_message = open.message;
        }
        let kind = self.journal.services.setup(&self.claimed.kind).unwrap_or(&self.setup).clone();
        self.claimed.submission = self.model.frame.submission.take();
        let loaded = load(&mut self.journal, &self.claimed, &self.registration.live, kind, None).await?;
        let Loaded { setup, answered_by, model, tools, run } = loaded;
        (self.setup, self.answered_by, self.model, self.tools, self.run) =
            (setup, answered_by, model, tools, run);
        self.sizes = Sizes::default();
        // Where counts start anew is not in the history.
        self.oversight.may_have_asked |= self.claimed.attempt > 1;
        self.oversight.has_looked = false;
        // An iteration stays open until all of its tools have returned.
        let tools_open = matches!(self.run.next(self.journal.now()), Next::CallTools(_));
        self.journal.open_iteration = self.run.iterations() + u32::from(!tools_open);
        Ok(())
    }

    /// Makes void what providers have answered about the ids that calls have named since the last time.
    pub(super) async fn void_written(&mut self) -> Result<()> {
        if self.tools.written.is_empty() {
            return Ok(());
        }
        let written = std::mem::take(&mut self.tools.written);
        let Some(cache) = self.journal.context_cache() else { return Ok(()) };
        let Owner { tenant, user, .. } = self.journal.owner;
        Box::pin(self.journal.retrying(|_| cache.void(tenant, user, &written))).await
    }

    /// Requests a title for the agentable if it has none and its user has written enough messages.
    async fn request_title(&mut self) -> Result<()> {
        if !self.wants_title {
            return Ok(());
        }
        let TitleConfig { after_messages, timeout_s, .. } = self.journal.services.config.context.titles;
        let agentable = self.journal.agentable();
        // Other workers look for it after the time in which this worker should be done.
        let patience = Duration::from_secs(timeout_s * 2);
        self.wants_title = self
            .journal
            .of_postgres(|store| store.request_title(agentable, i64::from(after_messages), patience))
            .await?;
        Ok(())
    }
}

async fn load<S: RunStorage>(
    journal: &mut Journal<'_, S>,
    claimed: &ClaimedRun,
    live: &Arc<LiveRun>,
    kind: Arc<Setup>,
    context: Option<Box<RunContext>>,
) -> Result<Loaded> {
    let (agentable, run) = (journal.agentable(), journal.run());
    let mut context = journal.run_context(context).await?;
    let entries = context.run_entries;
    let submission = claimed.submission.clone().filter(|submission| submission.entries == entries);
    if let Some(submission) = &submission {
        context.client.clone_from(&submission.offer);
    }
    let (answered_by, setup) = answering_agent(journal, claimed, &context, kind).await?;
    if claimed.attempt > 1 {
        let cost = journal.of_postgres(|store| store.cost_of_run(run).map_ok(Some)).await?;
        journal.set_cost(cost.unwrap_or(Cost::NOTHING));
    }
    let most = setup.policy.limits.max_duration_s + journal.services.config.watchdog.grace_s;
    journal.signals.watchdog = journal.claimed_at + Duration::from_secs(most);
    let Owner { tenant, user, .. } = journal.owner;
    let info =
        || RunInfo { tenant, user, agentable, kind: claimed.kind.clone(), run, attempt: claimed.attempt };
    let setup = journal.services.setups.hooked(setup, info);
    let read = |tenant, summary| journal.of_postgres(move |store| store.tool_source(tenant, summary));
    let sources = journal.services.setups.own_tools_for(&setup, &context, read).await?;
    let mut setup = journal.services.setups.for_run(&setup, &context, &sources).await;
    drop(sources);
    let mut reads_state = false;
    setup = match setup.agent_type.state.clone() {
        None => setup,
        Some(declared) => {
            let state = journal.of_postgres(|store| store.shared_state(tenant, agentable)).await?;
            reads_state = state.is_some();
            with_state(setup, &declared, state.as_ref())
        }
    };
    let mut tools = Box::new(ToolRunner::new(Arc::clone(&setup), &context));
    if reads_state {
        // Front ends have written it.
        tools.taint.untrusted = true;
    }
    if let Some(offer) = context.client.as_ref().filter(|offer| offer.focus.is_some()) {
        setup = Box::pin(focused(journal, &mut tools, &setup, &context, offer)).await;
    }
    if let Some((section, event)) = analysis(&setup, &context) {
        journal.analysed = Some(Box::new(event));
        setup = with_section(&setup, [section]);
    }
    let pauses = context.pauses_until(journal.now());
    if let Some(prices) = setup.prices.with_policy(setup.agent_type.model_policy, &pauses) {
        setup = Arc::new(Setup { prices, ..Setup::clone(&setup) });
    }
    let is_patient = setup.agent_type.model_policy.latency.is_some_and(Latency::is_patient);
    let offer = context.client.clone().filter(|_| is_patient);
    let mut loaded =
        loaded(journal, claimed, Arc::clone(live), (context, pauses), answered_by, (setup, tools));
    loaded.model.frame.offer = offer;
    loaded.model.frame.submission = submission;
    Ok(loaded)
}

/// The setup with what the message is about. That it is something else than before is said once.
async fn focused<S: RunStorage>(
    journal: &mut Journal<'_, S>,
    tools: &mut ToolRunner,
    setup: &Arc<Setup>,
    context: &RunContext,
    offer: &ClientOffer,
) -> Arc<Setup> {
    let sections = tools.focus_sections(journal, offer).await;
    let own = context.history.len().saturating_sub(context.run_entries);
    let was_said = context.history[own..].iter().any(|entry| entry.role == Role::Assistant);
    let shift = offer.shift().filter(|_| !was_said);
    journal.shift = shift.map(|(from, to)| Box::new(Event::ContextShifted { from, to }));
    with_section(setup, sections)
}

/// The setup with more sections of the prompt.
fn with_section(setup: &Setup, more: impl IntoIterator<Item = PromptSection>) -> Arc<Setup> {
    let sections = setup.sections.iter().cloned().chain(more).collect();
    Arc::new(Setup { sections, ..Setup::clone(setup) })
}

fn loaded<S: RunStorage>(
    journal: &mut Journal<'_, S>,
    ClaimedRun { title, description, .. }: &ClaimedRun,
    live: Arc<LiveRun>,
    (context, pauses): (RunContext, Vec<u32>),
    answered_by: AnsweringAgent,
    (setup, tools): (Arc<Setup>, Box<ToolRunner>),
) -> Loaded {
    let (now, agentable) = (journal.now(), journal.agentable());
    let offers = offers(&setup, &context);
    let config = &journal.services.config.context;
    let prompt = compose(&setup, &offers[0], title, description, &context, now, config.prompt_chars);
    if !prompt.left_out.is_empty() {
        tracing::debug!(%agentable, left_out = ?prompt.left_out, "the prompt was cut to prompt_chars");
    }
    let (system, system_context) = (prompt.parts(), prompt.system_context());
    let files = (config.images, config.attachments);
    let same = (cache_key(agentable), pauses);
    let model = ModelTurn::new(Arc::clone(&setup), live, same, system, system_context, files);
    journal.mark = context.mark;
    let mut run = AgentRun::resume(setup.policy, context.history, context.run_entries, now)
        .overseen(journal.services.config.overseer);
    if let Some(summary) = &context.summary {
        let summary = compression::summary_entry(summary, &journal.mark);
        run.replace_prefix_with_summary(context.summarised_entries, summary);
    }
    Loaded { setup, answered_by, model, tools, run }
}
