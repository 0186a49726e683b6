//! Workers over a real Postgres and a real Redis, without HTTP: what is posted through the store is answered.

mod answer;
mod race;
mod rig;
