//! `/v1/mcp-servers`: the MCP servers of the tenant, for all its users.

use houston_store::mcp_server::ServerOwner;

use super::endpoints::mcp_servers;

mcp_servers! {
    paths: "/v1/mcp-servers", "/v1/mcp-servers/{name}", "/v1/mcp-servers/{name}/tools", "/v1/mcp-servers/{name}/tools/approve",
    "/v1/mcp-servers/{name}/login",
    operations: "list_mcp_servers", "get_mcp_server", "put_mcp_server", "delete_mcp_server", "list_mcp_tools",
    "approve_mcp_tools", "log_in_to_mcp_server",
    of: "the tenant",
    params: (),
    owner: () ServerOwner::Tenant,
}
