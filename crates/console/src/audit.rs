//! The audit log: who changed what, and what was refused.

use askama::Template;
use axum::http::StatusCode;
use houston_domain::audit::AuditRecord;
use houston_protocol::page::Page;

use crate::failure::{Answer, html};
use crate::query::{Pages, Query, Search, parse};
use crate::shell::{AUDIT, Shell};
use crate::show::{self, Status, with_query};
use crate::viewer::Viewer;

/// What may be searched for: the word, and the parameter of the API.
const TERMS: [(&str, &str); 5] = [
    ("operation", "operation"),
    ("actor", "actor"),
    ("target", "target"),
    ("since", "since"),
    ("until", "until"),
];

#[derive(Template)]
#[template(path = "audit.html")]
struct Audit {
    shell: Shell,
    search: String,
    wrong: Vec<String>,
    records: Vec<AuditRecord>,
    pages: Pages,
}

/// `GET {prefix}/audit`.
pub(crate) async fn show(viewer: Viewer, Query(Search { q, cursor }): Query<Search>) -> Answer {
    let terms = parse(&q, &TERMS);
    let path = terms.path("/v1/audit", &[("limit", "100"), ("cursor", &cursor)]);
    let mut wrong = terms.wrong;
    let page: Page<AuditRecord> = match viewer.api.get(&path).await {
        Ok(page) => page,
        Err(refused) if refused.status == StatusCode::UNPROCESSABLE_ENTITY => {
            wrong.push(refused.detail);
            Page { data: Vec::new(), has_more: false, next_cursor: None }
        }
        Err(refused) => return Err(refused),
    };
    let here = viewer.path("/audit");
    let at = |cursor: &str| with_query(&here, &[("q", &q), ("cursor", cursor)]);
    Ok(html(&Audit {
        shell: viewer.shell(AUDIT, "Audit log").live_if(cursor.is_empty()),
        records: page.data,
        pages: Pages::new(page.next_cursor, &cursor, at),
        wrong,
        search: q,
    }))
}

/// The list of records that have this value. Empty: a search cannot have it.
fn alike(prefix: &str, term: &str, value: &str) -> String {
    if value.is_empty() || value.contains(char::is_whitespace) {
        return String::new();
    }
    with_query(&format!("{prefix}/audit"), &[("q", &format!("{term}:{value}"))])
}

fn outcome(of: &AuditRecord) -> Status {
    let (text, tone) = match (of.status, &of.code) {
        (0, None) => ("command".to_owned(), "good"),
        (0, Some(code)) => (format!("command: {code}"), "warn"),
        (200..400, _) => ("done".to_owned(), "good"),
        (status, Some(code)) => (format!("{status} {code}"), "warn"),
        (status, None) => (status.to_string(), "warn"),
    };
    Status { text, tone }
}

/// Whose change it was.
fn who(of: &AuditRecord) -> String {
    of.actor_name.as_ref().map_or_else(|| show::short(&of.actor), |name| show::line(name, 60))
}
