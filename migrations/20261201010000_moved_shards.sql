-- Shards whose users were moved to another cell. The cell that gave them away and the one that got them have the same row, so
-- that one of the two is enough to know it. Empty unless users were moved.
create table houston.moved_shards (
    -- of several moves of a shard the one with the highest version counts
    version bigint not null,
    -- the first and the last shard
    first integer not null check (first between 0 and 65535),
    last integer not null check (last between first and 65535),
    -- the cell that has them now: its shards in the settings, as `8000-ffff`
    cell text not null,
    moved_at timestamptz not null default clock_timestamp(),
    primary key (version, first)
);
