use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use houston_domain::agentable::DoubleTexting::Interrupt;
use houston_domain::check_in::{CheckInRequest, Moment};
use houston_domain::event::Event;
use houston_domain::history::{Block, Entry};
use houston_domain::id::{AgentableId, MessageId, RunId};
use houston_domain::knowledge::PromptLimits;
use houston_domain::mode::Mode;
use houston_domain::model::Usage;
use houston_domain::model_policy::Latency;
use houston_domain::run::RunStatus;
use houston_domain::step::{Ending, ModelCall, RunTransition, Step};
use houston_domain::task::NewTask;
use houston_store::check_in::CheckInRefusal;
use houston_store::claim::{ClaimedRun, CrashPolicy};
use houston_store::erasure::Target;
use houston_store::record::Owner;
use serde_json::json;

use crate::step::{ending, finished};
use crate::test_store::{ClaimRun as _, TestStore};

fn owner(claimed: &ClaimedRun) -> Owner {
    let ClaimedRun { tenant, user, run, .. } = *claimed;
    Owner { tenant, user, agentable: claimed.fence.agentable, run, untrusted: false }
}

/// Creates a task of the goal in a step of its own; `None` when the run is being cancelled.
pub(crate) async fn create(test: &TestStore, claimed: &ClaimedRun) -> houston_store::Result<Option<NewTask>> {
    create_as(test, claimed, owner(claimed), None).await
}

/// As [`create`], for a task whose result is needed so soon.
pub(crate) async fn create_within(
    test: &TestStore,
    claimed: &ClaimedRun,
    latency: Latency,
) -> houston_store::Result<Option<NewTask>> {
    create_as(test, claimed, owner(claimed), Some(latency)).await
}

/// As [`create`], for an owner that says what its session has read.
async fn create_as(
    test: &TestStore,
    claimed: &ClaimedRun,
    owner: Owner,
    latency: Option<Latency>,
) -> houston_store::Result<Option<NewTask>> {
    let task = NewTask {
        id: test.ids.next(),
        run: test.ids.next(),
        message: test.ids.next::<MessageId>(),
        kind: "task".into(),
        status: None,
        title: "Find <hotels>".into(),
        instructions: "Find hotels.".into(),
        tools: vec!["create_note".into()],
        output: None,
        latency,
        traceparent: None,
    };
    let mut tx = test.runs().begin_fenced(&claimed.fence).await?;
    let mut rows = test.rows(&mut tx, owner);
    let counts = rows.task_counts().await?;
    if !counts.is_cancelled {
        rows.create_task(task.clone(), counts.depth + 1).await?;
    }
    tx.commit(&test.step(claimed, RunTransition::Continue { read: false, event: None })).await?;
    Ok((!counts.is_cancelled).then_some(task))
}

async fn claim(test: &TestStore, agentable: AgentableId) -> Option<ClaimedRun> {
    let (token, message) = (test.ids.next(), test.ids.next());
    test.runs().claim_run(agentable, test.worker, token, message, CrashPolicy::default()).await.unwrap()
}

pub(crate) async fn end(
    test: &TestStore,
    claimed: &ClaimedRun,
    status: RunStatus,
) -> houston_store::Result<()> {
    let then = RunTransition::Terminate { event: finished(status), ending: ending(status) };
    test.runs().commit(&claimed.fence, &test.step(claimed, then)).await.map(drop)
}

async fn history(test: &TestStore) -> String {
    let run: RunId = test.ids.next();
    let context = test.runs().run_context(test.goal, run, 10, &PromptLimits::default()).await.unwrap();
    context.history.iter().map(Entry::text).collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn parent_chains_cannot_form_a_cycle() {
    let test = TestStore::start().await;
    test.post("go").await;
    let claimed = test.claim().await.unwrap();
    let task = create(&test, &claimed).await.unwrap().unwrap();
    let (goal, task) = (test.goal.0, task.id.0);
    for (who, parent, depth) in
        [(goal, task, 2), (goal, task, 1), (goal, goal, 1), (task, task, 2), (task, goal, 5)]
    {
        let error = test
            .try_sql(&format!(
                "update houston.agentables set parent_id = '{parent}', depth = {depth} where id = '{who}'"
            ))
            .unwrap_err();
        assert!(error.contains("agentables_parent_above"), "{error}");
    }
    let result = test.try_sql(&format!("update houston.agentables set parent_id = null where id = '{task}'"));
    assert!(result.unwrap_err().contains("agentables_depth_of_root"));
}

#[tokio::test(flavor = "multi_thread")]
async fn task_inherits_origin_and_trace_but_no_mode() {
    let test = TestStore::start().await;
    test.post("go").await;
    test.sql("update houston.runs set mode = 'agent_check_in', traceparent = ' 00-ab'");
    let claimed = test.claim().await.unwrap();
    let task = create(&test, &claimed).await.unwrap().unwrap();
    let context = test.runs().run_context(task.id, task.run, 10, &PromptLimits::default()).await.unwrap();
    assert_eq!(context.setting.mode, None);
    assert_eq!(context.setting.tools, Some(vec!["create_note".to_owned()]));
    assert_eq!(context.setting.parent.unwrap().title, "Tokyo");
    let own = test.runs().run_context(test.goal, claimed.run, 10, &PromptLimits::default()).await.unwrap();
    assert_eq!(own.setting.mode, Some(Mode::AgentCheckIn));
    let origin = format!("select origin_type || traceparent from houston.runs where id = '{}'", task.run.0);
    assert_eq!(test.sql(&origin).trim(), "agent_check_in 00-ab");
    let message = test.requests().message(task.message).await.unwrap();
    assert_eq!(message.content, "Find hotels.");
    assert_eq!(message.metadata["origin_type"], "agent_check_in");
    end(&test, &claimed, RunStatus::Completed).await.unwrap();
    end(&test, &claim(&test, task.id).await.unwrap(), RunStatus::Completed).await.unwrap();
    assert_eq!(test.claim().await.unwrap().traceparent.as_deref(), Some(" 00-ab"), "reads the report");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_strangers_wrote_marks_tasks_and_their_reports() {
    let test = TestStore::start().await;
    test.post("go").await;
    let claimed = test.claim().await.unwrap();
    let marked = Owner { untrusted: true, ..owner(&claimed) };
    for (owner, has_read) in [(owner(&claimed), false), (marked, false), (owner(&claimed), true)] {
        let task = create_as(&test, &claimed, owner, None).await.unwrap().unwrap();
        let context = test.runs().run_context(task.id, task.run, 10, &PromptLimits::default()).await.unwrap();
        assert_eq!(context.setting.untrusted, owner.untrusted, "its instructions");
        let working = claim(&test, task.id).await.unwrap();
        let status = RunStatus::Completed;
        let then = RunTransition::Terminate { event: finished(status), ending: ending(status) };
        let entries = vec![Entry::assistant(vec![Block::text("Three hotels.")])];
        let step = Step { untrusted: owner.untrusted || has_read, entries, ..test.step(&working, then) };
        test.runs().commit(&working.fence, &step).await.unwrap();
        let report = "select content from houston.messages where metadata ->> 'task_id' = '%'"
            .replace('%', &task.id.public_id("task"));
        let report = test.sql(&report);
        assert!(report.contains("Three hotels."), "{report}");
        assert_eq!(report.contains("<untrusted source=\"task_"), step.untrusted, "{report}");
        let notes =
            format!("select bool_or(untrusted) from houston.knowledge_items where run_id = '{}'", task.run.0);
        assert_eq!(test.sql(&notes).trim() == "t", step.untrusted, "the note made of its last text");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupt_leaves_task_reports_to_the_next_run() {
    let test = TestStore::start().await;
    test.post("go").await;
    let claimed = test.claim().await.unwrap();
    let task = create(&test, &claimed).await.unwrap().unwrap();
    let working = claim(&test, task.id).await.unwrap();
    end(&test, &working, RunStatus::Completed).await.unwrap();
    test.try_post_as("stop that", Interrupt, None).await.unwrap();
    end(&test, &claimed, RunStatus::Cancelled).await.unwrap();
    let next = test.claim().await.unwrap();
    assert_ne!(next.run, claimed.run);
    let seen = history(&test).await;
    assert_eq!(seen.matches("<task_ended").count(), 1, "{seen}");
    assert!(seen.contains("title=\"Find &lt;hotels&gt;\" status=\"completed\""), "{seen}");
    assert!(seen.find("<task_ended") < seen.find("stop that"), "{seen}");
}

/// A model call that was answered.
fn call() -> ModelCall {
    ModelCall {
        provider: "openai".into(),
        model: "gpt-5-mini".into(),
        iteration: 1,
        usage: Usage { input_tokens: 7, ..Usage::default() },
        estimated: false,
        reported: false,
        timing: None,
    }
}

/// Regression: the last step of a task kept the `spending` row of the user while it waited for the lock of the goal,
/// whose own step held that lock and waited for the row.
#[tokio::test(flavor = "multi_thread")]
async fn task_ends_while_its_goal_commits_steps() {
    let test = TestStore::start().await;
    test.post("go").await;
    let claimed = test.claim().await.unwrap();
    for _ in 0..10 {
        let task = create(&test, &claimed).await.unwrap().unwrap();
        let working = claim(&test, task.id).await.unwrap();
        let (status, ended) = (RunStatus::Completed, AtomicBool::new(false));
        let then = RunTransition::Terminate { event: finished(status), ending: ending(status) };
        let last = Step { call: Some(call()), ..test.step(&working, then) };
        let end = async {
            let result = test.runs().commit(&working.fence, &last).await;
            ended.store(true, Relaxed);
            result
        };
        let go_on = async {
            while !ended.load(Relaxed) {
                let then = RunTransition::Continue { read: false, event: None };
                let step = Step { call: Some(call()), ..test.step(&claimed, then) };
                test.runs().commit(&claimed.fence, &step).await?;
            }
            Ok::<(), houston_store::Error>(())
        };
        let (result, steps) = tokio::join!(end, go_on);
        result.unwrap();
        steps.unwrap();
    }
}

/// Commits a turn of the model: a text, and a call with its result.
async fn commit_text_and_call(test: &TestStore, working: &ClaimedRun, text: &str) {
    let mut step = test.step(working, RunTransition::Continue { read: false, event: None });
    let call = Block::ToolUse { id: "a".into(), name: "list_notes".into(), input: json!({}), raw: None };
    let answer =
        Block::ToolResult { tool_use_id: "a".into(), content: "none".into(), is_error: false, code: None };
    step.entries.push(Entry::assistant(vec![Block::text(text), call]));
    step.entries.push(Entry::user(vec![answer]));
    test.runs().commit(&working.fence, &step).await.unwrap();
}

/// Regression: every limit was reported as `status="completed"`, without a reason, and with a result only if that was
/// the last entry.
#[tokio::test(flavor = "multi_thread")]
async fn report_of_a_cut_off_task_has_reason_and_last_text() {
    let test = TestStore::start().await;
    test.post("go").await;
    let claimed = test.claim().await.unwrap();
    const FOUND: Option<&str> = Some("Two &lt;hotels&gt; so far.");
    for (status, code, word, reason, result) in [
        (RunStatus::SameTool, None, "stopped", "same_tool", FOUND),
        (RunStatus::HistoryFull, None, "stopped", "history_full", FOUND),
        (RunStatus::MaxTokens, None, "stopped", "max_tokens", FOUND),
        (RunStatus::MaxIterations, None, "stopped", "max_iterations", None),
        (RunStatus::MaxDuration, None, "stopped", "max_duration", None),
        (RunStatus::Completed, Some("CONTENT_FILTER"), "stopped", "content_filter", None),
        (RunStatus::Failed, Some("BUDGET_EXCEEDED"), "failed", "budget_exceeded", None),
        (RunStatus::Failed, Some("HEALTH_MONITOR_STALE"), "failed", "health_monitor_stale", None),
        (RunStatus::DeadLettered, None, "failed", "dead_lettered", None),
        (RunStatus::Cancelled, None, "cancelled", "user", None),
    ] {
        let task = create(&test, &claimed).await.unwrap().unwrap();
        let working = claim(&test, task.id).await.unwrap();
        if result.is_some() {
            commit_text_and_call(&test, &working, "Two <hotels> so far.").await;
        }
        let ending = Ending {
            error_code: code.map(str::to_owned),
            error_message: code.map(|_| "why & how".to_owned()),
            ..ending(status)
        };
        let step = test.step(&working, RunTransition::Terminate { event: finished(status), ending });
        test.runs().commit(&working.fence, &step).await.unwrap();
        let report = test.sql(&format!(
            "select content from houston.messages where metadata ->> 'task_id' = '{}'",
            task.id.public_id("task")
        ));
        let wanted = format!("status=\"{word}\" reason=\"{reason}\">");
        assert!(report.lines().next().unwrap().ends_with(&wanted), "{status:?}: {report}");
        assert_eq!(report.contains("<error>why &amp; how</error>"), code.is_some(), "{report}");
        match result {
            Some(result) => {
                assert!(report.contains(&format!("<result complete=\"false\">{result}</result>")), "{report}")
            }
            None => assert!(!report.contains("<result"), "{report}"),
        }
        let events = test.requests().events_after(test.goal, 0, 100).await.unwrap();
        let reason = events.into_iter().find_map(|committed| match committed.event {
            Event::TaskEnded { task_run_id, reason, .. } if task_run_id == task.run => reason,
            _ => None,
        });
        let run = test.requests().run(task.run).await.unwrap();
        assert!(run.stop_reason.is_some() && reason == run.stop_reason, "{reason:?}");
    }
}

/// A run that commits a step while its goal is archived must not set a check-in, which would wake the goal.
#[tokio::test(flavor = "multi_thread")]
async fn archived_agentable_sets_no_check_in() {
    let test = TestStore::start().await;
    test.post("go").await;
    let claimed = test.claim().await.unwrap();
    let wanted = CheckInRequest { when: Moment::InMinutes(10), reason: "Ask about Rome".into() };
    let set = async || {
        let mut tx = test.runs().begin_fenced(&claimed.fence).await.unwrap();
        let set = test.rows(&mut tx, owner(&claimed)).set_check_in(&wanted).await.unwrap();
        tx.commit(&test.step(&claimed, RunTransition::Continue { read: false, event: None })).await.unwrap();
        set
    };
    assert!(set().await.is_ok());
    test.requests().cancel_agentable("goal", test.goal, true).await.unwrap();
    assert_eq!(set().await, Err(CheckInRefusal::Cancelled));
    assert_eq!(test.sql("select count(*) from houston.check_ins").trim(), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn end_of_a_task_does_not_wake_an_archived_goal() {
    let test = TestStore::start().await;
    test.requests().cancel_agentable("goal", test.goal, true).await.unwrap();
    test.post("go all the same").await;
    let claimed = test.claim().await.unwrap();
    let task = create(&test, &claimed).await.unwrap().unwrap();
    end(&test, &claimed, RunStatus::Completed).await.unwrap();
    let working = claim(&test, task.id).await.unwrap();
    end(&test, &working, RunStatus::Completed).await.unwrap();
    assert!(test.claim().await.is_none(), "the goal is not awake");
    test.post("and?").await;
    test.claim().await.unwrap();
    let seen = history(&test).await;
    assert!(seen.find("<task_ended").is_some_and(|report| report < seen.find("and?").unwrap()), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn erased_task_is_reported_to_its_parent_as_cancelled() {
    let test = TestStore::start().await;
    test.post("go").await;
    let claimed = test.claim().await.unwrap();
    let task = create(&test, &claimed).await.unwrap().unwrap();
    end(&test, &claimed, RunStatus::Completed).await.unwrap();
    let working = claim(&test, task.id).await.unwrap();
    let target = Target::Agentable("task", task.id);
    test.requests().request_erasure(target, test.ids.next(), None).await.unwrap();
    let late = end(&test, &working, RunStatus::Completed).await;
    assert!(matches!(late, Err(houston_store::Error::Fenced)), "{late:?}");
    let next = test.claim().await.unwrap();
    let seen = history(&test).await;
    assert!(seen.contains("status=\"cancelled\"") && seen.contains("was erased"), "{seen}");
    end(&test, &next, RunStatus::Completed).await.unwrap();
    let counted = format!("select open_tasks from houston.run_locks where agentable_id = '{}'", test.goal.0);
    assert_eq!(test.sql(&counted).trim(), "0");
}

/// Creating, ending and cancelling race: nothing blocks, no task stays open, and each end is reported to the goal once,
/// unless the goal itself cancelled the task.
#[tokio::test(flavor = "multi_thread")]
async fn cancel_racing_with_tasks_leaves_none_open() {
    let test = TestStore::start().await;
    for round in 0..10 {
        test.post("go").await;
        let claimed = test.claim().await.unwrap();
        let create_and_end = async {
            let mut ends = Vec::new();
            for nth in 0..8 {
                let Some(task) = create(&test, &claimed).await.unwrap() else { break };
                if nth % 2 == 0 {
                    let working = claim(&test, task.id).await;
                    if let Some(working) = working {
                        ends.push(working);
                    }
                }
                if let Some(working) = (nth % 4 == 3).then(|| ends.pop()).flatten() {
                    end(&test, &working, RunStatus::Completed).await.unwrap();
                }
            }
            ends
        };
        let cancel = async {
            tokio::time::sleep(std::time::Duration::from_millis(3 * round)).await;
            let asked = test.requests().cancel_agentable("goal", test.goal, false).await.unwrap();
            assert!(asked.iter().any(|one| one.owner.id == test.goal));
        };
        let (ends, ()) = tokio::join!(create_and_end, cancel);
        let open = "select count(*) from houston.run_locks l join houston.runs r on r.id = l.run_id
                     where l.run_open and (r.cancel_seq is null or not r.cancelled_with_parent) and l.agentable_id <> ";
        assert_eq!(
            test.sql(&format!("{open} '{}'", test.goal.0)).trim(),
            "0",
            "every open run has a cancel request"
        );
        for working in ends {
            end(&test, &working, RunStatus::Cancelled).await.unwrap();
        }
        let left = "select l.agentable_id from houston.run_locks l where l.run_open and l.agentable_id <> ";
        for id in test.sql(&format!("{left} '{}'", test.goal.0)).lines() {
            let working = claim(&test, AgentableId(id.parse().unwrap())).await.unwrap();
            end(&test, &working, RunStatus::Cancelled).await.unwrap();
        }
        end(&test, &claimed, RunStatus::Cancelled).await.unwrap();
        // Tasks that ended before the cancel woke the goal; its run reads the reports and ends.
        while let Some(next) = test.claim().await {
            end(&test, &next, RunStatus::Completed).await.unwrap();
        }
        let counted =
            format!("select open_tasks from houston.run_locks where agentable_id = '{}'", test.goal.0);
        assert_eq!(test.sql(&counted).trim(), "0");
    }
    let reports = test.sql("select count(*) from houston.messages where metadata ->> 'type' = 'task_ended'");
    let ended_well = test.sql(
        "select count(*) from houston.runs r join houston.agentables a on a.id = r.agentable_id
          where a.parent_id is not null and not r.cancelled_with_parent",
    );
    assert_eq!(reports, ended_well, "each end is reported once");
}
