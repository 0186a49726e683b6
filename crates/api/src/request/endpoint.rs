//! Endpoints: where each is, what handles it, and what it needs of the key; with the feature `openapi`, also what the
//! document says of it. A server answers with the checked-in document, so that programs contain nothing that generates it.
//!
//! Handlers have a type that does not name their function ([`erase`]). axum makes some hundred functions for each handler that a
//! router gets, and for each of them the compiler proves anew that the future of the handler can be sent to another thread,
//! which means going through all that it awaits. With one type for all handlers, that is done once for each of them: it took
//! two thirds of the time in which this crate was compiled.

use std::pin::Pin;
use std::sync::Arc;

use axum::extract::Request;
use axum::handler::Handler;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::MethodRouter;
use axum::{Extension, Json, Router};

use crate::error::Result;
use crate::request::access::Access;
use crate::state::App;

/// The OpenAPI document: a test compares it with the endpoints.
pub(crate) const DOCUMENT: &str = include_str!("../../openapi.json");

/// A method of a path with its handler, which [`endpoints!`] or [`undocumented!`] makes of a function.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) path: &'static str,
    /// What it needs of the key; `None`: it needs none.
    pub(crate) access: Option<Access>,
    pub(crate) handlers: fn() -> MethodRouter<Arc<App>>,
    /// Adds the operation to the document, and the schemas that it names.
    #[cfg(feature = "openapi")]
    pub(crate) describe: fn(&mut utoipa::openapi::OpenApi),
}

/// Adds the endpoints to a router.
pub(crate) fn routed(endpoints: impl IntoIterator<Item = Endpoint>) -> Router<Arc<App>> {
    endpoints.into_iter().fold(Router::new(), |router, endpoint| {
        let handlers = (endpoint.handlers)();
        let handlers = match endpoint.access {
            Some(access) => handlers.route_layer(Extension(access)),
            None => handlers,
        };
        router.route(endpoint.path, handlers)
    })
}

/// `post "/things" for THREAD => create;`: as [`endpoints!`], but not in the document, such as those of other protocols, whose contract
/// is another document. All of a file are its `UNDOCUMENTED`.
macro_rules! undocumented {
    ($($method:ident $path:tt for $access:expr => $handler:path;)+) => {
        pub(crate) const UNDOCUMENTED: &[$crate::request::endpoint::Endpoint] =
            &[$($crate::request::endpoint::Endpoint {
                path: $path,
                access: Some($access),
                handlers: || axum::routing::$method($crate::request::endpoint::erase($handler)),
                #[cfg(feature = "openapi")]
                describe: |_| {},
            }),+];
    };
}

/// `get "/v1/things" for TENANT => list,`: an endpoint whose requests the function `list` handles, for keys with this access, one of
/// [`crate::request::access`]; `, without key`: for everybody. The rest describes it in the document: `"list_things" in "things": "List the
/// things.",` is the operation with its tag and summary; `params(…)` has what utoipa takes for parameters, and those of [`documented`];
/// `{kinds}` and `{id}` of a path need no description ([`crate::openapi`] adds it); `body [Thing],` what is sent; each `200 "The things." [Page<Thing>]` an
/// answer. An endpoint of the tenant and the same of a user are declared together: `and` comes before what the path of the user has of
/// its own, as `and "/v1/users/{id}/things" for USER, "list_things_of_user": "List the things of a user.",`, and likewise for any
/// others. All endpoints of a file are its `ENDPOINTS`.
macro_rules! endpoints {
    ($(
        $method:ident $path:literal $(for $access:expr)? $(, without key)? => $handler:expr,
        $operation:literal in $tag:literal: $summary:literal,
        $(and $other_path:literal for $other_access:expr, $other_operation:literal: $other_summary:literal,)*
        $(description = $description:expr,)?
        $(params($($params:tt)*),)?
        $(body [$($body:tt)*],)?
        $($status:literal $meaning:literal $([$($answer:tt)*])?),+;
    )+) => {
        pub(crate) const ENDPOINTS: &[&[$crate::request::endpoint::Endpoint]] =
            &[$($crate::request::endpoint::endpoint! {
                $method ($handler) $tag [$($($params)*)?]
                [
                    ($path, [$({ use $crate::request::access::*; Some($access) },)? None][0], $operation, $summary)
                    $(($other_path, { use $crate::request::access::*; Some($other_access) }, $other_operation, $other_summary))*
                ]
                {
                    $(description = $description,)?
                    $(request_body(content = $($body)*),)?
                    responses($((status = $status, description = $meaning $(, body = $($answer)*)?)),+),
                }
            }),+];
    };
}

/// One endpoint, or the same of several things.
macro_rules! endpoint {
    ($method:ident $handler:tt $tag:literal $params:tt [$($one:tt)+] $described:tt) => {
        &[$($crate::request::endpoint::endpoint! { @ $method $handler $tag $params $one $described }),+]
    };
    (
        @ $method:ident ($handler:expr) $tag:literal [$($params:tt)*]
        ($path:literal, $access:expr, $operation:literal, $summary:literal) { $($described:tt)* }
    ) => {
        $crate::request::endpoint::Endpoint {
            path: $path,
            access: $access,
            handlers: || axum::routing::$method($crate::request::endpoint::erase($handler)),
            #[cfg(feature = "openapi")]
            describe: {
                use $crate::request::endpoint::documented::*;
                struct Described;

                #[utoipa::path(
                    $method, path = $path, impl_for = Described, tag = $tag, operation_id = $operation, summary = $summary,
                    params($($params)*), $($described)*
                )]
                fn describe(document: &mut utoipa::openapi::OpenApi) {
                    add_to::<Described>(document);
                }
                describe
            },
        }
    };
}

/// What descriptions of endpoints name without a path.
#[cfg(feature = "openapi")]
pub(crate) mod documented {
    pub(crate) use houston_domain::id::*;
    pub(crate) use houston_protocol::page::Page;

    /// The query of a list: [`PageQuery`](crate::request::page::PageQuery).
    #[derive(utoipa::IntoParams)]
    #[into_params(parameter_in = Query)]
    #[expect(dead_code, reason = "only its description is used")]
    pub(crate) struct Paged {
        /// Maximum number of items on the page; 20 by default.
        #[param(minimum = 1, maximum = 100)]
        limit: Option<u8>,
        /// `next_cursor` of the previous page.
        cursor: Option<String>,
    }

    /// The header of a request that may be repeated: [`Key`](crate::request::idempotency::Key).
    #[derive(utoipa::IntoParams)]
    #[into_params(parameter_in = Header)]
    #[expect(dead_code, reason = "only its description is used")]
    pub(crate) struct Keyed {
        /// Makes the request safe to repeat: the same request with the same key gets the first response again and creates nothing new. 1 to 255 printable ASCII characters, kept for a day.
        #[param(rename = "Idempotency-Key")]
        key: Option<String>,
    }

    /// The same header, which is never null.
    #[derive(utoipa::IntoParams)]
    #[into_params(parameter_in = Header)]
    #[expect(dead_code, reason = "only its description is used")]
    pub(crate) struct KeyedText {
        /// Makes the request safe to repeat: the same request with the same key gets the first response again and creates nothing new. 1 to 255 printable ASCII characters, kept for a day.
        #[param(rename = "Idempotency-Key", required = false)]
        key: String,
    }

    /// Adds the operation of [`endpoints!`](super::endpoints) to the document, and the schemas that it names.
    pub(crate) fn add_to<P>(document: &mut utoipa::openapi::OpenApi)
    where
        P: utoipa::Path + for<'t> utoipa::__dev::Tags<'t> + utoipa::__dev::SchemaReferences,
    {
        let mut operation = P::operation();
        operation.tags = Some(P::tags().into_iter().map(str::to_owned).collect());
        document.paths.add_path_operation(P::path(), P::methods(), operation);
        let mut schemas = Vec::new();
        P::schemas(&mut schemas);
        document.components.get_or_insert_default().schemas.extend(schemas);
    }
}

/// The answer with what the store has read.
pub(crate) fn found<T>(read: houston_store::Result<T>) -> Result<Json<T>> {
    Ok(Json(read?))
}

/// The answer that there is nothing more, once the store has deleted it.
pub(crate) fn gone(deleted: houston_store::Result<()>) -> Result<StatusCode> {
    deleted?;
    Ok(StatusCode::NO_CONTENT)
}

/// What a handler returns: for a function, that is what axum makes of it.
type Answer = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Any handler. Calling it costs a reference count more than calling the function.
#[derive(Clone)]
pub(crate) struct AnyHandler(Arc<dyn Fn(Request, Arc<App>) -> Answer + Send + Sync>);

/// `handler` without its type. `Arguments` are those of the function.
pub(crate) fn erase<Arguments, H>(handler: H) -> AnyHandler
where
    H: Handler<Arguments, Arc<App>, Future = Answer>,
{
    AnyHandler(Arc::new(move |request, app| handler.clone().call(request, app)))
}

impl Handler<AnyHandler, Arc<App>> for AnyHandler {
    type Future = Answer;

    fn call(self, request: Request, app: Arc<App>) -> Self::Future {
        (self.0)(request, app)
    }
}

pub(crate) use {endpoint, endpoints, undocumented};
