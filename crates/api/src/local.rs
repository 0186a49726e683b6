//! [`Local`]: the API within this process, for commands of the operator, who has the database and therefore needs no key.

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, Method, header};
use houston_domain::cell::Cells;
use houston_protocol::page::Page;
use houston_protocol::problem::{Problem, ProblemCode};
use houston_store::api_key::Principal;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tower::ServiceExt as _;

use crate::caller::{Authority, Operator};
use crate::cells;
use crate::request::missing_cells;
use crate::request::page::List;
use crate::state::{App, State};

/// The most items of a page.
const MAX_PAGE: usize = 100;

/// The API for one tenant, with every scope. What it changes is in the audit log under the name of the operator.
#[derive(Debug, Clone)]
pub struct Local {
    router: Router,
    operator: Operator,
    authority: Authority,
}

/// Why a request had no answer that can be used.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// The API has refused it.
    #[error("{0}")]
    Refused(Box<Problem<'static>>),
    /// Some cells have not answered: what the others have is not all.
    #[error("these cells do not answer: {0}")]
    Missing(String),
    /// The answer has another shape than expected.
    #[error("the answer of the API cannot be read: {0}")]
    Unreadable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl LocalError {
    /// Why it was refused; `None`: it was not.
    pub fn problem(&self) -> Option<&Problem<'static>> {
        if let Self::Refused(problem) = self { Some(problem) } else { None }
    }

    /// Whether it was refused with this code.
    pub fn is(&self, code: ProblemCode) -> bool {
        self.problem().is_some_and(|problem| problem.code == code)
    }

    fn unreadable(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Unreadable(Box::new(error))
    }
}

impl Local {
    /// The API over these cells. `actor`: who runs the command, for the audit log.
    pub fn new(states: &Cells<State>, actor: &str, principal: Principal) -> Self {
        let router = cells::router(&App::of_cells(states));
        Self { router, operator: Operator(actor.into()), authority: Authority::for_command(principal) }
    }

    /// The same for another tenant.
    pub fn for_tenant(&self, principal: Principal) -> Self {
        Self { authority: Authority::for_command(principal), ..self.clone() }
    }

    /// Reads what is at this path.
    ///
    /// # Errors
    /// [`LocalError`].
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, LocalError> {
        parsed(&self.bytes(path).await?)
    }

    /// The answer as it is: a document, a CSV file.
    ///
    /// # Errors
    /// [`LocalError`].
    pub async fn bytes(&self, path: &str) -> Result<Bytes, LocalError> {
        self.send(Method::GET, path, None).await
    }

    /// The first `most` items of a list, page by page. `path` may have a query.
    ///
    /// # Errors
    /// [`LocalError`].
    pub async fn list<T: DeserializeOwned>(&self, path: &str, most: usize) -> Result<Page<T>, LocalError> {
        self.list_from(path, None, most).await
    }

    /// As [`Self::list`], the entries of a history after this position.
    ///
    /// # Errors
    /// [`LocalError`].
    pub async fn history<T: DeserializeOwned>(
        &self,
        path: &str,
        after: i64,
        most: usize,
    ) -> Result<Page<T>, LocalError> {
        self.list_from(path, Some(List::History.cursor(after.max(0))), most).await
    }

    async fn list_from<T: DeserializeOwned>(
        &self,
        path: &str,
        next_cursor: Option<String>,
        most: usize,
    ) -> Result<Page<T>, LocalError> {
        let begin = if path.contains('?') { '&' } else { '?' };
        let mut all = Page { data: Vec::new(), has_more: true, next_cursor };
        while all.has_more && all.data.len() < most {
            let limit = (most - all.data.len()).min(MAX_PAGE);
            let cursor = all.next_cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
            let page: Page<T> = self.get(&format!("{path}{begin}limit={limit}{cursor}")).await?;
            all.data.extend(page.data);
            (all.has_more, all.next_cursor) = (page.has_more, page.next_cursor);
        }
        Ok(all)
    }

    /// Sends a request that changes something, with a JSON body. An answer without a body is `null`.
    ///
    /// # Errors
    /// [`LocalError`].
    pub async fn change<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &(impl Serialize + Sync),
    ) -> Result<T, LocalError> {
        let json = serde_json::to_vec(body).map_err(LocalError::unreadable)?;
        parsed(&self.send(method, path, Some(("application/json", json))).await?)
    }

    /// As [`Self::change`], a POST without a body.
    ///
    /// # Errors
    /// [`LocalError`].
    pub async fn post<T: DeserializeOwned>(&self, path: &str) -> Result<T, LocalError> {
        parsed(&self.send(Method::POST, path, None).await?)
    }

    /// As [`Self::change`], a POST of a CSV file.
    ///
    /// # Errors
    /// [`LocalError`].
    pub async fn post_csv<T: DeserializeOwned>(&self, path: &str, csv: Vec<u8>) -> Result<T, LocalError> {
        parsed(&self.send(Method::POST, path, Some(("text/csv", csv))).await?)
    }

    /// Deletes what is at this path.
    ///
    /// # Errors
    /// [`LocalError`].
    pub async fn delete(&self, path: &str) -> Result<(), LocalError> {
        self.send(Method::DELETE, path, None).await.map(drop)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<(&'static str, Vec<u8>)>,
    ) -> Result<Bytes, LocalError> {
        let mut request = Request::default();
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().map_err(LocalError::unreadable)?;
        request.extensions_mut().insert(self.authority.clone());
        request.extensions_mut().insert(self.operator.clone());
        if let Some((media_type, body)) = body {
            let headers = request.headers_mut();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
            headers.insert(header::CONTENT_LENGTH, body.len().into());
            *request.body_mut() = Body::from(body);
        }
        let Ok(response) = self.router.clone().oneshot(request).await;
        if let Some(cells) = response.headers().get(missing_cells::HEADER) {
            return Err(LocalError::Missing(String::from_utf8_lossy(cells.as_bytes()).into_owned()));
        }
        let status = response.status();
        let body = to_bytes(response.into_body(), usize::MAX).await.map_err(LocalError::unreadable)?;
        if status.is_success() {
            return Ok(body);
        }
        Err(LocalError::Refused(Box::new(parsed(&body)?)))
    }
}

fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T, LocalError> {
    serde_json::from_slice(if body.is_empty() { b"null" } else { body }).map_err(LocalError::unreadable)
}
