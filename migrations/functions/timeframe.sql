-- The time that `today`, `yesterday`, `last_week`, … means for a user in the time zone p_zone. `last_month` is the
-- month before this one and this month up to now; likewise for weeks and years.
create or replace function houston.timeframe(p_name text, p_zone text, out since timestamptz, out until timestamptz)
language plpgsql stable as $$
declare
    v_day timestamp := date_trunc('day', clock_timestamp() at time zone p_zone);
begin
    since := case p_name
                 when 'today' then v_day
                 when 'yesterday' then v_day - interval '1 day'
                 when 'last_week' then date_trunc('week', v_day) - interval '1 week'
                 when 'last_month' then date_trunc('month', v_day) - interval '1 month'
                 when 'last_year' then date_trunc('year', v_day) - interval '1 year'
             end at time zone p_zone;
    if p_name = 'yesterday' then
        until := v_day at time zone p_zone;
    end if;
end;
$$;
