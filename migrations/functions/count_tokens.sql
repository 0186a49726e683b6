-- Counts tokens of a user's limit: p_tokens more, or without them what the run p_run took beyond what was counted when
-- it was admitted, which may be less than nothing. The limit may be exceeded, by p_longest at most: whatever is beyond
-- that is not counted. Returns in how many seconds no token would have been used any more without these.
create or replace function houston.count_tokens(
    p_user uuid, p_run uuid, p_tokens bigint, p_quota bigint, p_window interval, p_longest interval
) returns double precision language plpgsql as $$
declare
    v_used bigint;
    v_more bigint := p_tokens;
    v_now constant timestamptz := clock_timestamp();
    v_time interval;
    v_ahead double precision;
begin
    if p_tokens is null then
        -- What is read from a provider's cache costs little, and is most of what a long conversation sends.
        select greatest(0, r.input_tokens - r.cache_read_tokens + r.output_tokens), coalesce(r.booked_tokens, 0)
          into v_used, v_more
          from houston.runs r where r.id = p_run;
        if not found then
            return null;
        end if;
        v_more := v_used - v_more;
    end if;
    v_time := p_window * (v_more::double precision / p_quota);
    -- What is given back was counted from a time that may have passed since.
    insert into houston.rates as r (owner_id, name, free_at, per_run)
    values (p_user, 'tokens', least(v_now + v_time, v_now + p_window + p_longest), nullif(v_used, 0))
        on conflict (owner_id, name) do update
           set free_at = least(case when v_more > 0 then greatest(r.free_at, v_now) else r.free_at end + v_time,
                               v_now + p_window + p_longest),
               per_run = case when v_used > 0 then coalesce(r.per_run * 0.7 + v_used * 0.3, v_used) else r.per_run end
    returning extract(epoch from r.free_at - v_now - v_time) into v_ahead;
    return v_ahead;
end
$$;
