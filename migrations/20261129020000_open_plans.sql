-- For the health monitor: plans that have not ended.
create index plans_open on houston.plans (agentable_id) where ended_at is null;
