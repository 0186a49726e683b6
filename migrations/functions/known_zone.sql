-- The time zone p_zone if Postgres has it, otherwise UTC: a search must not fail because of a zone's name.
create or replace function houston.known_zone(p_zone text) returns text language plpgsql stable as $$
begin
    perform clock_timestamp() at time zone p_zone;
    return p_zone;
exception when others then
    return 'UTC';
end;
$$;
