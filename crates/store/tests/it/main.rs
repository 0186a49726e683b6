//! The store on a real Postgres.

mod fresh;
mod post;
mod step;
