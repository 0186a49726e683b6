-- Inserts a row for the user of the goal :goal into every table with data of users, with the word :word in every text.
do $$
declare
    g uuid := ':goal';
    w text := ':word';
    u uuid;
    t uuid;
    task uuid := gen_random_uuid();
    p uuid := gen_random_uuid();
    r uuid := gen_random_uuid();
    m uuid := gen_random_uuid();
    s uuid := gen_random_uuid();
begin
    select user_id, tenant_id into u, t from houston.agentables where id = g;
    update houston.users set name = w, external_id = w, guards = jsonb_build_object('denied', w) where id = u;
    update houston.agentables set title = w, description = w, guards = jsonb_build_object('denied', w) where id = g;
    insert into houston.agentables (id, tenant_id, user_id, parent_id, depth, kind, title)
    values (task, t, u, g, 1, 'task', w);
    insert into houston.run_locks (agentable_id, tenant_id, user_id) values (task, t, u);
    insert into houston.runs (id, tenant_id, agentable_id, status, first_seq, error_message, cancelled_tasks, ended_at)
    values (r, t, g, 'failed', 0, w, array[w], now());
    insert into houston.messages (id, tenant_id, agentable_id, seq, source, message_type, content, run_id)
    values (m, t, g, 0, 'user', 'text', w, r);
    insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, data)
    values (g, 0, t, r, 0, jsonb_build_object('type', 'task_ended', 'title', w));
    insert into houston.history (agentable_id, position, tenant_id, run_id, epoch, role, content)
    values (g, 0, t, r, 0, 'user', jsonb_build_array(jsonb_build_object('type', 'text', 'text', w)));
    insert into houston.tool_calls (run_id, call_id, agentable_id, tenant_id, epoch, name, effect, message_id, response)
    values (r, 'call', g, t, 0, 'x', 'x', m, to_jsonb(w));
    insert into houston.api_keys (id, tenant_id, name, prefix, secret_sha256, user_id)
    values (gen_random_uuid(), t, w, 'hou_', sha256(convert_to(w, 'UTF8')), u);
    insert into houston.grants (id, tenant_id, user_id, agentable_id, tool, conditions, granted_by)
    values (gen_random_uuid(), t, u, g, w, jsonb_build_object('/to', jsonb_build_object('equals', w)), w),
           (gen_random_uuid(), t, u, null, w, '{}', w);
    insert into houston.snippets (user_id, name, tenant_id, language, description, code, untrusted, created_at, updated_at)
    values (u, 'a', t, 'javascript', w, w, false, now(), now());
    insert into houston.agent_messages (message_id, tenant_id, user_id, from_run, agentable_id, hops)
    values (gen_random_uuid(), t, u, r, g, 1);
    insert into houston.made_conversations (agentable_id, tenant_id, user_id, from_run) values (g, t, u, r);
    insert into houston.questions (id, tenant_id, user_id, agentable_id, run_id, kind, text, answer, answered_by)
    values (gen_random_uuid(), t, u, g, r, 'input', w, to_jsonb(w), w);
    insert into houston.approval_links (question_id, token_sha256, agentable_id, tenant_id, answered_by)
    select q.id, sha256(convert_to(q.id::text, 'UTF8')), g, t, w from houston.questions q where q.agentable_id = g;
    insert into houston.knowledge_items (id, tenant_id, kind, agentable_id, run_id, title, content)
    values (gen_random_uuid(), t, 'note', g, r, w, w), (gen_random_uuid(), t, 'note', task, r, w, w);
    insert into houston.knowledge_items (id, tenant_id, kind, agentable_id, content)
    values (gen_random_uuid(), t, 'learning', g, w);
    insert into houston.model_calls
    select x.id, gen_random_uuid(), t, g, 1, 'p', w, 1, 1, 0, 0, 0, 0.5, true, now() from (values (r), (s)) as x (id);
    insert into houston.rates (owner_id, name, free_at) values (u, 'tokens', now());
    insert into houston.spending values (u, '2026-11-22', t, 1.0, 2, 0);
    insert into houston.profiles (user_id, tenant_id, facts) values (u, t, array[w]);
    insert into houston.knowledge_items (id, tenant_id, kind, user_id, content)
    values (gen_random_uuid(), t, 'custom_instruction', u, w);
    insert into houston.knowledge_items (id, tenant_id, kind, user_id, run_id, content)
    values (gen_random_uuid(), t, 'memory', u, r, ':memory');
    insert into houston.knowledge_items (id, tenant_id, kind, user_id, author_id, run_id, title, content)
    values (gen_random_uuid(), t, 'feed_item', u, g, r, w, w);
    update houston.feeds set run_id = r where user_id = u;
    insert into houston.sessions (id, tenant_id, agentable_id, number, first_position, last_position, started_at,
                                  completed_at, completion_reason, summary, search)
    values (s, t, g, 1, 0, 0, now(), now(), 'reset', w, houston.session_vector(g, w, w));
    insert into houston.session_states (agentable_id, tenant_id) values (g, t)
        on conflict do nothing;
    insert into houston.compressions (id, tenant_id, agentable_id, run_id, run_position, session_position,
                                      through_position, summary, reason, entries_before, entries_after,
                                      tokens_before, tokens_after)
    values (gen_random_uuid(), t, g, r, 0, 0, 0, w, 'budget', 1, 1, 1, 1);
    insert into houston.tool_results (id, tenant_id, agentable_id, parent_id, run_id, call_id, tool, content)
    values (gen_random_uuid(), t, task, g, r, 'call', 'x', w);
    insert into houston.workspace_files (agentable_id, path, tenant_id, content, sha256, bytes, created_at, updated_at)
    select x.id, w || '/' || w, t, w, '', 0, now(), now() from (values (g), (task)) as x (id);
    insert into houston.skills (owner_id, tenant_id, user_id, name, text, summary) values (u, t, u, w, w, jsonb_build_object('name', w));
    insert into houston.skill_files (owner_id, skill, path, tenant_id, content) values (u, w, w, t, w);
    insert into houston.mcp_servers (owner_id, tenant_id, user_id, name, url, settings, header_names, tools)
    values (u, t, u, w, w, '{}', array[w], array[w]);
    insert into houston.mcp_accounts (account_id, owner_id, server, tenant_id, user_id, url, sealed)
    values (u, u, w, t, u, w, w::bytea);
    insert into houston.mcp_logins (account_id, owner_id, server, tenant_id, user_id, url, state_sha256, sealed, expires_at)
    values (u, u, w, t, u, w, sha256(w::bytea), w::bytea, now());
    insert into houston.webhooks (id, tenant_id, url, description, topics, user_id, agentable_id, sealed, created_at, updated_at)
    select gen_random_uuid(), t, 'https://hooks.example.com', w, '{**}', x.of, x.at, w::bytea, now(), now()
      from (values (u, null), (null, g)) as x (of, at);
    insert into houston.deliveries (id, tenant_id, webhook_id, agentable_id, seq, topic, error, created_at)
    select gen_random_uuid(), t, h.id, g, 1, 'run.queued', w, now() from houston.webhooks h where h.description = w;
    insert into houston.open_deliveries (webhook_id, agentable_id, tenant_id, due_at)
    select h.id, g, t, now() from houston.webhooks h where h.description = w;
    insert into houston.inbound_hooks (id, tenant_id, agentable_id, name, instructions, sealed, created_at)
    values (s, t, g, w, w, w::bytea, now());
    insert into houston.inbound_messages (hook_id, webhook_id, tenant_id, agentable_id, message_id, created_at)
    values (s, w, t, g, m, now());
    insert into houston.todos (id, tenant_id, user_id, agentable_id, title, position, created_at, updated_at)
    values (gen_random_uuid(), t, u, g, ':memory', 0, now(), now());
    insert into houston.custom_tables (id, tenant_id, user_id, name, description, fields, created_at)
    values (gen_random_uuid(), t, u, 'expenses', ':memory', '[]', now());
    insert into houston.custom_records (id, tenant_id, user_id, table_id, data, bytes, created_at, updated_at)
    select gen_random_uuid(), t, u, c.id, jsonb_build_object('note', ':memory'), 0, now(), now()
      from houston.custom_tables c where c.user_id = u;
    insert into houston.images (id, tenant_id, user_id, media_type, width, height, bytes, data)
    values (m, t, u, 'image/png', 1, 1, 1, '\x00');
    insert into houston.image_uses (agentable_id, image_id, tenant_id) values (g, m, t);
    insert into houston.client_threads (user_id, target, thread, agentable_id, tenant_id) values (u, 'goal', w, g, t);
    insert into houston.client_offers (agentable_id, tenant_id, message_id, offer, last_focus)
    values (g, t, m, jsonb_build_object('context', w), jsonb_build_object('type', w, 'id', w));
    insert into houston.context_cache (tenant_id, user_id, type, id, tool, answer) values (t, u, w, w, w, w);
    insert into houston.agentables (id, tenant_id, user_id, parent_id, depth, kind, title)
    values (p, t, u, g, 1, 'plan', w);
    insert into houston.run_locks (agentable_id, tenant_id, user_id) values (p, t, u);
    insert into houston.plans (agentable_id, tenant_id, user_id, parent_id, attached, document, input, output, deadline_at)
    values (p, t, u, g, false, jsonb_build_object('goal', w), to_jsonb(w), to_jsonb(w), now());
    insert into houston.plan_versions (plan_id, tenant_id, version, document, reason)
    values (p, t, 1, jsonb_build_object('goal', w), w);
    insert into houston.plan_steps (plan_id, tenant_id, path, state, outcome)
    values (p, t, w, '{"status": "running", "attempt": 1}', to_jsonb(w));
    insert into houston.shared_states (agentable_id, seq, tenant_id, state)
    values (g, 0, t, jsonb_build_object('note', w));
    insert into houston.attachments (id, tenant_id, user_id, name, media_type, bytes, object_id)
    values (m, t, u, w, 'application/pdf', 1, null), (s, t, u, w, 'text/plain', 1, s);
    insert into houston.attachment_parts (attachment_id, nth, tenant_id, user_id, data) values (m, 0, t, u, '\x00');
    insert into houston.attachment_objects (id, tenant_id, user_id) values (s, t, u);
    insert into houston.attachment_uses (agentable_id, attachment_id, tenant_id) values (g, m, t);
    insert into houston.read_marks (agentable_id, tenant_id, user_id, seq) values (g, t, u, 1);
    insert into houston.title_requests (agentable_id, tenant_id, due_at) values (g, t, now() + interval '1 day');
    insert into houston.check_ins (id, tenant_id, user_id, agentable_id, reason, wanted_at, due_at)
    values (gen_random_uuid(), t, u, g, w, now() + interval '1 day', now() + interval '1 day');
    insert into houston.triggers (id, tenant_id, user_id, agentable_id, name, instructions, rule, task, firings, created_at,
                                  updated_at)
    values (s, t, u, g, w, w, '{"type": "event", "topics": ["**"]}', jsonb_build_object('kind', 'task', 'title', w),
            jsonb_build_array(jsonb_build_object('at', now(), 'refusal', w)), now(), now());
    insert into houston.trigger_firings (trigger_id, tenant_id, agentable_id, parent_id, seq, topic, cause, chain, depth, created_at)
    values (s, t, g, g, 1, 'run.queued', jsonb_build_object('at', '', 'content', w), '{}', 0, now());
    insert into houston.idempotency_keys (tenant_id, key, request_sha256, resource_id, response)
    values (t, 'user ' || md5(g::text), '', u, jsonb_build_object('id', 'user_' || replace(u::text, '-', ''), 'name', w)),
           (t, 'goal ' || md5(g::text), '', g, jsonb_build_object('id', 'goal_' || replace(g::text, '-', ''), 'title', w)),
           (t, 'message ' || md5(g::text), '', m, null),
           (t, 'note that is deleted ' || md5(g::text), '', gen_random_uuid(),
            jsonb_build_object('goal_id', 'goal_' || replace(g::text, '-', ''), 'content', w)),
           (t, 'memory ' || md5(g::text), '', gen_random_uuid(), jsonb_build_object('user_id', 'user_' || replace(u::text, '-', '')));
end $$;

-- For each table: the number of rows whose text contains one of the needles.
create or replace function public.naming(needles text[]) returns table (name text, rows bigint) language plpgsql as $$
begin
    for name in select table_name from information_schema.tables
                 where table_schema = 'houston' and table_type = 'BASE TABLE' order by 1 loop
        execute format('select count(*) from houston.%I as x where x::text like any ($1)', name)
           into rows using (select array_agg('%' || n || '%') from unnest(needles) n);
        return next;
    end loop;
end;
$$;
