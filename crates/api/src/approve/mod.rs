//! `/approve/{id}/{token}`: the page with which a person decides a question without an API key. `GET` shows what is asked, for
//! programs that follow the links in mails read it too; only `POST` decides.

mod page;

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::{Extension, Form, RequestExt as _};
use houston_domain::id::QuestionId;
use houston_domain::question::QuestionState;
use houston_domain::storable::storable_value;
use houston_store::Error;
use houston_store::answer::{Answered, AskedQuestion};
use houston_store::approval_links::LinkHolder;
use serde::Deserialize;

use self::page::Page;
use crate::audit;
use crate::error::ApiError;
use crate::peers::Peer;
use crate::questions::accept;
use crate::state::App;

/// The beginning of the paths. What follows is secret, and not logged.
pub(crate) const PREFIX: &str = "/approve/";

/// The path of the page.
pub(crate) const PATH: &str = "/approve/{id}/{token}";

/// The name of who answers with a link that was made without a name.
const ANYONE: &str = "an approval link";

/// What the forms of the page send.
#[derive(Debug, Deserialize)]
struct Decision {
    decision: Word,
    #[serde(default)]
    message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Approve,
    Reject,
}

/// Shows the question.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    path: Result<Path<(String, String)>, PathRejection>,
    peer: Option<Extension<Peer>>,
) -> Result<Response, ApiError> {
    let page = Page::new(&app.state.ids);
    let opened = open(&app, path.ok(), peer.as_deref()).await?;
    Ok(opened.map_or_else(|| page.unknown(), |(asked, _)| page.question(StatusCode::OK, &asked)))
}

/// Decides the question.
pub(crate) async fn decide(
    State(app): State<Arc<App>>,
    path: Result<Path<(String, String)>, PathRejection>,
    peer: Option<Extension<Peer>>,
    request: Request,
) -> Result<Response, ApiError> {
    let page = Page::new(&app.state.ids);
    let Some((asked, LinkHolder { store, answered_by })) = open(&app, path.ok(), peer.as_deref()).await?
    else {
        return Ok(page.unknown());
    };
    if asked.question.state != QuestionState::Open {
        return Ok(page.question(StatusCode::CONFLICT, &asked));
    }
    let Ok(Form(Decision { decision, message })) = request.extract::<Form<Decision>, _>().await else {
        return Ok(page.refused("The form must say `decision=approve` or `decision=reject`."));
    };
    let message = Some(message.trim().to_owned()).filter(|message| !message.is_empty());
    let Some(mut answer) = asked.question.asked.plain_answer(decision == Word::Approve, message) else {
        return Ok(page.refused("This question needs another answer than yes or no."));
    };
    storable_value(&mut answer);
    if let Err(wrong) = asked.question.asked.check_answer(&answer) {
        return Ok(page.refused(&format!("{} {}", wrong.pointer, wrong.reason)));
    }
    let by = answered_by.as_deref().unwrap_or(ANYONE);
    Ok(match accept(&app, store, asked.question.asked.id, &answer, Some(by)).await? {
        Answered::Now(asked) => {
            audit::record_link(&app, store, by, asked.question.asked.id).await;
            page.question(StatusCode::OK, &asked)
        }
        Answered::Closed(asked) => page.question(StatusCode::CONFLICT, &asked),
    })
}

/// The question of a link, and who opens it. `None`: there is no such link. Wrong links count as wrong keys do.
///
/// # Errors
/// [`ApiError::TooManyKeys`] when the address has sent too many of them; the store's errors.
async fn open<'a>(
    app: &'a App,
    path: Option<Path<(String, String)>>,
    peer: Option<&Peer>,
) -> Result<Option<(AskedQuestion, LinkHolder<'a>)>, ApiError> {
    let Some(Path((id, token))) = path else { return Ok(None) };
    let attempt = peer.map(|peer| app.peers.attempt(peer)).transpose()?;
    let Ok(id) = id.parse::<QuestionId>() else { return Ok(None) };
    let Some(holder) = app.api_store().approval_link(id, &token).await? else { return Ok(None) };
    if let Some(attempt) = attempt {
        attempt.uncount();
    }
    match holder.store.question(id).await {
        Ok(asked) => Ok(Some((asked, holder))),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether the question can be decided with a link.
pub(crate) fn is_decidable(asked: &AskedQuestion) -> bool {
    asked.question.asked.plain_answer(true, None).is_some()
}
