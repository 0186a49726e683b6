-- A setting that processes have written to houston.settings.
create or replace function houston.setting(p_name text) returns integer language sql stable strict as $$
    select s.value from houston.settings s where s.name = p_name;
$$;
