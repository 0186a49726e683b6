//! The API keys of the tenant: what each may do, when it was used, and how it is revoked.

use askama::Template;
use axum::Form;
use axum::extract::Path;
use houston_domain::id::ApiKeyId;
use houston_domain::scope::Scope;
use houston_protocol::key::KeyResponse;
use houston_protocol::page::Page;
use serde::Deserialize;

use crate::failure::{Answer, html};
use crate::query::{Pages, Query};
use crate::shell::{KEYS, Shell};
use crate::show::{self, segment, with_query};
use crate::viewer::Viewer;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Search {
    /// `all`: those that have ended, too.
    show: String,
    cursor: String,
}

#[derive(Template)]
#[template(path = "keys.html")]
struct Keys {
    shell: Shell,
    all: bool,
    active_href: String,
    all_href: String,
    keys: Vec<KeyResponse>,
    /// That of this session.
    own: ApiKeyId,
    pages: Pages,
}

/// `GET {prefix}/keys`.
pub(crate) async fn list(viewer: Viewer, Query(search): Query<Search>) -> Answer {
    let all = search.show == "all";
    let active = if all { "" } else { "true" };
    let query = [("limit", "100"), ("active", active), ("cursor", search.cursor.as_str())];
    let page: Page<KeyResponse> = viewer.api.get(&with_query("/v1/keys", &query)).await?;
    let active_href = viewer.path("/keys");
    let all_href = with_query(&active_href, &[("show", "all")]);
    let at = |cursor: &str| {
        with_query(&active_href, &[("show", if all { "all" } else { "" }), ("cursor", cursor)])
    };
    Ok(html(&Keys {
        shell: viewer.shell(KEYS, "Keys"),
        all,
        pages: Pages::new(page.next_cursor, &search.cursor, at),
        keys: page.data,
        own: viewer.key,
        active_href,
        all_href,
    }))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Asked {
    name: String,
    /// Whether the question was answered.
    confirmed: bool,
}

#[derive(Template)]
#[template(path = "revoke.html")]
struct Revoke {
    shell: Shell,
    name: String,
    id: String,
    href: String,
    keys_href: String,
}

/// `POST {prefix}/keys/{id}/revoke`: asks first.
pub(crate) async fn revoke(viewer: Viewer, Path(id): Path<String>, Form(asked): Form<Asked>) -> Answer {
    let (id, keys_href) = (segment(&id), viewer.path("/keys"));
    if !asked.confirmed && viewer.may(Scope::Admin) {
        return Ok(html(&Revoke {
            shell: viewer.shell(KEYS, "Revoke a key"),
            name: show::line(&asked.name, 120),
            href: format!("{keys_href}/{id}/revoke"),
            id,
            keys_href,
        }));
    }
    viewer.post(&format!("/v1/keys/{id}/revoke"), "/keys").await
}
