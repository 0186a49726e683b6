-- See row_security.rs. Executed by each `houston migrate`, by itself and not in a transaction: it commits after each table, so
-- that it holds the lock of one table at a time.
do $do$
declare
    v_tables oid[];
    v_table oid;
    v_name text;
    v_condition text;
    v_rights text;
    v_api oid;
    -- The tenant that the transaction names. A subquery is computed once in a statement, not once for each row.
    v_named constant text := $$(select nullif(current_setting('houston.tenant', true), '')::uuid)$$;
begin
    perform pg_advisory_xact_lock(3, 0);
    -- The role of requests, and the role of applications that call houston_app (see its migration). Where the login may create
    -- no roles, an administrator does; until then there is no row-level security, and `houston doctor` says so.
    foreach v_name in array array['houston_api', 'houston_app'] loop
        if to_regrole(v_name) is null then
            begin
                execute format('create role %I', v_name);
            exception when insufficient_privilege or duplicate_object or unique_violation then
                raise notice 'the role % cannot be created', v_name;
            end;
        end if;
    end loop;
    v_api := to_regrole('houston_api');
    if to_regrole('houston_app') is not null
       and not has_function_privilege('houston_app', 'houston_app.version()', 'execute') then
        grant usage on schema houston_app to houston_app;
        grant execute on all functions in schema houston_app to houston_app;
    end if;
    if v_api is null then
        return;
    end if;
    -- Whether the login may take the role; a superuser may.
    if not pg_has_role(current_user, v_api, case when current_setting('server_version_num')::integer >= 160000
                                                 then 'SET' else 'MEMBER' end) then
        begin
            execute format('grant houston_api to %I', current_user);
        exception when insufficient_privilege then
            raise notice 'houston_api cannot be granted to %', current_user;
        end;
    end if;
    if not has_schema_privilege(v_api, 'houston', 'usage') then
        grant usage on schema houston to houston_api;
    end if;
    commit;

    v_tables := array(select c.oid from pg_class c
                       where c.relnamespace = 'houston'::regnamespace and c.relkind in ('r', 'p', 'v') order by c.relname);
    foreach v_table in array v_tables loop
        select c.relname,
               case when c.relkind = 'v' then null
                    when c.relname = 'tenants' then format('id = %s', v_named)
                    -- Those of its teams. A scalar query, which is not answered for all teams at once.
                    when c.relname = 'team_agents'
                    then format('(select t.tenant_id from houston.teams t where t.id = team_id) = %s', v_named)
                    when exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id')
                    then format('tenant_id = %s', v_named) end,
               -- The other tables without a tenant: requests use these, and none of the rest.
               case when c.relname in ('entries', 'workers', 'paused_lanes', 'moved_shards', 'settings', 'installation')
                    then 'select'
                    when c.relname = 'readers' then 'select, insert, update' end
          into v_name, v_condition, v_rights from pg_class c where c.oid = v_table;
        perform set_config('lock_timeout', '10s', true), pg_advisory_xact_lock(3, 0);
        if v_condition is not null then
            v_rights := 'select, insert, update, delete';
            -- Other roles see what they were granted, as without policies.
            if not exists (select from pg_policy p where p.polrelid = v_table and p.polname = 'houston_others') then
                execute format('create policy houston_others on houston.%I using (true)', v_name);
            end if;
            if not exists (select from pg_policy p where p.polrelid = v_table and p.polname = 'houston_tenant') then
                execute format('create policy houston_tenant on houston.%I as restrictive to houston_api using (%s)',
                               v_name, v_condition);
            end if;
            if not (select c.relrowsecurity from pg_class c where c.oid = v_table) then
                execute format('alter table houston.%I enable row level security', v_name);
            end if;
        end if;
        if v_rights is not null and exists (
               select from regexp_split_to_table(v_rights, ', ') as r (name)
                where not has_table_privilege(v_api, v_table, r.name)) then
            execute format('grant %s on houston.%I to houston_api', v_rights, v_name);
        end if;
        commit;
    end loop;
end;
$do$
