-- The transaction of this cell in which the shards of a move came to it: readers of events who were in the other cell go on here
-- with what it wrote. Null: they left, or came before this column was there.
alter table houston.moved_shards add column xid bigint;
