use houston_domain::agentable::DoubleTexting::Interrupt;
use houston_domain::check_in::{CheckInLimits, Moment, WantedCheckIn};
use houston_domain::event::Event;
use houston_domain::history::{Block, Entry};
use houston_domain::id::{AgentableId, MessageId, RunId};
use houston_domain::knowledge::PromptLimits;
use houston_domain::mode::Mode;
use houston_domain::run::RunStatus;
use houston_domain::task::TaskLimits;
use houston_store::claim::{Claimed, Crashes};
use houston_store::erasure::Target;
use houston_store::record::Owner;
use houston_store::step::{Ending, RunTransition};
use houston_store::task::NewTask;
use serde_json::json;

use crate::fresh::Fresh;
use crate::step::{ending, finished};

const MANY: TaskLimits = TaskLimits {
    max_depth: 1,
    max_open: 1000,
    max_per_run: 1000,
    note_chars: 16_000,
    report_chars: 4_000,
    report_notes: 20,
};

fn owner(claimed: &Claimed) -> Owner {
    let Claimed { tenant, user, run, .. } = *claimed;
    Owner { tenant, user, agentable: claimed.fence.agentable, run }
}

/// Creates a task of the goal in a step of its own; none when it may not.
async fn create(fresh: &Fresh, claimed: &Claimed) -> houston_store::Result<Option<NewTask>> {
    let task = NewTask {
        id: fresh.ids.next(),
        run: fresh.ids.next(),
        message: fresh.ids.next::<MessageId>(),
        kind: "task".into(),
        status: None,
        title: "Find <hotels>".into(),
        instructions: "Find hotels.".into(),
        tools: vec!["create_note".into()],
    };
    let mut tx = fresh.store.begin_fenced(&claimed.fence).await?;
    let made = tx.create_task(owner(claimed), &task, &MANY).await?;
    tx.commit(&fresh.step(claimed, RunTransition::Continue { read: false, event: None })).await?;
    Ok(made.is_success().then_some(task))
}

async fn claim(fresh: &Fresh, agentable: AgentableId) -> Option<Claimed> {
    let (token, message) = (fresh.ids.next(), fresh.ids.next());
    fresh.store.claim_run(agentable, fresh.worker, token, message, Crashes::default()).await.unwrap()
}

async fn end(fresh: &Fresh, claimed: &Claimed, status: RunStatus) -> houston_store::Result<()> {
    let then = RunTransition::Terminate { event: finished(status), ending: ending(fresh, status) };
    fresh.store.commit(&claimed.fence, &fresh.step(claimed, then)).await.map(drop)
}

async fn history(fresh: &Fresh) -> String {
    let run: RunId = fresh.ids.next();
    let context = fresh.store.run_context(fresh.goal, run, 10, &PromptLimits::default()).await.unwrap();
    context.history.iter().map(Entry::text).collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn no_chain_of_parents_comes_back_to_where_it_began() {
    let fresh = Fresh::start().await;
    fresh.post("go").await;
    let claimed = fresh.claim().await.unwrap();
    let task = create(&fresh, &claimed).await.unwrap().unwrap();
    let (goal, task) = (fresh.goal.0, task.id.0);
    for (who, parent, depth) in
        [(goal, task, 2), (goal, task, 1), (goal, goal, 1), (task, task, 2), (task, goal, 5)]
    {
        let told = fresh
            .try_sql(&format!(
                "update houston.agentables set parent_id = '{parent}', depth = {depth} where id = '{who}'"
            ))
            .unwrap_err();
        assert!(told.contains("agentables_parent_above"), "{told}");
    }
    let told = fresh.try_sql(&format!("update houston.agentables set parent_id = null where id = '{task}'"));
    assert!(told.unwrap_err().contains("agentables_depth_of_root"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_inherits_where_it_comes_from_and_no_mode() {
    let fresh = Fresh::start().await;
    fresh.post("go").await;
    fresh.sql("update houston.runs set mode = 'agent_check_in'");
    let claimed = fresh.claim().await.unwrap();
    let task = create(&fresh, &claimed).await.unwrap().unwrap();
    let context = fresh.store.run_context(task.id, task.run, 10, &PromptLimits::default()).await.unwrap();
    assert_eq!(context.setting.mode, None);
    assert_eq!(context.setting.tools, Some(vec!["create_note".to_owned()]));
    assert_eq!(context.setting.parent.unwrap().title, "Tokyo");
    let own = fresh.store.run_context(fresh.goal, claimed.run, 10, &PromptLimits::default()).await.unwrap();
    assert_eq!(own.setting.mode, Some(Mode::AgentCheckIn));
    let origin = format!("select origin_type from houston.runs where id = '{}'", task.run.0);
    assert_eq!(fresh.sql(&origin).trim(), "agent_check_in");
    let message = fresh.store.message(fresh.tenant, task.message).await.unwrap().message;
    assert_eq!(
        (message.content.as_str(), &message.metadata["origin_type"]),
        ("Find hotels.", &"agent_check_in".into())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_takes_no_report_of_a_task_along() {
    let fresh = Fresh::start().await;
    fresh.post("go").await;
    let claimed = fresh.claim().await.unwrap();
    let task = create(&fresh, &claimed).await.unwrap().unwrap();
    let working = claim(&fresh, task.id).await.unwrap();
    end(&fresh, &working, RunStatus::Completed).await.unwrap();
    fresh.try_post_as("stop that", Interrupt, None).await.unwrap();
    end(&fresh, &claimed, RunStatus::Cancelled).await.unwrap();
    let next = fresh.claim().await.unwrap();
    assert_ne!(next.run, claimed.run);
    let seen = history(&fresh).await;
    assert_eq!(seen.matches("<task_ended").count(), 1, "{seen}");
    assert!(seen.contains("title=\"Find &lt;hotels&gt;\" status=\"completed\""), "{seen}");
    assert!(seen.find("<task_ended") < seen.find("stop that"), "{seen}");
}

/// Commits an answer of the model: a text, and a call with its result.
async fn commit_text_and_call(fresh: &Fresh, working: &Claimed, text: &str) {
    let mut step = fresh.step(working, RunTransition::Continue { read: false, event: None });
    let call = Block::ToolUse { id: "a".into(), name: "list_notes".into(), input: json!({}), raw: None };
    let answer = Block::ToolResult { tool_use_id: "a".into(), content: "none".into(), is_error: false };
    step.entries.push(Entry::assistant(vec![Block::text(text), call]));
    step.entries.push(Entry::user(vec![answer]));
    fresh.store.commit(&working.fence, &step).await.unwrap();
}

/// Each of the limits was told as `status="completed"` before, none had a reason, and a result only if it was the last entry.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_was_cut_off_says_so_with_what_it_had() {
    let fresh = Fresh::start().await;
    fresh.post("go").await;
    let claimed = fresh.claim().await.unwrap();
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
        let task = create(&fresh, &claimed).await.unwrap().unwrap();
        let working = claim(&fresh, task.id).await.unwrap();
        if result.is_some() {
            commit_text_and_call(&fresh, &working, "Two <hotels> so far.").await;
        }
        let ending = Ending {
            error_code: code.map(str::to_owned),
            error_message: code.map(|_| "why & how".to_owned()),
            ..ending(&fresh, status)
        };
        let step = fresh.step(&working, RunTransition::Terminate { event: finished(status), ending });
        fresh.store.commit(&working.fence, &step).await.unwrap();
        let told = fresh.sql(&format!(
            "select content from houston.messages where metadata ->> 'task_id' = '{}'",
            task.id.shown("task")
        ));
        let wanted = format!("status=\"{word}\" reason=\"{reason}\">");
        assert!(told.lines().next().unwrap().ends_with(&wanted), "{status:?}: {told}");
        assert_eq!(told.contains("<error>why &amp; how</error>"), code.is_some(), "{told}");
        match result {
            Some(result) => {
                assert!(told.contains(&format!("<result complete=\"false\">{result}</result>")), "{told}")
            }
            None => assert!(!told.contains("<result"), "{told}"),
        }
        let events = fresh.store.events_after(fresh.goal, 0, 100).await.unwrap();
        let reason = events.into_iter().find_map(|committed| match committed.event {
            Event::TaskEnded { task_run_id, reason, .. } if task_run_id == task.run => reason,
            _ => None,
        });
        let run = fresh.store.run(fresh.tenant, task.run).await.unwrap();
        assert!(run.stop_reason.is_some() && reason == run.stop_reason, "{reason:?}");
    }
}

/// A run that is at a step while its goal is put away must not leave behind what wakes the goal again.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_put_away_sets_no_check_in_any_more() {
    let fresh = Fresh::start().await;
    fresh.post("go").await;
    let claimed = fresh.claim().await.unwrap();
    let wanted = WantedCheckIn { when: Moment::InMinutes(10), reason: "Ask about Rome".into() };
    let (earliest, latest) = ("00:00".parse().unwrap(), "23:59".parse().unwrap());
    let limits = CheckInLimits { max_pending: 3, min_delay_s: 1, max_delay_s: 86_400 * 7, earliest, latest };
    let set = async || {
        let mut tx = fresh.store.begin_fenced(&claimed.fence).await.unwrap();
        let told = tx.schedule_check_in(owner(&claimed), fresh.ids.next(), &wanted, &limits).await.unwrap();
        tx.commit(&fresh.step(&claimed, RunTransition::Continue { read: false, event: None })).await.unwrap();
        told
    };
    assert!(set().await.is_success());
    fresh.store.cancel_agentable(fresh.tenant, "goal", fresh.goal, true).await.unwrap();
    let told = set().await;
    assert!(!told.is_success() && told.text().contains("being cancelled: no check-in"), "{}", told.text());
    assert_eq!(fresh.sql("select count(*) from houston.check_ins").trim(), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_task_does_not_wake_an_archived_goal() {
    let fresh = Fresh::start().await;
    fresh.store.cancel_agentable(fresh.tenant, "goal", fresh.goal, true).await.unwrap();
    fresh.post("go all the same").await;
    let claimed = fresh.claim().await.unwrap();
    let task = create(&fresh, &claimed).await.unwrap().unwrap();
    end(&fresh, &claimed, RunStatus::Completed).await.unwrap();
    let working = claim(&fresh, task.id).await.unwrap();
    end(&fresh, &working, RunStatus::Completed).await.unwrap();
    assert!(fresh.claim().await.is_none(), "it sleeps on");
    fresh.post("and?").await;
    fresh.claim().await.unwrap();
    let seen = history(&fresh).await;
    assert!(seen.find("<task_ended").is_some_and(|told| told < seen.find("and?").unwrap()), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_task_is_told_to_its_parent_as_cancelled() {
    let fresh = Fresh::start().await;
    fresh.post("go").await;
    let claimed = fresh.claim().await.unwrap();
    let task = create(&fresh, &claimed).await.unwrap().unwrap();
    end(&fresh, &claimed, RunStatus::Completed).await.unwrap();
    let working = claim(&fresh, task.id).await.unwrap();
    let target = Target::Agentable("task", task.id);
    fresh.store.request_erasure(fresh.tenant, target, fresh.ids.next(), None).await.unwrap();
    let late = end(&fresh, &working, RunStatus::Completed).await;
    assert!(matches!(late, Err(houston_store::Error::Fenced)), "{late:?}");
    let next = fresh.claim().await.unwrap();
    let seen = history(&fresh).await;
    assert!(seen.contains("status=\"cancelled\"") && seen.contains("was erased"), "{seen}");
    end(&fresh, &next, RunStatus::Completed).await.unwrap();
    let counted = format!("select open_tasks from houston.run_locks where agentable_id = '{}'", fresh.goal.0);
    assert_eq!(fresh.sql(&counted).trim(), "0");
}

/// Whoever creates, ends and cancels at once: nobody waits for ever, no task is left behind, and each end is told to
/// the goal once, or it knew.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_races_with_tasks_that_begin_and_end_leaves_none_open() {
    let fresh = Fresh::start().await;
    for round in 0..10 {
        fresh.post("go").await;
        let claimed = fresh.claim().await.unwrap();
        let create_and_end = async {
            let mut ends = Vec::new();
            for nth in 0..8 {
                let Some(task) = create(&fresh, &claimed).await.unwrap() else { break };
                if nth % 2 == 0 {
                    let working = claim(&fresh, task.id).await;
                    if let Some(working) = working {
                        ends.push(working);
                    }
                }
                if let Some(working) = (nth % 4 == 3).then(|| ends.pop()).flatten() {
                    end(&fresh, &working, RunStatus::Completed).await.unwrap();
                }
            }
            ends
        };
        let cancel = async {
            tokio::time::sleep(std::time::Duration::from_millis(3 * round)).await;
            let asked = fresh.store.cancel_agentable(fresh.tenant, "goal", fresh.goal, false).await.unwrap();
            assert!(asked.iter().any(|one| one.agentable == fresh.goal));
        };
        let (ends, ()) = tokio::join!(create_and_end, cancel);
        let open = "select count(*) from houston.run_locks l join houston.runs r on r.id = l.run_id
                     where l.run_open and (r.cancel_seq is null or not r.cancelled_with_parent) and l.agentable_id <> ";
        assert_eq!(fresh.sql(&format!("{open} '{}'", fresh.goal.0)).trim(), "0", "all were asked");
        for working in ends {
            end(&fresh, &working, RunStatus::Cancelled).await.unwrap();
        }
        let left = "select l.agentable_id from houston.run_locks l where l.run_open and l.agentable_id <> ";
        for id in fresh.sql(&format!("{left} '{}'", fresh.goal.0)).lines() {
            let working = claim(&fresh, AgentableId(id.parse().unwrap())).await.unwrap();
            end(&fresh, &working, RunStatus::Cancelled).await.unwrap();
        }
        end(&fresh, &claimed, RunStatus::Cancelled).await.unwrap();
        // What ended before the cancel woke the goal; that run reads it and ends.
        while let Some(next) = fresh.claim().await {
            end(&fresh, &next, RunStatus::Completed).await.unwrap();
        }
        let counted =
            format!("select open_tasks from houston.run_locks where agentable_id = '{}'", fresh.goal.0);
        assert_eq!(fresh.sql(&counted).trim(), "0");
    }
    let told = fresh.sql("select count(*) from houston.messages where metadata ->> 'type' = 'task_ended'");
    let ended_well = fresh.sql(
        "select count(*) from houston.runs r join houston.agentables a on a.id = r.agentable_id
          where a.parent_id is not null and not r.cancelled_with_parent",
    );
    assert_eq!(told, ended_well, "each end is told once");
}
