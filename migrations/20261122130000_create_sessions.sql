-- Sessions: stretches of a history between two closings. Closing one moves `run_locks.session_position` and adds a row
-- here; no entry is copied or changed, so that it takes the same for ten entries as for a million.
create table houston.sessions (
    id uuid primary key,
    tenant_id uuid not null,
    agentable_id uuid not null references houston.agentables on delete cascade,
    -- from 1, of each agentable
    number integer not null,
    -- the entries it holds
    first_position bigint not null,
    last_position bigint not null,
    -- when the first and the last of them were written
    started_at timestamptz not null,
    completed_at timestamptz not null,
    completion_reason text not null
        check (completion_reason in ('session_timeout', 'feed_generation_complete', 'reset')),
    closed_at timestamptz not null default clock_timestamp(),
    -- the beginning of what the user wrote, until a model has written something better
    summary text not null,
    summarised_by text not null default 'extract' check (summarised_by in ('extract', 'model')),
    -- counted with the summary
    message_count integer,
    token_count bigint,
    -- when somebody has to summarise it; null: somebody has
    summary_due_at timestamptz default clock_timestamp(),
    summary_attempts integer not null default 0,
    -- words of the summary and of the whole conversation, trigrams of the summary, and the agentable: see
    -- search_sessions. Written with the summary, and not before: each change of the row would index it anew
    search tsvector,
    unique (agentable_id, number)
);

create index sessions_unsummarised on houston.sessions (summary_due_at) where summary_due_at is not null;

-- Of each agentable that had a session: its numbers, and when somebody must look whether its open one is over. Changed
-- once a session, not once a run; beside `run_locks`, whose updates stay where they are (HOT).
create table houston.session_states (
    agentable_id uuid primary key references houston.agentables on delete cascade,
    tenant_id uuid not null,
    -- of the latest closed session, and of the latest one its stream was told of
    last_number integer not null default 0,
    told_number integer not null default 0,
    -- the open session may be over by then, and is not before; null: none is open
    look_at timestamptz,
    -- somebody wants it closed as soon as no run is in the way
    close_reason text
) with (fillfactor = 70);

create index session_states_due on houston.session_states (look_at) where look_at is not null;

-- The first of what the user wrote in a stretch of history, shortened: it stands in for a summary. Looks at the first
-- entries alone, however many there are.
create function houston.session_extract(p_agentable uuid, p_after bigint, p_last bigint) returns text
language sql stable as $$
    select coalesce('The user wrote: ' || string_agg(said.text, ' / ' order by said.position, said.n), 'Nothing was said.')
      from (select h.position, b.n, left(btrim(regexp_replace(b.block->>'text', '\s+', ' ', 'g')), 200) as text
              from (select e.position, e.role, e.content from houston.history e
                     where e.agentable_id = p_agentable and e.position > p_after and e.position <= p_last
                       and not e.rolled_back
                     order by e.position limit 40) h
             cross join lateral jsonb_array_elements(h.content) with ordinality as b (block, n)
             where h.role = 'user' and b.block->>'type' = 'text' and btrim(b.block->>'text') <> ''
             order by h.position, b.n limit 5) said;
$$;

-- Closes the open session with the entry at p_last. The caller holds the agentable's lock row and knows that no run has
-- written after it. Returns whether there was anything to close: of two who want to, the second finds nothing.
create function houston.fold_session(p_agentable uuid, p_last bigint, p_reason text, p_session uuid) returns boolean
language plpgsql as $$
declare
    l record;
    v_first record;
    v_completed timestamptz;
    v_number integer;
begin
    select k.tenant_id, k.session_position into l from houston.run_locks k where k.agentable_id = p_agentable;
    select h.position, h.created_at into v_first from houston.history h
     where h.agentable_id = p_agentable and h.position > l.session_position and h.position <= p_last
     order by h.position limit 1;
    if not found then
        return false;
    end if;
    select h.created_at into v_completed from houston.history h
     where h.agentable_id = p_agentable and h.position <= p_last order by h.position desc limit 1;
    insert into houston.session_states as s (agentable_id, tenant_id, last_number)
    values (p_agentable, l.tenant_id, 1)
    on conflict (agentable_id) do update set last_number = s.last_number + 1, look_at = null, close_reason = null
    returning s.last_number into v_number;
    insert into houston.sessions (id, tenant_id, agentable_id, number, first_position, last_position, started_at,
                                  completed_at, completion_reason, summary)
    values (p_session, l.tenant_id, p_agentable, v_number, v_first.position, p_last, v_first.created_at, v_completed,
            p_reason, houston.session_extract(p_agentable, l.session_position, p_last));
    update houston.run_locks k set session_position = p_last where k.agentable_id = p_agentable;
    return true;
end;
$$;

-- Closes the open session of an agentable, for whoever knows that it is over: p_reason is 'feed_generation_complete',
-- 'reset' or 'session_timeout'. In the caller's transaction, which holds the agentable's lock row from here on. What is
-- posted meanwhile waits for that row and begins the next session.
--
-- 'closed':   it is, as p_session
-- 'deferred': a run has begun to write into it: it is closed when that has ended, before the next one begins
-- 'nothing':  there is no entry that is not in a closed session
--
-- Whether the agentable's kind archives is for the caller to know. Raises HO404 when there is no such agentable.
create function houston.close_session(
    p_agentable uuid, p_reason text, p_session uuid default gen_random_uuid()
) returns text language plpgsql as $$
declare
    l houston.run_locks;
begin
    if p_reason is null or p_reason not in ('session_timeout', 'feed_generation_complete', 'reset') then
        raise exception 'the reason is %: session_timeout, feed_generation_complete and reset are allowed',
              coalesce(quote_literal(p_reason), 'null') using errcode = 'HO422';
    end if;
    select k.* into l from houston.run_locks k where k.agentable_id = p_agentable for no key update;
    if not found then
        raise exception 'agentable % not found', p_agentable using errcode = 'HO404';
    end if;
    -- A run that was queued and never claimed has read nothing yet: its messages begin the next session.
    if l.holder is not null
       or (l.run_open and exists (select from houston.runs r where r.id = l.run_id and r.attempt > 0)) then
        insert into houston.session_states as s (agentable_id, tenant_id, look_at, close_reason)
        values (p_agentable, l.tenant_id, clock_timestamp(), p_reason)
        on conflict (agentable_id) do update set look_at = excluded.look_at, close_reason = excluded.close_reason;
        return 'deferred';
    end if;
    return case when houston.fold_session(p_agentable, l.last_position, p_reason, p_session)
                then 'closed' else 'nothing' end;
end;
$$;

-- The sweep's look at an agentable that is due: closes its session if nothing was written for p_quiet, or if somebody
-- wanted it closed; else says when to look again. Of kinds that are not among p_kinds only what somebody wanted is
-- closed. One whose lock row is taken is left to the next sweep.
create function houston.close_quiet_session(
    p_agentable uuid, p_kinds text[], p_quiet interval, p_session uuid
) returns boolean language plpgsql as $$
declare
    l houston.run_locks;
    s houston.session_states;
    v_archives boolean;
    v_written timestamptz;
    v_look_at timestamptz;
begin
    select k.* into l from houston.run_locks k
     where k.agentable_id = p_agentable for no key update skip locked;
    if not found then
        return false;
    end if;
    select x.* into s from houston.session_states x where x.agentable_id = p_agentable;
    if s.look_at is null or s.look_at > clock_timestamp() then
        return false;
    end if;
    select a.kind = any (p_kinds) into v_archives from houston.agentables a where a.id = p_agentable;
    select h.created_at into v_written from houston.history h
     where h.agentable_id = p_agentable and h.position > l.session_position order by h.position desc limit 1;
    if l.run_open or l.holder is not null then
        -- It can be quiet for so long at the earliest then; what is wanted may be done sooner.
        v_look_at := clock_timestamp() + case when s.close_reason is null then p_quiet
                                              else least(p_quiet, interval '10 seconds') end;
    elsif v_written is null or (s.close_reason is null and not v_archives) then
        v_look_at := null;
    elsif s.close_reason is null and v_written + p_quiet > clock_timestamp() then
        v_look_at := v_written + p_quiet;
    else
        return houston.fold_session(p_agentable, l.last_position, coalesce(s.close_reason, 'session_timeout'),
                                    p_session);
    end if;
    update houston.session_states x
       set look_at = v_look_at, close_reason = case when v_look_at is null then null else x.close_reason end
     where x.agentable_id = p_agentable;
    return false;
end;
$$;

-- A claim's share, in its transaction, when a run begins: closes the session that was over before the run was asked
-- for, so that nobody is sent it once more; has the sweep look after the one that is open; and tells the stream of what
-- was closed since it was last told. Between two runs no stream may say anything (AG-UI), so it is told here.
-- How long a message waited for a worker is no quiet: what counts is when it opened the run.
-- Returns how many sessions the stream was told of.
create function houston.turn_session(p_agentable uuid, p_run uuid, p_quiet interval, p_session uuid) returns integer
language plpgsql as $$
declare
    v record;
    v_closed boolean := false;
    v_told integer := 0;
begin
    select k.tenant_id, k.epoch, k.last_seq, h.position, h.created_at, r.created_at as posted_at, s.close_reason,
           s.look_at, coalesce(s.last_number > s.told_number, false) as untold
      into v
      from houston.run_locks k
      join houston.runs r on r.id = p_run
      left join houston.session_states s on s.agentable_id = k.agentable_id
      left join lateral (
           select e.position, e.created_at from houston.history e
            where e.agentable_id = k.agentable_id and e.position > k.session_position and e.run_id <> p_run
            order by e.position desc limit 1) h on true
     where k.agentable_id = p_agentable;
    if v.position is not null and (v.close_reason is not null or v.posted_at - v.created_at >= p_quiet) then
        v_closed := houston.fold_session(p_agentable, v.position, coalesce(v.close_reason, 'session_timeout'), p_session);
    end if;
    if v_closed or v.look_at is null or v.close_reason is not null then
        insert into houston.session_states as s (agentable_id, tenant_id, look_at)
        values (p_agentable, v.tenant_id, clock_timestamp() + p_quiet)
        on conflict (agentable_id) do update set look_at = excluded.look_at, close_reason = null;
    end if;
    if v_closed or v.untold then
        insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, data)
        select p_agentable, v.last_seq + row_number() over (order by c.number), v.tenant_id, p_run, v.epoch,
               jsonb_build_object('type', 'session_archived', 'session_id', houston.shown('session', c.id),
                                  'number', c.number, 'reason', c.completion_reason,
                                  'started_at', c.started_at, 'completed_at', c.completed_at)
          from houston.session_states s
          join houston.sessions c on c.agentable_id = s.agentable_id and c.number > s.told_number
         where s.agentable_id = p_agentable;
        get diagnostics v_told = row_count;
        update houston.run_locks k set last_seq = k.last_seq + v_told where k.agentable_id = p_agentable;
        update houston.session_states s set told_number = s.last_number where s.agentable_id = p_agentable;
    end if;
    return v_told;
end;
$$;
