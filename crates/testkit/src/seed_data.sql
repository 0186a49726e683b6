-- Fills an empty, migrated database; see `seed_data.rs`, which sets the numbers.
set session_replication_role = replica; -- no foreign key is checked row by row
set synchronous_commit = off;
select :agentables / 10 as users, :agentables * :runs as all_runs, :waiting + :driven as open \gset
-- Ids by number; the planner inlines them.
create function pg_temp.tenant_id(n bigint) returns uuid language sql immutable as
$$ select ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid $$;
create function pg_temp.user_id(n bigint) returns uuid language sql immutable as
$$ select ('01900000-0001-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid $$;
create function pg_temp.goal_id(n bigint) returns uuid language sql immutable as
$$ select ('01900000-0002-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid $$;
create function pg_temp.run_id(n bigint) returns uuid language sql immutable as
$$ select ('01900000-0003-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid $$;
create function pg_temp.message_id(n bigint) returns uuid language sql immutable as
$$ select ('01900000-0004-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid $$;
create function pg_temp.worker_id(n bigint) returns uuid language sql immutable as
$$ select ('01900000-0005-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid $$;
create function pg_temp.session_id(n bigint) returns uuid language sql immutable as
$$ select ('01900000-0008-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid $$;

insert into houston.tenants (id, name) values (pg_temp.tenant_id(0), 'seed');
insert into houston.api_keys (id, tenant_id, name, prefix, secret_sha256)
select gen_random_uuid(), pg_temp.tenant_id(0), 'key', 'hou_' || lpad(n::text, 8, '0'), sha256(convert_to('key ' || n, 'UTF8'))
  from generate_series(0, 999) n;
insert into houston.users (id, tenant_id, external_id, name)
select pg_temp.user_id(n), pg_temp.tenant_id(0), 'user ' || n, 'Ann' from generate_series(0, :users - 1) n;
insert into houston.feeds (user_id, tenant_id, due_at, to_at)
select pg_temp.user_id(n), pg_temp.tenant_id(0), now() + n * interval '1 second' + interval '1 hour', now() from generate_series(0, :users - 1) n;
insert into houston.agentables (id, tenant_id, user_id, kind, title)
select pg_temp.goal_id(n), pg_temp.tenant_id(0), pg_temp.user_id(n % :users), 'goal', 'Tokyo'
  from generate_series(0, :agentables - 1) n;
insert into houston.workers (id, name, alive_until)
select pg_temp.worker_id(n), 'seed', clock_timestamp() + interval '1 hour'
  from generate_series(0, :workers - 1) n;
insert into houston.runs (id, tenant_id, agentable_id, status, attempt, epoch, worker_id, first_seq,
                          iterations, model, started_at, ended_at, last_seq, started_seq, started_message_id)
select pg_temp.run_id(n), pg_temp.tenant_id(0), pg_temp.goal_id(n % :agentables), 'completed', 1,
       1 + n / :agentables, gen_random_uuid(), 1 + 5 * (n / :agentables), 1, 'fake/model', now(), now(),
       5 * (n / :agentables) + 5, case when n / :agentables % 2 = 1 then 5 * (n / :agentables) + 3 end,
       case when n / :agentables % 2 = 1 then pg_temp.message_id(2 * n + 1) end
  from generate_series(0, :all_runs - 1) n;
insert into houston.runs (id, tenant_id, held_for, slot, agentable_id, status, attempt, epoch, worker_id, first_seq)
select pg_temp.run_id(:all_runs + n), pg_temp.tenant_id(0),
       case when n >= :waiting then pg_temp.user_id(n % :users) end, n, pg_temp.goal_id(n),
       case when n < :waiting then 'queued' else 'running' end, (n >= :waiting)::int, :runs + (n >= :waiting)::int,
       case when n >= :waiting then pg_temp.worker_id(n % :workers) end, 1 + 5 * :runs
  from generate_series(0, :open - 1) n;
insert into houston.run_locks (agentable_id, tenant_id, user_id, epoch, run_token, holder, last_seq, last_position,
                               read_seq, wake, unread, run_id, run_open)
select pg_temp.goal_id(n), pg_temp.tenant_id(0), pg_temp.user_id(n % :users), :runs + (n >= :waiting and n < :open)::int, gen_random_uuid(),
       case when n >= :waiting and n < :open then pg_temp.worker_id(n % :workers) end,
       5 * :runs + case when n < :open then 2 else 0 end,
       2 * :runs + (n >= :waiting and n < :open)::int,
       case when n >= :waiting and n < :open then 5 * :runs + 2 else 5 * :runs - 3 end,
       n < :waiting, (n < :waiting)::int,
       pg_temp.run_id(case when n < :open then :all_runs + n else :all_runs - :agentables + n end), n < :open
  from generate_series(0, :agentables - 1) n;
insert into houston.messages (id, tenant_id, agentable_id, seq, source, message_type, content, run_id)
select pg_temp.message_id(2 * n + part), pg_temp.tenant_id(0), pg_temp.goal_id(n % :agentables),
       5 * (n / :agentables) + case part when 0 then 2 else 4 end,
       case part when 0 then 'user' else 'agent' end, 'text', repeat('Where shall we go in Tokyo? ', 4),
       pg_temp.run_id(n)
  from generate_series(0, :all_runs - 1) n, generate_series(0, 1) part;
insert into houston.messages (id, tenant_id, agentable_id, seq, source, message_type, content, run_id)
select pg_temp.message_id(2 * :all_runs + n), pg_temp.tenant_id(0), pg_temp.goal_id(n), 5 * :runs + 2, 'user', 'text',
       'And in Kyoto?', pg_temp.run_id(:all_runs + n)
  from generate_series(0, :open - 1) n;
insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, message_id, data)
select pg_temp.goal_id(n % :agentables), 5 * (n / :agentables) + 3, pg_temp.tenant_id(0), pg_temp.run_id(n),
       1 + n / :agentables, null,
       '{"type": "attempt_started", "attempt": 2, "iteration": 1, "takeover": false, "next_message_id": "msg_01900000000070008000000000000000"}'
  from generate_series(0, :all_runs - 1) n where n / :agentables % 2 = 0;
insert into houston.history (agentable_id, position, tenant_id, run_id, epoch, role, message_seq)
select pg_temp.goal_id(n % :agentables), 2 * (n / :agentables) + part, pg_temp.tenant_id(0), pg_temp.run_id(n),
       1 + n / :agentables, (array['user', 'assistant'])[part], 5 * (n / :agentables) + 2 * part
  from generate_series(0, :all_runs - 1) n, generate_series(1, 2) part;
insert into houston.history (agentable_id, position, tenant_id, run_id, epoch, role, content)
select pg_temp.goal_id(n), 2 * :runs + 1, pg_temp.tenant_id(0), pg_temp.run_id(:all_runs + n), :runs + 1, 'user',
       '[{"type": "text", "text": "And in Kyoto?"}]'
  from generate_series(:waiting, :open - 1) n;
insert into houston.tool_calls (run_id, call_id, agentable_id, tenant_id, epoch, name, effect, message_id, response)
select pg_temp.run_id(n), 'call_1', pg_temp.goal_id(n % :agentables), pg_temp.tenant_id(0), 1, 'fetch', 'read',
       gen_random_uuid(), '{"success": true}'
  from generate_series(0, :all_runs - 1, 5) n;
insert into houston.knowledge_items (id, tenant_id, kind, agentable_id, run_id, title, content)
select gen_random_uuid(), pg_temp.tenant_id(0), 'note', pg_temp.goal_id(n), pg_temp.run_id(n), 'milk', 'buy it'
  from generate_series(0, :agentables - 1) n;
insert into houston.knowledge_items (id, tenant_id, kind, agentable_id, content)
select gen_random_uuid(), pg_temp.tenant_id(0), 'learning', pg_temp.goal_id(n), 'likes trains'
  from generate_series(0, :agentables - 1) n;
insert into houston.profiles (user_id, tenant_id, facts, aims)
select pg_temp.user_id(n), pg_temp.tenant_id(0), '{lives in Graz,has two cats}', '{sail}' from generate_series(0, :users - 1) n;
insert into houston.knowledge_items (id, tenant_id, kind, user_id, content)
select gen_random_uuid(), pg_temp.tenant_id(0), 'custom_instruction', pg_temp.user_id(n % :users), 'Be brief.'
  from generate_series(1, 2 * :users) n;
insert into houston.knowledge_items (id, tenant_id, kind, user_id, content)
select gen_random_uuid(), pg_temp.tenant_id(0), 'memory', pg_temp.user_id(n % :users), 'takes the night train'
  from generate_series(1, 5 * :users) n;
insert into houston.compressions (id, tenant_id, agentable_id, run_id, run_position, session_position, through_position,
                                  summary, reason, entries_before, entries_after, tokens_before, tokens_after)
select gen_random_uuid(), pg_temp.tenant_id(0), pg_temp.goal_id(n), pg_temp.run_id(n), 1, 0, part, 'They travel.', 'budget',
       40, 10, 28000, 9000
  from generate_series(0, :agentables - 1, 5) n, generate_series(1, 2) part;
insert into houston.tool_results (id, tenant_id, agentable_id, run_id, call_id, tool, content)
select pg_temp.message_id(n), pg_temp.tenant_id(0), pg_temp.goal_id(n), pg_temp.run_id(n), 'call_1', 'fetch', 'long'
  from generate_series(0, :agentables - 1, 10) n;
insert into houston.workspace_files (agentable_id, path, tenant_id, content, sha256, bytes, created_at, updated_at)
select pg_temp.goal_id(n), 'notes/' || part || '.md', pg_temp.tenant_id(0), 'They travel.', sha256('They travel.'), 12, now(), now()
  from generate_series(0, :agentables - 1, 10) n, generate_series(1, 3) part;
insert into houston.title_requests (agentable_id, tenant_id, due_at)
select pg_temp.goal_id(n), pg_temp.tenant_id(0), clock_timestamp() + interval '1 hour'
  from generate_series(1, :agentables - 1, 10) n;
insert into houston.check_ins (id, tenant_id, user_id, agentable_id, reason, wanted_at, due_at)
select gen_random_uuid(), pg_temp.tenant_id(0), pg_temp.user_id(n % :users), pg_temp.goal_id(n), 'look', now() + interval '1 day', now() + n * interval '1 second' + interval '1 hour'
  from generate_series(0, :agentables - 1, 2) n;
insert into houston.client_offers (agentable_id, tenant_id, message_id, offer)
select pg_temp.goal_id(n), pg_temp.tenant_id(0), pg_temp.message_id(2 * n), '{"focus": {"type": "order", "id": "17"}}'
  from generate_series(0, :agentables - 1, 5) n;
insert into houston.context_cache (tenant_id, user_id, type, id, tool, answer, fetched_at)
select pg_temp.tenant_id(0), pg_temp.user_id(n), 'order', part, 'get_order', 'It is paid.', now()
  from generate_series(0, :users - 1) n, generate_series(1, 5) part;
insert into houston.idempotency_keys (tenant_id, key, request_sha256, resource_id)
select pg_temp.tenant_id(0), 'key ' || n, '', pg_temp.message_id(2 * n) from generate_series(0, :agentables - 1) n;
-- A tenant with as many agents and teams as it may have, among the default agents of others. One of ten goals is
-- answered by an agent, another one by a team.
create function pg_temp.agent_id(n bigint) returns uuid language sql immutable as
$$ select ('01900000-0006-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid $$;
create function pg_temp.team_id(n bigint) returns uuid language sql immutable as
$$ select ('01900000-0007-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid $$;
insert into houston.agents (id, tenant_id, kind, name, is_default, settings)
select pg_temp.agent_id(n), case when n < 1000 then pg_temp.tenant_id(0) else gen_random_uuid() end, 'goal',
       'agent ' || n, n = 0 or n >= 1000,
       jsonb_build_object('role', repeat('You know trains. ', 10), 'guidelines', 'Be brief.', 'tools',
                          array['send_message'], 'use_case', 'agent', 'provider', 'default', 'model', 'default')
  from generate_series(0, 49999) n;
insert into houston.teams (id, tenant_id, kind, name, router)
select pg_temp.team_id(n), case when n < 200 then pg_temp.tenant_id(0) else gen_random_uuid() end, 'goal', 'team ' || n,
       '{"by": "model"}'
  from generate_series(0, 9999) n;
insert into houston.team_agents (team_id, position, agent_id, is_fallback)
select pg_temp.team_id(n), part, pg_temp.agent_id(5 * n + part - 1), part = 1
  from generate_series(0, 9999) n, generate_series(1, 5) part;
update houston.agentables a
   set agent_id = case when n % 10 = 1 then pg_temp.agent_id(n % 1000) end,
       team_id = case when n % 10 = 2 then pg_temp.team_id(n % 200) end
  from generate_series(0, :agentables - 1) n
 where a.id = pg_temp.goal_id(n) and n % 10 in (1, 2);
-- Each agentable has one closed session and an open one that is not due to be checked; the open sessions of the last two
-- hundred agentables are due.
insert into houston.read_marks (agentable_id, tenant_id, user_id, seq)
select l.agentable_id, l.tenant_id, l.user_id, 1 from houston.run_locks l;

insert into houston.sessions (id, tenant_id, agentable_id, number, first_position, last_position, started_at, completed_at,
                              completion_reason, summary, summarised_by, message_count, token_count, summary_due_at, search)
select pg_temp.session_id(n), pg_temp.tenant_id(0), pg_temp.goal_id(n), 1, 0, 0, now() - interval '2 days',
       now() - interval '1 day', 'session_timeout', 'They planned a journey to Tokyo.', 'model', 2, 20,
       case when n >= :agentables - 200 then now() end,
       case when n < :agentables - 200
            then houston.session_vector(pg_temp.goal_id(n), 'They planned a journey to Tokyo.', 'Where shall we go in Tokyo?') end
  from generate_series(0, :agentables - 1) n;
insert into houston.session_states (agentable_id, tenant_id, last_number, reported_number, look_at)
select pg_temp.goal_id(n), pg_temp.tenant_id(0), 1, 1,
       case when n >= :agentables - 200 then now() else now() + interval '20 minutes' end
  from generate_series(0, :agentables - 1) n;
reset session_replication_role;
-- As autovacuum does by and by.
select brin_summarize_new_values(index) from unnest(array[
       'houston.events_by_transaction', 'houston.messages_by_transaction', 'houston.runs_by_transaction']) as index;
analyze houston.tenants, houston.api_keys, houston.users, houston.agentables, houston.workers, houston.runs,
        houston.run_locks, houston.messages, houston.events, houston.history, houston.tool_calls, houston.knowledge_items,
        houston.profiles, houston.idempotency_keys,
        houston.compressions, houston.tool_results, houston.workspace_files, houston.title_requests,
        houston.read_marks, houston.sessions, houston.session_states, houston.feeds, houston.check_ins, houston.agents, houston.teams, houston.team_agents;
