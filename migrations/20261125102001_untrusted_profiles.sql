-- Entries of a profile that a session wrote after it had read what strangers wrote. The marks are kept with the entries, as their
-- texts: an entry that is removed takes its mark with it.
alter table houston.profiles add column untrusted text[] not null default '{}';
