-- The event streams of all agentables as rows, those included that follow from messages and runs: what a reader of
-- houston.events would find if all were stored. Written independently of houston_domain::event::derived, to check it.
--
-- epoch: under which an event was written; 0: not by a holder of the run, or unknown by now.
select e.agentable_id, e.seq, e.tenant_id, e.run_id, e.epoch, e.message_id, e.data, e.created_at from houston.events e
union all
select d.* from (
    select m.agentable_id, m.seq, m.tenant_id,
           (select r.id from houston.runs r where r.agentable_id = m.agentable_id and r.first_seq <= m.seq
             order by r.first_seq desc limit 1),
           coalesce((select h.epoch from houston.history h
                      where h.agentable_id = m.agentable_id and h.message_seq = m.seq and h.role = 'assistant'), 0),
           m.id, jsonb_build_object('type', case when m.source = 'agent' then 'message_sent' else 'message_posted' end,
                                    'message_id', 'msg_' || replace(m.id::text, '-', '')), m.created_at
      from houston.messages m where m.message_type = 'text' and m.source <> 'error'
    union all
    select r.agentable_id, r.first_seq, r.tenant_id, r.id, 0, null, '{"type": "run_queued"}', r.created_at from houston.runs r
    union all
    select r.agentable_id, r.started_seq, r.tenant_id, r.id, case when r.attempt = 1 then r.epoch else 0 end, null,
           jsonb_build_object('type', 'attempt_started', 'attempt', 1, 'iteration', 1, 'takeover', false,
                              'next_message_id', 'msg_' || replace(r.started_message_id::text, '-', '')), r.started_at
      from houston.runs r where r.started_seq is not null
    union all
    select r.agentable_id, r.last_seq, r.tenant_id, r.id,
           r.epoch,
           null,
           jsonb_strip_nulls(jsonb_build_object(
               'type', 'run_finished', 'status', r.status, 'iteration', nullif(r.iterations, 0), 'code', r.error_code,
               'message', r.error_message,
               'usage', jsonb_build_object(
                   'input_tokens', r.input_tokens, 'output_tokens', r.output_tokens,
                   'cache_read_tokens', r.cache_read_tokens, 'cache_write_tokens', r.cache_write_tokens,
                   'reasoning_tokens', r.reasoning_tokens, 'cost', r.last_cost::text))), r.ended_at
      from houston.runs r where r.last_seq is not null
    ) as d (agentable_id, seq, tenant_id, run_id, epoch, message_id, data, created_at)
 where not exists (select from houston.events e where e.agentable_id = d.agentable_id and e.seq = d.seq)
