-- Files of agentables. They are rows and not files of a machine, so that a run finds them on any worker and a tool writes
-- them in the transaction of its step.
create table houston.workspace_files (
    agentable_id uuid not null references houston.agentables,
    -- `crates/domain/src/workspace/path.rs` says what a path is: at most 512 bytes.
    -- Compared byte by byte, so that the order does not depend on the locale.
    path text collate "C" not null,
    tenant_id uuid not null,
    content text not null,
    -- of the content, and its length in bytes: they are read without it
    sha256 bytea not null,
    bytes integer not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    -- Lists and sums read no contents: long ones are stored elsewhere.
    primary key (agentable_id, path)
);
