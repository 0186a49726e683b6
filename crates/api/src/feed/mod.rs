//! Feeds, asked for. What stands in one is under `knowledge::feed_item`.

pub(crate) mod generate;
