//! The rules of the house, checked: who may import whom, how long a file may be, how things are called.
//!
//! # Recipe: change a rule
//!
//! Change the table of crates in the design first, then the table here. An exception is a line in one of the lists
//! below, with its reason beside it; the lists may only shrink.

#[cfg(test)]
mod arrows;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod files;
#[cfg(test)]
mod imports;
#[cfg(test)]
mod manifests;
#[cfg(test)]
mod names;
#[cfg(test)]
mod papers;
#[cfg(test)]
mod sources;
#[cfg(test)]
mod terminal;
#[cfg(test)]
mod words;
#[cfg(test)]
mod workspace;
