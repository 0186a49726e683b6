//! Cases about plans: a plan is made once, each of its steps ends once, and its end is reported once.

use std::time::{Duration, Instant};

use houston_testkit::model_server::{Call, Reply};
use houston_testkit::tool_ledger::ToolLedger;
use serde_json::{Value, json};

use crate::case::{Action, CrashPoint};
use crate::client::Client;
use crate::crash_server::{CrashServer, PATIENCE};
use crate::guarantees;
use crate::scenario::{message, messages, wake};
use crate::tasks_and_feeds::settled;
use crate::tools::{LOOK_UP, SEND_LETTER};

/// The goal's message after its plan has ended.
const PLAN_DONE: &str = "The plan is done.";
/// The operations of the plan's tools.
const LETTER: &str = "letter of a plan";
const SEEN: &str = "seen by a plan";

pub(crate) fn is_about_plans(point: CrashPoint) -> bool {
    use CrashPoint::{C27, C28, C29, C30, C31, C32, C33};
    matches!(point, C27 | C28 | C29 | C30 | C31 | C32 | C33)
}

/// The model's answers in these cases.
pub(crate) fn reply(call: &Call, said: &str) -> Option<Reply> {
    let system = call.system();
    if system.starts_with("A step of a plan failed") {
        return Some(Reply::text(change().to_string()));
    }
    if call.tools().is_empty() && system.starts_with("You carry out one step of a plan") {
        return Some(Reply::text("Summed up."));
    }
    if said.starts_with("<plan_ended") {
        return Some(Reply::tool("send_message", json!({"content": PLAN_DONE})));
    }
    let point = said.strip_prefix("This is case C")?.split('-').next()?.parse::<u32>().ok()?;
    (27..=33).contains(&point).then(|| Reply::tool("create_plan", plan(point)))
}

/// An executor and a call that may be repeated, side by side; then one that may not, and a model. At C31, a step fails first.
fn plan(point: u32) -> Value {
    let look = |id: &str, ms: u64| json!({"id": id, "type": "tool", "title": "Look", "tool": LOOK_UP, "args": {"name": SEEN, "ms": ms}});
    let mut steps = vec![
        json!({"id": "work", "type": "task", "title": "Work", "instructions": "Carry out: this"}),
        look("seen", if point == 33 { 4_000 } else { 700 }),
        json!({"id": "letter", "type": "tool", "title": "Write", "tool": SEND_LETTER, "after": ["work", "seen"],
               "args": {"name": LETTER, "ms": 100}}),
        json!({"id": "sum", "type": "llm", "title": "Sum up", "prompt": "Sum up {{ letter.result }}"}),
    ];
    if point == 31 {
        let id = "note_00000000000000000000000000000000";
        steps.push(json!({"id": "read", "type": "tool", "title": "Read", "tool": "read_note",
                          "args": {"note_id": id}, "after": ["sum"]}));
    }
    json!({"goal": "Four steps", "steps": steps, "output": "{{ sum.result }}"})
}

/// What becomes of the plan whose step failed.
fn change() -> Value {
    json!({"add": [{"id": "other", "type": "tool", "title": "Look", "tool": LOOK_UP, "args": {"name": SEEN}}],
           "output": "{{ other.status }}"})
}

/// A worker fails while it drives a plan; another one goes on.
pub(crate) async fn run(server: &mut CrashServer, client: &Client, goal: &str) {
    let faulty = if server.case.point == CrashPoint::C33 {
        let victim = server.work(false);
        client.post(&messages(goal), "the message", &message(server.case)).await;
        called(server, SEEN).await;
        // Before the other is started, which may take longer than the step.
        let process = server.process(&victim);
        tokio::task::block_in_place(|| process.kill()).unwrap();
        server.work(true)
    } else {
        let faulty = server.work(true);
        client.post(&messages(goal), "the message", &message(server.case)).await;
        faulty
    };
    server.wait_for_fault(&faulty);
    let since = Instant::now();
    server.work(false);
    let reports = format!("select count(*) from houston.messages where content = '{PLAN_DONE}'");
    settled(server, &reports, "1").await;
    if server.case.action == Action::Pause {
        wake(server, &faulty, since).await;
        settled(server, &reports, "1").await;
    }
    assert_eq!(server.faults(), 1, "a case injects one fault");
    ended_once(server);
    guarantees::rows(server);
}

/// Waits until a tool was called.
async fn called(server: &CrashServer, op: &str) {
    let deadline = Instant::now() + PATIENCE;
    while calls(server, op) == 0 {
        assert!(Instant::now() < deadline, "{op} was never called");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// How often a tool was called.
fn calls(server: &CrashServer, op: &str) -> usize {
    let executions = ToolLedger::open(server.ledger()).and_then(|ledger| ledger.executions());
    executions.map_or(0, |executions| executions.iter().filter(|one| one.call_id == op).count())
}

fn ended_once(server: &CrashServer) {
    let (replans, failed) = if server.case.point == CrashPoint::C31 { ("1", "1") } else { ("0", "0") };
    for (what, count) in [
        ("houston.plans", "1"),
        ("houston.plans where ended_at is not null and output is not null", "1"),
        ("houston.plans where replans = 1", replans),
        ("houston.agentables where kind = 'executor'", "1"),
        ("houston.messages where source = 'system' and content like '<plan_ended%'", "1"),
        ("houston.plan_steps where status not in ('succeeded', 'failed')", "0"),
        ("houston.plan_steps where status = 'failed'", failed),
        ("houston.plan_steps where outcome is not null", "0"),
        ("houston.plan_steps where path = 'letter' and attempt = 1", "1"),
        ("houston.run_locks where open_tasks <> 0", "0"),
        ("houston.runs where status not in ('completed', 'message_sent')", "0"),
    ] {
        assert_eq!(server.environment.sql(&format!("select count(*) from {what}")), count, "{what}");
    }
    let twice = "select string_agg(path || ' ' || status, ', ' order by path) from (
        select data ->> 'path' as path, data ->> 'status' as status from houston.events
         where data ->> 'type' = 'plan_step_finished' group by 1, 2 having count(*) > 1) as twice";
    assert_eq!(server.environment.sql(twice), "", "a step settles once");
    assert_eq!(calls(server, LETTER), 1, "what acts outside is done once");
}
