-- One agentable with :sessions closed sessions of a hundred entries each, and as many closed sessions of a thousand other
-- agentables in the same tables. Words are drawn from 20,000 with a skewed frequency, as in natural language.
set session_replication_role = replica;
set synchronous_commit = off;
create schema bench;
create function bench.word(k bigint) returns text language sql immutable as
$$ select left(translate(md5(k::text), '0123456789', 'ghijklmnop'), (3 + k % 8)::int) $$;
create function bench.some_word(n bigint) returns text language sql volatile as
$$ select bench.word(floor(power(20000, random()))::bigint + 0 * n) $$;
create function bench.words(n bigint) returns text language sql volatile as
$$ select bench.some_word(n) || ' ' || bench.some_word(n) || ' ' || bench.some_word(n) || ' ' || bench.some_word(n) || ' '
       || bench.some_word(n) || ' ' || bench.some_word(n) || ' ' || bench.some_word(n) || ' ' || bench.some_word(n) $$;
create function bench.agentable(n bigint) returns uuid language sql immutable as
$$ select ('01900000-0002-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid $$;
select setseed(0.5);
insert into houston.tenants (id, name) values ('01900000-0000-7000-8000-000000000000', 'bench');
insert into houston.users (id, tenant_id, name)
values ('01900000-0001-7000-8000-000000000000', '01900000-0000-7000-8000-000000000000', 'Ann');
insert into houston.agentables (id, tenant_id, user_id, kind, title)
select bench.agentable(n), '01900000-0000-7000-8000-000000000000', '01900000-0001-7000-8000-000000000000', 'goal', 'Tokyo'
  from generate_series(0, 1001) n;
insert into houston.run_locks (agentable_id, tenant_id, user_id, last_position)
select bench.agentable(n), '01900000-0000-7000-8000-000000000000', '01900000-0001-7000-8000-000000000000',
       case n when 0 then 100 * :sessions when 1001 then 10 else 0 end
  from generate_series(0, 1001) n;
insert into houston.history (agentable_id, position, tenant_id, run_id, epoch, role, content, created_at)
select bench.agentable(0), n, '01900000-0000-7000-8000-000000000000', bench.agentable(n), 1,
       case n % 2 when 1 then 'user' else 'assistant' end,
       jsonb_build_array(jsonb_build_object('type', 'text', 'text', bench.words(n))),
       now() - (100 * :sessions - n) * interval '30 seconds'
  from generate_series(1, 100 * :sessions) n;
insert into houston.history (agentable_id, position, tenant_id, run_id, epoch, role, content, created_at)
select bench.agentable(1001), n, '01900000-0000-7000-8000-000000000000', bench.agentable(n), 1,
       case n % 2 when 1 then 'user' else 'assistant' end, '[{"type": "text", "text": "short"}]', now()
  from generate_series(1, 10) n;
insert into houston.sessions (id, tenant_id, agentable_id, number, first_position, last_position, started_at, completed_at,
                              completion_reason, summary, summarised_by, message_count, token_count, summary_due_at, search)
select gen_random_uuid(), '01900000-0000-7000-8000-000000000000', x.agentable, x.number, 100 * x.number - 99,
       100 * x.number, now() - (:sessions - x.number) * interval '50 minutes',
       now() - (:sessions - x.number) * interval '50 minutes', 'session_timeout', x.summary, 'model', 100, 1500, null,
       houston.session_vector(x.agentable, x.summary, x.conversation)
  from (select s as number, bench.agentable(0) as agentable,
               bench.words(s) || ' ' || bench.words(s) || ' ' || bench.words(s) || ' ' || bench.words(s) as summary,
               (select string_agg(h.content->0->>'text', ' ') from houston.history h
                 where h.agentable_id = bench.agentable(0) and h.position between 100 * s - 99 and 100 * s) as conversation
          from generate_series(1, :sessions) s
        union all
        select s / 1000 + 1, bench.agentable(1 + s % 1000), bench.words(s) || ' ' || bench.words(s), bench.words(s)
          from generate_series(0, :sessions - 1) s) x
 order by x.number % 100;
insert into houston.session_states (agentable_id, tenant_id, last_number, reported_number)
values (bench.agentable(0), '01900000-0000-7000-8000-000000000000', :sessions, :sessions);
reset session_replication_role;
