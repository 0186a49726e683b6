-- The latest tick of each periodic job. The process that increases it runs the job. One row per job, so ticks do not
-- pile up, and the database's clock decides which tick it is.
create table houston.cron_ticks (
    job text primary key,
    tick timestamptz not null
);

-- The latest result of each check of the health monitor.
create table houston.health_checks (
    id text primary key,
    status text not null check (status in ('ok', 'warn', 'red')),
    detail text not null,
    -- since when it has this status
    since timestamptz not null,
    checked_at timestamptz not null,
    -- from then on the result is outdated
    stale_at timestamptz not null
);
