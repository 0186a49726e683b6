//! Endpoints that only read: one thing by its id, and a page of what belongs to an agentable. They are macros because
//! `endpoint!` cannot describe generic handlers. Each expands to the handler of its file, which uses the file's
//! `response` for a row of the store.

/// `GET /v1/{things}/{id}`: `method` of the store reads the thing.
macro_rules! get_by_id {
    (
        path: $path:literal, access: $access:expr, tag: $tag:literal, operation: $operation:literal,
        summary: $summary:literal,
        id: $id:ident, $id_description:literal,
        method: $method:ident, body: $($body:ident)::+, $description:literal,
    ) => {
        crate::request::endpoint::endpoint! {
            GET: get $path for $access => get,
            tag = $tag,
            operation_id = $operation,
            summary = $summary,
            params(("id" = houston_domain::id::$id, Path, description = $id_description)),
            responses((status = 200, description = $description, body = $($body)::+)),
        }

        pub(crate) async fn get(
            axum::extract::State(app): axum::extract::State<std::sync::Arc<crate::state::App>>,
            caller: crate::caller::Caller,
            crate::request::agentable_path::Id(id): crate::request::agentable_path::Id<houston_domain::id::$id>,
        ) -> Result<impl axum::response::IntoResponse, crate::error::ApiError> {
            Ok(axum::Json(response(app.store(caller).$method(id).await?)))
        }
    };
}

/// `GET /v1/{kinds}/{id}/{things}`: `method` of the store reads rows of the agentable from the cursor on. A file with several such
/// lists begins with the name of the endpoint, of its handler and of the function that makes the response for a row.
macro_rules! list_of_agentable {
    (path: $($rest:tt)*) => {
        $crate::request::reads::list_of_agentable! { LIST => list, response; path: $($rest)* }
    };
    (
        $name:ident => $handler:ident, $response:ident;
        path: $path:literal, access: $access:expr, tag: $tag:literal, operation: $operation:literal,
        summary: $summary:literal,
        list: $list:ident, from: $query:ident => $from:expr, position: $position:expr,
        method: $method:ident, body: $($body:ident)::+, $description:literal,
    ) => {
        crate::request::endpoint::endpoint! {
            $name: get $path for $access => $handler,
            tag = $tag,
            operation_id = $operation,
            summary = $summary,
            params(
                ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
                ("id" = houston_domain::id::AgentableId, Path, description = "Id of the agentable."),
                ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
                ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
            ),
            responses((status = 200, description = $description, body = houston_protocol::page::Page<$($body)::+>)),
        }

        async fn $handler(
            axum::extract::State(app): axum::extract::State<std::sync::Arc<crate::state::App>>,
            caller: crate::caller::Caller,
            path: crate::request::agentable_path::AgentablePath,
            crate::request::query::Query($query): crate::request::query::Query<crate::request::page::PageQuery>,
        ) -> Result<impl axum::response::IntoResponse, crate::error::ApiError> {
            let (limit, from) = ($query.limit()?, $from);
            app.confirm(caller, &path).await?;
            let rows = app.store(caller).$method(path.id, from, crate::request::page::rows(limit)).await?;
            let list = crate::request::page::List::$list;
            Ok(axum::Json(crate::request::page::Page::of(list, limit, rows, $position, $response)))
        }
    };
}

pub(crate) use {get_by_id, list_of_agentable};
