//! Emptying what a model sees, while others write.

use futures_util::future::join_all;
use houston_store::Error;
use houston_store::step::{Commit, Ending, Then};

use crate::fresh::Fresh;

/// Ends the open run.
async fn end(fresh: &Fresh) -> i64 {
    use houston_domain::event::Event;
    use houston_domain::model::Usage;
    use houston_domain::run::RunStatus;
    let claimed = fresh.claim().await.unwrap();
    let status = RunStatus::Completed;
    let (iteration, message, code) = (Some(1), None, None);
    let event = Event::RunFinished { status, iteration, usage: Usage::default(), message, code };
    let ending = Ending { status, next_run: fresh.ids.next(), error_code: None, error_message: None };
    let step = fresh.step(&claimed, Then::End { event, ending });
    let Commit::Done(_) = fresh.store.commit(&claimed.fence, &step).await.unwrap() else {
        panic!("not ended")
    };
    fresh.store.standing(fresh.tenant, fresh.goal).await.unwrap().session.entries
}

#[tokio::test]
async fn a_message_that_races_resets_is_never_lost_and_begins_the_new_session() {
    let fresh = Fresh::start().await;
    let mut closed = 0;
    for round in 0..10 {
        fresh.post("hello").await;
        end(&fresh).await;
        let resets = join_all((0..8).map(|_| fresh.store.reset(fresh.tenant, fresh.goal, false)));
        let (resets, posted) = tokio::join!(resets, fresh.try_post("still there?", None));
        posted.unwrap();
        let mut emptied = 0;
        for reset in resets {
            match reset {
                Ok(done) => emptied += done.closed_entries,
                // The message came first, and opened a run.
                Err(Error::RunOpen { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
        closed += emptied;
        let standing = fresh.store.standing(fresh.tenant, fresh.goal).await.unwrap();
        assert_eq!(standing.unread, 1, "round {round}");
        let entries = end(&fresh).await;
        assert!(entries >= 1, "round {round}: what was posted is in the session that is open");
        let done = fresh.store.reset(fresh.tenant, fresh.goal, false).await.unwrap();
        closed += done.closed_entries;
        assert_eq!(done.closed_entries, entries, "round {round}");
    }
    assert_eq!(closed, 20, "each entry was closed once");
}
