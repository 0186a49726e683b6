-- Triggers that start tasks, conditions that fail, and what became of the last firings.
alter table houston.triggers
    -- the task that it starts, a `houston_domain::trigger::effect::TriggerTask`; null: it posts a message
    add column task jsonb,
    -- its limit, as in houston.rates: when no earlier firing counts any more
    add column free_at timestamptz,
    -- what became of it the last times, the latest first: `houston_domain::trigger::effect::Firing`
    add column firings jsonb not null default '[]',
    drop column hour_at,
    drop column hour_count;

-- How deep tasks may nest and how many may be open, which a trigger's task keeps to as well: `[tasks]` of jobs/orchestrator.toml.
insert into houston.settings (name, value) values ('tasks.max_depth', 1), ('tasks.max_open', 5)
    on conflict do nothing;

-- Those of the users who have new events, however many triggers there are.
create index triggers_hearing_by_user on houston.triggers (user_id) where enabled and next_at is null;
