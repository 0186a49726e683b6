-- What a console shows after a month: :runs runs of the tenants `harness` and `quiet` (two of a thousand), half of them of the last day, one run of :iterations iterations, and users, questions, triggers, webhooks and an audit log.
-- Ids are made of their time as real ones are, and end in the shard of their user.
set session_replication_role = replica; -- no foreign key is checked row by row
set synchronous_commit = off;
create schema bench;
create function bench.id(at timestamptz, kind int, n bigint, of_user bigint) returns uuid language sql immutable as
$$ select (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '7' || lpad(to_hex(kind), 3, '0') || '8'
        || lpad(to_hex(n), 11, '0') || lpad(to_hex(of_user % 65536), 4, '0'))::uuid $$;
create function bench.hex(id uuid) returns text language sql immutable as $$ select replace(id::text, '-', '') $$;
-- When run n of :runs was accepted: half of them within the last day, the others within the thirty days before it.
create function bench.at(now timestamptz, n bigint, runs bigint) returns timestamptz language sql immutable as
$$ select case when 2 * n < runs then now - interval '1 day' - (runs - 2 * n) * interval '30 days' / runs
               else now - (runs - n) * interval '2 days' / runs end $$;
create function bench.text(n bigint, words int) returns text language sql immutable as
$$ select string_agg(left(md5((n * 31 + k)::text), 3 + (k % 8)::int), ' ') from generate_series(1, words) k $$;

create table bench.settings as
select now() as now, :runs::bigint as runs, :runs::bigint / 100 as users, :runs::bigint / 5 as agentables,
       (select id from houston.tenants where name = 'harness') as harness, (select id from houston.tenants where name = 'quiet') as quiet;
create table bench.users as
select n, bench.id(now - interval '40 days' + n * interval '1 minute', 1, n, n) as id,
       case when n % 500 = 7 then quiet else harness end as tenant
  from bench.settings, generate_series(0, users - 1) n;
create table bench.agents as
select n, bench.id(now - interval '41 days' + n * interval '1 minute', 2, n, 0) as id, harness as tenant
  from bench.settings, generate_series(0, 199) n;
create table bench.agentables as
select a.n, bench.id(a.created_at, 3, a.n, u.n) as id, a.created_at, u.id as user_id, u.n as user_n, u.tenant,
       case when a.n % 4 = 3 then 'task' else 'goal' end as kind, g.id as agent
  from (select n, now - interval '35 days' + n * interval '35 days' / agentables as created_at, n % users as user_n
          from bench.settings, generate_series(0, agentables - 1) n) a
  join bench.users u on u.n = a.user_n
  left join bench.agents g on g.n = a.n % 400 and g.tenant = u.tenant;
create unique index on bench.agentables (n);
create table bench.runs as
select r.n, bench.id(r.at, 4, r.n, a.user_n) as id, a.id as agentable, a.tenant, a.user_id, r.at, r.nth,
       case when r.n % 19 = 3 then 'failed' when r.n % 499 = 9 then 'dead_lettered' when r.n % 97 = 5 then 'cancelled'
            when r.is_new then (array['queued', 'retrying', 'waiting', 'queued'])[1 + r.n % 4]
            when r.n % 4 = 0 then 'completed' else 'message_sent' end as status
  from (select n, bench.at(now, n, runs) as at, n / agentables as nth, n % agentables as agentable, n > runs - 400 as is_new
          from bench.settings, generate_series(0, runs - 1) n) r
  join bench.agentables a on a.n = r.agentable;
create unique index on bench.runs (n);
analyze bench.users, bench.agents, bench.agentables, bench.runs;

insert into houston.users (id, tenant_id, external_id, name)
select id, tenant, 'user ' || n, 'User ' || bench.text(n, 2) from bench.users;
insert into houston.agents (id, tenant_id, kind, name, settings)
select id, tenant, 'goal', 'Agent ' || n,
       jsonb_build_object('role', bench.text(n, 60), 'tools', '[]'::jsonb, 'use_case', 'agent', 'provider', 'default', 'model', 'default')
  from bench.agents;
insert into houston.agentables (id, tenant_id, user_id, kind, title, agent_id, created_at)
select a.id, a.tenant, a.user_id, a.kind, bench.text(a.n, 6), case when a.kind = 'goal' then a.agent end,
       a.created_at
  from bench.agentables a;
insert into houston.runs (id, tenant_id, agentable_id, first_seq, created_at, iterations, input_tokens, output_tokens, cache_read_tokens,
                          cost, model, error_code, error_message, last_seq, ended_at, status, epoch, started_at, started_seq,
                          started_message_id, attempt, worker_id)
select r.id, r.tenant, r.agentable, 1 + 6 * r.nth, r.at, 2, 4000 + r.n % 3000, 200 + r.n % 400, 2000, 0.001 * (1 + r.n % 50),
       (array['openai/gpt-4.1', 'anthropic/claude-sonnet-4-5', 'openai/gpt-4.1-mini', 'google/gemini-2.5-flash'])[1 + r.n % 4],
       case when r.status = 'dead_lettered' then 'WORKERS_DIED'
            when r.status in ('failed', 'retrying') then (array['RATE_LIMITED', 'TIMEOUT', 'AUTHENTICATION_ERROR', 'OVERLOADED'])[1 + r.n / 20 % 4] end,
       case when r.status in ('failed', 'retrying', 'dead_lettered')
            then 'The provider answered 4' || r.n % 30 || ' to request req_' || md5(r.n::text) || ': ' || bench.text(r.n % 40, 25) end,
       case when r.status in ('queued', 'retrying', 'waiting') then null else 6 + 6 * r.nth end,
       case when r.status in ('queued', 'retrying', 'waiting') then null else r.at + interval '9 seconds' end,
       r.status, 1 + r.nth, case when r.status <> 'queued' then r.at + interval '1 second' end,
       case when r.status <> 'queued' then 3 + 6 * r.nth end, case when r.status <> 'queued' then gen_random_uuid() end,
       case when r.status = 'queued' then 0 else 1 + (r.n % 50 = 0)::int end,
       case when r.status <> 'queued' then gen_random_uuid() end
  from bench.runs r;
insert into houston.run_locks (agentable_id, tenant_id, user_id, epoch, run_token, last_seq, last_position, read_seq, wake, unread,
                               next_attempt_at, failed_attempts, run_id, run_open, cost)
select a.id, a.tenant, a.user_id, 5, gen_random_uuid(), 30, 20, 30, coalesce(r.status in ('queued', 'retrying'), false), 0,
       case when r.status = 'retrying' then now() + interval '10 minutes' end, coalesce((r.status = 'retrying')::int, 0), r.id,
       coalesce(r.status in ('queued', 'retrying', 'waiting'), false), 0.1
  from bench.agentables a left join bench.runs r on r.n = a.n + 4 * (select agentables from bench.settings);
insert into houston.messages (id, tenant_id, agentable_id, seq, source, message_type, content, run_id, created_at)
select bench.id(r.at + part * interval '8 seconds', 5, 2 * r.n + part, r.n % 1000), r.tenant, r.agentable, 6 * r.nth + 2 + 3 * part,
       case part when 0 then 'user' else 'agent' end, 'text', bench.text(r.n, 20 + 40 * part), r.id, r.at + part * interval '8 seconds'
  from bench.runs r, generate_series(0, 1) part;
insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, data, created_at)
select r.agentable, 6 * r.nth + 4, r.tenant, r.id, 1 + r.nth,
       jsonb_build_object('type', 'step_finished', 'iteration', 1, 'next_message_id', 'msg_' || bench.hex(r.id)), r.at + interval '5 seconds'
  from bench.runs r where r.status <> 'queued';
insert into houston.history (agentable_id, position, tenant_id, run_id, epoch, role, message_seq, content, created_at)
select r.agentable, 4 * r.nth + part, r.tenant, r.id, 1 + r.nth, case when part % 2 = 1 then 'user' else 'assistant' end,
       case part when 1 then 6 * r.nth + 2 when 4 then 6 * r.nth + 5 end,
       case part when 2 then jsonb_build_array(jsonb_build_object('type', 'tool_use', 'id', 'call_1', 'name', 'search_web',
                                                                  'input', jsonb_build_object('query', bench.text(r.n, 8))))
                 when 3 then jsonb_build_array(jsonb_build_object('type', 'tool_result', 'tool_use_id', 'call_1', 'content', bench.text(r.n, 60))) end,
       r.at + part * interval '2 seconds'
  from bench.runs r, generate_series(1, 4) part;
insert into houston.tool_calls (run_id, call_id, agentable_id, tenant_id, epoch, name, effect, message_id, response, started_at, finished_at)
select r.id, 'call_1', r.agentable, r.tenant, 1, 'search_web', 'read', gen_random_uuid(), '{"success": true}', r.at, r.at
  from bench.runs r;
insert into houston.model_calls (run_id, write_id, tenant_id, agentable_id, iteration, provider, model, input_tokens, output_tokens,
                                 cache_read_tokens, cache_write_tokens, reasoning_tokens, cost, reported, created_at)
select r.id, gen_random_uuid(), r.tenant, r.agentable, part, 'openai', 'gpt-4.1', 2000, 100, 1000, 0, 0, 0.01, true,
       r.at + part * interval '4 seconds'
  from bench.runs r, generate_series(1, 2) part where r.status <> 'queued';
insert into houston.spending (user_id, day, tenant_id, cost, model_calls, unpriced_calls, writer)
select u.id, (s.now - d * interval '1 day')::date, u.tenant, 0.5, 40, 0, 1 from bench.users u, bench.settings s, generate_series(0, 29) d;

-- One open question for each run that waits, and a hundred closed ones for each of a thousand other agentables.
insert into houston.questions (id, tenant_id, user_id, agentable_id, run_id, kind, text, state, created_at, closed_at)
select bench.id(r.at, 6, r.n, r.n % 1000), r.tenant, r.user_id, r.agentable, r.id, 'input', bench.text(r.n, 30), 'open', r.at, null
  from bench.runs r where r.status = 'waiting';
insert into houston.questions (id, tenant_id, user_id, agentable_id, run_id, kind, text, state, created_at, closed_at)
select bench.id(r.at, 7, r.n, r.n % 1000), r.tenant, r.user_id, r.agentable, r.id, 'approval', bench.text(r.n, 30), 'answered', r.at, r.at
  from bench.runs r where r.n % 5 = 1;
insert into houston.audit (id, tenant_id, at, actor, operation, target, status)
select bench.id(r.at, 8, r.n, 0), r.tenant, r.at, 'key_' || r.n % 7, 'post_goal_message', 'goal_' || bench.hex(r.agentable), 202
  from bench.runs r;
insert into houston.triggers (id, tenant_id, user_id, agentable_id, name, instructions, rule, next_at, created_at, updated_at)
select bench.id(s.now - interval '20 days', 9, a.n, 0), a.tenant, a.user_id, a.id, 'Daily ' || a.n, bench.text(a.n, 20),
       '{"type": "cron", "cron": "0 7 * * *", "zone": "UTC"}', s.now + interval '1 day', s.now, s.now
  from bench.agentables a, bench.settings s where a.n % 10 = 0 and a.kind = 'goal';
insert into houston.webhooks (id, tenant_id, url, description, topics, sealed, created_at, updated_at)
select bench.id(s.now - interval '20 days', 10, n, 0), s.harness, 'https://example.com/' || n, 'hook', '{**}', '\x00', s.now, s.now
  from bench.settings s, generate_series(1, 10) n;
insert into houston.deliveries (id, tenant_id, webhook_id, agentable_id, seq, topic, state, attempts, status, created_at, attempted_at)
select bench.id(r.at, 11, r.n, 0), r.tenant, bench.id(s.now - interval '20 days', 10, 1 + r.n % 10, 0), r.agentable, 6 * r.nth + 6, 'run.finished',
       case when r.n % 50 = 1 then 'dead' else 'delivered' end, 1, 200, r.at, r.at
  from bench.runs r, bench.settings s where r.tenant = s.harness;

-- A run that has searched and read :iterations times, with 20,000 characters each.
create table bench.long as
select a.id as agentable, a.tenant, a.user_id, bench.id(s.now - interval '20 minutes', 12, 1, a.n % s.users) as run, s.now - interval '20 minutes' as at
  from bench.agentables a, bench.settings s where a.n = 40;
insert into houston.runs (id, tenant_id, agentable_id, first_seq, created_at, iterations, input_tokens, output_tokens, cost, model, last_seq,
                          ended_at, status, epoch, started_at, started_seq, started_message_id, attempt, worker_id)
select run, tenant, agentable, 31, at, :iterations, 9000000, 80000, 3, 'openai/gpt-4.1', 36 + 3 * :iterations, now(), 'completed', 6, at, 33,
       gen_random_uuid(), 1, gen_random_uuid() from bench.long;
update houston.run_locks l set last_seq = 36 + 3 * :iterations, last_position = 22 + 2 * :iterations, run_id = b.run, run_open = false, wake = false
  from bench.long b where l.agentable_id = b.agentable;
insert into houston.messages (id, tenant_id, agentable_id, seq, source, message_type, content, run_id, created_at)
select gen_random_uuid(), tenant, agentable, 32, 'user', 'text', bench.text(1, 60), run, at from bench.long;
insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, data, created_at)
select b.agentable, 33 + 3 * n + part, b.tenant, b.run, 6,
       case part when 1 then jsonb_build_object('type', 'tool_called', 'call_id', 'call_' || n, 'name', 'read_page', 'input',
                             jsonb_build_object('url', 'https://example.com/' || n), 'message_id', 'msg_' || bench.hex(b.run))
                 when 2 then jsonb_build_object('type', 'tool_returned', 'call_id', 'call_' || n, 'content', bench.text(n, 2700),
                                                'message_id', 'msg_' || bench.hex(b.run))
                 else jsonb_build_object('type', 'step_finished', 'iteration', n + 1, 'next_message_id', 'msg_' || bench.hex(b.run)) end,
       b.at + (3 * n + part) * interval '1 second'
  from bench.long b, generate_series(0, :iterations - 1) n, generate_series(1, 3) part;
insert into houston.history (agentable_id, position, tenant_id, run_id, epoch, role, message_seq, content, created_at)
select b.agentable, 21 + 2 * n + part, b.tenant, b.run, 6, case part when 0 then 'user' else 'assistant' end, case when n + part = 0 then 32 end,
       case when part = 1 and n < :iterations then jsonb_build_array(
                 jsonb_build_object('type', 'text', 'text', bench.text(n, 200)),
                 jsonb_build_object('type', 'tool_use', 'id', 'call_' || n, 'name', 'read_page', 'input',
                                    jsonb_build_object('url', 'https://example.com/' || n)))
            when part = 1 then jsonb_build_array(jsonb_build_object('type', 'text', 'text', bench.text(n, 200)))
            when n > 0 then jsonb_build_array(jsonb_build_object('type', 'tool_result', 'tool_use_id', 'call_' || n - 1, 'content',
                                                                 bench.text(n - 1, 2700))) end,
       b.at + (3 * n + part) * interval '1 second'
  from bench.long b, generate_series(0, :iterations) n, generate_series(0, 1) part;
insert into houston.model_calls (run_id, write_id, tenant_id, agentable_id, iteration, provider, model, input_tokens, output_tokens,
                                 cache_read_tokens, cache_write_tokens, reasoning_tokens, cost, reported, created_at)
select b.run, gen_random_uuid(), b.tenant, b.agentable, n + 1, 'openai', 'gpt-4.1', 20000, 200, 19000, 0, 0, 0.01, true, b.at + 3 * n * interval '1 second'
  from bench.long b, generate_series(0, :iterations) n;
vacuum analyze;
checkpoint;
