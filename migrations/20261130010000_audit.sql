-- Who changed what through the API or by a command of an operator. Ids only, no content; what the traffic of applications writes
-- (messages, conversations with their users) is data and not recorded here. The health monitor deletes old rows.
create table houston.audit (
    -- by time
    id uuid primary key,
    -- all zeros: it was done to the whole installation
    tenant_id uuid not null,
    at timestamptz not null default clock_timestamp(),
    -- `key_…`, or the command with the login of the machine
    actor text not null,
    -- the user whom the key or the token is bound to: `user_…`
    on_behalf_of text,
    -- as in the OpenAPI document, or the name of the command
    operation text not null,
    -- the id or the name in the path; null: a list, or what the body names
    target text,
    -- of the answer; 0: a command
    status smallint not null,
    -- of the problem, if it was refused
    code text,
    request_id text
);

create index audit_by_tenant on houston.audit (tenant_id, id);
-- The health monitor deletes the oldest rows.
create index audit_by_age on houston.audit (at);
