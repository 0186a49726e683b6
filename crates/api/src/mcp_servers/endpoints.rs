//! The endpoints of one owner's MCP servers, as a macro: the tenant and each user have the same.

/// Generates `list`, `get`, `put`, `delete`, `tools`, `approve` and `login`. `owner` looks up what the path names.
macro_rules! mcp_servers {
    (
        paths: $all:literal, $one:literal, $tools:literal, $approve:literal, $login:literal,
        operations: $list_id:literal, $get_id:literal, $put_id:literal, $delete_id:literal, $tools_id:literal, $approve_id:literal, $login_id:literal,
        of: $of:literal, params: ($($params:tt)*),
        owner: ($($pattern:pat_param => $extracted:ty)?) $owner:expr,
    ) => {
        crate::endpoint::endpoint! {
            LIST: get $all => list,
            tag = "tools",
            operation_id = $list_id,
            summary = concat!("List the MCP servers of ", $of, ", without their headers."),
            params($($params)*),
            responses((
                status = 200, description = "All servers, by name; at most 20.",
                body = houston_protocol::mcp_server::McpServerList
            )),
        }

        pub(crate) async fn list(
            axum::extract::State(app): axum::extract::State<std::sync::Arc<crate::state::App>>,
            caller: crate::auth::Caller,
            $($pattern: $extracted,)?
        ) -> Result<impl axum::response::IntoResponse, crate::error::ApiError> {
            super::list(&app, caller, $owner).await
        }

        crate::endpoint::endpoint! {
            GET: get $one => get,
            tag = "tools",
            operation_id = $get_id,
            summary = concat!("Get an MCP server of ", $of, ", without its headers."),
            params($($params)* ("name" = String, Path, description = "Name of the server.", example = "crm")),
            responses((status = 200, description = "The server.", body = houston_protocol::mcp_server::McpServerResponse)),
        }

        pub(crate) async fn get(
            axum::extract::State(app): axum::extract::State<std::sync::Arc<crate::state::App>>,
            caller: crate::auth::Caller,
            $($pattern: $extracted,)?
            name: super::ServerName,
        ) -> Result<impl axum::response::IntoResponse, crate::error::ApiError> {
            super::get(&app, caller, $owner, name).await
        }

        crate::endpoint::endpoint! {
            PUT: put $one => put,
            tag = "tools",
            operation_id = $put_id,
            summary = concat!("Add an MCP server of ", $of, ", or replace the one with this name; its tools must be approved."),
            params($($params)* ("name" = String, Path, description = "Name of the server: a-z, 0-9 and -.", example = "crm")),
            request_body = houston_protocol::mcp_server::PutMcpServer,
            responses(
                (status = 200, description = "The server.", body = houston_protocol::mcp_server::McpServerResponse),
                (status = 409, description = "`full`: there is the maximum number of servers."),
            ),
        }

        pub(crate) async fn put(
            axum::extract::State(app): axum::extract::State<std::sync::Arc<crate::state::App>>,
            caller: crate::auth::Caller,
            $($pattern: $extracted,)?
            name: super::ServerName,
            // A PUT is idempotent, so the Idempotency-Key is ignored.
            crate::body::Creation { value: new, key: _ }: crate::body::Creation<houston_protocol::mcp_server::PutMcpServer>,
        ) -> Result<impl axum::response::IntoResponse, crate::error::ApiError> {
            super::put::put(&app, caller, $owner, name, new).await
        }

        crate::endpoint::endpoint! {
            DELETE: delete $one => delete,
            tag = "tools",
            operation_id = $delete_id,
            summary = concat!("Delete an MCP server of ", $of, " with its headers and approvals."),
            params($($params)* ("name" = String, Path, description = "Name of the server.", example = "crm")),
            responses((status = 204, description = "It is deleted.")),
        }

        pub(crate) async fn delete(
            axum::extract::State(app): axum::extract::State<std::sync::Arc<crate::state::App>>,
            caller: crate::auth::Caller,
            $($pattern: $extracted,)?
            name: super::ServerName,
        ) -> Result<axum::http::StatusCode, crate::error::ApiError> {
            super::delete(&app, caller, $owner, name).await
        }

        crate::endpoint::endpoint! {
            TOOLS: get $tools => tools,
            tag = "tools",
            operation_id = $tools_id,
            summary = concat!("Ask an MCP server of ", $of, " for its tools, and compare them with the approved ones."),
            params($($params)* ("name" = String, Path, description = "Name of the server.", example = "crm")),
            responses(
                (status = 200, description = "Its tools, by name.", body = houston_protocol::mcp_server::McpToolList),
                (status = 502, description = "`mcp_server_failed`: it did not list its tools."),
            ),
        }

        pub(crate) async fn tools(
            axum::extract::State(app): axum::extract::State<std::sync::Arc<crate::state::App>>,
            caller: crate::auth::Caller,
            $($pattern: $extracted,)?
            name: super::ServerName,
        ) -> Result<impl axum::response::IntoResponse, crate::error::ApiError> {
            super::tools::tools(&app, caller, $owner, name).await
        }

        crate::endpoint::endpoint! {
            APPROVE: post $approve => approve,
            tag = "tools",
            operation_id = $approve_id,
            summary = concat!("Approve tools of an MCP server of ", $of, " as they were read: agents are offered them from the next run on."),
            params($($params)* ("name" = String, Path, description = "Name of the server.", example = "crm")),
            request_body = houston_protocol::mcp_server::ApproveMcpTools,
            responses(
                (status = 200, description = "Its tools, by name.", body = houston_protocol::mcp_server::McpToolList),
                (status = 409, description = "`tool_changed`: the server lists another definition now; nothing was approved."),
                (status = 502, description = "`mcp_server_failed`: it did not list its tools."),
            ),
        }

        pub(crate) async fn approve(
            axum::extract::State(app): axum::extract::State<std::sync::Arc<crate::state::App>>,
            caller: crate::auth::Caller,
            $($pattern: $extracted,)?
            name: super::ServerName,
            // Approving twice does no more than once, so the Idempotency-Key is ignored.
            crate::body::Creation { value: read, key: _ }: crate::body::Creation<houston_protocol::mcp_server::ApproveMcpTools>,
        ) -> Result<impl axum::response::IntoResponse, crate::error::ApiError> {
            super::tools::approve(&app, caller, $owner, name, read).await
        }

        crate::endpoint::endpoint! {
            LOGIN: post $login => login,
            tag = "tools",
            operation_id = $login_id,
            summary = concat!("Begin a login of ", $of, " at an MCP server that uses OAuth."),
            params($($params)* ("name" = String, Path, description = "Name of the server.", example = "crm")),
            responses(
                (status = 200, description = "The URL to open in a browser.", body = houston_protocol::mcp_server::McpLoginResponse),
                (status = 502, description = "`mcp_server_failed`: the server or its authorization server did not answer as OAuth has it."),
            ),
        }

        pub(crate) async fn login(
            axum::extract::State(app): axum::extract::State<std::sync::Arc<crate::state::App>>,
            caller: crate::auth::Caller,
            $($pattern: $extracted,)?
            name: super::ServerName,
        ) -> Result<impl axum::response::IntoResponse, crate::error::ApiError> {
            super::login::begin(&app, caller, $owner, name).await
        }
    };
}

pub(crate) use mcp_servers;
