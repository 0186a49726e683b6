-- The model call of the run that its provider answers later. See crates/domain/src/submission.rs.
alter table houston.runs add column submission jsonb;
