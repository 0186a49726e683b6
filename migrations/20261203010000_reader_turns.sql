-- Until when a reader has its turn. What it reads is evaluated without an open transaction, and the turn keeps other processes
-- from evaluating the same: what keeps them from noting it twice is that the position moves from where it was.
alter table houston.readers add column turn_until timestamptz;
