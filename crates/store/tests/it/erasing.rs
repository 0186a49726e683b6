//! Erasing: afterwards no table names the erased user or goal, whatever ran meanwhile, and no one else has lost a row.

use std::collections::{BTreeMap, BTreeSet};

use houston_domain::conversation::Conversation;
use houston_domain::id::{AgentableId, ErasureId, ImageId, UserId};
use houston_domain::image::{ImageHeader, ImageType};
use houston_domain::run::RunStatus;
use houston_domain::step::RunTransition;
use houston_objects::Objects;
use houston_store::Error;
use houston_store::agentable::{Agentable, NewAgentable};
use houston_store::conversation::{ExportOptions, NewConversation, Origin};
use houston_store::erasure::sweep::Swept;
use houston_store::erasure::{Requested, Target};
use houston_store::idempotency::Created;
use houston_store::image::NewImage;
use houston_store::serving::ServedBy;
use serde_json::Value;
use tempfile::TempDir;

use crate::step::{ending, finished};
use crate::test_store::{TestStore, goal};

/// Tables without data of a user. The rows of a new table with such data belong into `erasing.sql`.
const WITHOUT_USER: [&str; 22] = [
    "moved_shards",
    "paused_lanes",
    "resumed_lanes",
    // Its run is only how far a walk is.
    "retention_walks",
    // It has ids and no content, and is deleted by age.
    "audit",
    "migrations",
    "functions",
    "installation",
    "settings",
    "agents",
    "cron_ticks",
    "erased_spending",
    "erasures",
    "health_changes",
    "health_checks",
    "readers",
    // An agentable in it is only where the replay goes on.
    "replays",
    "team_agents",
    "teams",
    "tenants",
    "tool_sources",
    "workers",
];

pub(crate) fn fill(test: &TestStore, goal: AgentableId, word: &str) {
    let text = include_str!("erasing.sql").replace(":goal", &goal.0.to_string()).replace(":word", word);
    test.sql(&text.replace(":memory", &format!("memory of {word}")));
}

pub(crate) fn user_of(test: &TestStore, goal: AgentableId) -> UserId {
    let id = test.sql(&format!("select user_id from houston.agentables where id = '{}'", goal.0));
    UserId(id.trim().parse().unwrap())
}

/// A store whose objects are in a folder.
async fn start() -> (TestStore, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut test = TestStore::start().await;
    let objects = Objects::open(&format!("file://{}", folder.path().display())).unwrap();
    test.store = test.store.clone().with(|own| own.objects = Some(objects));
    (test, folder)
}

/// All ids of a goal or its user, as written in columns and in texts, and the word.
pub(crate) fn needles(test: &TestStore, goal: AgentableId, word: &str, with_user: bool) -> String {
    let user = user_of(test, goal).0;
    let of = if with_user {
        format!("user_id = '{user}'")
    } else {
        format!("id = '{0}' or parent_id = '{0}'", goal.0)
    };
    let users = if with_user { format!("union select '{user}'") } else { String::new() };
    let ids = test.sql(&format!(
        "with a as (select id from houston.agentables where {of}),
         ids as (select id from a union select r.id from houston.runs r join a on a.id = r.agentable_id
                 union select m.id from houston.messages m join a on a.id = m.agentable_id
                 union select s.id from houston.sessions s join a on a.id = s.agentable_id {users})
         select id::text from ids union all select replace(id::text, '-', '') from ids"
    ));
    let needles: Vec<&str> = ids.lines().chain(std::iter::once(word)).collect();
    format!("array['{}']", needles.join("','"))
}

/// How many rows of each table contain one of the needles.
pub(crate) fn naming(test: &TestStore, needles: &str) -> BTreeMap<String, i64> {
    let rows = test.sql(&format!("select name || ' ' || rows from public.naming({needles}) where rows > 0"));
    let row = |line: &str| line.split_once(' ').map(|(name, rows)| (name.to_owned(), rows.parse().unwrap()));
    rows.lines().filter_map(row).collect()
}

async fn request(test: &TestStore, target: Target<'_>) -> Requested {
    test.requests().request_erasure(target, test.ids.next(), None).await.unwrap()
}

/// Deletes until nothing is left to delete. Returns how many batches it took.
async fn sweep(test: &TestStore, rows: i64) -> usize {
    let mut batches = 0;
    loop {
        match test.runs().erase_some(rows).await.unwrap() {
            Swept::Nothing => break,
            Swept::Waits => assert_eq!(test.runs().drop_objects(10).await.unwrap().failed, 0),
            Swept::More | Swept::Done(_) => {}
        }
        batches += 1;
        assert!(batches < 10_000, "it does not end");
    }
    batches
}

#[tokio::test(flavor = "multi_thread")]
async fn erased_user_is_named_in_no_table() {
    let (test, _objects) = start().await;
    let other = goal(&test.store, &test.ids, test.tenant).await;
    fill(&test, test.goal, "canary");
    fill(&test, other, "sparrow");
    test.post("canary").await;
    let claimed = test.claim().await.unwrap();
    let (ours, theirs) = (needles(&test, test.goal, "canary", true), needles(&test, other, "sparrow", true));
    let before = naming(&test, &ours);
    let tables = test.sql(
        "select table_name from information_schema.tables
          where table_schema = 'houston' and table_type = 'BASE TABLE'",
    );
    let forgotten: BTreeSet<&str> = tables
        .lines()
        .filter(|table| !before.contains_key(*table) && !WITHOUT_USER.contains(table))
        .collect();
    assert!(forgotten.is_empty(), "add rows of these to erasing.sql: {forgotten:?}");
    let of_others = naming(&test, &theirs);

    let user = user_of(&test, test.goal);
    let requested = request(&test, Target::User(user)).await;
    assert_eq!(requested.stopped, [(test.goal, claimed.run)]);
    assert_eq!(requested.agentables.len(), 4, "the goal, its task, its plan, the user's own agent");
    let missing = |error: Error| assert!(matches!(error, Error::NotFound { .. }), "{error}");
    missing(test.requests().user(user).await.unwrap_err());
    missing(test.requests().agentable("goal", test.goal).await.unwrap_err());
    missing(test.requests().run(claimed.run).await.unwrap_err());
    missing(test.try_post("again", None).await.unwrap_err());
    let end = RunTransition::Terminate {
        event: finished(RunStatus::Completed),
        ending: ending(RunStatus::Completed),
    };
    let zombie = test.runs().commit(&claimed.fence, &test.step(&claimed, end)).await;
    assert!(matches!(zombie, Err(Error::Fenced)), "{zombie:?}");
    assert_eq!(
        request(&test, Target::User(user)).await.erasure.id,
        requested.erasure.id,
        "a repeated request returns the first"
    );

    sweep(&test, 2).await;
    let mut left = naming(&test, &ours);
    assert_eq!(left.remove("erasures"), Some(1), "the request itself stays");
    assert_eq!(left, BTreeMap::new(), "nothing names the user");
    assert_eq!(naming(&test, &theirs), of_others, "the other user lost nothing");
    let audit = test.sql(
        "select concat_ws('|', kind, agentables, deleted ->> 'messages', completed_at is not null)
                             from houston.erasures",
    );
    assert_eq!(audit.trim(), "user|{}|2|t");
    let spent = test.sql("select concat_ws('|', day, cost, model_calls) from houston.erased_spending");
    assert_eq!(spent.trim(), "2026-11-22|1.0|2", "the costs stay, without a user");
    missing(
        test.requests()
            .request_erasure(Target::User(UserId(test.ids.next())), test.ids.next(), None)
            .await
            .unwrap_err(),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn erasing_a_goal_erases_its_tasks_and_no_user_data() {
    let (test, _objects) = start().await;
    fill(&test, test.goal, "canary");
    let ours = needles(&test, test.goal, "canary", false);
    test.sql("update houston.users set name = 'Ann', external_id = null, guards = null");
    test.sql("update houston.api_keys set name = 'phone' where user_id is not null");
    test.sql("update houston.grants set tool = 'send_mail', granted_by = 'Ann' where agentable_id is null");
    test.sql("update houston.snippets set description = '', code = ''");
    test.sql("update houston.profiles set facts = '{}'");
    test.sql("update houston.webhooks set description = 'of Ann' where user_id is not null");
    test.sql("delete from houston.skills");
    test.sql(
        "delete from houston.mcp_logins; delete from houston.mcp_accounts; delete from houston.mcp_servers",
    );
    // The other attachment is of a message of the goal, and goes with it.
    test.sql(
        "delete from houston.attachments where object_id is not null; delete from houston.attachment_objects",
    );
    test.sql("delete from houston.context_cache");
    test.sql("update houston.todos set title = 'Ann buys milk'");
    test.sql("update houston.custom_tables set description = 'of Ann'");
    test.sql("update houston.custom_records set data = '{}'");
    test.sql("update houston.knowledge_items set content = '' where kind = 'custom_instruction'");
    test.sql("update houston.knowledge_items set content = 'Ann likes trains' where kind = 'memory'");
    test.sql("update houston.idempotency_keys set response = response - 'name' where key like 'user %'");
    let user = user_of(&test, test.goal);
    let own = test
        .sql(&format!("select id from houston.agentables where user_id = '{}' and made_with_user", user.0));
    let stranger = test.store.operator().ensure_tenant(test.ids.next(), "stranger").await.unwrap();
    let target = Target::Agentable("goal", test.goal);
    for (tenant, target) in [(stranger, target), (test.tenant, Target::Agentable("task", test.goal))] {
        let refused = test.store.tenant(tenant).request_erasure(target, test.ids.next(), None).await;
        assert!(matches!(refused, Err(Error::NotFound { .. })), "{refused:?}");
    }
    request(&test, target).await;
    sweep(&test, 1000).await;
    let mut left = naming(&test, &ours);
    assert_eq!(left.remove("erasures"), Some(1));
    assert_eq!(left, BTreeMap::new());
    let counts = test.sql(
        "select (select count(*) from houston.knowledge_items where kind = 'memory') || '|' || (select count(*) from houston.profiles)
                          || '|' || (select count(*) from houston.spending)",
    );
    assert_eq!(counts.trim(), "1|1|1");
    let agents = test.sql("select id from houston.agentables");
    assert_eq!(agents.trim(), own.trim(), "the user's own agent is left");
}

/// A batch fails at each table in turn: it is rolled back as a whole, and the next batch repeats it.
#[tokio::test(flavor = "multi_thread")]
async fn erasing_resumes_after_a_failure_in_any_batch() {
    let (test, _objects) = start().await;
    fill(&test, test.goal, "canary");
    test.sql(
        "create function public.boom() returns trigger language plpgsql as
         $$ begin raise exception 'the worker died' using errcode = '57P01'; end $$",
    );
    let ours = needles(&test, test.goal, "canary", true);
    request(&test, Target::User(user_of(&test, test.goal))).await;
    for table in [
        "idempotency_keys",
        "sessions",
        "tool_calls",
        "model_calls",
        "runs",
        "messages",
        "events",
        "history",
        "compressions",
        "tool_results",
        "workspace_files",
        "knowledge_items for each row when (old.kind = 'note')",
        "knowledge_items for each row when (old.kind = 'learning')",
        "agentables",
        "knowledge_items for each row when (old.kind = 'memory')",
        "spending",
        "users",
    ] {
        let (name, rows) = table.split_once(' ').unwrap_or((table, "for each row"));
        test.sql(&format!(
            "create trigger boom before delete on houston.{name} {rows} execute function public.boom()"
        ));
        let mut batches = 0;
        let died = loop {
            match test.runs().erase_some(1).await {
                Ok(Swept::More) => batches += 1,
                Ok(Swept::Waits) => drop(test.runs().drop_objects(10).await.unwrap()),
                other => break other,
            }
            assert!(batches < 1_000, "{table} is not reached");
        };
        assert!(died.as_ref().is_err_and(|error| error.to_string().contains("died")), "{table}: {died:?}");
        test.sql(&format!("drop trigger boom on houston.{name}"));
    }
    sweep(&test, 1).await;
    let mut left = naming(&test, &ours);
    left.remove("erasures");
    assert_eq!(left, BTreeMap::new());
    let counted = test.sql("select deleted ->> 'runs' from houston.erasures");
    assert_eq!(counted.trim(), "1", "rolled-back deletions are not counted");
}

#[tokio::test(flavor = "multi_thread")]
async fn goal_with_100k_messages_is_erased_while_others_work() {
    let (test, _objects) = start().await;
    test.post("hello").await;
    test.sql(&format!(
        "insert into houston.messages (id, tenant_id, agentable_id, seq, source, message_type, content, run_id)
         select gen_random_uuid(), m.tenant_id, m.agentable_id, 10 + n, 'user', 'text', 'x', m.run_id
           from houston.messages m, generate_series(1, 100000) n where m.agentable_id = '{}'",
        test.goal.0
    ));
    let other = goal(&test.store, &test.ids, test.tenant).await;
    request(&test, Target::Agentable("goal", test.goal)).await;
    let (mut batches, mut others) = (0, 0);
    loop {
        let (swept, posted) = tokio::join!(test.runs().erase_some(5_000), test.post_to(other, "and me"));
        assert!(matches!(posted, Ok(Created::New(_))), "{posted:?}");
        others += 1;
        match swept.unwrap() {
            Swept::Nothing => break,
            _ => batches += 1,
        }
    }
    assert!(batches > 20, "{batches} batches");
    let left = test.sql("select agentable_id, count(*) from houston.messages group by 1");
    assert_eq!(left.trim(), format!("{}|{others}", other.0));
}

/// A fork of a goal.
fn fork_of<'a>(
    test: &TestStore,
    original: &Agentable,
    conversation: &'a Conversation,
) -> NewConversation<'a> {
    let agentable = NewAgentable {
        id: test.ids.next(),
        user: original.user,
        kind: "goal",
        title: "Copy",
        description: "",
        status: None,
        tools: None,
        created_at: original.created_at,
    };
    let origin = Some(Origin { id: original.id, served_by: ServedBy::default() });
    NewConversation { agentable, conversation, digest: None, run: test.ids.next(), origin }
}

/// Posts an image of one byte to a goal.
async fn post_image(
    test: &TestStore,
    (goal, user): (AgentableId, UserId),
    byte: u8,
) -> houston_store::Result<()> {
    let header = ImageHeader { image_type: ImageType::Png, width: 1, height: 1 };
    let data = [byte];
    let image = NewImage { id: ImageId::of(user, &data), header, data: &data };
    test.requests().put_images((goal, user), &[image], 100).await
}

/// Posts, images, forks, notes, ends of tasks and requests race: in any order, nothing is left in the end.
#[tokio::test(flavor = "multi_thread")]
async fn writes_racing_with_an_erasure_leave_nothing_behind() {
    let (test, _objects) = start().await;
    for round in 0..8_u64 {
        let goal = goal(&test.store, &test.ids, test.tenant).await;
        let user = user_of(&test, goal);
        test.post_to(goal, "first").await.unwrap();
        let claimed = test.claim_of(goal).await.unwrap();
        let original = test.requests().agentable("goal", goal).await.unwrap();
        let options = ExportOptions { until: None, knowledge: true, max_bytes: 1 << 20 };
        let conversation = test.requests().conversation(&original, &options).await.unwrap();
        let new = fork_of(&test, &original, &conversation);
        let end = RunTransition::Terminate {
            event: finished(RunStatus::Completed),
            ending: ending(RunStatus::Completed),
        };
        let step = test.step(&claimed, end);
        let target = if round % 2 == 0 { Target::User(user) } else { Target::Agentable("goal", goal) };
        let posts = async {
            for _ in 0..10 {
                let _ = test.post_to(goal, "more").await;
            }
        };
        let images = async {
            for nth in 0..10 {
                let _ = post_image(&test, (goal, user), nth).await;
            }
        };
        let erase = async {
            tokio::time::sleep(std::time::Duration::from_micros(round * 700)).await;
            tokio::join!(request(&test, target), request(&test, target))
        };
        let (first, second) = tokio::join!(
            erase,
            posts,
            images,
            test.runs().commit(&claimed.fence, &step),
            test.requests().create_conversation(&new, &test.ids, (None, &Value::Null)),
        )
        .0;
        assert_eq!(first.erasure.id, second.erasure.id, "two requests at once are one");
        sweep(&test, 100).await;
        let id: ErasureId = first.erasure.id;
        assert!(test.requests().erasure(id).await.unwrap().completed_at.is_some());
        let table = |name: &str| {
            test.sql(&format!("select count(*) from houston.{name} where agentable_id = '{}'", goal.0))
        };
        for name in ["messages", "events", "history", "runs", "run_locks", "image_uses"] {
            assert_eq!(table(name).trim(), "0", "{name} in round {round}");
        }
        assert_eq!(test.sql("select count(*) from houston.images").trim(), "0", "round {round}");
        let of_user =
            test.sql(&format!("select count(*) from houston.agentables where user_id = '{}'", user.0));
        if round % 2 == 0 {
            assert_eq!(of_user.trim(), "0", "a copy belongs to the user: it was erased or never created");
        }
    }
}
