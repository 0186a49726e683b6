//! Feed generation on request. The items of a feed are in `knowledge::feed_item`.

pub(crate) mod generate;
