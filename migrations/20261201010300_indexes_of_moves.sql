-- What a move of users to another cell finds by their shards, or by whose it is. Rows are added rarely, so that an index costs little.
create index users_by_shard on houston.users (right(id::text, 4));
create index erasures_by_shard on houston.erasures (right(id::text, 4));
create index mcp_accounts_by_owner on houston.mcp_accounts (owner_id);
create index mcp_logins_by_owner on houston.mcp_logins (owner_id);
