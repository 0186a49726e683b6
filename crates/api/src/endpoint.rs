//! Routes, with the operations of the OpenAPI document that belong to them.
//!
//! The operations are generated from the handlers by tests only. A server answers with the checked-in document: generating it
//! would cost each process some megabytes of memory and code.

use std::sync::Arc;

use axum::routing::MethodRouter;
use axum::{Extension, Router};
#[cfg(test)]
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::access::Access;
use crate::state::App;

/// The handlers of one path.
pub(crate) struct Endpoint {
    path: String,
    handlers: MethodRouter<Arc<App>>,
    #[cfg(test)]
    documented: UtoipaMethodRouter<Arc<App>>,
}

/// Endpoints of several paths.
#[derive(Default)]
pub(crate) struct Endpoints {
    router: Router<Arc<App>>,
    #[cfg(test)]
    documented: OpenApiRouter<Arc<App>>,
    /// The access of each path that needs a key.
    #[cfg(test)]
    access: std::collections::HashMap<String, Access>,
}

impl Endpoint {
    pub(crate) fn new(
        path: String,
        handlers: MethodRouter<Arc<App>>,
        #[cfg(test)] documented: UtoipaMethodRouter<Arc<App>>,
    ) -> Self {
        Self {
            path,
            handlers,
            #[cfg(test)]
            documented,
        }
    }
}

impl Endpoints {
    /// No endpoints, and a document without paths.
    pub(crate) fn new() -> Self {
        Self {
            router: Router::new(),
            #[cfg(test)]
            documented: OpenApiRouter::with_openapi(crate::openapi::document()),
            #[cfg(test)]
            access: std::collections::HashMap::new(),
        }
    }

    /// Adds an endpoint that needs no key.
    pub(crate) fn open(self, endpoint: Endpoint) -> Self {
        Self {
            router: self.router.route(&endpoint.path, endpoint.handlers),
            #[cfg(test)]
            documented: self.documented.routes(endpoint.documented),
            #[cfg(test)]
            access: self.access,
        }
    }

    /// Adds an endpoint, with what it needs of the key.
    pub(crate) fn routes(self, access: Access, mut endpoint: Endpoint) -> Self {
        #[cfg(test)]
        let path = endpoint.path.clone();
        endpoint.handlers = endpoint.handlers.route_layer(Extension(access));
        let all = self.open(endpoint);
        #[cfg(test)]
        let all = all.with_access(path, access);
        all
    }

    /// Adds handlers of another protocol, whose contract is another document.
    pub(crate) fn undocumented(
        mut self,
        access: Access,
        path: &str,
        handlers: MethodRouter<Arc<App>>,
    ) -> Self {
        self.router = self.router.route(path, handlers.route_layer(Extension(access)));
        self
    }

    #[cfg(test)]
    fn with_access(mut self, path: String, access: Access) -> Self {
        self.access.insert(path, access);
        self
    }

    pub(crate) fn merge(self, others: Self) -> Self {
        Self {
            router: self.router.merge(others.router),
            #[cfg(test)]
            documented: self.documented.merge(others.documented),
            #[cfg(test)]
            access: self.access.into_iter().chain(others.access).collect(),
        }
    }

    pub(crate) fn into_router(self) -> Router<Arc<App>> {
        self.router
    }

    /// The document generated from the handlers.
    #[cfg(test)]
    pub(crate) fn into_document(self) -> utoipa::openapi::OpenApi {
        crate::openapi::complete(self.documented.into_openapi(), &self.access)
    }
}

/// The endpoint of handlers with `#[utoipa::path]` and the same path. Takes their path and methods with the internal rules of
/// `utoipa_axum::routes`, which has no public ones for that; a version that renames them does not compile.
macro_rules! routes {
    ($($($part:ident)::+),+ $(,)?) => {{
        use utoipa_axum::PathItemExt as _;
        let (mut path, mut handlers) = (String::new(), axum::routing::MethodRouter::new());
        $(
            path.replace_range(.., &utoipa_axum::routes!(@path [path()] of $($part)::+));
            for method in utoipa_axum::routes!(@path [methods()] of $($part)::+) {
                handlers = handlers.on(method.to_method_filter(), $crate::handler::erase($($part)::+));
            }
        )+
        $crate::endpoint::Endpoint::new(
            path,
            handlers,
            #[cfg(test)]
            {
                let (mut schemas, mut paths) = (Vec::new(), utoipa::openapi::path::Paths::new());
                $(
                    let (path, item, methods) = utoipa_axum::routes!(@resolve_types $($part)::+ : schemas);
                    paths.add_path_operation(&path, methods, item);
                )+
                (schemas, paths, axum::routing::MethodRouter::new())
            },
        )
    }};
}

pub(crate) use routes;
