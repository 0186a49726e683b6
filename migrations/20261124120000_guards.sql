-- Guards of tenants, users and agentables: what agents may do with their tools, below what jobs/guards.toml and the agent
-- type allow (a `GuardSettings` as JSON); null: no further restriction. Those of an agent are a key of its settings.
alter table houston.tenants add column guards jsonb;
alter table houston.users add column guards jsonb;
-- They hold for its tasks, too.
alter table houston.agentables add column guards jsonb;
