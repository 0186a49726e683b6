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
use axum::response::Response;
use axum::routing::MethodRouter;
use axum::{Extension, Router};

use crate::request::access::Access;
use crate::state::App;

/// The OpenAPI document: a test compares it with the endpoints.
pub(crate) const DOCUMENT: &str = include_str!("../../openapi.json");

/// Handlers of a path: [`endpoint!`] makes one of a function.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) path: &'static str,
    /// What it needs of the key; `None`: it needs none.
    pub(crate) access: Option<Access>,
    pub(crate) handlers: fn() -> MethodRouter<Arc<App>>,
    /// Adds the operations to the document, and the schemas that they name.
    #[cfg(feature = "openapi")]
    pub(crate) describe: fn(&mut utoipa::openapi::OpenApi),
}

/// Endpoints of several paths.
#[derive(Default)]
pub(crate) struct Endpoints {
    /// Those in the document.
    documented: Vec<Endpoint>,
    /// Those of other protocols.
    undocumented: Vec<(String, Access, MethodRouter<Arc<App>>)>,
    /// Earlier paths of endpoints that have another one in the document.
    earlier: Vec<(String, Access, MethodRouter<Arc<App>>)>,
}

impl Endpoints {
    /// Those of `lists`, which are in the document.
    pub(crate) fn documented_in(lists: &[&[Endpoint]]) -> Self {
        Self { documented: lists.concat(), ..Self::default() }
    }

    /// Adds handlers of another protocol, whose contract is another document.
    pub(crate) fn undocumented(
        mut self,
        access: Access,
        path: &str,
        handlers: MethodRouter<Arc<App>>,
    ) -> Self {
        self.undocumented.push((path.to_owned(), access, handlers));
        self
    }

    /// Adds the earlier path of an endpoint that has another one now.
    pub(crate) fn earlier(mut self, access: Access, path: &str, handlers: MethodRouter<Arc<App>>) -> Self {
        self.earlier.push((path.to_owned(), access, handlers));
        self
    }

    pub(crate) fn merge(mut self, others: Self) -> Self {
        self.documented.extend(others.documented);
        self.undocumented.extend(others.undocumented);
        self.earlier.extend(others.earlier);
        self
    }

    pub(crate) fn into_router(self) -> Router<Arc<App>> {
        let others = self.undocumented.into_iter().chain(self.earlier);
        let router = others.fold(Router::new(), |router, (path, access, handlers)| {
            router.route(&path, handlers.route_layer(Extension(access)))
        });
        self.documented.into_iter().fold(router, |router, endpoint| {
            let handlers = (endpoint.handlers)();
            let handlers = match endpoint.access {
                Some(access) => handlers.route_layer(Extension(access)),
                None => handlers,
            };
            router.route(endpoint.path, handlers)
        })
    }

    /// The paths of other protocols, which the document does not have.
    pub(crate) fn undocumented_paths(&self) -> Vec<String> {
        self.undocumented.iter().map(|(path, ..)| path.clone()).collect()
    }

    /// Those in the document.
    #[cfg(feature = "openapi")]
    pub(crate) fn documented(&self) -> &[Endpoint] {
        &self.documented
    }
}

/// `LIST: get "/v1/things" for TENANT => list,`: the constant `LIST` is the endpoint whose requests the function `list` handles,
/// for keys with this access, one of [`crate::request::access`]; `without key`: for everybody. The rest describes it in the
/// document: `"list_things" in "things": "List the things.",` is the operation with its tag and summary; `params(…)` has what
/// utoipa takes for parameters, and those of [`documented`]; `body [Thing],` what is sent; each `200 "The things." [Page<Thing>],`
/// an answer. An endpoint of the tenant and the same of a user are declared together: after the first one comes what the path of
/// the user has of its own, as `USER_LIST: "/v1/users/{id}/things" for USER, "list_things_of_user": "List the things of a user.",`.
macro_rules! endpoint {
    (
        $name:ident: $method:ident $path:literal for $access:expr => $handler:path, $operation:literal: $summary:literal,
        $user_name:ident: $user_path:literal for $user_access:expr, $user_operation:literal: $user_summary:literal,
        in $tag:literal, params($($params:tt)*), $($rest:tt)*
    ) => {
        $crate::request::endpoint::endpoint! {
            $name: $method $path for $access => $handler,
            $operation in $tag: $summary,
            params($($params)*),
            $($rest)*
        }
        $crate::request::endpoint::endpoint! {
            $user_name: $method $user_path for $user_access => $handler,
            $user_operation in $tag: $user_summary,
            params(OfUser, $($params)*),
            $($rest)*
        }
    };
    ($name:ident: $method:ident $path:literal for $access:expr => $($rest:tt)*) => {
        $crate::request::endpoint::endpoint! { $name $method $path ({
            use $crate::request::access::*;
            Some($access)
        }) () $($rest)* }
    };
    ($name:ident: $method:ident $path:literal without key => $($rest:tt)*) => {
        $crate::request::endpoint::endpoint! { $name $method $path (None) (security(()),) $($rest)* }
    };
    (
        $name:ident $method:ident $path:literal ($access:expr) ($($security:tt)*) $handler:path,
        $operation:literal in $tag:literal: $summary:expr,
        $(description = $description:expr,)?
        $(params($($params:tt)*),)?
        $(body [$($body:tt)*],)?
        $($status:literal $meaning:literal $([$($answer:tt)*])?,)*
    ) => {
        pub(crate) const $name: $crate::request::endpoint::Endpoint = $crate::request::endpoint::Endpoint {
            path: $path,
            access: $access,
            handlers: || axum::routing::$method($crate::request::endpoint::erase($handler)),
            #[cfg(feature = "openapi")]
            describe: {
                use $crate::request::endpoint::documented::*;
                struct Described;

                #[utoipa::path(
                    $method, path = $path, impl_for = Described, tag = $tag, operation_id = $operation, summary = $summary,
                    $(description = $description,)?
                    $(params($($params)*),)?
                    $(request_body(content = $($body)*),)?
                    responses($((status = $status, description = $meaning $(, body = $($answer)*)?)),*),
                    $($security)*
                )]
                fn describe(document: &mut utoipa::openapi::OpenApi) {
                    add_to::<Described>(document);
                }
                describe
            },
        };
    };
}

/// What descriptions of endpoints name without a path.
#[cfg(feature = "openapi")]
pub(crate) mod documented {
    pub(crate) use houston_domain::id::*;
    pub(crate) use houston_protocol::page::Page;

    /// The path of an agentable, and of what it has.
    #[derive(utoipa::IntoParams)]
    #[into_params(parameter_in = Path)]
    #[expect(dead_code, reason = "only its description is used")]
    pub(crate) struct OfAgentable {
        /// Kind of the agentable, in the plural.
        #[param(example = "goals")]
        kinds: String,
        /// Id of the agentable.
        id: AgentableId,
    }

    /// The path of a user, and of what the user has.
    #[derive(utoipa::IntoParams)]
    #[into_params(parameter_in = Path)]
    #[expect(dead_code, reason = "only its description is used")]
    pub(crate) struct OfUser {
        /// Id of the user.
        id: UserId,
    }

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

    /// Adds the operation of [`endpoint!`](super::endpoint) to the document, and the schemas that it names.
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

pub(crate) use endpoint;
