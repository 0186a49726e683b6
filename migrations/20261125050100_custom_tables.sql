-- Custom tables of users and their records. What a record may have is in the fields of its table: `Fields` of
-- `crates/domain/src/custom_table` checks what is written.
create table houston.custom_tables (
    id uuid primary key,
    tenant_id uuid not null,
    user_id uuid not null references houston.users,
    name text not null,
    description text not null,
    -- a list of fields; it does not change, so a record that was checked stays right
    fields jsonb not null,
    -- of all records: their number, and their bytes as JSON
    records integer not null default 0,
    bytes bigint not null default 0,
    -- whether a session made it that had read what strangers wrote
    untrusted boolean not null default false,
    created_at timestamptz not null,
    unique (user_id, name)
);

create table houston.custom_records (
    id uuid primary key,
    tenant_id uuid not null,
    user_id uuid not null references houston.users,
    -- houston.custom_tables; what deletes a table deletes its records
    table_id uuid not null,
    data jsonb not null,
    bytes integer not null,
    -- whether a session wrote it that had read what strangers wrote
    untrusted boolean not null default false,
    created_at timestamptz not null,
    updated_at timestamptz not null
);

-- A search reads the records of one table, and nothing else.
create index custom_records_by_table on houston.custom_records (user_id, table_id, id);
