//! `/compat/openai/v1`: OpenAI's Responses, Conversations and Chat Completions, for clients that are made for them.
//!
//! A response is a run, or the part of one up to where it needs an answer; a conversation is a thread; a `model` is a kind or
//! an agent. Their ids are made from Houston's ([`id`]), and what a request says besides its text is in the metadata of its
//! message ([`replay::Said`]), so that nothing is stored for this protocol but the `metadata` of conversations. Items that a client
//! adds itself are messages of the thread ([`conversation_items`]). [`translate`] makes events from those of AG-UI;
//! [`number`] says where a stream is; [`replay`] and [`found`] make a response, or the state of a stream, from the event log.
//!
//! The tools of an agent appear as calls of an MCP server named `houston`: clients carry out what is a `function_call`.
//! A run that waits for a person ends its response as `completed`: its last items are what needs an answer.
//!
//! These endpoints are not in Houston's OpenAPI document: their contract is OpenAI's. Errors have OpenAI's shape ([`error`]).

mod answers;
mod begin;
mod chat;
mod conversation_items;
mod conversations;
pub(crate) mod error;
mod found;
mod id;
mod items;
mod models;
mod number;
mod offer;
mod replay;
mod responses;
mod stream;
#[cfg(test)]
mod tests;
mod translate;

use axum::routing::{get, post};

use crate::access::{ROW, THREAD};
use crate::endpoint::Endpoints;
use crate::handler::erase;

/// The base of all paths.
pub(crate) const BASE: &str = "/compat/openai/v1";

/// Whether the path is one of this protocol.
pub(crate) fn is_path(path: &str) -> bool {
    path.strip_prefix(BASE).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a `POST` to the path would do something twice when it is repeated: it begins a run, or adds items.
pub(crate) fn must_not_repeat(path: &str) -> bool {
    let adds_items = || path.starts_with(&format!("{BASE}/conversations/")) && path.ends_with("/items");
    is_path(path) && (["/responses", "/chat/completions"].contains(&&path[BASE.len()..]) || adds_items())
}

/// The routes.
pub(crate) fn endpoints() -> Endpoints {
    let at = |path: &str| format!("{BASE}{path}");
    Endpoints::default()
        .undocumented(THREAD, &at("/responses"), post(erase(responses::create)))
        .undocumented(
            ROW,
            &at("/responses/{id}"),
            get(erase(responses::get)).delete(erase(responses::delete)),
        )
        .undocumented(ROW, &at("/responses/{id}/cancel"), post(erase(responses::cancel)))
        .undocumented(ROW, &at("/responses/{id}/input_items"), get(erase(responses::input_items)))
        .undocumented(THREAD, &at("/conversations"), post(erase(conversations::create)))
        .undocumented(
            THREAD,
            &at("/conversations/{id}"),
            get(erase(conversations::get))
                .post(erase(conversations::change))
                .delete(erase(conversations::delete)),
        )
        .undocumented(
            THREAD,
            &at("/conversations/{id}/items"),
            get(erase(conversation_items::list)).post(erase(conversation_items::create)),
        )
        .undocumented(
            THREAD,
            &at("/conversations/{id}/items/{item}"),
            get(erase(conversation_items::get)).delete(erase(conversation_items::delete)),
        )
        .undocumented(THREAD, &at("/chat/completions"), post(erase(chat::create)))
        .undocumented(THREAD, &at("/models"), get(erase(models::list)))
        .undocumented(THREAD, &at("/models/{*id}"), get(erase(models::get)))
}
