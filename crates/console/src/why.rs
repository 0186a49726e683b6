//! Why something does not go on, and what to do about it.

use houston_domain::scope::Scope;
use houston_protocol::why::{WhyReason, WhyResponse};

use crate::viewer::Viewer;

/// The reasons of the run or the agentable at `path`, for viewers who may see how the installation works.
pub(crate) async fn reasons(viewer: &Viewer, path: &str) -> Vec<WhyReason> {
    if !viewer.may(Scope::Operate) {
        return Vec::new();
    }
    let why: Result<WhyResponse, _> = viewer.api.get(&format!("{path}/why")).await;
    why.map(|why| why.reasons).unwrap_or_default()
}
