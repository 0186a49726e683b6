//! `/v1/users/{id}/mcp-servers`: the MCP servers of a user alone.

use houston_domain::id::UserId;
use houston_store::mcp_server::ServerOwner;

use super::endpoints::mcp_servers;
use crate::agentable_path::Id;

mcp_servers! {
    paths: "/v1/users/{id}/mcp-servers", "/v1/users/{id}/mcp-servers/{name}", "/v1/users/{id}/mcp-servers/{name}/tools",
    "/v1/users/{id}/mcp-servers/{name}/tools/approve", "/v1/users/{id}/mcp-servers/{name}/login",
    operations: "list_mcp_servers_of_user", "get_mcp_server_of_user", "put_mcp_server_of_user", "delete_mcp_server_of_user",
    "list_mcp_tools_of_user", "approve_mcp_tools_of_user", "log_user_in_to_mcp_server",
    of: "a user",
    params: (("id" = houston_protocol::schema::UserId, Path, description = "Id of the user."),),
    owner: (Id(id) => Id<UserId>) ServerOwner::User(id),
}
