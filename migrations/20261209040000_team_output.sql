-- The form of the answers of a team, whichever of its agents answers. See crates/domain/src/answering.rs.
alter table houston.teams add column output jsonb;
