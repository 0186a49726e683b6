-- Whether the shards of a move came to this cell, or left it. In a cell that they left, no user is created with them, not even
-- by a process that does not know the move yet.
alter table houston.moved_shards add column is_here boolean not null default false;
