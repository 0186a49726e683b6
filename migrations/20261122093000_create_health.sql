-- The latest tick of each periodic job: whoever moves it forward does the job. One row per job, so nothing piles
-- up, and the database's clock says which tick it is.
create table houston.cron_ticks (
    job text primary key,
    tick timestamptz not null
);

-- What each check of the health monitor found when it last looked.
create table houston.health_checks (
    id text primary key,
    status text not null check (status in ('ok', 'warn', 'red')),
    detail text not null,
    -- since when the status is this one
    since timestamptz not null,
    checked_at timestamptz not null,
    -- from then on nobody knows any more
    stale_at timestamptz not null
);
