//! What a run's message is about: the sections of the prompt that say so, with what the kind's provider knows of it.
//!
//! A provider is a tool that reads. What it answered for this user is kept for some minutes; an older answer is shown while
//! the provider is asked again, behind the run. A provider that takes longer than `wait_ms` is not waited for: the run goes on
//! without, its model reads so, and the answer is kept for the next run. What a call of the agent names that may have changed
//! something is void.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::future::{BoxFuture, FutureExt as _};
use houston_domain::client_offer::ClientOffer;
use houston_domain::focus::{ContextProvider, Focus, is_id};
use houston_domain::inner_call::inner_call;
use houston_domain::tool_call::{EffectClass, ToolCall, ToolResponse};
use houston_store::context_cache::{CacheKey, CachedContext, ContextCache};
use houston_store::record::{Owner, RecordIds};
use houston_tools::{Plan, Record};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::ToolRunner;
use super::guard::Judgement;
use super::record::read_record;
use crate::hook::PromptSection;
use crate::prompt::focus::{Said, reader, sections};
use crate::run::journal::Journal;
use crate::run::storage::RunStorage;

/// The most ids of one turn that make answers void.
const MAX_WRITTEN: usize = 64;

/// A provider that is about to be asked.
struct Question {
    work: BoxFuture<'static, ToolResponse>,
    timeout: Duration,
    slot: OwnedSemaphorePermit,
    keep: Option<(ContextCache, CacheKey, DateTime<Utc>)>,
}

impl ToolRunner {
    /// The sections of the prompt about the focus of a run; none without.
    pub(crate) async fn focus_sections<S: RunStorage>(
        &mut self,
        journal: &Journal<'_, S>,
        offer: &ClientOffer,
    ) -> Vec<PromptSection> {
        let Some(focus) = &offer.focus else { return Vec::new() };
        let provider = self.setup.agent_type.context_providers.get(&focus.kind).cloned();
        if focus.data.is_some() {
            self.taint.untrusted = true;
        }
        let Some(provider) = provider else { return sections(offer, focus, None) };
        let wait = Duration::from_millis(journal.services.config.context.focus.wait_ms);
        let said = tokio::time::timeout(wait, self.said(journal, &provider, focus)).await;
        let said = said.unwrap_or(Said::Late);
        if let Said::Answer(answer, _) = &said {
            let tools = self.offer().clone();
            self.taint.add(&self.setup, &tools, &provider.tool);
            self.taint.add_result(answer);
        }
        sections(offer, focus, Some((&provider, &said)))
    }

    /// What the provider has answered, or answers now.
    async fn said<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        provider: &ContextProvider,
        focus: &Focus,
    ) -> Said {
        let Some(tool) = reader(self.offer(), provider) else { return Said::NoTool };
        let input = json!({ provider.argument.clone(): focus.id });
        let call = ToolCall { id: "focus".to_owned(), name: provider.tool.clone(), input, malformed: None };
        let judged = self.judge(journal, &call, None, &[], &[]);
        let Judgement::Allow = judged.judgement else { return Said::Failed };
        let now = |answer: Option<String>| answer.map_or(Said::Failed, |answer| Said::Answer(answer, 0));
        match tool.plan(&judged.call.input, &self.call_context(journal, &judged.call)) {
            Ok(Plan::Answer(response)) => now(answer_of(&response)),
            Ok(Plan::Record(record)) => now(read(journal, &*record).await),
            Ok(Plan::Execute(work)) => {
                self.cached(journal, focus, &provider.tool, work, tool.definition().timeout).await
            }
            _ => Said::Failed,
        }
    }

    /// The answer that is kept; without one, that of the provider.
    async fn cached<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        focus: &Focus,
        tool: &str,
        work: BoxFuture<'static, ToolResponse>,
        timeout: Duration,
    ) -> Said {
        let Owner { tenant, user, .. } = journal.owner;
        let Focus { kind, id, .. } = focus.clone();
        let key = CacheKey { tenant, user, kind, id, tool: tool.to_owned() };
        let fresh = Duration::from_secs(journal.services.config.context.focus.fresh_s);
        let cache = journal.context_cache();
        let said = match &cache {
            // An error is the same as no answer: the run goes on.
            Some(cache) => cache.get(&key, fresh).await.ok().flatten(),
            None => None,
        };
        let stale = match said {
            Some(CachedContext { answer, is_fresh: true, age_s }) => return Said::Answer(answer, age_s),
            stale => stale.map(|stale| Said::Answer(stale.answer, stale.age_s)),
        };
        let providers = &journal.services.providers;
        // Too many are being asked, if there is none.
        let slot = Arc::clone(&providers.slots).try_acquire_owned();
        let Ok(slot) = slot else { return stale.unwrap_or(Said::Late) };
        let keep = match cache {
            Some(cache) => {
                let began = cache.begin(&key, timeout + Duration::from_secs(5)).await.ok().flatten();
                began.map(|began| (cache, key, began))
            }
            None => None,
        };
        let stale = match (stale, &keep) {
            // Another run asks.
            (Some(stale), None) => return stale,
            (stale, _) => stale,
        };
        let (sender, receiver) = oneshot::channel();
        let question = Question { work, timeout, slot, keep };
        providers.tasks.spawn(question.ask(sender));
        match stale {
            // The answer of now is for the next run.
            Some(stale) => stale,
            None => receiver.await.ok().flatten().map_or(Said::Failed, |answer| Said::Answer(answer, 0)),
        }
    }

    /// Notes what a call may change: its arguments name it. In a process without context providers nothing is noted.
    pub(super) fn note_written<S: RunStorage>(&mut self, journal: &Journal<'_, S>, call: &ToolCall) {
        let (name, input) = inner_call(&call.name, &call.input);
        let reads =
            || self.offer().get(name).is_some_and(|tool| tool.definition().effect == EffectClass::Read);
        if journal.services.setups.has_providers() && !reads() {
            add_ids(&input, &mut self.written);
        }
    }
}

impl Question {
    /// Asks the provider, answers the run if it still waits, and keeps the answer.
    async fn ask(self, sender: oneshot::Sender<Option<String>>) {
        let Self { work, timeout, slot, keep } = self;
        let answered = tokio::time::timeout(timeout, AssertUnwindSafe(work).catch_unwind()).await;
        let answer = answered.ok().and_then(Result::ok).and_then(|response| answer_of(&response));
        if let Some((cache, key, began)) = keep
            && let Err(error) = cache.end(&key, began, answer.as_deref()).await
        {
            tracing::debug!(%error, "the answer of a context provider is not kept");
        }
        let _ = sender.send(answer);
        drop(slot);
    }
}

/// What a tool of Houston's own tables reads now: nothing of it is kept.
async fn read<S: RunStorage>(journal: &Journal<'_, S>, record: &dyn Record) -> Option<String> {
    let ids = RecordIds { row: journal.new_id(), run: journal.new_id(), message: journal.new_id() };
    let response = read_record(journal, ids, record).await.ok()?;
    answer_of(&response)
}

fn answer_of(response: &ToolResponse) -> Option<String> {
    response.is_success().then(|| response.text().to_owned())
}

fn add_ids(value: &Value, ids: &mut Vec<String>) {
    match value {
        Value::String(text) if is_id(text) && ids.len() < MAX_WRITTEN => ids.push(text.clone()),
        Value::Number(number) if ids.len() < MAX_WRITTEN => ids.push(number.to_string()),
        Value::Array(items) => items.iter().for_each(|item| add_ids(item, ids)),
        Value::Object(fields) => fields.values().for_each(|field| add_ids(field, ids)),
        _ => {}
    }
}
