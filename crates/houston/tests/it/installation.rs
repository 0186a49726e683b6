//! A migrated database and a Redis for a test.

use std::time::Duration;

use houston::{Agent, AgentBuilder};
use houston_testkit::installation::TestInstallation;

/// The longest time a test waits for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn installation() -> TestInstallation {
    TestInstallation::start(migrate).unwrap()
}

async fn migrate(url: String) {
    let config =
        houston_store::Config { url, connections: houston_store::Sizes::ones(), acquire_timeout: PATIENCE };
    let store = houston_store::Store::open(&config).unwrap();
    store.migrate().await.unwrap();
    store.close().await;
}

/// An agent over `servers` with the simulated model, which does what `/sim` in a message says.
pub(crate) fn simulated(servers: &TestInstallation) -> AgentBuilder {
    Agent::builder().model("simulated").database(servers.database_url()).redis(servers.redis_url())
}
