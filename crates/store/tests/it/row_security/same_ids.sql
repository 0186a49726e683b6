-- Leaves one row in each table of a tenant, filled by erasing.sql for the goal :goal, and makes all its ids :id, the tenant's
-- too. So whatever id a query asks for, it finds the row, and a condition on the tenant is as good as none.
set local session_replication_role = replica;

do $$
declare
    b uuid := ':id';
    t uuid := (select tenant_id from houston.agentables where id = ':goal');
    c record;
    v text;
begin
    insert into houston.agents (id, tenant_id, kind, name, settings) values (b, t, 'goal', 'canary', '{}');
    insert into houston.teams (id, tenant_id, kind, name, router) values (b, t, 'goal', 'canary', '{}');
    insert into houston.team_agents (team_id, position, agent_id) values (b, 1, b);
    insert into houston.tool_sources (tenant_id, type, name, document, kinds, tools, secret_names)
    values (t, 'endpoints', 'canary', 'canary', '{goal}', '{canary}', '{canary}');
    insert into houston.erasures (id, tenant_id, kind, resource_id, agentables) values (b, t, 'goal', b, array[b]);
    insert into houston.erased_spending (tenant_id, day, cost, model_calls, unpriced_calls) values (t, '2026-11-22', 1, 1, 0);
    for c in select oid, relname from pg_class
              where relnamespace = 'houston'::regnamespace and relkind in ('r', 'p')
                and (relname in ('tenants', 'team_agents') or exists (
                     select from pg_attribute a where a.attrelid = pg_class.oid and a.attname = 'tenant_id'))
    loop
        execute format('delete from houston.%1$I x where ctid <> (select y.ctid from houston.%1$I y
                        order by (y::text like ''%%canary%%'' or y::text like ''%%%2$s%%'') desc, y.ctid limit 1)',
                       c.relname, t);
        v := (select string_agg(format('%1$I = case when %1$I is not null then %2$s end', a.attname,
                                       case a.atttypid when 'uuid'::regtype then quote_literal(b) || '::uuid'
                                                       when 'uuid[]'::regtype then quote_literal(array[b]) || '::uuid[]'
                                                       else quote_literal('canary') || '::bytea' end), ', ')
                from pg_attribute a
               where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
                 and a.atttypid in ('uuid'::regtype, 'uuid[]'::regtype, 'bytea'::regtype));
        execute format('update houston.%I set %s', c.relname, v);
    end loop;
end;
$$;

-- The rows of that tenant in all tables, as one number.
create function public.fingerprint() returns text language plpgsql as $$
declare
    c name;
    one text;
    every text := '';
begin
    for c in select relname from pg_class where relnamespace = 'houston'::regnamespace and relkind in ('r', 'p') order by 1 loop
        execute format('select md5(string_agg(x::text, '','' order by x::text)) from houston.%I x
                         where coalesce(to_jsonb(x)->>''tenant_id'', to_jsonb(x)->>''id'', '':id'') = '':id''', c) into one;
        every := every || coalesce(one, '-');
    end loop;
    return md5(every);
end;
$$;
