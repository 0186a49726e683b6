//! Moving users to another cell: everything of theirs goes, nothing of others, and a run that is held stays until it ends.

use houston_domain::cell::{Cells, ShardRange};
use houston_domain::id::{Shard, UserId, shard};
use houston_store::cell_move::{Moved, Names};
use houston_store::copies::Copies;

use crate::erasing::{fill, naming, needles, user_of};
use crate::step::answer;
use crate::test_store::{TestStore, goal};

/// Tables whose rows name users and stay: keys and webhooks, of which each cell has copies, what is deleted by age, and what
/// may be lost.
const STAY: [&str; 5] = ["api_keys", "webhooks", "replays", "audit", "rates"];

/// The names of the two cells.
const LOW: ShardRange = ShardRange { first: Shard(0), last: Shard(0x7fff) };
const HIGH: ShardRange = ShardRange { first: Shard(0x8000), last: Shard(u16::MAX) };

const FORTH: Names = Names { from: LOW, to: HIGH };
const BACK: Names = Names { from: HIGH, to: LOW };

/// The shard of a user.
fn of(user: UserId) -> ShardRange {
    ShardRange { first: shard(user), last: shard(user) }
}

/// Two cells; what is the tenant's is in both.
async fn cells() -> (TestStore, TestStore) {
    let (from, to) = (TestStore::start().await, TestStore::start().await);
    fill(&from, from.goal, "canary");
    // It makes the function that counts rows there, too.
    fill(&to, to.goal, "sparrow");
    let stores = Cells::new([(LOW, from.store.api()), (HIGH, to.store.api())]).unwrap();
    Copies::new(&stores).copy(from.tenant).await.unwrap();
    (from, to)
}

#[tokio::test(flavor = "multi_thread")]
async fn moved_user_has_the_same_rows_in_the_other_cell() {
    let (from, to) = cells().await;
    let other = goal(&from.store, &from.ids, from.tenant).await;
    fill(&from, other, "finch");
    let posted = from.post("canary").await;
    let (ours, theirs) = (needles(&from, from.goal, "canary", true), needles(&from, other, "finch", true));
    let (mut before, of_others) = (naming(&from, &ours), naming(&from, &theirs));
    let user = user_of(&from, from.goal);
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
    let moves = [(of(user), 1, HIGH)];
    assert_eq!(from.store.api().moves().await.unwrap(), moves);
    assert_eq!(to.store.api().moves().await.unwrap(), moves);

    // What was posted before is read there.
    let claimed = to.claim_of(from.goal).await.unwrap();
    let unread = to.sql(&format!("select count(*) from houston.messages where id = '{}'", posted.id.0));
    assert_eq!(unread, "1");
    // And back again.
    assert_eq!(
        to.store.move_shards(&from.store, BACK, of(user)).await.unwrap(),
        Moved::Busy,
        "its run is held"
    );
    to.runs().commit(&claimed.fence, &answer(&to, &claimed, "It is noon.")).await.unwrap();
    let back = to.store.move_shards(&from.store, BACK, of(user)).await.unwrap();
    assert!(matches!(back, Moved::Done(_)), "{back:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn attempt_that_was_killed_is_settled_by_the_next() {
    let (from, to) = cells().await;
    let user = user_of(&from, from.goal);
    // Killed before the source committed, and after it: the source's row decides.
    for (committed, stays) in [(false, "0"), (true, "1")] {
        let version = if committed { 7 } else { 6 };
        if committed {
            from.sql(
                "insert into houston.moved_shards (version, first, last, cell) values (7, 1, 1, '8000-ffff')",
            );
        }
        to.sql(&format!(
            "begin; insert into houston.paused_lanes (lane) values ('{version}');
             prepare transaction 'houston move from {LOW} {version}'"
        ));
        let moved = match committed {
            false => from.store.move_shards(&to.store, FORTH, of(user)).await.unwrap(),
            true => from
                .store
                .move_shards(&to.store, FORTH, ShardRange { first: Shard(1), last: Shard(1) })
                .await
                .unwrap(),
        };
        assert!(matches!(moved, Moved::Done(_)), "{moved:?}");
        let lanes = to.sql(&format!("select count(*) from houston.paused_lanes where lane = '{version}'"));
        assert_eq!(lanes, stays);
    }
    assert_eq!(to.sql("select count(*) from pg_prepared_xacts where gid like 'houston move%' and database = current_database()"), "0");
}
