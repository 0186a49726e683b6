-- Files that users post for their messages: images, PDFs and texts. The text of a message names a file; its bytes are
-- elsewhere.
create table houston.attachments (
    -- made of the user and the bytes (`AttachmentHash` in crates/domain), so equal files of a user are one row
    id uuid primary key,
    tenant_id uuid not null,
    user_id uuid not null references houston.users,
    name text not null,
    -- what the bytes are, whatever the client said
    media_type text not null,
    bytes integer not null,
    -- of an image whose header says it, in pixels
    width integer,
    height integer,
    -- the object with the bytes (houston.attachment_objects); null: they are in houston.attachment_parts
    object_id uuid,
    -- the text of a PDF, once a model needed it that takes no PDFs, and whether there was more
    pdf_text text,
    pdf_text_cut boolean not null default false,
    created_at timestamptz not null default clock_timestamp()
);
create index attachments_by_user on houston.attachments (user_id);

-- The bytes of a file, in parts of 2 MiB, unless an object store has them.
create table houston.attachment_parts (
    attachment_id uuid not null,
    nth integer not null,
    tenant_id uuid not null,
    user_id uuid not null,
    data bytea not null,
    primary key (attachment_id, nth)
);
-- Most of them are compressed already.
alter table houston.attachment_parts alter column data set storage external;

-- The agentables whose messages name a file: it is deleted with the last of them.
create table houston.attachment_uses (
    agentable_id uuid not null references houston.agentables,
    attachment_id uuid not null,
    tenant_id uuid not null,
    primary key (agentable_id, attachment_id)
);
create index attachment_uses_by_attachment on houston.attachment_uses (attachment_id);

-- Every object that Houston has written to the object store, or is about to. The row comes before the object and goes after
-- it, so that whatever breaks, each object is named by a row.
create table houston.attachment_objects (
    id uuid primary key,
    tenant_id uuid not null,
    user_id uuid not null,
    -- when it is to be deleted: soon for one that was erased, in an hour for one whose upload has not ended; null: it is kept
    drop_at timestamptz
);
create index attachment_objects_to_drop on houston.attachment_objects (drop_at) where drop_at is not null;
create index attachment_objects_by_user on houston.attachment_objects (user_id);
