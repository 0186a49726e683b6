-- Which agentables are made with their user, one of each such kind per user, is for the agent types to say
-- (`made_with_user` in jobs/agents): what was decided when one was made stands here.
alter table houston.agentables add column made_with_user boolean not null default false;
update houston.agentables set made_with_user = true where kind = 'user_agent';

drop index houston.agentables_user_agent;
-- One of each kind per user, whoever races to make it.
create unique index agentables_made_with_user on houston.agentables (user_id, kind) where made_with_user;
-- A user's agentables of one kind, the newest first.
create index agentables_by_user_kind on houston.agentables (user_id, kind, id);
