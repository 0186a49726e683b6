//! Workspaces on a real file system.

// `cfg` so that clippy knows these modules for tests.
#[cfg(test)]
mod files;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod race;
#[cfg(test)]
mod removal;
#[cfg(test)]
mod root;
#[cfg(test)]
mod test_folder;
