-- Why a run was cut off: the reason of its cancel, otherwise its error, otherwise the stop rule that ended it. Null for
-- a run that is open, or that ended because its agent was done.
create or replace function houston.stop_reason(r houston.runs) returns text language sql immutable as $$
    select case when r.ended_at is null then null
                when r.status = 'cancelled'
                     then case when r.cancelled_with_parent then 'parent' else coalesce(r.cancel_reason, 'user') end
                when r.error_code is not null then lower(r.error_code)
                when r.status not in ('completed', 'message_sent') then r.status end;
$$;
