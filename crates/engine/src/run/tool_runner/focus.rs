//! What a run's message is about: the sections of the prompt that say so, with what the kind's provider knows of it.
//!
//! A provider is a tool that reads. What it answered for this user is kept for some minutes; an older answer is shown while
//! the provider is asked again, behind the run. A provider that takes longer than [`DEADLINE`] is not waited for: the run goes
//! on without, and its answer is kept for the next one. What a call of the agent names that may have changed something is void.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::future::{BoxFuture, FutureExt as _};
use houston_domain::client_offer::ClientOffer;
use houston_domain::focus::{ContextProvider, DETAIL_CHARS, Focus, FocusRef, MAX_ID_CHARS, Tier, brief};
use houston_domain::frame::escape;
use houston_domain::inner_call::inner_call;
use houston_domain::tool_call::{EffectClass, ToolCall, ToolResponse};
use houston_store::context_cache::{CacheKey, CachedContext, ContextCache};
use houston_store::record::RecordIds;
use houston_tools::untrusted::{inner, marked};
use houston_tools::{Plan, Record};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::task::TaskTracker;

use super::ToolRunner;
use super::guard::Judgement;
use super::record::read_record;
use crate::hook::PromptSection;
use crate::run::journal::Journal;
use crate::run::storage::RunStorage;

/// How long a run waits for its provider.
const DEADLINE: Duration = Duration::from_millis(500);
/// The most providers that a process asks at once.
const MOST_AT_ONCE: usize = 64;
/// The most ids of one turn that make answers void.
const MAX_WRITTEN: usize = 64;

/// The providers that are being asked.
pub(crate) struct Providers {
    tasks: TaskTracker,
    places: Arc<Semaphore>,
}

impl Default for Providers {
    fn default() -> Self {
        Self { tasks: TaskTracker::new(), places: Arc::new(Semaphore::new(MOST_AT_ONCE)) }
    }
}

/// A provider that is about to be asked.
struct Question {
    work: BoxFuture<'static, ToolResponse>,
    timeout: Duration,
    place: OwnedSemaphorePermit,
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
        let thing = focus.thing();
        let mut text = format!("The message is about {}.", escape(&thing.to_string()));
        let provider = self.setup.agent_type.context_providers.get(&focus.kind).cloned();
        if let Some(provider) = provider {
            let known = tokio::time::timeout(DEADLINE, self.known(journal, &provider, focus)).await;
            match known {
                Ok(Some(answer)) => text += &self.shown(&provider, &thing, &answer),
                Ok(None) | Err(_) => text += &format!("\n{}", how_to_read(&provider, &thing)),
            }
        }
        if let Some(data) = &focus.data {
            self.taint.add_untrusted();
            text += &format!("\n{}", marked("what the user's client shows", &escape(&data.to_string())));
        }
        let mut sections = vec![PromptSection { name: "focus".to_owned(), text }];
        sections.extend(offer.shift().map(|(from, to)| shift(&from, &to)));
        sections
    }

    /// What a prompt has of an answer.
    fn shown(&mut self, provider: &ContextProvider, thing: &FocusRef, answer: &str) -> String {
        let offer = self.offer().clone();
        self.taint.add(&self.setup, &offer, &provider.tool);
        self.taint.add_result(answer);
        let answer = inner(answer);
        let (text, is_all) = match provider.tier {
            Tier::Brief => brief(answer),
            Tier::Detail => {
                (answer.chars().take(DETAIL_CHARS).collect(), answer.chars().nth(DETAIL_CHARS).is_none())
            }
        };
        let rest = if is_all { String::new() } else { format!("\n{}", how_to_read(provider, thing)) };
        format!("\n{}{rest}", marked(&format!("{} {}", provider.tool, thing.id), &escape(&text)))
    }

    /// What the provider has answered, or answers now.
    async fn known<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        provider: &ContextProvider,
        focus: &Focus,
    ) -> Option<String> {
        let tool = self.offer().get(&provider.tool)?.clone();
        if tool.definition().effect != EffectClass::Read {
            tracing::warn!(tool = provider.tool, "a context provider must be a tool that only reads");
            return None;
        }
        let input = json!({ provider.argument.clone(): focus.id });
        let call = ToolCall { id: "focus".to_owned(), name: provider.tool.clone(), input, malformed: None };
        let judged = self.judge(journal, &call, None, &[], &[]);
        let Judgement::Allow = judged.judgement else { return None };
        match tool.plan(&judged.call.input, &self.call_context(journal, &judged.call)).ok()? {
            Plan::Answer(response) => answer_of(&response),
            Plan::Record(record) => read(journal, &*record).await,
            Plan::Execute(work) => {
                self.cached(journal, focus, (&provider.tool, work), tool.definition().timeout).await
            }
            _ => None,
        }
    }

    /// The answer that is kept; without one, that of the provider.
    async fn cached<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        focus: &Focus,
        (tool, work): (&str, BoxFuture<'static, ToolResponse>),
        timeout: Duration,
    ) -> Option<String> {
        let key = CacheKey {
            tenant: journal.owner.tenant,
            user: journal.owner.user,
            kind: focus.kind.clone(),
            id: focus.id.clone(),
            tool: tool.to_owned(),
        };
        let cache = journal.context_cache();
        let known = match &cache {
            // An error is the same as no answer: the run goes on.
            Some(cache) => cache.get(&key).await.ok().flatten(),
            None => None,
        };
        let stale = match known {
            Some(CachedContext { answer, is_fresh: true }) => return Some(answer),
            stale => stale.map(|stale| stale.answer),
        };
        let providers = &journal.services.providers;
        let Ok(place) = Arc::clone(&providers.places).try_acquire_owned() else { return stale };
        let keep = match cache {
            Some(cache) => {
                let began = cache.begin(&key, timeout + Duration::from_secs(5)).await.ok().flatten();
                began.map(|began| (cache, key, began))
            }
            None => None,
        };
        if keep.is_none() && stale.is_some() {
            // Another run asks.
            return stale;
        }
        let (tell, told) = oneshot::channel();
        let question = Question { work, timeout, place, keep };
        providers.tasks.spawn(question.ask(tell));
        match stale {
            Some(stale) => Some(stale),
            None => told.await.ok().flatten(),
        }
    }

    /// Notes what calls may change: their arguments name it.
    pub(crate) fn note_written(&mut self, calls: &[ToolCall]) {
        if self.setup.agent_type.context_providers.is_empty() {
            return;
        }
        for call in calls {
            let (name, input) = inner_call(&call.name, &call.input);
            let reads =
                self.offer().get(name).is_some_and(|tool| tool.definition().effect == EffectClass::Read);
            if !reads {
                add_ids(&input, &mut self.written);
            }
        }
    }

    /// What calls may have changed since the last time.
    pub(crate) fn take_written(&mut self) -> Vec<String> {
        std::mem::take(&mut self.written)
    }
}

impl Question {
    /// Asks the provider, tells the run if it still waits, and keeps the answer.
    async fn ask(self, tell: oneshot::Sender<Option<String>>) {
        let Self { work, timeout, place, keep } = self;
        let answered = tokio::time::timeout(timeout, AssertUnwindSafe(work).catch_unwind()).await;
        let answer = answered.ok().and_then(Result::ok).and_then(|response| answer_of(&response));
        if let Some((cache, key, began)) = keep
            && let Err(error) = cache.end(&key, began, answer.as_deref()).await
        {
            tracing::debug!(%error, "the answer of a context provider is not kept");
        }
        let _ = tell.send(answer);
        drop(place);
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

fn how_to_read(provider: &ContextProvider, thing: &FocusRef) -> String {
    let ContextProvider { tool, argument, .. } = provider;
    format!("More of it: {tool} with {argument} = {}.", escape(&thing.id))
}

fn shift(from: &FocusRef, to: &FocusRef) -> PromptSection {
    let (from, to) = (escape(&from.to_string()), escape(&to.to_string()));
    let text =
        format!("from: {from}\nto: {to}\nWhat was said last was about {from}; this message is about {to}.");
    PromptSection { name: "context_shift".to_owned(), text }
}

fn add_ids(value: &Value, ids: &mut Vec<String>) {
    match value {
        Value::String(text) if text.len() <= MAX_ID_CHARS && ids.len() < MAX_WRITTEN => {
            ids.push(text.clone())
        }
        Value::Number(number) if ids.len() < MAX_WRITTEN => ids.push(number.to_string()),
        Value::Array(items) => items.iter().for_each(|item| add_ids(item, ids)),
        Value::Object(fields) => fields.values().for_each(|field| add_ids(field, ids)),
        _ => {}
    }
}
