-- The tool call that an approval is about: {"tool", "input", "why", "message_id"}; null for other questions.
alter table houston.questions add column approval jsonb;
