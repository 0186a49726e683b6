-- Text for use inside an element or an attribute.
create or replace function houston.escaped(p_text text) returns text language sql immutable strict parallel safe as $$
    select replace(replace(replace(replace(p_text, '&', '&amp;'), '<', '&lt;'), '>', '&gt;'), '"', '&quot;');
$$;
