//! Handlers whose type does not name their function.
//!
//! axum makes some hundred functions for each handler that a router gets, and for each of them the compiler proves anew that
//! the future of the handler can be sent to another thread, which means going through all that it awaits. With one type for
//! all handlers, that is done once for each of them: it took two thirds of the time in which this crate was compiled.

use std::pin::Pin;
use std::sync::Arc;

use axum::extract::Request;
use axum::handler::Handler;
use axum::response::Response;

use crate::state::App;

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
