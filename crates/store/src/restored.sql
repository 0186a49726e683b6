-- store::restored::apply
-- Rows of a dump that was restored to another server have the numbers of transactions of the server where they were written. If these
-- are ahead of this server's, readers of events would take each of them for a new event, when this server has come as far. So they are
-- numbered anew: what every reader has read as the first transaction, and the rest as this one. In an installation that is at work no
-- row that a snapshot shows is ahead of it, and nothing is written.
begin isolation level repeatable read;
-- If rows are ahead, three tables are rewritten. It counts from the next statement on.
set local statement_timeout = 0;
do $$
declare
    ends constant bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
    first_ever constant bigint := 3;
    columns constant text[] := array['events.xid', 'messages.xid', 'runs.first_xid', 'runs.started_xid', 'runs.last_xid'];
    ahead boolean;
    seen pg_snapshot[];
    this bigint;
    at text[];
begin
    -- The indexes of these columns say quickly that there is none.
    set local enable_seqscan = off;
    select exists (select from houston.events where xid >= ends)
        or exists (select from houston.messages where xid >= ends)
        or exists (select from houston.runs where first_xid >= ends or started_xid >= ends or last_xid >= ends) into ahead;
    if not ahead then return; end if;
    set local enable_seqscan = on;
    perform pg_advisory_xact_lock(3, 0);
    seen := array(select split_part(position, '~', 1)::pg_snapshot from houston.readers);
    this := pg_current_xact_id()::text::bigint;
    for n in 1 .. array_length(columns, 1) loop
        at := string_to_array(columns[n], '.');
        execute format('update houston.%1$I set %2$I = case when exists (
                            select from unnest($1) s where not pg_visible_in_snapshot(%2$I::text::xid8, s)) then $2 else $3 end
                         where %2$I is not null', at[1], at[2]) using seen, this, first_ever;
    end loop;
    -- It shows nothing of this transaction, which has begun after it.
    update houston.readers set position = pg_current_snapshot()::text;
    -- No position of the other server is valid here.
    update houston.retention_walks set xid = null;
    update houston.moved_shards set xid = null where xid is not null;
end $$;
commit;
