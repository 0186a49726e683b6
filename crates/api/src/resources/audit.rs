//! The audit log. One place records every request that changes something: [`recorded`], around all routes. One whose client has gone
//! before the answer, or whose time was up, is recorded as not answered: it may have changed something.
//!
//! What reads costs nothing. Messages are not recorded, nor the conversations and users that applications create with them: they
//! are the data; what comes in through an inbound hook is a message. With the header `houston-audit` they are recorded: the
//! console sends it with what an operator posts in the name of a user. Nor are requests without a valid key, which change nothing;
//! the log of the server counts them. A record has ids only, no content.
//!
//! `GET /v1/audit` lists the records.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::RequestExt as _;
use axum::extract::{MatchedPath, RawPathParams, Request, State};
use axum::http::Method;
use axum::http::header::LOCATION;
use axum::middleware::Next;
use houston_domain::id::{AuditId, QuestionId};
use houston_store::TenantStore;
use houston_store::audit::{AuditRecord, NewRecord, RecordFilter};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::caller::{self, Caller, Operator};
use crate::error::ResponseError;
use crate::request::endpoint::DOCUMENT;
use crate::request::prelude::*;
use crate::request::query::{check_parameter, time};
use crate::resources::conversation::EARLIER_PATH;

/// Routes of the data: what the traffic of applications changes; and those that only compute an answer.
const DATA: [&str; 12] = [
    "/v1/users",
    "/v1/{kinds}",
    "/v1/{kinds}/{id}/messages",
    "/v1/{kinds}/{id}/read",
    "/v1/{kinds}/{id}/ag-ui",
    "/v1/{kinds}/{id}/shared-state",
    "/v1/users/{id}/attachments",
    "/v1/models/estimate",
    "/v1/{kinds}/{id}/guards/explain",
    "/v1/client-tokens",
    "/ag-ui/{target}",
    "/compat/ai-sdk/{target}",
];
/// Beginnings of routes of other protocols, whose requests are messages.
const DATA_OF_OTHERS: [&str; 3] = ["/compat/openai/", "/a2a", "/mcp"];

/// Beginnings of routes of what belongs to no tenant. Who changes it is for all who operate the installation to see.
const OF_INSTALLATION: [&str; 2] = ["/v1/queues/", "/v1/workers/"];

/// With this header, whatever its value, a change of the data is recorded, too.
const AUDITED: &str = "houston-audit";

/// The operation of an answer that was given with a link: the same as that of one with a key.
const LINK: &str = "answer_question";

/// The status and the code of a request that was not answered. No answer has this status.
const NOT_ANSWERED: (u16, &str) = (499, "not_answered");

/// How long the writing of a record may take. It is not within the time limit of its request, and must not keep a connection
/// that hangs.
const MAX_WRITE: Duration = Duration::from_secs(10);

/// The most characters that are kept of a name in a path, and of the id of a request.
const MAX_CHARS: usize = 200;

/// The id of a request that changes something.
#[derive(Debug, Clone)]
pub(crate) struct RequestId(pub(crate) String);

/// Records a request that changes something, when it has been answered.
pub(crate) async fn recorded(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    let is_asked_for = request.method() == Method::POST && request.headers().contains_key(AUDITED);
    let Some(route) = route.filter(|route| is_asked_for || changes(request.method(), route.as_str())) else {
        return next.run(request).await;
    };
    let operation = operation(request.method().as_str(), route.as_str());
    let is_of_installation = OF_INSTALLATION.iter().any(|start| route.as_str().starts_with(start));
    let target = target(&mut request).await;
    let request_id = request.extensions().get::<RequestId>().map(|id| id.0.chars().take(MAX_CHARS).collect());
    let operator = request.extensions().get::<Operator>().cloned();
    let caller = Arc::new(OnceLock::new());
    let what = What { operation, target, request_id, is_of_installation, operator };
    let mut attempt = Attempt { app, caller: Arc::clone(&caller), what: Some(what) };
    let answer = caller::noting(caller, next.run(request)).await;
    let code =
        answer.extensions().get::<ResponseError>().map(|error| error.error().code().as_str().to_owned());
    if let Some(what) = attempt.what.as_mut().filter(|what| what.operator.is_some() && what.target.is_none())
    {
        let created = answer.headers().get(LOCATION).and_then(|path| path.to_str().ok()?.rsplit('/').next());
        what.target = created.map(str::to_owned);
    }
    if let Some(writing) = attempt.write(answer.status().as_u16(), code)
        && let Err(error) = writing.await
    {
        tracing::warn!(%error, "a change was not recorded in the audit log");
    }
    answer
}

/// What a request wants to do.
struct What {
    operation: String,
    target: Option<String>,
    request_id: Option<String>,
    is_of_installation: bool,
    /// Of a command, which is recorded under its name, with no status, and with what it has created.
    operator: Option<Operator>,
}

/// A request that is not recorded yet. Dropped like this, it was not answered.
struct Attempt {
    app: Arc<App>,
    caller: Arc<OnceLock<Caller>>,
    what: Option<What>,
}

impl Attempt {
    /// Writes the record in a task of its own: the request may be dropped while it is written. `None`: it has been written before,
    /// or had no valid key.
    fn write(&mut self, status: u16, code: Option<String>) -> Option<JoinHandle<()>> {
        let (what, caller) = (self.what.take()?, *self.caller.get()?);
        let runtime = Handle::try_current().ok()?;
        let app = Arc::clone(&self.app);
        // The operator has read why the command was refused.
        if what.operator.is_some() && code.as_deref().is_some_and(|code| code != NOT_ANSWERED.1) {
            return None;
        }
        let (actor, status, request_id) = match what.operator {
            Some(Operator(name)) => (name.to_string(), 0, None),
            None => (caller.key().to_string(), i16::try_from(status).unwrap_or_default(), what.request_id),
        };
        let new = NewRecord {
            id: app.state.ids.next(),
            actor,
            on_behalf_of: caller.user().map(|user| user.to_string()),
            operation: what.operation,
            target: what.target,
            status,
            code,
            request_id,
        };
        let whole = what.is_of_installation && caller.operates_installation();
        let writing = async move {
            let error = match timeout(MAX_WRITE, app.record(caller, whole, &new)).await {
                Ok(Ok(())) => return,
                Ok(Err(error)) => error.to_string(),
                Err(late) => late.to_string(),
            };
            tracing::warn!(error, operation = new.operation, "a change was not recorded in the audit log");
        };
        Some(self.app.records.spawn_on(writing, &runtime))
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let (status, code) = NOT_ANSWERED;
        drop(self.write(status, Some(code.to_owned())));
    }
}

/// Records an answer that was given with a link, without a key: by whom the link was made for.
pub(crate) async fn record_link(app: &App, store: TenantStore<'_>, by: &str, question: QuestionId) {
    let new = NewRecord {
        id: app.state.ids.next(),
        actor: format!(
            "link ({})",
            by.chars().filter(|c| !c.is_control()).take(MAX_CHARS).collect::<String>()
        ),
        on_behalf_of: None,
        operation: LINK.to_owned(),
        target: Some(question.to_string()),
        status: 200,
        code: None,
        request_id: None,
    };
    if let Err(error) = store.write_audit(&new).await {
        tracing::warn!(%error, operation = LINK, "a change was not recorded in the audit log");
    }
}

/// Whether such a request belongs in the log.
fn changes(method: &Method, route: &str) -> bool {
    let is_data = || DATA.contains(&route) || DATA_OF_OTHERS.iter().any(|start| route.starts_with(start));
    !method.is_safe() && !is_data()
}

/// The id in the path, or the first name.
async fn target(request: &mut Request) -> Option<String> {
    let params = request.extract_parts::<RawPathParams>().await.ok()?;
    let named = |wanted: &str| params.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value);
    let other = || params.iter().find(|(name, _)| *name != "kinds").map(|(_, value)| value);
    let name = named("id").or_else(|| named("name")).or_else(other)?;
    Some(name.chars().filter(|c| !c.is_control()).take(MAX_CHARS).collect())
}

/// The name of the operation in the OpenAPI document; method and route of what is not in it.
fn operation(method: &str, route: &str) -> String {
    static NAMES: OnceLock<HashMap<String, String>> = OnceLock::new();
    let route = if route == EARLIER_PATH { "/v1/import/{kinds}" } else { route };
    let name = format!("{method} {route}");
    NAMES.get_or_init(names).get(&name).cloned().unwrap_or(name)
}

/// All names, read from the document with the first change.
fn names() -> HashMap<String, String> {
    #[derive(Deserialize)]
    struct Document {
        paths: HashMap<String, HashMap<String, Operation>>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Operation {
        operation_id: String,
    }
    // The document is compared with the handlers by a test; without it, the routes stand for the names.
    let Ok(Document { paths }) = serde_json::from_str(DOCUMENT) else { return HashMap::new() };
    let of_path = |(path, item): (String, HashMap<String, Operation>)| {
        item.into_iter().map(move |(method, operation)| {
            (format!("{} {path}", method.to_uppercase()), operation.operation_id)
        })
    };
    paths.into_iter().flat_map(of_path).collect()
}

/// The query: page parameters and filters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Filter {
    operation: Option<String>,
    actor: Option<String>,
    target: Option<String>,
    since: Option<String>,
    until: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

endpoints! {
    get "/v1/audit" for TENANT.all(Scope::Operate) => list,
    "list_audit_records" in "operate": "List who changed what, newest first.",
    description = "Every request that changes something, also refused ones, and commands of operators. Messages, and the users and \
                   conversations that are created with them, are not recorded: they are the data. A request that posts them is \
                   recorded if it has the header `houston-audit`, whatever its value. Keys with the scope `installation` \
                   also see what was done to workers and lanes. Records are deleted after `requests.audit_s` of \
                   `jobs/health_monitor.toml`.",
    params(
        ("operation" = Option<String>, Query, description = "Only this operation.", example = "update_agent"),
        ("actor" = Option<String>, Query, description = "Only what this key did.", example = "key_019ab3c4d5e67f8091a2b3c4d5e6f708"),
        ("target" = Option<String>, Query, description = "Only what was done to this thing."),
        ("since" = Option<houston_protocol::time::Time>, Query, description = "Only what was done then or later."),
        ("until" = Option<houston_protocol::time::Time>, Query, description = "Only what was done before."),
        Paged,
    ),
    200 "A page of records." [Page<AuditRecord>];
}

async fn list(ctx: Ctx, Query(query): Query<Filter>) -> Result<impl IntoResponse> {
    for (name, given) in [("operation", &query.operation), ("actor", &query.actor), ("target", &query.target)]
    {
        check_parameter(name, given.as_deref())?;
    }
    let filter = RecordFilter {
        operation: query.operation,
        actor: query.actor,
        target: query.target,
        since: time("since", query.since.as_deref())?,
        until: time("until", query.until.as_deref())?,
    };
    let page = PageQuery { limit: query.limit, cursor: query.cursor };
    let (limit, before) = (page.limit()?, page.id(List::Audit)?.map(AuditId));
    let filter = &filter;
    let ask = |cell: Arc<App>| async move {
        let mut found = cell.store(ctx.caller).records(filter, before, rows(limit)).await?;
        if ctx.caller.operates_installation() {
            found.extend(cell.api_store().records_of_installation(filter, before, rows(limit)).await?);
        }
        Ok(found)
    };
    let (found, missing) = across(&ctx, ask).await?;
    let mut found: Vec<AuditRecord> = found.into_iter().flatten().collect();
    found.sort_unstable_by_key(|record| std::cmp::Reverse(record.id));
    let page =
        Page::of(List::Audit, limit, found, |record: &AuditRecord| record.id.0.as_u128(), |record| record);
    Ok((missing, Json(page)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_the_names_of_the_document() {
        assert_eq!(operation("POST", "/v1/runs/{id}/cancel"), "cancel_run");
        assert_eq!(operation("PATCH", "/v1/agents/{id}"), "update_agent");
        assert_eq!(operation("POST", EARLIER_PATH), "import_conversation");
        assert_eq!(operation("POST", "/nowhere"), "POST /nowhere");
    }

    #[test]
    fn messages_are_data_and_agents_are_not() {
        for route in DATA.into_iter().chain(["/compat/openai/v1/responses"]) {
            assert!(!changes(&Method::POST, route), "{route}");
        }
        for route in ["/v1/agents", "/v1/runs/{id}/cancel", "/v1/users/{id}", "/v1/{kinds}/{id}"] {
            assert!(changes(&Method::POST, route) && !changes(&Method::GET, route), "{route}");
        }
        assert!(changes(&Method::DELETE, "/v1/client-tokens/{id}"));
    }
}
