//! A strict AG-UI client: refuses what `@ag-ui/client` 1.0 refuses, and applies events to its messages in the same way.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::Value;

#[derive(Debug, Default)]
pub(super) struct Client {
    running: bool,
    seen_any: bool,
    ids: HashSet<String>,
    open_texts: BTreeSet<String>,
    open_reasonings: BTreeSet<String>,
    open_tools: BTreeSet<String>,
    open_steps: BTreeSet<String>,
    started: HashSet<String>,
    pub(super) texts: BTreeMap<String, String>,
    pub(super) reasonings: BTreeMap<String, String>,
    pub(super) arguments: BTreeMap<String, String>,
    pub(super) results: BTreeMap<String, String>,
    pub(super) errors: BTreeMap<String, Value>,
    pub(super) runs: Vec<String>,
    pub(super) ends: Vec<String>,
    pub(super) customs: Vec<String>,
}

impl Client {
    /// Applies one frame; panics if it is invalid.
    pub(super) fn apply(&mut self, id: &str, event: &Value) {
        assert!(self.ids.insert(id.to_owned()), "id {id} twice: {event}");
        let field = |name: &str| {
            event[name].as_str().unwrap_or_else(|| panic!("{name} is missing: {event}")).to_owned()
        };
        let kind = field("type");
        assert!(self.seen_any || kind == "RUN_STARTED", "begins with {event}");
        assert!(self.running || kind == "RUN_STARTED", "after the end: {event}");
        assert!(no_null(event), "null: {event}");
        self.seen_any = true;
        match kind.as_str() {
            "RUN_STARTED" => {
                assert!(!self.running, "a run within a run");
                self.running = true;
                self.runs.push(field("runId"));
            }
            "RUN_FINISHED" | "RUN_ERROR" => {
                let open = [&self.open_texts, &self.open_reasonings, &self.open_tools, &self.open_steps];
                assert!(open.iter().all(|set| set.is_empty()), "open at the end: {open:?}");
                self.running = false;
                self.ends.push(kind);
            }
            "STEP_STARTED" => assert!(self.open_steps.insert(field("stepName")), "{event}"),
            "STEP_FINISHED" => assert!(self.open_steps.remove(&field("stepName")), "{event}"),
            "CUSTOM" => self.customs.push(field("name")),
            _ => self.apply_part(&kind, event, field),
        }
    }

    fn apply_part(&mut self, kind: &str, event: &Value, field: impl Fn(&str) -> String) {
        match kind {
            "TEXT_MESSAGE_START" => {
                assert_eq!(event["role"], "assistant");
                self.start(field("messageId"), |client| &mut client.open_texts);
                self.texts.insert(field("messageId"), String::new());
            }
            "TEXT_MESSAGE_CONTENT" => {
                assert!(self.open_texts.contains(&field("messageId")), "{event}");
                self.texts.get_mut(&field("messageId")).unwrap().push_str(&non_empty(field("delta")));
            }
            "TEXT_MESSAGE_END" => assert!(self.open_texts.remove(&field("messageId")), "{event}"),
            "ACTIVITY_SNAPSHOT" => {
                assert_eq!(event["activityType"], "houston.error");
                self.errors.insert(field("messageId"), event["content"].clone());
            }
            "REASONING_MESSAGE_START" => {
                assert_eq!(event["role"], "reasoning");
                self.start(field("messageId"), |client| &mut client.open_reasonings);
                self.reasonings.insert(field("messageId"), String::new());
            }
            "REASONING_MESSAGE_CONTENT" => {
                assert!(self.open_reasonings.contains(&field("messageId")), "{event}");
                self.reasonings.get_mut(&field("messageId")).unwrap().push_str(&non_empty(field("delta")));
            }
            "REASONING_MESSAGE_END" => assert!(self.open_reasonings.remove(&field("messageId")), "{event}"),
            "TOOL_CALL_START" => {
                field("toolCallName");
                self.start(field("toolCallId"), |client| &mut client.open_tools);
                self.arguments.insert(field("toolCallId"), String::new());
            }
            "TOOL_CALL_ARGS" => {
                assert!(self.open_tools.contains(&field("toolCallId")), "{event}");
                self.arguments.get_mut(&field("toolCallId")).unwrap().push_str(&field("delta"));
            }
            "TOOL_CALL_END" => assert!(self.open_tools.remove(&field("toolCallId")), "{event}"),
            "TOOL_CALL_RESULT" => {
                assert!(self.started.insert(field("messageId")), "{event}");
                assert!(self.arguments.contains_key(&field("toolCallId")), "{event}");
                assert_eq!(self.results.insert(field("toolCallId"), field("content")), None, "{event}");
            }
            "MESSAGES_SNAPSHOT" => self.snapshot(event["messages"].as_array().unwrap()),
            other => panic!("unknown event {other}"),
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.running
    }

    fn start(&mut self, id: String, open: impl Fn(&mut Self) -> &mut BTreeSet<String>) {
        assert!(self.started.insert(id.clone()), "{id} starts twice");
        assert!(open(self).insert(id));
    }

    /// Replaces all messages except reasoning.
    fn snapshot(&mut self, messages: &[Value]) {
        self.texts.clear();
        self.errors.clear();
        for message in messages.iter().filter(|message| message["role"] == "activity") {
            let id = message["id"].as_str().unwrap().to_owned();
            assert_eq!(self.errors.insert(id, message["content"].clone()), None, "twice: {message}");
        }
        for message in messages.iter().filter(|message| message["role"] == "assistant") {
            assert!(no_null(message), "{message}");
            let id = message["id"].as_str().unwrap();
            match message["content"].as_str() {
                Some(content) => assert_eq!(self.texts.insert(id.to_owned(), content.to_owned()), None),
                None => assert_eq!(message["toolCalls"][0]["id"], id),
            }
        }
    }
}

fn non_empty(delta: String) -> String {
    assert!(!delta.is_empty(), "an empty delta");
    delta
}

fn no_null(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(items) => items.iter().all(no_null),
        Value::Object(fields) => fields.values().all(no_null),
        _ => true,
    }
}
