//! Conversations as documents, and resets that race with posts.

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::join_all;
use houston_domain::compression::CompressionReason;
use houston_domain::conversation::{
    ClosedSession, Conversation, ExportedCompression, ExportedFile, ExportedLearning, ExportedNote,
    ExportedQuestion, ExportedResult, FORMAT, HistoryEntry, SummarySource, ThreadMessage, VERSION,
};
use houston_domain::history::{Block, RawBlock, Role};
use houston_domain::id::{AgentableId, ResultId};
use houston_domain::knowledge::PromptLimits;
use houston_domain::message::{MessageType, Source};
use houston_domain::question::{QuestionKind, QuestionState};
use houston_domain::session::CompletionReason;
use houston_domain::step::{Ending, RunTransition};
use houston_store::Error;
use houston_store::agentable::NewAgentable;
use houston_store::conversation::{ExportOptions, NewConversation};
use houston_store::step::Commit;
use houston_testkit::event_stream::EVENTS;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::test_store::TestStore;

/// Any text that Postgres can store.
fn text() -> impl Strategy<Value = String> {
    proptest::string::string_regex("[a-zäß€😀\"\\\\ \n<&]{1,30}").unwrap()
}

fn time() -> impl Strategy<Value = DateTime<Utc>> {
    (0..1_000_000_000_000_i64).prop_map(|micros| DateTime::UNIX_EPOCH + TimeDelta::microseconds(micros))
}

fn raw() -> impl Strategy<Value = RawBlock> {
    let json = prop_oneof![
        Just("{\"type\":\"thinking\",\"z\":1.10, \"a\":[ ]}"),
        Just("{\"s\":\"s\\u00e4\",\"type\":\"compaction\"}"),
        Just("{\"type\":\"thinking\",\"x\":{\"b\":1,\"a\":2,\"b\":3}}"),
    ];
    json.prop_map(|json| RawBlock::new("anthropic", "anthropic", json))
}

/// A block that a model may write before its tool calls.
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

/// A turn: the user's entry, the model's, and the results if it called tools.
fn turn() -> impl Strategy<Value = Vec<HistoryEntry>> {
    let call = (value(), text(), any::<bool>());
    let (calls, blocks) = (proptest::collection::vec(call, 0..3), proptest::collection::vec(block(), 1..3));
    (text(), blocks, calls, time()).prop_map(|(asked, mut content, calls, created_at)| {
        let entry = |role, content| HistoryEntry { role, content, created_at };
        let mut turn = vec![entry(Role::User, vec![Block::text(asked)])];
        let mut results = Vec::new();
        for (nth, (argument, answer, is_error)) in calls.into_iter().enumerate() {
            let (id, name) = (format!("call_{nth}"), "book".to_owned());
            results.push(Block::ToolResult {
                tool_use_id: id.clone(),
                content: answer,
                is_error,
                code: None,
            });
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

/// A closed question; with an answer if it was answered.
fn question() -> impl Strategy<Value = ExportedQuestion> {
    use QuestionState::{Answered, Cancelled, Expired, Superseded};
    let asked = (text(), proptest::option::of(text()), proptest::option::of(value()), time(), time());
    let state = proptest::sample::select(vec![Answered, Expired, Superseded, Cancelled]);
    let closed = (state, prop_oneof![Just(Value::Null), value()], text());
    let expires_at = proptest::option::of(time());
    (asked, closed, expires_at).prop_map(|(asked, (state, answer, by), expires_at)| {
        let (text, subject, default_value, created_at, closed_at) = asked;
        let is_answered = state == Answered;
        ExportedQuestion {
            kind: QuestionKind::Input,
            subject,
            text: format!("asked: {text}"),
            schema: expires_at.map(|_| json!({"type": ["string", "null"]})),
            default_value,
            expires_at,
            state,
            answer: is_answered.then_some(answer),
            answered_by: is_answered.then(|| format!("Ann {by}")),
            created_at,
            closed_at,
            approval: None,
        }
    })
}

/// How a history is divided into sessions: which turns end one, and whether its summary is pending.
#[derive(Debug, Clone)]
struct Past {
    ends: Vec<(bool, bool, String)>,
    times: Vec<DateTime<Utc>>,
    compressed: Vec<(bool, String, DateTime<Utc>)>,
    results: Vec<(u128, String)>,
}

fn past() -> impl Strategy<Value = Past> {
    let ends = proptest::collection::vec((any::<bool>(), any::<bool>(), text()), 6);
    let times = proptest::collection::vec(time(), 12);
    let compressed = proptest::collection::vec((any::<bool>(), text(), time()), 6);
    let results = proptest::collection::vec((any::<u128>(), text()), 0..3);
    (ends, times, compressed, results).prop_map(|(ends, mut times, compressed, mut results)| {
        times.sort_unstable();
        results.sort_unstable();
        Past { ends, times, compressed, results }
    })
}

impl Past {
    /// Sessions that end with some of the turns.
    fn sessions(&self, turns: &[Vec<HistoryEntry>]) -> Vec<ClosedSession> {
        let (mut sessions, mut first, mut last) = (Vec::new(), 1, 0);
        for (turn, (ends, pending, summary)) in turns.iter().zip(&self.ends) {
            last += turn.len();
            if !ends {
                continue;
            }
            let counted = |count: u32| (!pending).then_some(count);
            let source = if *pending { SummarySource::Extract } else { SummarySource::Model };
            sessions.push(ClosedSession {
                first_position: first,
                last_position: last,
                completion_reason: CompletionReason::Reset,
                summary: format!("They said: {summary}"),
                summary_source: source,
                pending: *pending,
                message_count: counted(1),
                token_count: counted(40).map(u64::from),
                started_at: self.times[2 * sessions.len()],
                completed_at: self.times[2 * sessions.len() + 1],
            });
            first = last + 1;
        }
        sessions
    }

    /// A summary after some of the turns.
    fn compressions(&self, turns: &[Vec<HistoryEntry>]) -> Vec<ExportedCompression> {
        let mut through_position = 0;
        let compressions =
            turns.iter().zip(&self.compressed).filter_map(|(turn, (is_compressed, summary, created_at))| {
                through_position += turn.len();
                is_compressed.then(|| ExportedCompression {
                    through_position,
                    summary: format!("Before that: {summary}"),
                    reason: CompressionReason::ContextLength,
                    entries_before: 40,
                    entries_after: 10,
                    tokens_before: 28_000,
                    tokens_after: 9_000,
                    model: Some("fake/model".to_owned()),
                    cost: Some("0.010".parse().unwrap()),
                    created_at: *created_at,
                })
            });
        compressions.collect()
    }

    /// Large results, which the first entry names.
    fn results(&self, history: &mut [HistoryEntry]) -> Vec<ExportedResult> {
        let Some(first) = history.first_mut() else { return Vec::new() };
        let result = |(id, content): &(u128, String)| ExportedResult {
            id: ResultId(uuid::Uuid::from_u128(*id)),
            call_id: "call_0".to_owned(),
            tool: "book".to_owned(),
            content: content.clone(),
            created_at: first.created_at,
        };
        let results: Vec<ExportedResult> = self.results.iter().map(result).collect();
        first.content.extend(results.iter().map(|result| Block::text(format!("kept as {}.", result.id))));
        results
    }
}

pub(crate) fn conversation() -> impl Strategy<Value = Conversation> {
    let turns = proptest::collection::vec(turn(), 0..6);
    let messages = proptest::collection::vec(message(), 0..8);
    let items = proptest::collection::vec((text(), time(), time()), 0..4);
    let questions = proptest::collection::vec(question(), 0..3);
    (turns, messages, items, past(), questions).prop_map(|(turns, messages, items, past, questions)| {
        let note = |(content, created_at, updated_at): &(String, _, _)| ExportedNote {
            title: "a note".to_owned(),
            content: content.clone(),
            created_at: *created_at,
            updated_at: *updated_at,
        };
        let learning = |(content, created_at, updated_at): &(String, _, _)| ExportedLearning {
            content: content.clone(),
            created_at: *created_at,
            updated_at: *updated_at,
        };
        let file = |(nth, (content, created_at, updated_at)): (usize, &(String, _, _))| ExportedFile {
            path: format!("notes/{nth} ä.md"),
            content: content.clone(),
            created_at: *created_at,
            updated_at: *updated_at,
        };
        let (sessions, compressions) = (past.sessions(&turns), past.compressions(&turns));
        let mut history: Vec<HistoryEntry> = turns.into_iter().flatten().collect();
        let results = past.results(&mut history);
        let without_digests = Conversation {
            format: FORMAT.to_owned(),
            version: VERSION,
            kind: "goal".to_owned(),
            title: "Tokyo".to_owned(),
            description: String::new(),
            tools: Some(vec!["create_note".to_owned()]),
            messages,
            history,
            digests: None,
            notes: items.iter().map(note).collect(),
            learnings: items.iter().map(learning).collect(),
            sessions,
            compressions,
            results,
            questions,
            files: items.iter().enumerate().map(file).collect(),
            untrusted: true,
            seal: None,
        };
        without_digests.with_digests()
    })
}

/// Imports the document as a goal.
pub(crate) async fn imported(test: &TestStore, document: &Conversation) -> AgentableId {
    let (id, user): (AgentableId, _) =
        (test.ids.next(), { test.requests().agentable("goal", test.goal).await.unwrap().user });
    let agentable = NewAgentable {
        id,
        user,
        kind: "goal",
        title: &document.title,
        description: &document.description,
        status: None,
        tools: document.tools.as_deref(),
        created_at: test.ids.clock().now(),
    };
    let (digest, run) = (Some(document.digest()), test.ids.next());
    let new = NewConversation { agentable, conversation: document, digest, run, origin: None };
    test.requests().create_conversation(&new, &test.ids, (None, &Value::Null)).await.unwrap();
    id
}

/// Imports the document and exports it again.
pub(crate) async fn round_trip(test: &TestStore, document: &Conversation) -> Conversation {
    let id = imported(test, document).await;
    exported(test, id).await
}

pub(crate) async fn exported(test: &TestStore, id: AgentableId) -> Conversation {
    let agentable = test.requests().agentable("goal", id).await.unwrap();
    let options = ExportOptions { until: None, knowledge: true, max_bytes: usize::MAX };
    test.requests().conversation(&agentable, &options).await.unwrap()
}

#[tokio::test]
async fn export_of_an_import_is_the_same_document() {
    let test = TestStore::start().await;
    let mut runner = TestRunner::deterministic();
    for _ in 0..40 {
        let document = conversation().new_tree(&mut runner).unwrap().current();
        assert_eq!(document.check(), Ok(()), "{document:#?}");
        let exported = round_trip(&test, &document).await;
        assert!(exported.seal.is_some());
        assert_eq!(exported.check(), Ok(()));
        assert_eq!(round_trip(&test, &exported).await, exported, "with its seal");
        assert_eq!(Conversation { seal: None, ..exported }, document);
    }
    let events = format!(
        "select count(*) from (select agentable_id, max(seq) - count(*) as gap from ({EVENTS}) e
           group by 1) as e join houston.run_locks l using (agentable_id) where e.gap <> 0"
    );
    assert_eq!(test.sql(&events).trim(), "0", "their streams have no gap");
    let lost = "select count(*) from houston.sessions
                 where summary_due_at is null
                   and (search @@ format('''@%s'' & they & said', agentable_id)::tsquery) is not true";
    assert_eq!(test.sql(lost).trim(), "0", "each session with a summary can be found by it");
    let sessions = "select count(*) > 20, count(summary_due_at) > 5 from houston.sessions";
    assert_eq!(test.sql(sessions).trim(), "t|t", "the documents had sessions");
    let answered = "select count(*) > 10, count(*) filter (where answer = 'null') > 0,
                           bool_and(run_id in (select id from houston.runs where status = 'completed'))
                      from houston.questions where state = 'answered'";
    assert_eq!(test.sql(answered).trim(), "t|t|t", "the documents had answers, null among them");
    let compressed = "select count(*) from houston.compressions c join houston.run_locks l using (agentable_id)
                       where c.through_position > l.session_position and c.session_position <> l.session_position";
    assert_eq!(test.sql(compressed).trim(), "0", "compressions of the open session belong to it");
}

#[tokio::test]
async fn import_continues_after_its_compression() {
    let test = TestStore::start().await;
    let mut runner = TestRunner::deterministic();
    let drawn = || conversation().new_tree(&mut runner).ok().map(|tree| tree.current());
    // A document whose open session is partly compressed.
    let fits = |document: &Conversation| {
        let newest = document.compressions.last().map_or(0, |newest| newest.through_position);
        newest > document.closed_entry_count()
            && newest < document.history.len()
            && document.closed_entry_count() > 0
    };
    let document = std::iter::from_fn(drawn).take(2_000).find(fits).unwrap();
    let agentable = imported(&test, &document).await;
    let run = test.ids.next();
    let context = test.runs().run_context(agentable, run, 20, &PromptLimits::default()).await.unwrap();
    let newest = document.compressions.last().unwrap();
    assert_eq!(context.summary.as_deref(), Some(newest.summary.as_str()));
    let behind: Vec<_> =
        document.history[newest.through_position..].iter().map(HistoryEntry::entry).collect();
    assert_eq!(context.history, behind, "models are sent the summary and what comes after it");
    assert_eq!(context.sessions.len(), document.sessions.len().min(5));
}

/// Ends the open run.
async fn end(test: &TestStore) -> i64 {
    use houston_domain::event::Event;
    use houston_domain::model::Usage;
    use houston_domain::run::RunStatus;
    let claimed = test.claim().await.unwrap();
    let status = RunStatus::Completed;
    let (iteration, message, code) = (Some(1), None, None);
    let event =
        Event::RunFinished { status, iteration, usage: Usage::default(), message, code, result: None };
    let ending = Ending { status, error_code: None, error_message: None };
    let step = test.step(&claimed, RunTransition::Terminate { event, ending });
    let Commit::Done(_) = test.runs().commit(&claimed.fence, &step).await.unwrap() else {
        panic!("not ended")
    };
    test.requests().state(test.goal).await.unwrap().session.entries
}

#[tokio::test]
async fn message_racing_with_resets_begins_the_new_session() {
    let test = TestStore::start().await;
    let mut closed = 0;
    for round in 0..10 {
        test.post("hello").await;
        end(&test).await;
        let resets = join_all((0..8).map(|_| test.requests().reset(test.goal, false, test.ids.next())));
        let (resets, posted) = tokio::join!(resets, test.try_post("still there?", None));
        posted.unwrap();
        let mut emptied = 0;
        for reset in resets {
            match reset {
                Ok(done) => emptied += done.closed_entries,
                // The message came first, and opened a run.
                Err(Error::RunInProgress { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
        closed += emptied;
        let state = test.requests().state(test.goal).await.unwrap();
        assert_eq!(state.unread, 1, "round {round}");
        let entries = end(&test).await;
        assert!(entries >= 1, "round {round}: the message is in the open session");
        let done = test.requests().reset(test.goal, false, test.ids.next()).await.unwrap();
        closed += done.closed_entries;
        assert_eq!(done.closed_entries, entries, "round {round}");
    }
    assert_eq!(closed, 20, "each entry was closed once");
}
