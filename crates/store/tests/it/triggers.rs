//! Triggers: each fires once, whatever looks at the same time and whatever dies, and none is caused by itself for ever.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::join_all;
use houston_domain::id::{AgentableId, ProcessId, TriggerId};
use houston_domain::plan::{answer_evaluation, evaluate_elsewhere};
use houston_domain::trigger::{Misfire, When};
use houston_store::trigger::{Trigger, UpdateTrigger};
use houston_store::trigger_firing::{Fired, FiringIds, FiringLimits};
use houston_store::trigger_reader::{Listened, Reading};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::step::{answer, done};
use crate::test_store::{TestStore, goal};

pub(crate) const LIMITS: FiringLimits = FiringLimits { per_hour: 60, grace: TimeDelta::minutes(5) };
/// Small pages, and turns after which another reader goes on where one has died.
pub(crate) const READING: Reading = Reading { limit: 7, turn: TimeDelta::milliseconds(20) };

fn every_ten_minutes(misfire: Misfire) -> When {
    When::Cron { cron: "*/10 * * * *".into(), zone: "UTC".into(), misfire }
}

pub(crate) fn event(topic: &str) -> When {
    When::Event { topics: vec![topic.to_owned()], kind: None, agentable_id: None, condition: None }
}

pub(crate) async fn make(test: &TestStore, when: When) -> TriggerId {
    create(test, new(test, test.goal, when).await).await
}

/// A trigger that posts to this goal.
pub(crate) async fn new(test: &TestStore, goal: AgentableId, when: When) -> Trigger {
    let now = test.ids.clock().now();
    Trigger {
        id: test.ids.beside(goal),
        user: test.requests().user_of_agentable(goal).await.unwrap(),
        agentable: (goal, "goal".into()),
        name: "Look".into(),
        instructions: "Look around.".into(),
        task: None,
        next_at: when.first_after(now).unwrap(),
        when,
        enabled: true,
        fired: 0,
        refused: (0, None),
        last_at: None,
        created_at: now,
        updated_at: now,
    }
}

pub(crate) async fn create(test: &TestStore, trigger: Trigger) -> TriggerId {
    test.requests().create_trigger(&trigger, (None, &Value::Null)).await.unwrap();
    trigger.id
}

pub(crate) fn ids(test: &TestStore, now: DateTime<Utc>) -> FiringIds {
    let (message, run) = (test.ids.beside(test.goal), test.ids.beside(test.goal));
    FiringIds { message, run, task: test.ids.beside(test.goal), now }
}

/// Fires what is due at `now`, as one of several workers. Returns how many were posted.
pub(crate) async fn fire_at(test: &TestStore, now: DateTime<Utc>) -> usize {
    let mut posted = 0;
    for due in test.runs().due_triggers(now, 10).await.unwrap() {
        let fired = test.runs().fire_at_time(due, LIMITS, ids(test, now)).await.unwrap();
        posted += usize::from(matches!(fired, Fired::Posted(_)));
    }
    posted
}

/// Reads what is new and fires what was heard, as one of several workers. Returns how many were posted.
pub(crate) async fn hear(test: &TestStore, limits: FiringLimits) -> usize {
    let now = test.ids.clock().now();
    while let Listened::Read { has_more: true, .. } =
        test.runs().listen_for_triggers(READING, now).await.unwrap()
    {}
    let mut posted = 0;
    for heard in test.runs().heard(1000, 1000).await.unwrap() {
        let fired = test.runs().fire_at_event(heard, limits, ids(test, now)).await.unwrap();
        posted += usize::from(matches!(fired, Fired::Posted(_)));
    }
    posted
}

pub(crate) fn posted(test: &TestStore) -> usize {
    let sql = "select count(*) from houston.messages where metadata ->> 'type' = 'trigger'";
    test.sql(sql).trim().parse().unwrap()
}

/// Answers the open run of the agentable.
pub(crate) async fn answer_run(test: &TestStore, goal: AgentableId) {
    let claimed = test.claim_of(goal).await.unwrap();
    done(test.runs().commit(&claimed.fence, &answer(test, &claimed, "hello")).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn four_workers_fire_a_time_once() {
    let test = TestStore::start().await;
    let id = make(&test, every_ten_minutes(Misfire::Once)).await;
    let first = test.requests().trigger(id).await.unwrap().next_at.unwrap();
    assert_eq!(fire_at(&test, first - TimeDelta::seconds(1)).await, 0, "not before its time");
    for round in 0..3_i32 {
        let now = first + TimeDelta::minutes(10) * round;
        let fired: usize = join_all((0..4).map(|_| fire_at(&test, now))).await.into_iter().sum();
        assert_eq!(fired, 1);
    }
    assert_eq!(posted(&test), 3);
    let trigger = test.requests().trigger(id).await.unwrap();
    assert_eq!((trigger.fired, trigger.next_at), (3, Some(first + TimeDelta::minutes(30))));
    assert_eq!(
        test.sql("select mode from houston.runs").trim(),
        "trigger",
        "the first opens a run, which reads the others"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_that_dies_between_claim_and_effect_fires_nothing() {
    let test = TestStore::start().await;
    let id = make(&test, every_ten_minutes(Misfire::Once)).await;
    let first = test.requests().trigger(id).await.unwrap().next_at.unwrap();
    let due = test.runs().due_triggers(first, 10).await.unwrap()[0];
    // Messages cannot be written, so the claim is made and its effect is not.
    let locks = "from pg_locks l where l.relation = 'houston.messages'::regclass
                   and l.database = (select oid from pg_database where datname = current_database())";
    let killer = test.database.psql(&format!(
        "begin; lock table houston.messages in exclusive mode;
         do $$ begin
             while not exists (select {locks} and not l.granted) loop
                 perform pg_sleep(0.01);
             end loop;
             perform pg_terminate_backend(l.pid) {locks} and not l.granted;
         end $$; rollback;"
    ));
    let mut killer = tokio::process::Command::from(killer).spawn().unwrap();
    let held = format!("select count(*) {locks} and mode = 'ExclusiveLock' and granted");
    while test.sql(&held).trim() == "0" {}
    let fired = test.runs().fire_at_time(due, LIMITS, ids(&test, first)).await;
    assert!(fired.is_err(), "{fired:?}");
    killer.wait().await.unwrap();
    assert_eq!((posted(&test), test.requests().trigger(id).await.unwrap().next_at), (0, Some(first)));
    assert_eq!((fire_at(&test, first).await, fire_at(&test, first).await, posted(&test)), (1, 0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn outage_of_an_hour_fires_once_or_not_at_all() {
    let test = TestStore::start().await;
    let once = make(&test, every_ten_minutes(Misfire::Once)).await;
    let skip = make(&test, every_ten_minutes(Misfire::Skip)).await;
    let first = test.requests().trigger(once).await.unwrap().next_at.unwrap();
    let later = first + TimeDelta::minutes(67);
    assert_eq!(fire_at(&test, later).await, 1);
    assert_eq!((fire_at(&test, later).await, posted(&test)), (0, 1));
    // The clock goes back: what has fired does not fire again.
    assert_eq!(fire_at(&test, first + TimeDelta::minutes(20)).await, 0);
    let next = Some(first + TimeDelta::minutes(70));
    let (once, skip) =
        (test.requests().trigger(once).await.unwrap(), test.requests().trigger(skip).await.unwrap());
    assert_eq!((once.fired, once.refused.0, once.next_at), (1, 0, next));
    assert_eq!((skip.fired, skip.refused, skip.next_at), (0, (1, Some("missed".into())), next));
    assert_eq!(fire_at(&test, first + TimeDelta::minutes(70)).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn words_are_heard_once_beside_writers() {
    let test = TestStore::start().await;
    assert!(!test.runs().has_triggers().await.unwrap());
    let words = When::Keyword { words: vec!["invoice".into()], regex: None };
    let id = make(&test, words).await;
    let limits = FiringLimits { per_hour: 1000, ..LIMITS };
    let store = &test;
    let write = |nth: usize| async move {
        for _ in 0..8 {
            let text = if nth == 0 { "invoices of last year" } else { "Here is the INVOICE." };
            store.post_to(store.goal, text).await.unwrap();
        }
    };
    let read = || async move {
        let mut posted = 0;
        for _ in 0..10 {
            posted += hear(store, limits).await;
        }
        posted
    };
    let (_, first) = tokio::join!(join_all((0..4).map(write)), join_all((0..3).map(|_| read())));
    let heard = first.into_iter().sum::<usize>() + hear(&test, limits).await + hear(&test, limits).await;
    assert_eq!((heard, posted(&test)), (24, 24), "three of four writers write the word");
    test.requests().delete_trigger(id).await.unwrap();
    assert_eq!(hear(&test, limits).await, 0);
    assert!(!test.runs().has_triggers().await.unwrap(), "nothing is left to be done");
}

/// Expressions whose automaton begins anew all the time, on a text without a pattern: they are given up, and say so, and the
/// reader reads on.
#[tokio::test(flavor = "multi_thread")]
async fn hostile_expressions_are_given_up_and_others_hear() {
    let test = TestStore::start().await;
    let expression = |regex: &str| When::Keyword { words: vec![], regex: Some(regex.into()) };
    let mut hostile = Vec::new();
    for _ in 0..3 {
        hostile.push(make(&test, expression("(?-i)a[a-d]{250}[^a-d]")).await);
    }
    let usual = make(&test, When::Keyword { words: vec!["hotel".into()], regex: None }).await;
    let mut state = 1_u32;
    let letters = (0..65_000).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b'a' + u8::try_from(state >> 30).unwrap())
    });
    test.post_to(test.goal, &letters.collect::<String>()).await.unwrap();
    test.post_to(test.goal, "Which hotel?").await.unwrap();
    assert_eq!(hear(&test, LIMITS).await, 1);
    for id in hostile {
        let (count, why) = test.requests().trigger(id).await.unwrap().refused;
        assert!(count == 1 && why.as_deref().unwrap().contains("too much work"), "{count} {why:?}");
    }
    assert_eq!(test.requests().trigger(usual).await.unwrap().refused.0, 0);
}

/// Whether the evaluation of the poison goes on.
static IS_HELD: AtomicBool = AtomicBool::new(true);

/// Lets it end, also when the test fails.
struct Released;

impl Drop for Released {
    fn drop(&mut self) {
        IS_HELD.store(false, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trigger_whose_evaluation_ends_processes_is_set_aside() {
    evaluate_elsewhere(Box::new(|evaluation| {
        let request = serde_json::to_string(evaluation).unwrap();
        while IS_HELD.load(Ordering::Relaxed) && request.contains("range(99999)") {
            std::thread::sleep(Duration::from_millis(5));
        }
        serde_json::from_str(&answer_evaluation(&request)).unwrap()
    }));
    let test = TestStore::start().await;
    let released = Released;
    let When::Event { topics, kind, agentable_id, .. } = event("message.posted") else { unreachable!() };
    let condition = Some("range(99999)|map('string')|list|length > 99998".to_owned());
    let poison = make(&test, When::Event { topics, kind, agentable_id, condition }).await;
    let neighbour = make(&test, event("message.posted")).await;
    test.post("hello").await;
    let now = test.ids.clock().now();
    for deaths in 0..=2 {
        // A process without workers.
        let runs = test.runs().clone().in_process(ProcessId(deaths));
        let reading = Reading { turn: TimeDelta::seconds(10), ..READING };
        let mut dies = JoinSet::new();
        dies.spawn(async move { runs.listen_for_triggers(reading, now).await });
        while test.sql("select count(*) from houston.triggers where evaluated_until is not null").trim()
            == "0"
        {
            tokio::task::yield_now().await;
        }
        assert!(dies.try_join_next().is_none(), "it is still evaluating");
        dies.shutdown().await;
        if deaths == 0 {
            // It was asked to stop: that is no death.
            test.runs().unmark_triggers().await.unwrap();
            assert_eq!(test.runs().settle_evaluations(now + TimeDelta::minutes(1)).await.unwrap(), []);
            test.sql("update houston.readers set turn_until = null");
            continue;
        }
        assert_eq!(test.runs().settle_evaluations(now).await.unwrap(), [], "it may still live");
        let later = now + TimeDelta::minutes(1);
        let settled = test.runs().settle_evaluations(later).await.unwrap();
        assert_eq!(
            settled.iter().map(|one| (one.id, one.is_off)).collect::<Vec<_>>(),
            [(poison, deaths == 2)]
        );
        test.sql("update houston.readers set turn_until = null");
    }
    drop(released);
    assert_eq!(hear(&test, LIMITS).await, 1, "its neighbour goes on");
    assert_eq!(test.requests().trigger(neighbour).await.unwrap().fired, 1);
    let trigger = test.requests().trigger(poison).await.unwrap();
    assert!(!trigger.enabled);
    assert!(trigger.refused.1.unwrap().contains("the process that evaluated it ended"));
    let again = UpdateTrigger { enabled: Some(true), ..UpdateTrigger::default() };
    assert!(test.requests().change_trigger(poison, &again, now).await.unwrap().enabled);
    assert_eq!(test.sql("select max(deaths) from houston.triggers").trim(), "0", "it may be tried again");
}

#[tokio::test(flavor = "multi_thread")]
async fn trigger_does_not_hear_what_it_has_caused() {
    let test = TestStore::start().await;
    let id = make(&test, event("run.finished")).await;
    for turn in 1..=2 {
        test.post_to(test.goal, "hi").await.unwrap();
        answer_run(&test, test.goal).await;
        test.sql("update houston.runs set traceparent = '00-ab'");
        assert_eq!(hear(&test, LIMITS).await, 1, "the end of a user's run");
        let untraced = "select count(*) from houston.runs where traceparent is null";
        assert_eq!(test.sql(untraced).trim(), "0", "what it opens is a part of the trace of that run");
        answer_run(&test, test.goal).await;
        assert_eq!(hear(&test, LIMITS).await, 0, "the end of the run that it has opened");
        assert_eq!(posted(&test), turn);
    }
    let depth = "select metadata ->> 'trigger_depth' from houston.messages where metadata ->> 'type' = 'trigger' limit 1";
    assert_eq!(test.sql(depth).trim(), "1");
    assert_eq!(test.requests().trigger(id).await.unwrap().fired, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn triggers_that_cause_each_other_end() {
    let test = TestStore::start().await;
    for _ in 0..5 {
        make(&test, event("run.finished")).await;
    }
    test.post_to(test.goal, "hi").await.unwrap();
    answer_run(&test, test.goal).await;
    let mut rounds = 0;
    while hear(&test, LIMITS).await > 0 {
        rounds += 1;
        answer_run(&test, test.goal).await;
    }
    assert!((1..=3).contains(&rounds), "{rounds}");
    assert!(posted(&test) <= 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn firings_are_limited_and_switched_off() {
    let test = TestStore::start().await;
    let id = make(&test, event("message.posted")).await;
    let limits = FiringLimits { per_hour: 2, ..LIMITS };
    for _ in 0..4 {
        test.post_to(test.goal, "hi").await.unwrap();
    }
    assert_eq!(hear(&test, limits).await, 2);
    let trigger = test.requests().trigger(id).await.unwrap();
    assert_eq!((trigger.fired, trigger.refused), (2, (2, Some("limit".into()))));
    let off = UpdateTrigger { enabled: Some(false), ..UpdateTrigger::default() };
    test.requests().change_trigger(id, &off, test.ids.clock().now()).await.unwrap();
    test.post_to(test.goal, "hi").await.unwrap();
    assert_eq!(hear(&test, LIMITS).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_take_turns_with_what_triggers_have_heard() {
    let test = TestStore::start().await;
    let stranger = test.store.operator().ensure_tenant(test.ids.next(), "stranger").await.unwrap();
    let theirs = goal(&test.store, &test.ids, stranger).await;
    for (tenant, goal, count, minutes) in [(test.tenant, test.goal, 5, 60), (stranger, theirs, 2, 1)] {
        let (tenant, goal) = (tenant.0, goal.0);
        test.sql(&format!(
            "insert into houston.trigger_firings (trigger_id, tenant_id, agentable_id, parent_id, seq, topic, cause, chain, depth,
                                                  created_at)
             select gen_random_uuid(), '{tenant}', '{goal}', '{goal}', n, 'run.started', '{{}}', '{{}}', 1,
                    now() - interval '{minutes} minutes' from generate_series(1, {count}) n"
        ));
    }
    let heard = async |limit, of_tenant| {
        let heard = test.runs().heard(limit, of_tenant).await.unwrap();
        heard.into_iter().map(|one| (one.agentable == theirs, one.event.1)).collect::<Vec<_>>()
    };
    assert_eq!(heard(3, 10).await, [(false, 1), (true, 1), (false, 2)], "each its turn, the oldest first");
    assert_eq!(heard(10, 3).await.len(), 5, "three of one and two of the other");
}

#[tokio::test(flavor = "multi_thread")]
async fn process_that_has_a_worker_did_not_die_with_a_trigger() {
    let test = TestStore::start().await;
    let id = make(&test, event("message.posted")).await;
    let (now, worker) = (test.ids.clock().now(), test.worker.0);
    test.sql(&format!(
        "update houston.triggers set evaluated_until = now() - interval '1 hour', evaluated_by = right('{worker}', 17)"
    ));
    // Postgres was away: the process could not say that it goes on.
    assert_eq!(test.runs().settle_evaluations(now).await.unwrap(), []);
    test.sql(&format!("delete from houston.workers where id = '{worker}'"));
    let settled = test.runs().settle_evaluations(now).await.unwrap();
    assert_eq!(settled.iter().map(|one| (one.id, one.is_off)).collect::<Vec<_>>(), [(id, false)]);
}

/// As many triggers of the owner of this goal as `count`, which are due since so many minutes.
fn due(test: &TestStore, of: TriggerId, goal: AgentableId, count: i32, minutes: i32) {
    let (of, goal) = (of.0, goal.0);
    test.sql(&format!(
        "insert into houston.triggers
         select (jsonb_populate_record(t, jsonb_build_object(
                    'id', gen_random_uuid(), 'agentable_id', a.id, 'tenant_id', a.tenant_id, 'user_id', a.user_id,
                    'next_at', now() - interval '{minutes} minutes'))).*
           from houston.triggers t, houston.agentables a, generate_series(1, {count}) n
          where t.id = '{of}' and a.id = '{goal}'"
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn due_triggers_of_a_tenant_hold_back_no_other_tenant() {
    let test = TestStore::start().await;
    let stranger = test.store.operator().ensure_tenant(test.ids.next(), "stranger").await.unwrap();
    let theirs = goal(&test.store, &test.ids, stranger).await;
    let one = make(&test, every_ten_minutes(Misfire::Skip)).await;
    due(&test, one, test.goal, 50, 60);
    due(&test, one, theirs, 1, 1);
    let now = test.ids.clock().now();
    let found = test.runs().due_triggers(now, 10).await.unwrap();
    assert_eq!(found.len(), 10);
    assert_eq!(found.iter().filter(|due| due.agentable == theirs).count(), 1, "{found:?}");
    assert_eq!(test.runs().due_triggers(now, 1000).await.unwrap().len(), 51);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_past_what_may_wait_are_refused_with_the_reason() {
    let test = TestStore::start().await;
    let id = make(&test, event("message.posted")).await;
    let (trigger, tenant, goal) = (id.0, test.tenant.0, test.goal.0);
    test.sql(&format!(
        "insert into houston.trigger_firings (trigger_id, tenant_id, agentable_id, parent_id, seq, topic, cause, chain, depth, created_at)
         select '{trigger}', '{tenant}', '{goal}', '{goal}', 1000000 + n, 'message.posted', '{{}}', '{{}}', 0, now()
           from generate_series(1, 9999) n"
    ));
    for text in ["one", "two", "three"] {
        test.post(text).await;
    }
    let now = test.ids.clock().now();
    let mut heard = 0;
    while let Listened::Read { heard: more, has_more } =
        test.runs().listen_for_triggers(Reading { limit: 1000, ..READING }, now).await.unwrap()
    {
        heard += more;
        if !has_more {
            break;
        }
    }
    assert_eq!(heard, 1, "the last that may wait");
    let (refused, why) = test.requests().trigger(id).await.unwrap().refused;
    assert_eq!(refused, 2, "{why:?}");
    assert!(why.unwrap().starts_with("backlog: 10000 events"));
    assert!(test.requests().trigger(id).await.unwrap().enabled);
}
