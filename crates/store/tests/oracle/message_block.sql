-- A message as a block of the history. "frame" marks text that Houston wrote, with its element (a check-in is due, a
-- task has ended); it is signed before it is sent to a model, see houston.frame_mark. The instructions of a task are no
-- frame: a model wrote them.
create or replace function houston.message_block(p_source text, p_metadata jsonb, p_content text) returns jsonb
language sql immutable parallel safe as $$
    select case when p_source = 'system' and p_metadata ->> 'type' is distinct from 'task_started'
                then jsonb_build_object('type', 'text', 'text', p_content, 'frame', true)
                else jsonb_build_object('type', 'text', 'text', p_content) end;
$$;
