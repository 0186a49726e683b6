//! What the API refused, as a page.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};

use crate::Console;
use crate::api::Refused;
use crate::assets::Assets;

/// The answer to a request that the API refused.
#[derive(Debug)]
pub(crate) struct Failure {
    console: Console,
    refused: Refused,
}

#[derive(Template)]
#[template(path = "message.html")]
struct Message<'a> {
    prefix: &'a str,
    assets: &'a Assets,
    title: &'a str,
    detail: &'a str,
    code: &'a str,
    request: &'a str,
    forward: &'a str,
    link: &'a str,
    link_text: &'a str,
}

impl Failure {
    pub(crate) fn new(console: &Console, refused: Refused) -> Self {
        Self { console: console.clone(), refused }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let Refused { status, code, detail, request_id } = &self.refused;
        let title = match status.as_u16() {
            401 => "Signed out",
            403 => "Not allowed",
            404 => "Not found",
            409 | 422 => "Not accepted",
            429 | 503 => "Busy",
            _ => "This did not work",
        };
        let message = Message {
            prefix: &self.console.0.config.path,
            assets: self.console.assets(),
            title,
            detail,
            code,
            request: request_id,
            forward: "",
            link: &self.console.0.config.path,
            link_text: "Back to the overview",
        };
        (*status, html(&message)).into_response()
    }
}

/// The page of a template.
pub(crate) fn html(page: &impl Template) -> Response {
    match page.render() {
        Ok(text) => Html(text).into_response(),
        Err(error) => {
            tracing::error!(%error, "a page of the console cannot be rendered");
            (StatusCode::INTERNAL_SERVER_ERROR, "This page cannot be rendered.\n").into_response()
        }
    }
}
