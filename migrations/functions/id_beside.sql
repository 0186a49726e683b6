-- A new id in the shard of another id, as `Ids::beside` of crates/domain makes it: UUIDv7 with the last 16 bits of
-- p_other. For ids that are made here and not in Rust. p_other is the agentable or the user that the new thing belongs
-- to.
create or replace function houston.id_beside(p_other uuid) returns uuid language sql volatile as $$
    -- A random UUID has version 4; bits 52 and 53 make it 7.
    select encode(set_bit(set_bit(
               substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
               || substring(uuid_send(gen_random_uuid()) from 7 for 8)
               || substring(uuid_send(p_other) from 15), 52, 1), 53, 1), 'hex')::uuid
$$;
