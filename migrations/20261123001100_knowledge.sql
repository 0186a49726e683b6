-- What agents know: of one agentable (notes, learnings), or of a user and shared by all their agents (custom
-- instructions, memories, feed items; the profile).

-- houston.likeness compares words by trigrams. If the database has the extension already, its schema is not changed.
create extension if not exists pg_trgm with schema houston;

-- Texts of an agentable or a user, one row each. What differs between the kinds is in `crates/domain/src/knowledge.rs`.
-- Custom instructions are the user's rules, which all their agents follow. Only the API writes them and never an agent:
-- a web page that an agent reads must not be able to add a rule.
create table houston.knowledge_items (
    id uuid primary key,
    tenant_id uuid not null,
    -- note, learning, memory, custom_instruction, feed_item
    kind text not null,
    -- the owner: one of the two
    agentable_id uuid references houston.agentables,
    user_id uuid references houston.users,
    owner_id uuid not null generated always as (coalesce(agentable_id, user_id)) stored,
    -- the agentable that wrote a feed item; null: it was written over the API, or the agentable was deleted
    author_id uuid references houston.agentables on delete set null,
    -- the run that wrote it; null: it was written over the API
    run_id uuid,
    title text,
    content text not null,
    -- A search reads all items of one owner and kind, which are ten thousand at most: an index over the words of all
    -- users would find more rows of other users than of this one.
    search tsvector not null generated always as (
        to_tsvector('simple', case when kind = 'feed_item' then title else coalesce(title || ' ', '') || content end)
    ) stored,
    -- when the user read a feed item
    read_at timestamptz,
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp(),
    check (num_nonnulls(agentable_id, user_id) = 1)
);

-- A run reads the items of one kind by this index: their number does not depend on the other kinds.
create index knowledge_by_owner on houston.knowledge_items (owner_id, kind, id);
-- For agentables and users that are deleted.
create index knowledge_by_agentable on houston.knowledge_items (agentable_id) where agentable_id is not null;
create index knowledge_by_user on houston.knowledge_items (user_id) where user_id is not null;
create index knowledge_by_author on houston.knowledge_items (author_id) where author_id is not null;

create table houston.profiles (
    user_id uuid primary key references houston.users,
    tenant_id uuid not null,
    facts text[] not null default '{}',
    preferences text[] not null default '{}',
    communication_style text[] not null default '{}',
    interests text[] not null default '{}',
    aims text[] not null default '{}',
    updated_at timestamptz not null default clock_timestamp()
);
