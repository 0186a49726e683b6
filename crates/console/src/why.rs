//! Why something does not go on, and what to do about it.

use chrono::{DateTime, Utc};
use houston_domain::scope::Scope;
use houston_protocol::why::WhyResponse;

use crate::show::{self, When};
use crate::viewer::Viewer;

/// One reason.
pub(crate) struct Reason {
    pub(crate) text: String,
    pub(crate) todo: String,
    /// The page where the question is answered; empty: there is none.
    pub(crate) answer_href: String,
    pub(crate) until: When,
}

/// The reasons of the run or the agentable at `path`, for viewers who may see how the installation works.
pub(crate) async fn reasons(viewer: &Viewer, path: &str, now: DateTime<Utc>) -> Vec<Reason> {
    if !viewer.may(Scope::Operate) {
        return Vec::new();
    }
    let why: Result<WhyResponse, _> = viewer.api.get(&format!("{path}/why")).await;
    let reasons = why.map(|why| why.reasons).unwrap_or_default();
    reasons
        .into_iter()
        .map(|of| Reason {
            text: of.text,
            todo: of.todo.unwrap_or_default(),
            answer_href: of.question_id.map(|id| viewer.path(&format!("/waiting/{id}"))).unwrap_or_default(),
            until: show::when_if(of.until, now),
        })
        .collect()
}
