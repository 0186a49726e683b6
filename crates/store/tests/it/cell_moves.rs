//! Moving users to another cell: everything of theirs goes, nothing of others, and a run that is held stays until it ends. Nothing
//! is written for them at the source afterwards, whatever a process knows.

use std::time::Duration;

use houston_domain::cell::{CellName, Cells, MovedShards, ShardRange};
use houston_domain::id::{ApiKeyId, Shard, UserId, shard};
use houston_domain::scope::{Scope, Scopes};
use houston_store::agentable::NewAgentable;
use houston_store::cell_move::{Moved, Names, settle};
use houston_store::client_token::NewClientToken;
use houston_store::copies::Copies;
use houston_store::moves::Moves;
use houston_store::user::User;
use houston_store::{ApiStore, Error};
use serde_json::Value;

use crate::erasing::{fill, naming, needles, user_of};
use crate::step::answer;
use crate::test_store::{TestStore, goal};
use crate::triggers::{LIMITS, answer_run, event, hear, make};

/// Tables whose rows name users and stay: keys and webhooks, of which each cell has copies, what is deleted by age, and what
/// may be lost.
const STAY: [&str; 5] = ["api_keys", "webhooks", "replays", "audit", "rates"];

/// The names of the two cells.
const LOW: CellName = CellName::Shards(ShardRange { first: Shard(0), last: Shard(0x7fff) });
const HIGH: CellName = CellName::Shards(ShardRange { first: Shard(0x8000), last: Shard(u16::MAX) });

const FORTH: Names<'static> = Names { from: &LOW, to: &HIGH };
const BACK: Names<'static> = Names { from: &HIGH, to: &LOW };

/// The shard of a user.
fn of(user: UserId) -> ShardRange {
    ShardRange { first: shard(user), last: shard(user) }
}

/// Two cells; what is the tenant's is in both.
async fn cells() -> (TestStore, TestStore) {
    let (from, to) = small_cells().await;
    fill(&from, from.goal, "canary");
    // It makes the function that counts rows there, too.
    fill(&to, to.goal, "sparrow");
    Copies::new(&stores(&from, &to)).copy(from.tenant).await.unwrap();
    (from, to)
}

/// Two cells with what the tests of one cell begin with.
async fn small_cells() -> (TestStore, TestStore) {
    let (from, to) = (TestStore::start().await, TestStore::start().await);
    to.sql("update houston.tenants set name = 'other'");
    Copies::new(&stores(&from, &to)).copy(from.tenant).await.unwrap();
    (from, to)
}

fn stores(from: &TestStore, to: &TestStore) -> Cells<ApiStore> {
    Cells::new([(LOW, from.store.api()), (HIGH, to.store.api())]).unwrap()
}

async fn move_forth(from: &TestStore, to: &TestStore, shards: ShardRange) {
    let moved = from.store.move_shards(&to.store, FORTH, shards).await.unwrap();
    assert!(matches!(moved, Moved::Done(_)), "{moved:?}");
}

fn user(test: &TestStore, shard: Shard, external_id: Option<&str>) -> User {
    User {
        id: test.ids.next_in(shard),
        external_id: external_id.map(str::to_owned),
        name: "Bob".into(),
        time_zone: "UTC".into(),
        created_at: test.ids.clock().now(),
        cost: houston_store::cost::Cost::NOTHING,
    }
}

/// What is stored as real requests store it: ids of what they made are beside the user's, a client token asked for an erasure.
fn as_requests_do(test: &TestStore, user: UserId) {
    let (user, tenant) = (user.0, test.tenant.0);
    test.sql(&format!(
        "update houston.idempotency_keys set resource_id = houston.id_beside('{user}') where tenant_id = '{tenant}';
         insert into houston.api_keys (id, tenant_id, name, prefix, secret_sha256)
         values (gen_random_uuid(), '{tenant}', 'parent', 'hou_', '\\x01');
         insert into houston.api_keys (id, tenant_id, name, prefix, secret_sha256, user_id, parent_id, expires_at)
         select houston.id_beside('{user}'), tenant_id, 'client token', 'hou_', '\\x02', '{user}', id, now() + interval '1 hour'
           from houston.api_keys where name = 'parent';
         insert into houston.erasures (id, tenant_id, api_key_id, kind, resource_id, completed_at)
         select houston.id_beside('{user}'), tenant_id, id, 'goal', houston.id_beside('{user}'), now()
           from houston.api_keys where name = 'client token'"
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn moved_user_has_the_same_rows_in_the_other_cell() {
    let (from, to) = cells().await;
    let user = user_of(&from, from.goal);
    as_requests_do(&from, user);
    Copies::new(&stores(&from, &to)).copy(from.tenant).await.unwrap();
    let other = goal(&from.store, &from.ids, from.tenant).await;
    fill(&from, other, "finch");
    let posted = from.post("canary").await;
    let (ours, theirs) = (needles(&from, from.goal, "canary", true), needles(&from, other, "finch", true));
    let (mut before, of_others) = (naming(&from, &ours), naming(&from, &theirs));
    assert!(from.store.users_of(of(user)).await.unwrap().contains(&user));

    let moved = from.store.move_shards(&to.store, FORTH, of(user)).await.unwrap();
    assert!(matches!(moved, Moved::Done(rows) if rows > 50), "{moved:?}");
    let (mut left, mut there) = (naming(&from, &ours), naming(&to, &ours));
    for table in STAY {
        for rows in [&mut left, &mut there, &mut before] {
            rows.remove(table);
        }
    }
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(there, before);
    assert_eq!(naming(&from, &theirs), of_others);
    let by_token = "select count(*) from houston.erasures e join houston.api_keys k on k.id = e.api_key_id and k.name = 'client token'";
    assert_eq!(to.sql(by_token), "1", "a client token goes with its user");
    let moves = [MovedShards { shards: of(user), version: 1, cell: HIGH }];
    assert_eq!(from.store.api().moves().await.unwrap(), moves);
    assert_eq!(to.store.api().moves().await.unwrap(), moves);

    // What was posted before is read there.
    let claimed = to.claim_of(from.goal).await.unwrap();
    let unread = to.sql(&format!("select count(*) from houston.messages where id = '{}'", posted.id.0));
    assert_eq!(unread, "1");
    // And back again.
    let back = || to.store.move_shards(&from.store, BACK, of(user));
    assert_eq!(back().await.unwrap(), Moved::Busy, "its run is held");
    to.runs().commit(&claimed.fence, &answer(&to, &claimed, "It is noon.")).await.unwrap();
    assert_eq!(back().await.unwrap(), Moved::Busy, "webhooks have not read the end of the run");
    // No process of this test reads for them.
    to.sql("update houston.readers set position = pg_current_snapshot()::text");
    let moved = back().await.unwrap();
    assert!(matches!(moved, Moved::Done(_)), "{moved:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn triggers_hear_each_event_once_across_a_move() {
    let (from, to) = small_cells().await;
    let user = user_of(&from, from.goal);
    make(&from, event("run.finished")).await;
    from.post("What time is it?").await;
    answer_run(&from, from.goal).await;
    let forth = || from.store.move_shards(&to.store, FORTH, of(user));
    assert_eq!(forth().await.unwrap(), Moved::Busy, "the end of the run is not heard yet");
    assert_eq!(hear(&from, LIMITS).await, 1);
    answer_run(&from, from.goal).await;
    from.post("And now?").await;
    assert_eq!(hear(&from, LIMITS).await, 0, "the end of the run that the trigger has opened");

    let before = to.store.api().event_position().await.unwrap();
    let moved = forth().await.unwrap();
    assert!(matches!(moved, Moved::Done(_)), "{moved:?}");
    let arrival = to.store.api().arrival(Some(shard(user))).await.unwrap().unwrap();
    for position in [before, arrival] {
        let page = to.store.tenant(from.tenant).events_of_all(&position, 100).await.unwrap();
        let finished = page.events.iter().filter(|event| event.event.event.topic() == "run.finished");
        assert_eq!(finished.count(), 2, "a stream may not have read them at the source");
    }
    assert_eq!(hear(&to, LIMITS).await, 0, "what was heard before");
    answer_run(&to, from.goal).await;
    assert_eq!(hear(&to, LIMITS).await, 1, "what happens in the cell that had no trigger");
}

#[tokio::test(flavor = "multi_thread")]
async fn key_that_the_other_cell_has_stops_no_move() {
    let (from, to) = cells().await;
    let user = user_of(&from, from.goal);
    for (test, resource) in [(&from, user.0), (&to, to.goal.0)] {
        test.sql(&format!(
            "insert into houston.idempotency_keys (tenant_id, key, request_sha256, resource_id)
             values ('{}', 'it''s taken', '', '{resource}')",
            from.tenant.0
        ));
    }
    // A team's id has any shard; what made it is repeated where teams are made.
    from.sql(&format!(
        "insert into houston.teams (id, tenant_id, kind, name, router)
         values (houston.id_beside('{0}'), '{1}', 'goal', 'team', '{{}}');
         insert into houston.idempotency_keys (tenant_id, key, request_sha256, resource_id)
         select '{1}', 'of a team', '', id from houston.teams where name = 'team'",
        user.0, from.tenant.0
    ));
    move_forth(&from, &to, of(user)).await;
    for (key, here, there) in [("it''s taken", "0", "1"), ("of a team", "1", "0")] {
        let left = format!("select count(*) from houston.idempotency_keys where key = '{key}'");
        assert_eq!((from.sql(&left), to.sql(&left)), (here.to_owned(), there.to_owned()), "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_where_a_user_was() {
    let (from, to) = cells().await;
    let gone = user_of(&from, from.goal);
    // This process does not know of the move.
    move_forth(&from, &to, of(gone)).await;
    let new = user(&from, shard(gone), Some("bob"));
    for store in [from.store.clone(), from.store.clone().with(|own| own.is_unbatched = true)] {
        let refused = store.tenant(from.tenant).create_user(&new, &[], (None, &Value::Null)).await;
        assert!(matches!(&refused, Err(error @ Error::Moved) if error.is_transient()), "{refused:?}");
    }
    let posted = from.try_post("Hello?", None).await;
    assert!(matches!(posted, Err(Error::NotFound { .. })), "{posted:?}");
    assert!(from.claim().await.is_none());
    let goal = NewAgentable {
        id: from.ids.beside(gone),
        user: gone,
        kind: "goal",
        title: "Tokyo",
        description: "",
        status: None,
        tools: None,
        created_at: from.ids.clock().now(),
    };
    let made = from.requests().create_agentable(&goal, (None, &Value::Null)).await;
    assert!(matches!(made, Err(Error::NotFound { .. })), "{made:?}");
    // Where they are now, and beside them, it can be done; and here again when they have come back.
    to.store.tenant(from.tenant).create_user(&new, &[], (None, &Value::Null)).await.unwrap();
    let beside = user(&from, Shard(shard(gone).0 ^ 1), None);
    from.requests().create_user(&beside, &[], (None, &Value::Null)).await.unwrap();
    let back = to.store.move_shards(&from.store, BACK, of(gone)).await.unwrap();
    assert!(matches!(back, Moved::Done(_)), "{back:?}");
    let another = user(&from, shard(gone), None);
    from.requests().create_user(&another, &[], (None, &Value::Null)).await.unwrap();
    let refused = to
        .store
        .tenant(from.tenant)
        .create_user(&user(&from, shard(gone), None), &[], (None, &Value::Null))
        .await;
    assert!(matches!(refused, Err(Error::Moved)), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn users_who_are_created_during_moves_are_in_one_cell() {
    let (from, to) = cells().await;
    let shards: Vec<Shard> = (0x100..0x120).map(Shard).collect();
    let users: Vec<User> = shards.iter().cycle().take(320).map(|shard| user(&from, *shard, None)).collect();
    let create = async {
        let mut created = Vec::new();
        for users in users.chunks(16) {
            let made = users.iter().map(|user| {
                let store = from.requests();
                async move { (user.id, store.create_user(user, &[], (None, &Value::Null)).await) }
            });
            for (id, made) in futures_util::future::join_all(made).await {
                match made {
                    Ok(_) => created.push(id),
                    Err(error) => assert!(error.is_transient(), "{error}"),
                }
            }
        }
        created
    };
    let moves = async {
        for first in &shards {
            let one = ShardRange { first: *first, last: *first };
            while from.store.move_shards(&to.store, FORTH, one).await.unwrap() == Moved::Busy {}
        }
    };
    let (created, ()) = tokio::join!(create, moves);
    let all = ShardRange { first: shards[0], last: shards[shards.len() - 1] };
    assert_eq!(from.store.users_of(all).await.unwrap(), [], "all are at the target");
    let mut there = to.store.users_of(all).await.unwrap();
    let mut created = created;
    there.sort_unstable();
    created.sort_unstable();
    assert_eq!(there, created);
}

#[tokio::test(flavor = "multi_thread")]
async fn client_tokens_made_during_a_move_are_there_after_it() {
    let (from, to) = small_cells().await;
    let user = user_of(&from, from.goal);
    let parent: ApiKeyId = from.ids.next();
    from.sql(&format!(
        "insert into houston.api_keys (id, tenant_id, name, prefix, secret_sha256) values ('{}', '{}', 'parent', 'hou_', '\\x01')",
        parent.0, from.tenant.0
    ));
    Copies::new(&stores(&from, &to)).copy(from.tenant).await.unwrap();
    let scopes: Scopes = [Scope::Read].into_iter().collect();
    // The move holds the locks longer than a statement waits for them if the machine is busy.
    let is_locked = |error: &Error| error.sqlstate().as_deref() == Some("55P03");
    let make = async {
        let mut made = Vec::new();
        for nth in 0.. {
            let id: ApiKeyId = from.ids.beside(user);
            let (token, lifetime) = (format!("hou_client_{}", id.0), Duration::from_secs(600));
            let new = NewClientToken { id, parent, token: &token, scopes, user, agentables: None, lifetime };
            match from.requests().create_client_token(&new).await {
                Ok(_) => made.push(id),
                Err(Error::NotFound { .. }) => break,
                Err(error) if is_locked(&error) => continue,
                Err(error) => panic!("{error}"),
            }
            if nth % 2 == 0 {
                continue;
            }
            match from.requests().delete_client_token_of_user(id, None).await {
                Ok(()) => {
                    made.pop();
                }
                Err(Error::NotFound { .. }) => break,
                Err(error) if is_locked(&error) => {}
                Err(error) => panic!("{error}"),
            }
        }
        made
    };
    let moves =
        async { while from.store.move_shards(&to.store, FORTH, of(user)).await.unwrap() == Moved::Busy {} };
    let (made, ()) = tokio::join!(make, moves);
    let of_user = format!("select id from houston.api_keys where user_id = '{}' order by id", user.0);
    let mut made: Vec<String> = made.iter().map(|id| id.0.to_string()).collect();
    made.sort_unstable();
    assert_eq!(to.sql(&of_user).lines().collect::<Vec<_>>(), made);
}

#[tokio::test(flavor = "multi_thread")]
async fn attempt_that_was_killed_is_settled_by_the_next() {
    let (from, to) = cells().await;
    // Killed before the source committed, and after it: the source's row decides. So it does when the source has used the
    // version for a move to another cell since.
    for (version, committed, by_process, stays) in [
        (101, None, false, "0"),
        (102, Some("8000-ffff"), false, "1"),
        (201, None, true, "0"),
        (202, Some("8000-ffff"), true, "1"),
        (301, Some("third"), true, "0"),
        (401, Some("third"), false, "0"),
    ] {
        if let Some(cell) = committed {
            from.sql(&format!(
                "insert into houston.moved_shards (version, first, last, cell) values ({version}, 1, 1, '{cell}')"
            ));
        }
        to.sql(&format!(
            "begin; insert into houston.paused_lanes (lane) values ('{version}');
             prepare transaction 'houston move from {LOW} {version}'"
        ));
        if by_process {
            let settled = settle(&stores(&from, &to), Duration::ZERO).await.unwrap();
            assert_eq!(settled, 1);
        } else {
            move_forth(&from, &to, ShardRange { first: Shard(2), last: Shard(2) }).await;
        }
        let lanes = to.sql(&format!("select count(*) from houston.paused_lanes where lane = '{version}'"));
        assert_eq!(lanes, stays, "committed {committed:?}, by a process {by_process}");
    }
    assert_eq!(to.sql("select count(*) from pg_prepared_xacts where gid like 'houston move%' and database = current_database()"), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn move_is_independent_of_other_databases_of_the_server() {
    let ((from, to), other) = (small_cells().await, TestStore::start().await);
    other.sql(&format!("begin; select txid_current(); prepare transaction 'houston move from {LOW} 1'"));
    let moved = from.store.move_shards(&to.store, FORTH, of(user_of(&from, from.goal))).await;
    other.sql(&format!("rollback prepared 'houston move from {LOW} 1'"));
    assert!(matches!(moved, Ok(Moved::Done(_))), "{moved:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn move_that_goes_on_is_not_settled() {
    let (from, to) = cells().await;
    to.sql(&format!(
        "begin; insert into houston.paused_lanes (lane) values ('kept');
         prepare transaction 'houston move from {LOW} 9 1'"
    ));
    // The source of a move holds this lock until it has committed.
    let mut holder = from
        .database
        .psql("begin; lock table houston.users in share row exclusive mode; select pg_sleep(30)")
        .spawn()
        .unwrap();
    let until = tokio::time::Instant::now() + Duration::from_secs(20);
    let locking =
        "from pg_locks where mode = 'ShareRowExclusiveLock' and relation = 'houston.users'::regclass
                     and database = (select oid from pg_database where datname = current_database())";
    while from.sql(&format!("select count(*) {locking}")) == "0" {
        assert!(tokio::time::Instant::now() < until, "the lock is taken");
    }
    assert_eq!(settle(&stores(&from, &to), Duration::ZERO).await.unwrap(), 0);
    let prepared = "select count(*) from pg_prepared_xacts where gid like 'houston move%' and database = current_database()";
    assert_eq!(to.sql(prepared), "1");
    holder.kill().unwrap();
    holder.wait().unwrap();
    from.sql(&format!("select pg_terminate_backend(pid) {locking}"));
    assert_eq!(settle(&stores(&from, &to), Duration::ZERO).await.unwrap(), 1);
    assert_eq!(to.sql(prepared), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn cell_says_whether_it_has_a_shard() {
    let (from, to) = cells().await;
    let stores = stores(&from, &to);
    let moves = Moves::new(&stores);
    let gone = user_of(&from, from.goal);
    assert_eq!(moves.has(0, shard(gone)).await, shard(gone).0 <= 0x7fff);
    move_forth(&from, &to, of(gone)).await;
    let asked = (0..500).map(|_| moves.has(0, shard(gone)));
    assert!(futures_util::future::join_all(asked).await.iter().all(|has| !has), "each answer is right");
    assert!(moves.has(1, shard(gone)).await);
    assert_eq!(stores.number_of(shard(gone)), 1, "the answer is followed");
}
