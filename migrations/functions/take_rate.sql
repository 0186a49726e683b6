-- Takes p_cost of p_quota units per p_window of a limit of one owner, if as much is left: the generic cell rate
-- algorithm, whose state is one time in houston.rates. A refused request changes nothing, and neither does a cost of 0,
-- which only asks.
--
-- remaining: the units that are left afterwards. retry_after: how long until as much is left, if it was refused.
-- reset_after: how long until nothing is used any more.
create or replace function houston.take_rate(
    p_limit text, p_owner uuid, p_cost bigint, p_quota bigint, p_window interval,
    out allowed boolean, out remaining bigint, out retry_after interval, out reset_after interval
) language plpgsql as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_cost constant interval := p_window * (p_cost::double precision / p_quota);
    v_free_at timestamptz;
    v_used double precision;
begin
    -- Read first: a refused request writes nothing, however many there are.
    select r.free_at into v_free_at from houston.rates r where r.owner_id = p_owner and r.name = p_limit;
    allowed := greatest(v_free_at, v_now) + v_cost <= v_now + p_window;
    if allowed and p_cost <> 0 then
        insert into houston.rates as r (owner_id, name, free_at) values (p_owner, p_limit, v_now + v_cost)
            on conflict (owner_id, name) do update set free_at = greatest(r.free_at, v_now) + v_cost
             where greatest(r.free_at, v_now) + v_cost <= v_now + p_window
        returning r.free_at into v_free_at;
        allowed := found;
        if not allowed then
            -- Another request took the rest meanwhile.
            select r.free_at into v_free_at from houston.rates r where r.owner_id = p_owner and r.name = p_limit;
        end if;
    end if;
    v_free_at := greatest(v_free_at, v_now);
    reset_after := v_free_at - v_now;
    v_used := extract(epoch from reset_after) / extract(epoch from p_window);
    remaining := greatest(0, floor((1 - v_used) * p_quota + 1e-6));
    retry_after := greatest(case when not allowed then v_free_at + v_cost - p_window - v_now end, interval '0');
end
$$;
