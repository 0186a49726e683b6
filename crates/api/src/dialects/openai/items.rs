//! The items of a response while it is streamed: which are open, and which no durable event has confirmed yet.

use std::borrow::Cow;

use houston_protocol::agui::EntityId;
use houston_protocol::openai::event::{At, StreamEvent};
use houston_protocol::openai::item::{ItemStatus, OutputItem, Part, Role};

/// How many bytes of tools' arguments and results a response repeats; the rest has `output: null`.
const MAX_TOOL_BYTES: usize = 2 * 1024 * 1024;

/// An item with its place.
#[derive(Debug, Clone)]
struct Entry {
    index: u32,
    key: EntityId,
    item: OutputItem,
    is_open: bool,
    /// Whether it is in Postgres: an attempt that breaks off takes the others with it.
    is_confirmed: bool,
    /// Whether all of its text is here: a client that resumes has the beginning of an open one.
    is_whole: bool,
}

/// The items, in the order in which they began.
#[derive(Debug, Clone, Default)]
pub(super) struct Items {
    entries: Vec<Entry>,
    next_index: u32,
    tool_bytes: usize,
    /// How many items were taken back.
    pub(super) voided: u32,
}

impl Entry {
    fn at(&self) -> At<'_> {
        At { item_id: Cow::Borrowed(self.item.id()), output_index: self.index }
    }

    fn owned_at(&self) -> At<'static> {
        At { item_id: Cow::Owned(self.item.id().to_owned()), output_index: self.index }
    }

    /// The text of a message or of reasoning.
    fn text(&mut self) -> Option<&mut String> {
        let (OutputItem::Message { content: parts, .. } | OutputItem::Reasoning { summary: parts, .. }) =
            &mut self.item
        else {
            return None;
        };
        match parts.first_mut()? {
            Part::OutputText { text, .. } | Part::InputText { text } | Part::SummaryText { text } => {
                Some(text)
            }
        }
    }

    fn done(&self) -> StreamEvent<'static> {
        StreamEvent::ItemDone { output_index: self.index, item: self.item.clone() }
    }

    /// The item as it is announced: without its text.
    fn added(&self) -> StreamEvent<'static> {
        let mut item = self.item.clone();
        match &mut item {
            OutputItem::Message { content: parts, .. } | OutputItem::Reasoning { summary: parts, .. } => {
                parts.clear()
            }
            _ => {}
        }
        StreamEvent::ItemAdded { output_index: self.index, item }
    }

    /// Its text is complete.
    fn text_done(&self) -> Vec<StreamEvent<'static>> {
        let at = || self.owned_at();
        let text = match &self.item {
            OutputItem::Message { content: parts, .. } | OutputItem::Reasoning { summary: parts, .. } => {
                parts.first().map_or("", Part::text).to_owned()
            }
            _ => String::new(),
        };
        if matches!(self.item, OutputItem::Reasoning { .. }) {
            let part = Part::SummaryText { text: text.clone() };
            return vec![
                StreamEvent::SummaryDone { at: at(), summary_index: 0, text },
                StreamEvent::SummaryPartDone { at: at(), summary_index: 0, part },
                self.done(),
            ];
        }
        let part = Part::output(text.clone());
        vec![
            StreamEvent::TextDone { at: at(), content_index: 0, text, logprobs: [] },
            StreamEvent::PartDone { at: at(), content_index: 0, part },
            self.done(),
        ]
    }
}

impl Items {
    /// Those that are in the final output, in order.
    pub(super) fn output(&self) -> Vec<OutputItem> {
        self.entries.iter().map(|entry| entry.item.clone()).collect()
    }

    /// Adds an item.
    fn add(&mut self, key: EntityId, item: OutputItem) -> &mut Entry {
        let index = self.next_index;
        self.next_index += 1;
        let confirmed = !matches!(item, OutputItem::Message { .. } | OutputItem::Reasoning { .. });
        let entry = Entry { index, key, item, is_open: true, is_confirmed: confirmed, is_whole: true };
        self.entries.push(entry);
        let last = self.entries.len() - 1;
        &mut self.entries[last]
    }

    fn find(&mut self, key: EntityId) -> Option<&mut Entry> {
        self.entries.iter_mut().rev().find(|entry| entry.key == key)
    }

    /// So many items of earlier connections were taken back.
    pub(super) fn after_voided(&mut self, voided: u32) {
        self.next_index += voided.saturating_sub(self.voided);
        self.voided = voided;
    }

    /// A message or reasoning begins.
    pub(super) fn start_text(&mut self, key: EntityId) -> Vec<StreamEvent<'static>> {
        let (id, status) = (key.to_string(), ItemStatus::InProgress);
        let item = match key {
            EntityId::Reasoning(_) => {
                let summary = vec![Part::SummaryText { text: String::new() }];
                OutputItem::Reasoning { id, summary, status }
            }
            _ => {
                let content = vec![Part::output(String::new())];
                OutputItem::Message { id, status, role: Role::Assistant, content }
            }
        };
        let entry = self.add(key, item);
        let at = entry.owned_at();
        let part = match key {
            EntityId::Reasoning(_) => {
                let part = Part::SummaryText { text: String::new() };
                StreamEvent::SummaryPartAdded { at, summary_index: 0, part }
            }
            _ => StreamEvent::PartAdded { at, content_index: 0, part: Part::output(String::new()) },
        };
        vec![entry.added(), part]
    }

    /// A client that resumes has the beginning of the text.
    pub(super) fn has_beginning(&mut self, key: EntityId) {
        if let Some(entry) = self.find(key) {
            entry.is_whole = false;
        }
    }

    /// More text.
    pub(super) fn text_delta<'e>(&'e mut self, key: EntityId, delta: &'e str) -> Option<StreamEvent<'e>> {
        let entry = self.find(key)?;
        entry.text()?.push_str(delta);
        let (at, delta) = (entry.at(), Cow::Borrowed(delta));
        Some(match key {
            EntityId::Reasoning(_) => StreamEvent::SummaryDelta { at, summary_index: 0, delta },
            _ => StreamEvent::TextDelta { at, content_index: 0, delta, logprobs: [] },
        })
    }

    /// A text ends: with `whole`, which is in Postgres, or because the model has gone on to its message (`is_live`), or because
    /// its attempt broke off.
    pub(super) fn end_text(
        &mut self,
        key: EntityId,
        whole: Option<&str>,
        is_live: bool,
    ) -> Vec<StreamEvent<'static>> {
        let Some(entry) = self.find(key) else { return Vec::new() };
        entry.is_open = false;
        if let Some(whole) = whole {
            entry.confirm(whole);
            return entry.text_done();
        }
        if is_live {
            entry.item.set_status(ItemStatus::Completed);
            return if entry.is_whole { entry.text_done() } else { vec![entry.done()] };
        }
        entry.item.set_status(ItemStatus::Incomplete);
        let done = entry.done();
        self.void(|entry| entry.key == key);
        vec![done]
    }

    /// Postgres has the reasoning that ended before.
    pub(super) fn confirm_reasoning(&mut self, whole: &str) {
        let unconfirmed = |entry: &&mut Entry| {
            !entry.is_open && !entry.is_confirmed && matches!(entry.key, EntityId::Reasoning(_))
        };
        if let Some(entry) = self.entries.iter_mut().rev().find(unconfirmed) {
            return entry.confirm(whole);
        }
        // With its message open, it is sent no more: a client that resumed within the message has had it.
        let open = |entry: &Entry| entry.is_open && !entry.is_confirmed;
        let message =
            self.entries.iter().position(|entry| open(entry) && matches!(entry.key, EntityId::Message(_)));
        let Some((at, EntityId::Message(id))) = message.map(|at| (at, self.entries[at].key)) else { return };
        self.start_text(EntityId::Reasoning(id));
        if let Some(mut entry) = self.entries.pop() {
            entry.confirm(whole);
            entry.is_open = false;
            self.entries.insert(at, entry);
        }
    }

    /// The iteration is over: takes back what ended in it and was not confirmed.
    pub(super) fn drop_unconfirmed(&mut self) {
        self.void(|entry| !entry.is_open && !entry.is_confirmed);
    }

    fn void(&mut self, is_void: impl Fn(&Entry) -> bool) {
        let before = self.entries.len();
        self.entries.retain(|entry| !is_void(entry));
        self.voided += u32::try_from(before - self.entries.len()).unwrap_or(0);
    }

    /// A tool is called.
    pub(super) fn start_call(&mut self, key: EntityId, item: OutputItem) -> Vec<StreamEvent<'static>> {
        let entry = self.add(key, item);
        let mut events = vec![entry.added()];
        if matches!(entry.item, OutputItem::McpCall { .. }) {
            events.push(StreamEvent::CallInProgress(entry.owned_at()));
        }
        events
    }

    /// Its arguments.
    pub(super) fn arguments(&mut self, key: EntityId, more: &str) -> Vec<StreamEvent<'static>> {
        let fits = self.take_bytes(more.len());
        let Some(entry) = self.find(key) else { return Vec::new() };
        let (at, delta) = (entry.owned_at(), Cow::Owned(more.to_owned()));
        match &mut entry.item {
            OutputItem::McpCall { arguments, .. } => {
                if fits {
                    arguments.push_str(more);
                }
                vec![StreamEvent::CallArgumentsDelta { at, delta }]
            }
            OutputItem::FunctionCall { arguments, .. } => {
                arguments.push_str(more);
                vec![StreamEvent::FunctionArgumentsDelta { at, delta }]
            }
            _ => Vec::new(),
        }
    }

    /// Its arguments are complete.
    pub(super) fn arguments_done(&mut self, key: EntityId) -> Vec<StreamEvent<'static>> {
        let Some(entry) = self.find(key) else { return Vec::new() };
        let at = entry.owned_at();
        match &mut entry.item {
            OutputItem::McpCall { arguments, .. } => {
                vec![StreamEvent::CallArgumentsDone { at, arguments: arguments.clone() }]
            }
            OutputItem::FunctionCall { arguments, name, .. } => {
                let (name, arguments) = (name.clone(), arguments.clone());
                entry.item.set_status(ItemStatus::Completed);
                entry.is_open = false;
                vec![StreamEvent::FunctionArgumentsDone { at, name, arguments }, entry.done()]
            }
            _ => Vec::new(),
        }
    }

    /// Its result.
    pub(super) fn result(&mut self, key: EntityId, content: &str, failed: bool) -> Vec<StreamEvent<'static>> {
        let kept = self.take_bytes(content.len()).then(|| content.to_owned());
        let Some(entry) = self.find(key) else { return Vec::new() };
        entry.is_open = false;
        let OutputItem::McpCall { output, error, status, .. } = &mut entry.item else { return Vec::new() };
        (*status, *(if failed { error } else { output })) =
            (if failed { ItemStatus::Failed } else { ItemStatus::Completed }, kept);
        let at = entry.owned_at();
        let ended = if failed { StreamEvent::CallFailed(at) } else { StreamEvent::CallCompleted(at) };
        vec![ended, entry.done()]
    }

    /// Whether there is such an item.
    pub(super) fn has(&self, key: EntityId) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    /// The call needs an approval.
    pub(super) fn call_waits_for(&mut self, key: EntityId, approval: &str) {
        if let Some(OutputItem::McpCall { approval_request_id, .. }) =
            self.find(key).map(|entry| &mut entry.item)
        {
            *approval_request_id = Some(approval.to_owned());
        }
    }

    /// Adds an item that is complete.
    pub(super) fn complete(&mut self, key: EntityId, item: OutputItem) -> Vec<StreamEvent<'static>> {
        let entry = self.add(key, item);
        entry.is_open = false;
        vec![entry.added(), entry.done()]
    }

    /// The response is over: what has not ended will not.
    pub(super) fn close(&mut self) {
        for entry in self.entries.iter_mut().filter(|entry| entry.is_open) {
            entry.item.set_status(ItemStatus::Incomplete);
        }
    }

    fn take_bytes(&mut self, bytes: usize) -> bool {
        self.tool_bytes += bytes;
        self.tool_bytes <= MAX_TOOL_BYTES
    }
}

impl Entry {
    fn confirm(&mut self, whole: &str) {
        if let Some(text) = self.text() {
            whole.clone_into(text);
        }
        self.item.set_status(ItemStatus::Completed);
        (self.is_confirmed, self.is_whole) = (true, true);
    }
}
