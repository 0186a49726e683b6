-- What is known of a user, over all their agents: profile, custom instructions, memories, feed. Notes and learnings
-- belong to one agentable and stand in tables of their own since the beginning.

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

-- Rules of the user, which each of their agents follows. Only the API writes them, never an agent: a web page that
-- an agent reads must not be able to give it standing orders.
create table houston.custom_instructions (
    id uuid primary key,
    tenant_id uuid not null,
    user_id uuid not null references houston.users,
    content text not null,
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp()
);

create index custom_instructions_by_user on houston.custom_instructions (user_id, id);

-- What agents should still know of the user another day. A search looks at all of one user's, which are at most a
-- thousand: an index over the words of all users would find more rows of others than of this one.
create table houston.memories (
    id uuid primary key,
    tenant_id uuid not null,
    user_id uuid not null references houston.users,
    -- the run that saved it; null: the API did
    run_id uuid,
    content text not null,
    search tsvector not null generated always as (to_tsvector('simple', content)) stored,
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp()
);

create index memories_by_user on houston.memories (user_id, id);

-- What agents put before the user's eyes without being asked.
create table houston.feed_items (
    id uuid primary key,
    tenant_id uuid not null,
    user_id uuid not null references houston.users,
    -- who wrote it, and in which run; null: the API did, or the agent is gone
    agentable_id uuid references houston.agentables on delete set null,
    run_id uuid,
    title text not null,
    content text not null,
    read_at timestamptz,
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp()
);

create index feed_items_by_user on houston.feed_items (user_id, id);
-- For the agentable that is deleted.
create index feed_items_by_agentable on houston.feed_items (agentable_id) where agentable_id is not null;

-- Nothing ever read or wrote these two columns; what somebody may have put there by hand moves.
insert into houston.profiles (user_id, tenant_id, facts)
select id, tenant_id, array[profile] from houston.users where profile <> '';
insert into houston.custom_instructions (id, tenant_id, user_id, content)
select gen_random_uuid(), tenant_id, id, custom_instructions from houston.users where custom_instructions <> '';
alter table houston.users drop column profile, drop column custom_instructions;

-- Notes can be written through the API, changed, and searched.
alter table houston.notes
    alter column run_id drop not null,
    add column updated_at timestamptz,
    add column search tsvector generated always as (to_tsvector('simple', title || ' ' || content)) stored;
update houston.notes set updated_at = created_at;
alter table houston.notes
    alter column updated_at set default clock_timestamp(),
    alter column updated_at set not null;

-- Any of the words of a text. (`plainto_tsquery` wants them all, which finds nothing for a whole question.)
create function houston.any_word(p_text text) returns tsquery language sql immutable strict as
$$ select replace(plainto_tsquery('simple', p_text)::text, ' & ', ' | ')::tsquery $$;

-- How like p_text is to the words of p_query, from 0 (no word is like any of its own) to 1 (each is in it), whatever
-- the endings and the typing errors: by trigrams. Of the query its five longest words, which say the most, of the text
-- its first 500 characters: a thousand long texts take half a second, where all of both took four.
-- The extension belongs to whoever installed it first, in whatever schema that was.
create extension if not exists pg_trgm with schema houston;
do $do$
declare
    v_schema text := (select n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace
                       where e.extname = 'pg_trgm');
begin
    execute format($create$
create function houston.likeness(p_query text, p_text text) returns real language sql immutable strict as $$
    select coalesce(avg(case when l.likeness >= 0.5 then l.likeness else 0 end), 0)::real
      from (select w.word from regexp_split_to_table(p_query, '\W+') as w (word)
             where length(w.word) >= 3 order by length(w.word) desc limit 5) as words,
           lateral (select %I.word_similarity(words.word, left(p_text, 500)) as likeness) as l
$$;
$create$, v_schema);
end;
$do$;
