//! Whether binary and schema belong together.

use houston_store::Error;

use super::{Finding, Looked, Monitor};

pub(super) fn look(monitor: &Monitor) -> Looked<'_> {
    Box::pin(async move {
        match monitor.store.check_schema().await {
            Ok(()) => Ok(Finding::ok("as this binary knows it")),
            // An upgrade is under way: what runs goes on, but this binary would not start any more.
            Err(error @ Error::SchemaNewer { .. }) => Ok(Finding::warn(error.to_string())),
            Err(error @ Error::SchemaOlder { .. }) => Ok(Finding::red(error.to_string())),
            Err(error) => Err(error),
        }
    })
}
