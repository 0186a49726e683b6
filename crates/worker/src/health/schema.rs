//! Check: the schema fits this binary.

use houston_store::Error;

use super::{CheckFuture, Finding, Monitor};

pub(super) fn check(monitor: &Monitor) -> CheckFuture<'_> {
    Box::pin(async move {
        match monitor.store.check_schema().await {
            Ok(()) => Ok(Finding::ok("the version this binary expects")),
            // An upgrade is under way: running processes continue, but this binary would not start any more.
            Err(error @ Error::SchemaNewer { .. }) => Ok(Finding::warn(error.to_string())),
            Err(error @ (Error::SchemaOlder { .. } | Error::FunctionsDiffer { .. })) => {
                Ok(Finding::red(error.to_string()))
            }
            Err(error) => Err(error),
        }
    })
}
