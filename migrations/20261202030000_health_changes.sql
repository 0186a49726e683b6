-- When checks of the health monitor changed their status. Written only then; of each check the newest are kept (see
-- `store::health::check`), so the table stays small whatever happens.
create table houston.health_changes (
    -- as in health_checks
    check_id text not null,
    at timestamptz not null,
    status text not null check (status in ('ok', 'warn', 'red')),
    detail text not null,
    primary key (check_id, at)
);
