//! What a turn writes and leaves behind, in bytes: a message of 250 bytes and an answer of 250 bytes, in batches.

use futures_util::future::join_all;
use houston_domain::event::Event;
use houston_domain::history::{Block, Entry};
use houston_domain::id::AgentableId;
use houston_domain::knowledge::PromptLimits;
use houston_domain::message::{MessageType, Source};
use houston_domain::model::Usage;
use houston_domain::run::RunStatus;
use houston_domain::step::{ModelCall, NewMessage, RunTransition, Step};
use houston_store::claim::ClaimedRun;
use serde_json::json;

use crate::batches::commit_all;
use crate::step::{done, ending};
use crate::test_store::{TestStore, goal};

/// Conversations, each of another user.
const GOALS: usize = 64;
/// Turns of each conversation that are measured.
const TURNS: usize = 32;

/// The step that ends a run with an answer, as the engine writes it.
fn answered(test: &TestStore, claimed: &ClaimedRun) -> Step {
    let text = "It rains there. ".repeat(16)[..250].to_owned();
    let usage = Usage { input_tokens: 900, output_tokens: 63, ..Usage::default() };
    let priced = Usage { cost: Some("0.0012".parse().unwrap()), ..usage };
    let event = |usage| Event::RunFinished {
        status: RunStatus::Completed,
        iteration: Some(1),
        usage,
        message: None,
        code: None,
        result: None,
    };
    let mut step = test.step(
        claimed,
        RunTransition::Complete {
            event: event(priced),
            continue_event: Event::StepFinished { iteration: 1, next_message_id: test.ids.next() },
            ending: ending(RunStatus::Completed),
        },
    );
    step.entries.push(Entry::assistant(vec![Block::text(text.clone())]));
    step.events.push(Event::MessageSent { message_id: claimed.next_message });
    step.messages.push(NewMessage {
        id: claimed.next_message,
        event: 0,
        source: Source::Agent,
        message_type: MessageType::Text,
        content: text,
        metadata: json!({}),
    });
    step.usage = usage;
    step.model = Some("openai/gpt-5-mini".into());
    step.call = Some(ModelCall {
        provider: "openai".into(),
        model: "gpt-5-mini".into(),
        iteration: 1,
        usage: priced,
        estimated: false,
        reported: false,
        timing: None,
    });
    step
}

/// One turn of each conversation, half of them at once.
async fn turns(test: &TestStore, goals: &[AgentableId]) {
    let question =
        "Tell me something about the weather on the way to the moon, please. ".repeat(4)[..250].to_owned();
    for goals in goals.chunks(GOALS / 2) {
        let posted = join_all(goals.iter().map(|goal| test.post_to(*goal, &question))).await;
        assert!(posted.iter().all(Result::is_ok));
        let claimed = join_all(goals.iter().map(|goal| test.claim_of(*goal))).await;
        let claimed: Vec<ClaimedRun> = claimed.into_iter().map(Option::unwrap).collect();
        let limits = PromptLimits::default();
        let contexts = join_all(
            claimed.iter().map(|run| test.runs().run_context(run.fence.agentable, run.run, 10, &limits)),
        );
        assert!(contexts.await.iter().all(|context| context.is_ok()));
        let steps: Vec<_> = claimed.iter().map(|run| (run.fence, answered(test, run))).collect();
        for result in commit_all(test, &steps).await {
            done(result.unwrap());
        }
    }
}

/// Bytes of WAL, and of tables with their indexes.
fn bytes(test: &TestStore) -> [i64; 2] {
    let row = test.sql(
        "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint,
                (select sum(pg_total_relation_size(c.oid)) from pg_class c
                  where c.relnamespace = 'houston'::regnamespace and c.relkind = 'r')",
    );
    let (wal, stored) = row.trim().split_once('|').unwrap();
    [wal, stored].map(|bytes| bytes.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "writes thousands of turns; `cargo xtask test --long`, a part of `cargo xtask evidence`"]
async fn turn_writes_and_leaves_few_bytes() {
    let test = TestStore::start_with_own_postgres().await;
    // Copies of pages after a checkpoint belong to the checkpoint and not to the turn.
    for setting in ["full_page_writes = off", "autovacuum = off"] {
        sqlx::raw_sql(sqlx::AssertSqlSafe(format!("alter system set {setting}")))
            .execute(&sqlx::PgPool::connect(test.database.url()).await.unwrap())
            .await
            .unwrap();
    }
    test.sql("select pg_reload_conf()");
    let mut goals = Vec::new();
    for _ in 0..GOALS {
        goals.push(goal(&test.store, &test.ids, test.tenant).await);
    }
    for _ in 0..4 {
        turns(&test, &goals).await;
    }
    let before = bytes(&test);
    for _ in 0..TURNS {
        turns(&test, &goals).await;
    }
    let after = bytes(&test);
    let [wal, stored] = [0, 1].map(|of| (after[of] - before[of]) / i64::try_from(GOALS * TURNS).unwrap());
    println!("{wal} bytes of WAL and {stored} stored bytes per turn");
    assert!(stored <= 2_662, "{stored} bytes per turn");
    // 4.5 KiB, and 12 bytes since model calls have the times that the model took.
    assert!(wal <= 4_620, "{wal} bytes of WAL per turn");
}
