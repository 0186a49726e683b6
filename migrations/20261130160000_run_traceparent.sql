-- Where a run belongs in a trace (W3C Trace Context): the `traceparent` of the request that opened it, if its client sent one, or of
-- the span in which this process posted the message.
alter table houston.runs add column traceparent text;
