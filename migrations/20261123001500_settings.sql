-- The numbers of jobs/ that SQL functions need where no caller passes them. Each process writes them when it starts
-- (houston_store::settings); until then the defaults below apply.
create table houston.settings (
    name text primary key,
    value integer not null
);

insert into houston.settings (name, value) values
    ('tasks.note_chars', 16000), ('tasks.report_chars', 4000), ('tasks.report_notes', 20),
    ('session.extract_chars', 200), ('session.extract_entries', 40), ('session.extract_texts', 5),
    ('fairness.max_running', 10), ('fairness.max_pending', 10000);

-- The secrets of this installation: one row, generated here. No API returns them.
create table houston.installation (
    only_row boolean primary key default true check (only_row),
    -- the key for the marks of frames, see houston.frame_mark
    frame_secret bytea not null
);

insert into houston.installation (frame_secret)
values (sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())));

-- The files of migrations/functions that were applied. `houston migrate` applies those whose hash differs.
create table houston.functions (
    -- the name of the file, which is the name of its functions
    name text primary key,
    sha256 bytea not null,
    applied_at timestamptz not null default now()
);
