//! Posting to a goal.

use houston_domain::agentable::DoubleTexting;
use houston_store::Error;
use houston_store::idempotency::Created;
use houston_store::message::{NewPost, Posted};
use serde_json::json;
use sqlx::PgPool;

use super::{Twin, Writer, oracle};
use crate::test_store::TestStore;

impl TestStore {
    /// Posts a message to the goal.
    pub(super) async fn post_twin(
        &self,
        pool: &PgPool,
        writer: Writer<'_>,
        twin: &Twin,
        double_texting: DoubleTexting,
    ) -> String {
        let (id, run, metadata) = (self.ids.next(), self.ids.next(), json!({}));
        let post = NewPost {
            kind: Some("goal"),
            id,
            run,
            content: "hi",
            metadata: &metadata,
            double_texting,
            starts: false,
        };
        let posted = match writer {
            Writer::Rust(store) => store.tenant(self.tenant).post_message(twin.goal, &post, None).await,
            Writer::Functions(store) => oracle::post(pool, store, (self.tenant, twin.goal), &post).await,
        };
        match posted {
            Ok(Created::New(Posted { seq, run_seq, opened, needs_hint, .. })) => {
                format!("{seq} {run_seq} {opened} {needs_hint}")
            }
            Ok(other) => panic!("{other:?}"),
            Err(Error::RunInProgress { .. }) => "a run is in progress".into(),
            Err(error) => panic!("{error}"),
        }
    }
}
