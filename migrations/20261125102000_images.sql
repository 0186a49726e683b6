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
    created_at timestamptz not null default clock_timestamp()
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
