//! Query strings of pages, and the searches of lists in them: words such as `status:failed`. One that cannot be read is answered
//! with a page that names the parameter.

use std::collections::HashMap;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::api::{Refused, Result};
use crate::show::with_query;
use crate::{Site, show};

/// The parsed query string.
#[derive(Debug)]
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<Site> for Query<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &Site) -> Result<Self> {
        axum::extract::Query::<T>::try_from_uri(&parts.uri).map(|query| Self(query.0)).map_err(|error| {
            let text =
                std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            Refused::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request", detail(&text))
        })
    }
}

/// What is wrong with an address, and what to do.
fn detail(text: &str) -> String {
    match text.strip_prefix("duplicate field `").and_then(|rest| rest.split_once('`')) {
        Some((name, _)) => {
            format!("The address has the parameter `{name}` more than once. Keep one of them.")
        }
        None => {
            format!("The address has a parameter that cannot be read: {text}. Change it, or leave it out.")
        }
    }
}

/// The fields of a form, where not all forms have the same.
pub(crate) type Fields = HashMap<String, String>;

/// Where a page of a list begins.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Place {
    /// Empty: at the beginning of the list.
    pub(crate) cursor: String,
}

/// Links to other pages of a list, for the macro `pages`; empty: there is none.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    pub(crate) older: String,
    pub(crate) newer: String,
}

impl Pages {
    /// Those of the page at `cursor`, after which `next` comes. `at`: the address of the page at a cursor.
    pub(crate) fn new(next: Option<String>, cursor: &str, at: impl Fn(&str) -> String) -> Self {
        Self {
            older: next.map(|next| at(&next)).unwrap_or_default(),
            newer: if cursor.is_empty() { String::new() } else { at("") },
        }
    }

    /// Those of a list whose address has nothing but the cursor.
    pub(crate) fn of(next: Option<String>, cursor: &str, here: &str) -> Self {
        Self::new(next, cursor, |cursor| with_query(here, &[("cursor", cursor)]))
    }
}

/// A page of a list that can be searched.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Search {
    pub(crate) q: String,
    /// See [`Place::cursor`].
    pub(crate) cursor: String,
}

/// A search as the API understands it.
#[derive(Debug)]
pub(crate) struct Terms {
    /// Parameters of the API with their values.
    pub(crate) pairs: Vec<(&'static str, String)>,
    /// What cannot be used, for people.
    pub(crate) wrong: Vec<String>,
}

impl Terms {
    /// `path` with the parameters of the search, and with `more`.
    pub(crate) fn path(&self, path: &str, more: &[(&str, &str)]) -> String {
        let pairs = self.pairs.iter().map(|(name, value)| (*name, value.as_str()));
        with_query(path, &pairs.chain(more.iter().copied()).collect::<Vec<_>>())
    }
}

/// Reads a search. `terms`: what may be searched for, as the word and the
/// parameter.
pub(crate) fn parse(search: &str, terms: &[(&'static str, &'static str)]) -> Terms {
    let (mut pairs, mut wrong) = (Vec::new(), Vec::new());
    for word in search.split_whitespace() {
        let term = word.split_once(':').and_then(|(name, value)| {
            let (_, parameter) = terms.iter().find(|(term, _)| *term == name)?;
            (!value.is_empty()).then(|| (*parameter, value.to_owned()))
        });
        match term {
            Some(pair) => pairs.push(pair),
            None => {
                let names: Vec<String> = terms.iter().map(|(term, _)| format!("{term}:")).collect();
                let (word, names) = (show::line(word, 60), names.join(", "));
                wrong.push(format!("“{word}” is left out: a search has words such as {names}"));
            }
        }
    }
    Terms { pairs, wrong }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::{Body, to_bytes};
    use axum::http::Request;
    use chrono::DateTime;
    use houston_domain::clock::ManualClock;
    use tower::ServiceExt as _;

    use super::*;
    use crate::session::tests::console;

    #[tokio::test]
    async fn parameter_that_is_given_twice_is_named() {
        let routes = console(&ManualClock::at(DateTime::UNIX_EPOCH), 1).alone(Router::new());
        let request = Request::get("/ops/sign-in?next=a&next=b").body(Body::empty()).unwrap();
        let response = routes.oneshot(request).await.unwrap();
        assert_eq!(response.status(), 422);
        let page = to_bytes(response.into_body(), 100_000).await.unwrap();
        let text = std::str::from_utf8(&page).unwrap();
        assert!(text.contains("<html") && text.contains("`next` more than once"), "{text}");
    }

    #[test]
    fn search_becomes_parameters_and_says_what_it_leaves_out() {
        let terms = [("status", "status"), ("user", "user_id"), ("agent", "agent_id")];
        let Terms { pairs, wrong } = parse("status:failed user:user_1 <b> colour:red agent:", &terms);
        assert_eq!(pairs, [("status", "failed".to_owned()), ("user_id", "user_1".to_owned())]);
        assert_eq!(wrong.len(), 3);
        assert!(wrong[0].starts_with("“<b>” is left out"), "{wrong:?}");
        assert!(wrong[0].ends_with("status:, user:, agent:"), "{wrong:?}");
    }
}
