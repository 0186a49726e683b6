//! How runs ended, remembered for some seconds: the statement reads up to 100,000 runs, and screens ask for it again and again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use houston_domain::id::TenantId;
use houston_store::ended::Ended;
use tokio::time::Instant;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::missing_cells::across;
use crate::state::App;

/// How old an answer may be.
const FRESH: Duration = Duration::from_secs(15);
/// The most tenants that are remembered. The memory is cleared when it is full.
const MAX_TENANTS: usize = 1_000;

/// What was read, of each tenant; `None`: of all.
#[derive(Debug, Default)]
pub(crate) struct EndedRuns(Mutex<HashMap<Option<TenantId>, Kept>>);

/// When it was read, and what, by cell.
type Kept = (Instant, Arc<[Ended]>);

impl EndedRuns {
    /// How the runs of the caller's tenant, or of all (`whole`), have ended, by cell.
    ///
    /// # Errors
    /// The store's errors.
    pub(crate) async fn get(
        &self,
        app: &Arc<App>,
        caller: Caller,
        whole: bool,
    ) -> Result<Arc<[Ended]>, ApiError> {
        let tenant = (!whole).then(|| caller.tenant());
        if let Some(fresh) = self.fresh(tenant) {
            return Ok(fresh);
        }
        let ask = |cell: Arc<App>| async move {
            Ok(match tenant {
                None => cell.api_store().ended().await?,
                Some(_) => cell.store(caller).ended().await?,
            })
        };
        let (all, missing) = across(app, ask).await?;
        let all: Arc<[Ended]> = all.into();
        if !missing.0.is_empty() {
            // Without one of them it is not worth remembering.
            return Ok(all);
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MAX_TENANTS {
            kept.clear();
        }
        kept.insert(tenant, (Instant::now(), Arc::clone(&all)));
        Ok(all)
    }

    fn fresh(&self, tenant: Option<TenantId>) -> Option<Arc<[Ended]>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, ended) = kept.get(&tenant)?;
        (at.elapsed() < FRESH).then(|| Arc::clone(ended))
    }
}
