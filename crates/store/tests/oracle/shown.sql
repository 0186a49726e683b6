-- An id as events contain it.
create or replace function houston.shown(prefix text, id uuid) returns text
language sql immutable strict parallel safe as $$
    select prefix || '_' || replace(id::text, '-', '');
$$;
