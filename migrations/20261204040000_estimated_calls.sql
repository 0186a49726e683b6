-- Model calls that were cut off before their provider reported what they used: their tokens are estimated, from the request
-- and from what was received.
alter table houston.model_calls add column estimated boolean not null default false;
