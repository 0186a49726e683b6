//! Erasing: afterwards no table names what was erased, whatever happened meanwhile, and nobody else has lost a row.

use std::collections::{BTreeMap, BTreeSet};

use houston_domain::id::{AgentableId, ErasureId, UserId};
use houston_domain::run::RunStatus;
use houston_store::Error;
use houston_store::agentable::NewAgentable;
use houston_store::conversation::{NewConversation, Origin, Reading};
use houston_store::erasure::sweep::Swept;
use houston_store::erasure::{Requested, Target};
use houston_store::idempotency::Created;
use houston_store::serving::ServedBy;
use houston_store::step::RunTransition;
use serde_json::Value;

use crate::fresh::{Fresh, goal};
use crate::step::{ending, finished};

/// Tables that have nothing of a user: whoever adds one that has adds its rows to `erasing.sql`.
const OF_NOBODY: [&str; 13] = [
    "migrations",
    "installation",
    "settings",
    "agents",
    "api_keys",
    "cron_ticks",
    "erased_spending",
    "erasures",
    "health_checks",
    "team_agents",
    "teams",
    "tenants",
    "workers",
];

fn fill(fresh: &Fresh, goal: AgentableId, word: &str) {
    let text = include_str!("erasing.sql");
    let text = text.replace(":goal", &goal.0.to_string()).replace(":word", word);
    fresh.sql(&text.replace(":memory", &format!("memory of {word}")));
}

fn user_of(fresh: &Fresh, goal: AgentableId) -> UserId {
    let id = fresh.sql(&format!("select user_id from houston.agentables where id = '{}'", goal.0));
    UserId(id.trim().parse().unwrap())
}

/// All ids of a goal or its user, as they stand in rows and in texts; and the word.
fn needles(fresh: &Fresh, goal: AgentableId, word: &str, with_user: bool) -> String {
    let user = user_of(fresh, goal).0;
    let of = if with_user {
        format!("user_id = '{user}'")
    } else {
        format!("id = '{0}' or parent_id = '{0}'", goal.0)
    };
    let users = if with_user { format!("union select '{user}'") } else { String::new() };
    let ids = fresh.sql(&format!(
        "with a as (select id from houston.agentables where {of}),
         ids as (select id from a union select r.id from houston.runs r join a on a.id = r.agentable_id
                 union select m.id from houston.messages m join a on a.id = m.agentable_id
                 union select s.id from houston.sessions s join a on a.id = s.agentable_id {users})
         select id::text from ids union all select replace(id::text, '-', '') from ids"
    ));
    let needles: Vec<&str> = ids.lines().chain(std::iter::once(word)).collect();
    format!("array['{}']", needles.join("','"))
}

/// How many rows of each table name one of them.
fn naming(fresh: &Fresh, needles: &str) -> BTreeMap<String, i64> {
    let rows = fresh.sql(&format!("select name || ' ' || rows from public.naming({needles}) where rows > 0"));
    let row = |line: &str| line.split_once(' ').map(|(name, rows)| (name.to_owned(), rows.parse().unwrap()));
    rows.lines().filter_map(row).collect()
}

async fn request(fresh: &Fresh, target: Target<'_>) -> Requested {
    fresh.store.request_erasure(fresh.tenant, target, fresh.ids.next(), None).await.unwrap()
}

/// Deletes until nothing is left to delete. Returns how many batches it took.
async fn sweep(fresh: &Fresh, rows: i64) -> usize {
    let mut batches = 0;
    while fresh.store.erase_some(rows).await.unwrap() != Swept::Nothing {
        batches += 1;
        assert!(batches < 10_000, "it does not end");
    }
    batches
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_user_is_named_in_no_table() {
    let fresh = Fresh::start().await;
    let other = goal(&fresh.store, &fresh.ids, fresh.tenant).await;
    fill(&fresh, fresh.goal, "canary");
    fill(&fresh, other, "sparrow");
    fresh.post("canary").await;
    let claimed = fresh.claim().await.unwrap();
    let (ours, theirs) =
        (needles(&fresh, fresh.goal, "canary", true), needles(&fresh, other, "sparrow", true));
    let before = naming(&fresh, &ours);
    let tables = fresh.sql("select table_name from information_schema.tables where table_schema = 'houston'");
    let forgotten: BTreeSet<&str> =
        tables.lines().filter(|table| !before.contains_key(*table) && !OF_NOBODY.contains(table)).collect();
    assert!(forgotten.is_empty(), "add rows of these to erasing.sql: {forgotten:?}");
    let of_others = naming(&fresh, &theirs);

    let user = user_of(&fresh, fresh.goal);
    let requested = request(&fresh, Target::User(user)).await;
    assert_eq!(requested.stopped, [(fresh.goal, claimed.run)]);
    assert_eq!(requested.agentables.len(), 3, "the goal, its task, the user's own agent");
    let missing = |error: Error| assert!(matches!(error, Error::NotFound { .. }), "{error}");
    missing(fresh.store.user(fresh.tenant, user).await.unwrap_err());
    missing(fresh.store.agentable(fresh.tenant, "goal", fresh.goal).await.unwrap_err());
    missing(fresh.store.run(fresh.tenant, claimed.run).await.unwrap_err());
    missing(fresh.try_post("again", None).await.unwrap_err());
    let end =
        RunTransition::Terminate { event: finished(RunStatus::Completed), ending: ending(&fresh, RunStatus::Completed) };
    let zombie = fresh.store.commit(&claimed.fence, &fresh.step(&claimed, end)).await;
    assert!(matches!(zombie, Err(Error::Fenced)), "{zombie:?}");
    assert_eq!(request(&fresh, Target::User(user)).await.erasure.id, requested.erasure.id, "asked once");

    sweep(&fresh, 2).await;
    let mut left = naming(&fresh, &ours);
    assert_eq!(left.remove("erasures"), Some(1), "that it was asked for is kept");
    assert_eq!(left, BTreeMap::new(), "nothing names the user");
    assert_eq!(naming(&fresh, &theirs), of_others, "the other user lost nothing");
    let audit = fresh.sql(
        "select concat_ws('|', kind, agentables, deleted ->> 'messages', completed_at is not null)
                             from houston.erasures",
    );
    assert_eq!(audit.trim(), "user|{}|2|t");
    let spent = fresh.sql("select concat_ws('|', day, cost, model_calls) from houston.erased_spending");
    assert_eq!(spent.trim(), "2026-11-22|1.0|2", "what it cost stays, of nobody");
    missing(
        fresh
            .store
            .request_erasure(fresh.tenant, Target::User(UserId(fresh.ids.next())), fresh.ids.next(), None)
            .await
            .unwrap_err(),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_goal_takes_its_tasks_and_nothing_of_its_users_own() {
    let fresh = Fresh::start().await;
    fill(&fresh, fresh.goal, "canary");
    let ours = needles(&fresh, fresh.goal, "canary", false);
    fresh.sql("update houston.users set name = 'Ann', external_id = null");
    fresh
        .sql("update houston.profiles set facts = '{}'; update houston.custom_instructions set content = ''");
    fresh.sql("update houston.memories set content = 'Ann likes trains'");
    fresh.sql("update houston.idempotency_keys set response = response - 'name' where key like 'user %'");
    let user = user_of(&fresh, fresh.goal);
    let own = fresh
        .sql(&format!("select id from houston.agentables where user_id = '{}' and made_with_user", user.0));
    let stranger = fresh.store.ensure_tenant(fresh.ids.next(), "stranger").await.unwrap();
    let target = Target::Agentable("goal", fresh.goal);
    for (tenant, target) in [(stranger, target), (fresh.tenant, Target::Agentable("task", fresh.goal))] {
        let refused = fresh.store.request_erasure(tenant, target, fresh.ids.next(), None).await;
        assert!(matches!(refused, Err(Error::NotFound { .. })), "{refused:?}");
    }
    request(&fresh, target).await;
    sweep(&fresh, 1000).await;
    let mut left = naming(&fresh, &ours);
    assert_eq!(left.remove("erasures"), Some(1));
    assert_eq!(left, BTreeMap::new());
    let kept = fresh.sql(
        "select (select count(*) from houston.memories) || '|' || (select count(*) from houston.profiles)
                          || '|' || (select count(*) from houston.spending)",
    );
    assert_eq!(kept.trim(), "1|1|1");
    let agents = fresh.sql("select id from houston.agentables");
    assert_eq!(agents.trim(), own.trim(), "the user's own agent is left");
}

/// A batch breaks off at each table in turn: what it did is undone as a whole, and the next one does it again.
#[tokio::test(flavor = "multi_thread")]
async fn erasing_goes_on_wherever_a_batch_breaks_off() {
    let fresh = Fresh::start().await;
    fill(&fresh, fresh.goal, "canary");
    fresh.sql(
        "create function public.boom() returns trigger language plpgsql as
         $$ begin raise exception 'the worker died' using errcode = '57P01'; end $$",
    );
    let ours = needles(&fresh, fresh.goal, "canary", true);
    request(&fresh, Target::User(user_of(&fresh, fresh.goal))).await;
    for table in [
        "idempotency_keys",
        "sessions",
        "tool_calls",
        "model_calls",
        "runs",
        "messages",
        "events",
        "history",
        "notes",
        "learnings",
        "compressions",
        "tool_results",
        "agentables",
        "memories",
        "spending",
        "users",
    ] {
        fresh.sql(&format!(
            "create trigger boom before delete on houston.{table} for each row execute function public.boom()"
        ));
        let mut batches = 0;
        let died = loop {
            match fresh.store.erase_some(1).await {
                Ok(Swept::More) => batches += 1,
                other => break other,
            }
            assert!(batches < 1_000, "{table} is not reached");
        };
        assert!(died.as_ref().is_err_and(|error| error.to_string().contains("died")), "{table}: {died:?}");
        fresh.sql(&format!("drop trigger boom on houston.{table}"));
    }
    sweep(&fresh, 1).await;
    let mut left = naming(&fresh, &ours);
    left.remove("erasures");
    assert_eq!(left, BTreeMap::new());
    let counted = fresh.sql("select deleted ->> 'runs' from houston.erasures");
    assert_eq!(counted.trim(), "1", "what was undone is not counted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_goal_with_100k_messages_is_erased_in_batches_while_others_work() {
    let fresh = Fresh::start().await;
    fresh.post("hello").await;
    fresh.sql(&format!(
        "insert into houston.messages (id, tenant_id, agentable_id, seq, source, message_type, content, run_id)
         select gen_random_uuid(), m.tenant_id, m.agentable_id, 10 + n, 'user', 'text', 'x', m.run_id
           from houston.messages m, generate_series(1, 100000) n where m.agentable_id = '{}'",
        fresh.goal.0
    ));
    let other = goal(&fresh.store, &fresh.ids, fresh.tenant).await;
    request(&fresh, Target::Agentable("goal", fresh.goal)).await;
    let (mut batches, mut others) = (0, 0);
    loop {
        let (swept, posted) = tokio::join!(fresh.store.erase_some(5_000), fresh.post_to(other, "and me"));
        assert!(matches!(posted, Ok(Created::New(_))), "{posted:?}");
        others += 1;
        match swept.unwrap() {
            Swept::Nothing => break,
            _ => batches += 1,
        }
    }
    assert!(batches > 20, "{batches} batches");
    let left = fresh.sql("select agentable_id, count(*) from houston.messages group by 1");
    assert_eq!(left.trim(), format!("{}|{others}", other.0));
}

/// Posts, forks, notes, tasks that end and requests, all at once: whatever comes first, nothing is left in the end.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_races_with_an_erasure_leaves_nothing_behind() {
    let fresh = Fresh::start().await;
    for round in 0..8_u64 {
        let goal = goal(&fresh.store, &fresh.ids, fresh.tenant).await;
        let user = user_of(&fresh, goal);
        fresh.post_to(goal, "first").await.unwrap();
        let claimed = fresh.claim_of(goal).await.unwrap();
        let original = fresh.store.agentable(fresh.tenant, "goal", goal).await.unwrap();
        let reading = Reading { until: None, knowledge: true, max_bytes: 1 << 20 };
        let conversation = fresh.store.conversation(fresh.tenant, &original, &reading).await.unwrap();
        let copy = NewAgentable {
            id: fresh.ids.next(),
            user,
            kind: "goal",
            title: "Copy",
            description: "",
            status: None,
            tools: None,
            created_at: original.created_at,
        };
        let origin = Some(Origin { id: goal, served_by: ServedBy::default() });
        let new =
            NewConversation { agentable: copy, conversation: &conversation, run: fresh.ids.next(), origin };
        let end =
            RunTransition::Terminate { event: finished(RunStatus::Completed), ending: ending(&fresh, RunStatus::Completed) };
        let step = fresh.step(&claimed, end);
        let pause = |micros| tokio::time::sleep(std::time::Duration::from_micros(micros));
        let target = if round % 2 == 0 { Target::User(user) } else { Target::Agentable("goal", goal) };
        let posts = async {
            for _ in 0..10 {
                let _ = fresh.post_to(goal, "more").await;
            }
        };
        let erase = async {
            pause(round * 700).await;
            tokio::join!(request(&fresh, target), request(&fresh, target))
        };
        let (first, second) = tokio::join!(
            erase,
            posts,
            fresh.store.commit(&claimed.fence, &step),
            fresh.store.create_conversation(fresh.tenant, &new, &fresh.ids, None, &Value::Null),
        )
        .0;
        assert_eq!(first.erasure.id, second.erasure.id, "two requests at once are one");
        sweep(&fresh, 100).await;
        let id: ErasureId = first.erasure.id;
        assert!(fresh.store.erasure(fresh.tenant, id).await.unwrap().completed_at.is_some());
        let table = |name: &str| {
            fresh.sql(&format!("select count(*) from houston.{name} where agentable_id = '{}'", goal.0))
        };
        for name in ["messages", "events", "history", "runs", "run_locks"] {
            assert_eq!(table(name).trim(), "0", "{name} in round {round}");
        }
        let of_user =
            fresh.sql(&format!("select count(*) from houston.agentables where user_id = '{}'", user.0));
        if round % 2 == 0 {
            assert_eq!(of_user.trim(), "0", "a copy belongs to the user: it is gone or was never made");
        }
    }
}
