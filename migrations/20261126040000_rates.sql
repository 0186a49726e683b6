-- How much of its rate limits each user and each API key has used (`jobs/rates.toml`). A limit is one time, as the generic
-- cell rate algorithm has it: when nothing would be used any more if nothing more came. Rows are not logged, so that
-- asking waits for no disk; after a crash of Postgres the table is empty, and everybody has one burst more. Who has no row
-- has used nothing.
create unlogged table houston.rates (
    -- the user, or the API key
    owner_id uuid not null,
    -- the limit: `requests`, `key`, `tokens`
    name text collate "C" not null,
    -- when nothing is used any more
    free_at timestamptz not null,
    -- of `tokens`: how many a run of the user takes, the latest ones counting most
    per_run double precision,
    primary key (owner_id, name)
) with (fillfactor = 50);

-- What was counted of the user's limit of tokens when the run was admitted; its end counts the difference to what it
-- took.
alter table houston.runs add column booked_tokens bigint;
