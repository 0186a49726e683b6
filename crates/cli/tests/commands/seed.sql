-- What the commands show besides `houston_testkit::seed_data`. All ids begin with 01900000, as those do.
\set ON_ERROR_STOP 1
\set tenant '\'01900000-0000-7000-8000-000000000000\'::uuid'
\set ann '\'01900000-0001-7000-8000-000000000000\'::uuid'
\set ben '\'01900000-0001-7000-8000-000000000001\'::uuid'
\set goal2 '\'01900000-0002-7000-8000-000000000002\'::uuid'
\set goal3 '\'01900000-0002-7000-8000-000000000003\'::uuid'
\set goal4 '\'01900000-0002-7000-8000-000000000004\'::uuid'
\set run2 '\'01900000-0003-7000-8000-00000000002a\'::uuid'
\set run3 '\'01900000-0003-7000-8000-00000000002b\'::uuid'

insert into houston.questions (id, tenant_id, user_id, agentable_id, run_id, kind, subject, text, schema, expires_at, approval, created_at)
values ('01900000-0010-7000-8000-000000000002', :tenant, :ann, :goal2, :run2, 'approval', 'call_1',
        'May I call http_request?', '{"type": "object"}', now() + interval '1 day',
        '{"tool": "http_request", "input": {"url": "https://example.com/orders", "method": "POST"}, "lasting": true,
          "why": "it sends something to others", "message_id": "msg_01900000000470008000000000000001"}', '2020-11-01'),
       ('01900000-0010-7000-8000-000000000003', :tenant, :ben, :goal3, :run3, 'approval', 'call_2',
        'May I call edit_file?', '{"type": "object"}', null,
        '{"tool": "edit_file", "input": {"path": "notes/1.md", "old": "travel", "new": "sail"}, "why": "it changes a file",
          "preview": "--- notes/1.md\n+++ notes/1.md\n-They travel.\n+They sail.", "message_id": "msg_01900000000470008000000000000002"}',
        '2020-11-02');
insert into houston.grants (id, tenant_id, user_id, agentable_id, tool, conditions, granted_by, created_at)
values ('01900000-0011-7000-8000-000000000000', :tenant, :ann, null, 'http_request',
        '{"/url": {"equals": "https://example.com/orders"}}', 'Ann', '2020-11-01'),
       ('01900000-0011-7000-8000-000000000010', :tenant, :ann, :goal4, 'fetch_page', '{}', 'houston approvals', '2020-11-02');
insert into houston.triggers (id, tenant_id, user_id, agentable_id, name, instructions, rule, next_at, enabled, fired, refused, refusal,
                              last_at, created_at, updated_at)
values ('01900000-0012-7000-8000-000000000000', :tenant, :ann, :goal4, 'Mornings', 'Look for trains.',
        '{"type": "cron", "cron": "0 8 * * *", "zone": "Europe/Vienna"}', '2126-11-03 07:00Z', true, 3, 0, null, '2020-11-02 07:00Z',
        '2020-11-01', '2020-11-01'),
       ('01900000-0012-7000-8000-000000000010', :tenant, :ann, :goal4, 'Hotels', 'They wrote of a hotel.',
        '{"type": "keyword", "words": ["hotel", "night"]}', null, false, 0, 1, 'too_often', '2020-11-02 09:30Z', '2020-11-01', '2020-11-02');
insert into houston.custom_tables (id, tenant_id, user_id, name, description, fields, records, bytes, created_at)
values ('01900000-0013-7000-8000-000000000000', :tenant, :ann, 'cars', 'Cars that Ann likes',
        '[{"name": "what", "type": "text", "required": true}, {"name": "price", "type": "number"}]', 2, 50, '2020-11-01');
insert into houston.custom_records (id, tenant_id, user_id, table_id, data, bytes, created_at, updated_at)
values ('01900000-0014-7000-8000-000000000000', :tenant, :ann, '01900000-0013-7000-8000-000000000000',
        '{"what": "red", "price": 1.5}', 25, '2020-11-01', '2020-11-01'),
       ('01900000-0014-7000-8000-000000000010', :tenant, :ann, '01900000-0013-7000-8000-000000000000',
        '{"what": "blue, nearly"}', 25, '2020-11-01', '2020-11-01');
insert into houston.skills (owner_id, name, tenant_id, user_id, text, summary, created_at, updated_at)
values (:ann, 'trains', :tenant, :ann, E'---\nname: trains\ndescription: Find trains.\n---\nAsk for the day first.\n',
        '{"name": "trains", "brief": "Find trains.", "enabled": true}', '2020-11-01', '2020-11-01');
insert into houston.skill_files (owner_id, skill, path, tenant_id, content)
values (:ann, 'trains', 'references/stations.md', :tenant, 'Wien, Graz');
insert into houston.snippets (user_id, name, tenant_id, language, description, code, untrusted, input_schema, pin, created_at, updated_at)
values (:ann, 'double', :tenant, 'javascript', 'Doubles n.', 'return input.n * 2', false, '{"type": "object"}', 'abc', '2020-11-01', '2020-11-01'),
       (:ann, 'greet', :tenant, 'typescript', 'Greets.', 'return "hello"', true, null, null, '2020-11-01', '2020-11-02');
insert into houston.mcp_servers (owner_id, name, tenant_id, user_id, url, settings, header_names, pins, tools, created_at, updated_at)
values (:ann, 'shop', :tenant, :ann, 'https://shop.example.com/mcp',
        '{"enabled": true, "kinds": ["goal"], "only": null, "timeout_s": 60, "tools": {}}', '{authorization}', '{}', '{shop__order}',
        '2020-11-01', '2020-11-02');
insert into houston.audit (id, tenant_id, at, actor, on_behalf_of, operation, target, status, code, request_id)
values ('01900000-0015-7000-8000-000000000001', :tenant, '2020-11-01 10:00Z', 'key_01900000001670008000000000000000', null,
        'create_goal', 'goal_01900000000270008000000000000004', 201, null, 'req_1'),
       ('01900000-0015-7000-8000-000000000002', :tenant, '2020-11-02 10:00Z', 'key_01900000001670008000000000000000',
        'user_01900000000170008000000000000000', 'update_goal', 'goal_01900000000270008000000000000004', 403, 'forbidden', 'req_2'),
       ('01900000-0015-7000-8000-000000000003', '00000000-0000-0000-0000-000000000000', '2020-11-03 10:00Z', 'houston (ops)', null,
        'pause_lane', 'background', 0, null, null);
-- `why` says something else of what is a few seconds old, and the digests of a conversation cover its times.
update houston.run_locks set waiting_since = '2020-11-01' where wake;
update houston.runs set created_at = '2020-11-01' where ended_at is null;
update houston.history set created_at = '2020-11-01';
update houston.messages set created_at = '2020-11-01';
update houston.knowledge_items set created_at = '2020-11-01', updated_at = '2020-11-01';
