//! The items of a response while it is streamed: which are open, and which no durable event has confirmed yet.

use houston_protocol::agui::EntityId;
use houston_protocol::openai::event::StreamEvent;
use houston_protocol::openai::item::{ItemStatus, OutputItem, Part};

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
    /// An event about the item.
    fn event(&self, name: &'static str) -> StreamEvent {
        let item_id = Some(self.item.id().to_owned());
        StreamEvent { name, item_id, output_index: Some(self.index), ..StreamEvent::default() }
    }

    /// An event about its text, by the names for a message and for reasoning.
    fn text_event(&self, of_message: &'static str, of_reasoning: &'static str) -> StreamEvent {
        match self.item {
            OutputItem::Reasoning { .. } => {
                StreamEvent { summary_index: Some(0), ..self.event(of_reasoning) }
            }
            _ => StreamEvent { content_index: Some(0), ..self.event(of_message) },
        }
    }

    fn with_item(&self, name: &'static str, item: OutputItem) -> StreamEvent {
        StreamEvent { name, output_index: Some(self.index), item: Some(item), ..StreamEvent::default() }
    }

    /// The item as it is announced: without its text.
    fn added(&self) -> StreamEvent {
        let mut item = self.item.clone();
        item.parts().into_iter().for_each(Vec::clear);
        self.with_item("response.output_item.added", item)
    }

    fn done(&self) -> StreamEvent {
        self.with_item("response.output_item.done", self.item.clone())
    }

    fn part(&mut self) -> Option<&mut Part> {
        self.item.parts()?.first_mut()
    }

    /// Its text is complete.
    fn text_done(&mut self) -> Vec<StreamEvent> {
        let Some(part) = self.part().cloned() else { return vec![self.done()] };
        let (text, logprobs) = (Some(part.text.clone()), part.logprobs);
        let done = self.text_event("response.output_text.done", "response.reasoning_summary_text.done");
        let part_done = self.text_event("response.content_part.done", "response.reasoning_summary_part.done");
        vec![
            StreamEvent { text, logprobs, ..done },
            StreamEvent { part: Some(part), ..part_done },
            self.done(),
        ]
    }

    fn confirm(&mut self, whole: &str) {
        if let Some(part) = self.part() {
            whole.clone_into(&mut part.text);
        }
        self.item.set_status(ItemStatus::Completed);
        (self.is_confirmed, self.is_whole) = (true, true);
    }
}

impl Items {
    /// Those that are in the final output, in order.
    pub(super) fn output(&self) -> Vec<OutputItem> {
        self.entries.iter().map(|entry| entry.item.clone()).collect()
    }

    /// Adds an item.
    fn add(&mut self, key: EntityId, mut item: OutputItem) -> &mut Entry {
        let index = self.next_index;
        self.next_index += 1;
        let is_confirmed = item.parts().is_none();
        let entry = Entry { index, key, item, is_open: true, is_confirmed, is_whole: true };
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
    pub(super) fn start_text(&mut self, key: EntityId) -> Vec<StreamEvent> {
        let (id, status) = (key.to_string(), ItemStatus::InProgress);
        let item = match key {
            EntityId::Reasoning(_) => {
                OutputItem::Reasoning { id, summary: vec![Part::summary(String::new())], status }
            }
            _ => {
                let content = vec![Part::output(String::new())];
                OutputItem::Message { id, status, role: "assistant", content }
            }
        };
        let entry = self.add(key, item);
        let part = entry.part().cloned();
        let begun = entry.text_event("response.content_part.added", "response.reasoning_summary_part.added");
        vec![entry.added(), StreamEvent { part, ..begun }]
    }

    /// A client that resumes has the beginning of the text.
    pub(super) fn has_beginning(&mut self, key: EntityId) {
        if let Some(entry) = self.find(key) {
            entry.is_whole = false;
        }
    }

    /// More text.
    pub(super) fn text_delta(&mut self, key: EntityId, delta: &str) -> Option<StreamEvent> {
        let entry = self.find(key)?;
        let part = entry.part()?;
        part.text.push_str(delta);
        let (delta, logprobs) = (Some(delta.to_owned()), part.logprobs);
        let event = entry.text_event("response.output_text.delta", "response.reasoning_summary_text.delta");
        Some(StreamEvent { delta, logprobs, ..event })
    }

    /// A text ends: with `whole`, which is in Postgres, or because the model has gone on to its message (`is_live`), or because
    /// its attempt broke off.
    pub(super) fn end_text(&mut self, key: EntityId, whole: Option<&str>, is_live: bool) -> Vec<StreamEvent> {
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
    pub(super) fn start_call(&mut self, key: EntityId, item: OutputItem) -> Vec<StreamEvent> {
        let entry = self.add(key, item);
        vec![entry.added(), entry.event("response.mcp_call.in_progress")]
    }

    /// Its arguments.
    pub(super) fn arguments(&mut self, key: EntityId, more: &str) -> Option<StreamEvent> {
        let fits = self.take_bytes(more.len());
        let entry = self.find(key)?;
        let OutputItem::McpCall { arguments, .. } = &mut entry.item else { return None };
        if fits {
            arguments.push_str(more);
        }
        let delta = Some(more.to_owned());
        Some(StreamEvent { delta, ..entry.event("response.mcp_call_arguments.delta") })
    }

    /// Its arguments are complete.
    pub(super) fn arguments_done(&mut self, key: EntityId) -> Option<StreamEvent> {
        let entry = self.find(key)?;
        let OutputItem::McpCall { arguments, .. } = &entry.item else { return None };
        let arguments = Some(arguments.clone());
        Some(StreamEvent { arguments, ..entry.event("response.mcp_call_arguments.done") })
    }

    /// Its result.
    pub(super) fn result(&mut self, key: EntityId, content: &str, failed: bool) -> Vec<StreamEvent> {
        let kept = self.take_bytes(content.len()).then(|| content.to_owned());
        let Some(entry) = self.find(key) else { return Vec::new() };
        entry.is_open = false;
        let OutputItem::McpCall { output, error, status, .. } = &mut entry.item else { return Vec::new() };
        let name = if failed {
            (*status, *error) = (ItemStatus::Failed, kept);
            "response.mcp_call.failed"
        } else {
            (*status, *output) = (ItemStatus::Completed, kept);
            "response.mcp_call.completed"
        };
        vec![entry.event(name), entry.done()]
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
    pub(super) fn complete(&mut self, key: EntityId, item: OutputItem) -> Vec<StreamEvent> {
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
