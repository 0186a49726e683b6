//! Architecture tests: allowed dependencies between crates, length of files, names, documentation.
//!
//! # Recipe: change a rule
//!
//! Change the map in `crates/README.md` first, then the table here. An exception is a line in a list of the test, with
//! its reason; these lists may only shrink.

#[cfg(test)]
mod dependencies;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod files;
#[cfg(test)]
mod functions;
#[cfg(test)]
mod imports;
#[cfg(test)]
mod manifests;
#[cfg(test)]
mod modules;
#[cfg(test)]
mod names;
#[cfg(test)]
mod sharding;
#[cfg(test)]
mod sources;
#[cfg(test)]
mod tenants;
#[cfg(test)]
mod terminal;
#[cfg(test)]
mod tools;
#[cfg(test)]
mod words;
#[cfg(test)]
mod workspace;
