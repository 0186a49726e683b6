//! Feeds and check-ins.
