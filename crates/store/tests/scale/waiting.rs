//! Ten thousand runs that wait for approvals: what each costs, and that the others' work does not grow with them.

use chrono::DateTime;
use houston_domain::event::Event;
use houston_domain::id::{MessageId, QuestionId};
use houston_domain::question::approval::{Approval, answer_schema, arguments};
use houston_domain::question::{NewQuestion, QuestionKind};
use houston_store::{Config, Store};
use houston_testkit::database::TestDatabase;
use houston_testkit::seed_data::SeedData;
use serde_json::{Value, json};

use crate::case::{Case, case, id};
use crate::plan::{Touched, execute, psql, queries};
use crate::scale::filled;

const WAITING: u32 = 10_000;
/// The most bytes of rows and indexes that a run may take because it waits.
const MOST_BYTES: u64 = 2_048;
/// Runs that one sweep may wake, as in `jobs/orchestrator.toml`.
const PAGE: usize = 500;

/// A question about a call of usual size, to a tool with a schema like that of `http_request`.
fn question() -> NewQuestion {
    let text = |description: &str| json!({"type": "string", "description": description});
    let schema = json!({
        "type": "object",
        "properties": {
            "method": {"type": "string", "enum": ["GET", "POST", "PUT", "PATCH", "DELETE"]},
            "url": text("The address, with https://."),
            "headers": {"type": "object", "additionalProperties": {"type": "string"}},
            "body": text("What is sent."),
        },
        "required": ["method", "url"],
        "additionalProperties": false,
    });
    let input = json!({"method": "POST", "url": "https://api.example.com/v1/bookings",
                       "body": "{\"hotel\": \"Granvia Kyoto\", \"from\": \"2026-12-01\", \"nights\": 4}"});
    NewQuestion {
        id: QuestionId(uuid::Uuid::nil()),
        kind: QuestionKind::Approval,
        subject: Some("call_0190a2b3c4d5e6f7a8b9".into()),
        text: "May I call http_request? It sends something out.".into(),
        schema: Some(answer_schema(&schema, true)),
        default_value: None,
        expires_at: DateTime::from_timestamp(4_000_000_000, 0),
        approval: Some(Box::new(Approval {
            tool: "http_request".into(),
            input,
            why: "it sends something out".into(),
            message_id: Some(MessageId(uuid::Uuid::nil())),
            preview: None,
            lasting: true,
            pin: None,
        })),
        message_id: None,
    }
}

/// Lets goals that have ended their run wait for an answer instead: what the step that asks writes.
fn wait(goals: std::ops::Range<u32>) -> String {
    let asked = question();
    // The schema of an approval's answer is stored as that of the tool's arguments.
    let mut approval = serde_json::to_value(&asked.approval).unwrap();
    approval["arguments"] = arguments(asked.schema.as_ref().unwrap()).unwrap().clone();
    let waiting_event = serde_json::to_string(&Event::RunWaiting { until: None, iteration: 1 }).unwrap();
    let quoted = |value: &Value| format!("'{}'", value.to_string().replace('\'', "''"));
    format!(
        "create temporary table w as
         select k.agentable_id, k.tenant_id, k.user_id, k.run_id, k.last_seq,
                ('01900000-0009-7000-8000' || right(k.agentable_id::text, 13))::uuid as question
           from houston.run_locks k
          where k.agentable_id >= {from} and k.agentable_id < {to};
         update houston.runs r set status = 'waiting', asked = true, ended_at = null, last_seq = null
           from w where r.id = w.run_id;
         update houston.run_locks k set run_open = true, last_seq = k.last_seq + 2, holder = null
           from w where k.agentable_id = w.agentable_id;
         insert into houston.questions (id, tenant_id, user_id, agentable_id, run_id, kind, subject, text, expires_at, approval)
         select question, tenant_id, user_id, agentable_id, run_id, 'approval', '{subject}', '{text}',
                now() + interval '1 day', {approval} from w;
         insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, data)
         select agentable_id, last_seq + n, tenant_id, run_id, 1,
                case n when 1 then jsonb_build_object('type', 'question_asked',
                                                      'question_id', 'question_' || replace(question::text, '-', ''))
                       else '{waiting_event}' end
           from w, generate_series(1, 2) n;
         drop table w; vacuum analyze;",
        from = id("goal", goals.start),
        to = id("goal", goals.end),
        subject = asked.subject.as_deref().unwrap(),
        text = asked.text,
        approval = quoted(&approval),
    )
}

fn question_of(goal: u32) -> String {
    format!("'01900000-0009-7000-8000-{goal:012x}'")
}

/// What is executed while runs wait: the sweep, and what closes one question.
fn cases() -> Vec<Case> {
    let (goal, tenant) = (id("goal", 3), id("tenant", 0));
    let (question, nil) = (question_of(3), "'00000000-0000-0000-0000-000000000000'");
    let ids = format!("array[{question}]::uuid[]");
    let lock = case("store::answer::lock", "", &[&tenant, &question], &[], [0, 0]);
    vec![
        case("store::sweep::due", "", &[nil, "500", "10"], &[], [0, 0]),
        case("store::sweep::wake_waiting", "", &["500"], &[], [0, 0]),
        case("store::sweep::orphans", "", &["500"], &[], [0, 0]),
        case("store::question::is_due", "", &[], &[], [0, 0]),
        case("store::question::due", "", &["500"], &[], [0, 0]),
        case("store::answer::get", "", &[&tenant, &question], &[], [0, 0]),
        lock,
        case("store::question::close", "", &[&ids, "'answered'", "'true'", "'Ann'"], &[], [0, 0]),
        case("store::question::count_open", "", &[&ids], &[], [0, 0]),
        case("store::system_message::lock", "a message to one that waits", &[&goal], &[], [0, 0]),
    ]
}

fn touched(database: &TestDatabase) -> Vec<(&'static str, Touched)> {
    let queries = queries();
    let cases = cases();
    cases
        .iter()
        .map(|case| (case.name, execute(database, &queries[case.name], case, "force_generic_plan")))
        .collect()
}

fn bytes(database: &TestDatabase) -> u64 {
    let size = "select sum(pg_total_relation_size(c.oid)) from pg_class c join pg_namespace n on n.oid = c.relnamespace
                 where n.nspname = 'houston' and c.relname in ('questions', 'events')";
    database.sql(size).unwrap().trim().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_waiting_runs_cost_little_and_slow_nothing() {
    let seed = SeedData { agentables: WAITING + 500, runs: 1, waiting: 0, driven: 0, workers: 8 };
    let database = filled(&seed.script());
    psql(&database, &wait(0..10));
    let (few, before) = (touched(&database), bytes(&database));
    psql(&database, &wait(10..WAITING));
    let each = (bytes(&database) - before) / u64::from(WAITING - 10);
    println!("{each} bytes for each waiting run");
    for ((name, few), (_, many)) in few.iter().zip(touched(&database)) {
        println!("{name:<34}{:>6}{:>8}{:>6}{:>8}", few.rows, few.blocks, many.rows, many.blocks);
        assert!(many.rows <= few.rows + 1, "{name}: {} rows, {} with few", many.rows, few.rows);
        // An index over ten thousand entries has a level more, and a question is in five.
        assert!(many.blocks <= few.blocks + 5, "{name}: {} blocks, {} with few", many.blocks, few.blocks);
    }
    assert!(each <= MOST_BYTES, "{each} bytes for each waiting run");

    let config = Config {
        url: database.url().to_owned(),
        connections: houston_store::Sizes::ones(),
        acquire_timeout: std::time::Duration::from_secs(30),
    };
    let store = Store::open(&config).unwrap();
    let held = "select count(*) from houston.run_locks k join houston.runs r on r.id = k.run_id
                 where r.status = 'waiting' and (k.holder is not null or k.wake or r.held_for is not null)";
    assert_eq!(database.sql(held).unwrap().trim(), "0", "no lock, no slot, no reason to run");
    assert_eq!(store.runs().due(None, 500).await.unwrap().due, []);

    // All of them expire at once: each sweep closes a page of them and leaves the rest.
    psql(
        &database,
        "update houston.questions set expires_at = now() - interval '1 hour' where state = 'open'",
    );
    let page = i64::try_from(PAGE).unwrap();
    for sweep in 1..=3 {
        assert_eq!(store.runs().expire_questions(page).await.unwrap(), PAGE);
        let open = database.sql("select count(*) from houston.questions where state = 'open'").unwrap();
        assert_eq!(open.trim().parse::<usize>().unwrap(), WAITING as usize - sweep * PAGE);
    }
    assert!(!store.runs().due(None, page).await.unwrap().due.is_empty(), "those that were closed go on");
    store.close().await;
}
