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
    -- Rows that a session wrote after it had read what strangers wrote. Who reads them has read that, too: their text is given to
    -- models between marks, and the session that reads them is marked like the one that wrote them.
    untrusted boolean not null default false,
    -- Where the operator has set a folder for workspaces, a file is written in two steps: its row says, in the transaction of the
    -- tool call, what the file is to be; then it is written to the folder, and the row keeps what the folder cannot: the version
    -- that Houston wrote, whether a session wrote it that had read what strangers wrote, and when it was created.
    --   row      the text is in the row; without a folder all are like this
    --   new      the text is in the row, and is to be written to the folder
    --   moved    the file is in the folder of another agentable (`content`: its id, a slash and the path there), and is to be moved
    --   removed  the file is to be deleted from the folder
    --   folder   the text is in the folder, and `content` is empty
    place text not null default 'row'
    constraint workspace_files_place check (place in ('row', 'new', 'moved', 'removed', 'folder')),
    -- Lists and sums read no contents: long ones are stored elsewhere.
    primary key (agentable_id, path)
);

-- What is to be done in folders, and whether there is anything in one. Without a folder it is empty.
create index workspace_files_in_folder on houston.workspace_files (place, agentable_id) where place <> 'row';

-- Images that users post with messages. The text of a message names an image; its bytes are here, once for each user.
create table houston.images (
    -- made of the user and the bytes (`ImageId::of` in crates/domain), so equal images of a user are one row
    id uuid primary key,
    tenant_id uuid not null,
    user_id uuid not null references houston.users,
    media_type text not null,
    -- in pixels
    width integer not null,
    height integer not null,
    -- the length of data: it is read and summed without it
    bytes integer not null,
    data bytea not null,
    created_at timestamptz not null default clock_timestamp(),
    -- Why a provider has refused an image or a file: no model is sent it again.
    refused text
);

-- Images are compressed already.
alter table houston.images alter column data set storage external;
create index images_by_user on houston.images (user_id);

-- The agentables to which an image was posted: it is deleted with the last of them.
create table houston.image_uses (
    agentable_id uuid not null references houston.agentables,
    image_id uuid not null,
    tenant_id uuid not null,
    primary key (agentable_id, image_id)
);
create index image_uses_by_image on houston.image_uses (image_id);

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
    created_at timestamptz not null default clock_timestamp(),
    refused text
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
