//! Conversations as documents, and emptying what a model sees while others write.

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::join_all;
use houston_domain::conversation::{
    Conversation, Format, HistoryEntry, KeptLearning, KeptNote, ThreadMessage, Version,
};
use houston_domain::history::{Block, RawBlock, Role};
use houston_domain::id::AgentableId;
use houston_domain::message::{MessageType, Source};
use houston_store::Error;
use houston_store::agentable::NewAgentable;
use houston_store::conversation::{NewConversation, Reading};
use houston_store::step::{Commit, Ending, Then};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::fresh::Fresh;

/// Any text that can be kept.
fn text() -> impl Strategy<Value = String> {
    proptest::string::string_regex("[a-zäß€😀\"\\\\ \n<&]{1,30}").unwrap()
}

fn time() -> impl Strategy<Value = DateTime<Utc>> {
    (0..1_000_000_000_000_i64).prop_map(|micros| DateTime::UNIX_EPOCH + TimeDelta::microseconds(micros))
}

fn raw() -> impl Strategy<Value = RawBlock> {
    let json = prop_oneof![
        Just("{\"z\":1.10, \"a\":[ ]}"),
        Just("\"s\\u00e4\""),
        Just("{\"b\":1,\"a\":2,\"b\":3}"),
    ];
    json.prop_map(|json| RawBlock::new("anthropic", "anthropic", json))
}

/// What a model may write before it asks for tools.
fn block() -> impl Strategy<Value = Block> {
    prop_oneof![
        (text(), proptest::option::of(raw())).prop_map(|(text, raw)| Block::Text { text, raw }),
        (text(), proptest::option::of(raw())).prop_map(|(text, raw)| Block::Thinking { text, raw }),
        raw().prop_map(|raw| Block::Opaque { raw }),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf =
        prop_oneof![any::<i64>().prop_map(Value::from), text().prop_map(Value::from), Just(Value::Null)];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map("[a-z]{1,5}", inner, 0..3).prop_map(|map| json!(map)),
        ]
    })
}

/// A turn: what was asked, what the model wrote, and, if it called tools, what they answered.
fn turn() -> impl Strategy<Value = Vec<HistoryEntry>> {
    let call = (value(), text(), any::<bool>());
    let (calls, blocks) = (proptest::collection::vec(call, 0..3), proptest::collection::vec(block(), 1..3));
    (text(), blocks, calls, time()).prop_map(|(asked, mut content, calls, created_at)| {
        let entry = |role, content| HistoryEntry { role, content, created_at };
        let mut turn = vec![entry(Role::User, vec![Block::text(asked)])];
        let mut results = Vec::new();
        for (nth, (argument, answer, is_error)) in calls.into_iter().enumerate() {
            let (id, name) = (format!("call_{nth}"), "book".to_owned());
            results.push(Block::ToolResult { tool_use_id: id.clone(), content: answer, is_error });
            content.push(Block::ToolUse { id, name, input: json!({"of": argument}), raw: None });
        }
        turn.push(entry(Role::Assistant, content));
        turn.extend((!results.is_empty()).then(|| entry(Role::User, results)));
        turn
    })
}

fn message() -> impl Strategy<Value = ThreadMessage> {
    let who = prop_oneof![
        Just((Source::User, MessageType::Text)),
        Just((Source::Agent, MessageType::Text)),
        Just((Source::Agent, MessageType::Tool)),
        Just((Source::Error, MessageType::Text)),
    ];
    (who, text(), value(), time()).prop_map(|((source, message_type), content, metadata, created_at)| {
        let metadata = serde_json::Map::from_iter([("of".to_owned(), metadata)]);
        let content = format!("said: {content}");
        ThreadMessage { source, message_type, content, metadata, created_at }
    })
}

fn conversation() -> impl Strategy<Value = Conversation> {
    let turns = proptest::collection::vec(turn(), 0..6);
    let messages = proptest::collection::vec(message(), 0..8);
    let kept = proptest::collection::vec((text(), time(), time()), 0..4);
    (turns, messages, kept, any::<prop::sample::Index>()).prop_map(|(turns, messages, kept, closed)| {
        let closed = if turns.is_empty() { 0 } else { closed.index(turns.len()) };
        let closed_entries = turns[..closed].iter().map(Vec::len).sum();
        let note = |(content, created_at, updated_at): &(String, _, _)| KeptNote {
            title: "a note".to_owned(),
            content: content.clone(),
            created_at: *created_at,
            updated_at: *updated_at,
        };
        let learning = |(content, created_at, updated_at): &(String, _, _)| KeptLearning {
            content: content.clone(),
            created_at: *created_at,
            updated_at: *updated_at,
        };
        let unsealed = Conversation {
            format: Format,
            version: Version,
            kind: "goal".to_owned(),
            title: "Tokyo".to_owned(),
            description: String::new(),
            tools: Some(vec!["create_note".to_owned()]),
            messages,
            history: turns.into_iter().flatten().collect(),
            closed_entries,
            digests: None,
            notes: kept.iter().map(note).collect(),
            learnings: kept.iter().map(learning).collect(),
            sessions: Vec::new(),
        };
        unsealed.sealed()
    })
}

/// Makes a goal of it, and reads it again.
async fn through(fresh: &Fresh, document: &Conversation) -> Conversation {
    let (id, user): (AgentableId, _) =
        (fresh.ids.next(), { fresh.store.agentable(fresh.tenant, "goal", fresh.goal).await.unwrap().user });
    let agentable = NewAgentable {
        id,
        user,
        kind: "goal",
        title: &document.title,
        description: &document.description,
        status: None,
        tools: document.tools.as_deref(),
        created_at: fresh.ids.clock().now(),
    };
    let new = NewConversation { agentable, conversation: document, run: fresh.ids.next(), origin: None };
    fresh.store.create_conversation(fresh.tenant, &new, &fresh.ids, None, &Value::Null).await.unwrap();
    let agentable = fresh.store.agentable(fresh.tenant, "goal", id).await.unwrap();
    let reading = Reading { until: None, knowledge: true, max_bytes: usize::MAX };
    fresh.store.conversation(fresh.tenant, &agentable, &reading).await.unwrap()
}

#[tokio::test]
async fn whatever_is_imported_is_exported_as_the_same_document() {
    let fresh = Fresh::start().await;
    let mut runner = TestRunner::deterministic();
    for _ in 0..40 {
        let document = conversation().new_tree(&mut runner).unwrap().current();
        assert_eq!(document.check(), Ok(()), "{document:#?}");
        let exported = through(&fresh, &document).await;
        assert_eq!(exported, document);
        assert_eq!(exported.check(), Ok(()));
    }
    let events = "select count(*) from (select agentable_id, max(seq) - count(*) as gap from houston.events
                    group by 1) as e join houston.run_locks l using (agentable_id) where e.gap <> 0";
    assert_eq!(fresh.sql(events).trim(), "0", "their streams have no gap");
}

/// Ends the open run.
async fn end(fresh: &Fresh) -> i64 {
    use houston_domain::event::Event;
    use houston_domain::model::Usage;
    use houston_domain::run::RunStatus;
    let claimed = fresh.claim().await.unwrap();
    let status = RunStatus::Completed;
    let (iteration, message, code) = (Some(1), None, None);
    let event = Event::RunFinished { status, iteration, usage: Usage::default(), message, code };
    let ending = Ending { status, next_run: fresh.ids.next(), error_code: None, error_message: None };
    let step = fresh.step(&claimed, Then::End { event, ending });
    let Commit::Done(_) = fresh.store.commit(&claimed.fence, &step).await.unwrap() else {
        panic!("not ended")
    };
    fresh.store.standing(fresh.tenant, fresh.goal).await.unwrap().session.entries
}

#[tokio::test]
async fn a_message_that_races_resets_is_never_lost_and_begins_the_new_session() {
    let fresh = Fresh::start().await;
    let mut closed = 0;
    for round in 0..10 {
        fresh.post("hello").await;
        end(&fresh).await;
        let resets =
            join_all((0..8).map(|_| fresh.store.reset(fresh.tenant, fresh.goal, false, fresh.ids.next())));
        let (resets, posted) = tokio::join!(resets, fresh.try_post("still there?", None));
        posted.unwrap();
        let mut emptied = 0;
        for reset in resets {
            match reset {
                Ok(done) => emptied += done.closed_entries,
                // The message came first, and opened a run.
                Err(Error::RunOpen { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
        closed += emptied;
        let standing = fresh.store.standing(fresh.tenant, fresh.goal).await.unwrap();
        assert_eq!(standing.unread, 1, "round {round}");
        let entries = end(&fresh).await;
        assert!(entries >= 1, "round {round}: what was posted is in the session that is open");
        let done = fresh.store.reset(fresh.tenant, fresh.goal, false, fresh.ids.next()).await.unwrap();
        closed += done.closed_entries;
        assert_eq!(done.closed_entries, entries, "round {round}");
    }
    assert_eq!(closed, 20, "each entry was closed once");
}
