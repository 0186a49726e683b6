//! Tools that read and write Houston's own tables, on a real Postgres; and the definitions of all tools.

houston_testkit::shared_postgres!();

// `cfg` so that clippy knows these modules for tests.
#[cfg(test)]
mod definitions;
#[cfg(test)]
mod fields;
#[cfg(test)]
mod file_pages;
#[cfg(test)]
mod files;
#[cfg(test)]
mod folder;
#[cfg(test)]
mod knowledge;
#[cfg(test)]
mod reach;
#[cfg(test)]
mod shared_state;
#[cfg(test)]
mod snippets;
#[cfg(test)]
mod tables;
#[cfg(test)]
mod test_run;
#[cfg(test)]
mod todos;
