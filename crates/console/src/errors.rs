//! Failed runs by their cause, so that one cause is mended once and its runs are tried again together.

use askama::Template;
use axum::response::{IntoResponse as _, Response};
use houston_protocol::error_group::{ErrorGroupResponse, ErrorGroupsResponse};

use crate::failure::html;
use crate::shell::{Section, Shell};
use crate::show::{self, When, with_query};
use crate::viewer::Viewer;

#[derive(Template)]
#[template(path = "errors.html")]
struct Errors {
    shell: Shell,
    hours: u32,
    capped: bool,
    groups: Vec<Group>,
}

/// The runs of one cause.
pub(crate) struct Group {
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) count: String,
    pub(crate) dead: String,
    pub(crate) retrying: String,
    pub(crate) first: When,
    pub(crate) last: When,
    pub(crate) runs_href: String,
    pub(crate) sample_href: String,
}

impl Group {
    pub(crate) fn new(viewer: &Viewer, of: &ErrorGroupResponse) -> Self {
        let now = viewer.console.now();
        // Failed runs have an index; to find those that are retried, all runs are read.
        let status = if of.retrying == 0 { "status:failed,dead_lettered " } else { "" };
        let search = format!("{status}error:{} fingerprint:{}", of.code, of.fingerprint);
        Self {
            runs_href: with_query(&viewer.path("/runs"), &[("q", &search)]),
            sample_href: viewer.path(&format!("/runs/{}", of.sample_run_id)),
            code: of.code.clone(),
            message: show::line(&of.message, 300),
            count: show::count(of.count),
            dead: show::count(of.dead_lettered),
            retrying: show::count(of.retrying),
            first: show::when(of.first_seen, now),
            last: show::when(of.last_seen, now),
        }
    }
}

/// `GET {prefix}/errors`.
pub(crate) async fn show(viewer: Viewer) -> Response {
    let all: ErrorGroupsResponse = match viewer.api.get("/v1/errors").await {
        Ok(all) => all,
        Err(refused) => return viewer.failed(refused).into_response(),
    };
    html(&Errors {
        shell: viewer.shell(Section::Errors, "Errors").live(),
        hours: all.window_h,
        capped: all.capped,
        groups: all.data.iter().map(|group| Group::new(&viewer, group)).collect(),
    })
}
