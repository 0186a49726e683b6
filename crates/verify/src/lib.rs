//! A model of the run protocol, checked in every order of events. All of it is in `tests/protocol`, whose first page says what
//! is modelled and what is not; it is a crate because its tests are compiled with optimisations and nothing else need be.
//!
//! # Invariants
//!
//! * The model shares no code with what it is a model of: a mistake must be made twice to stay unseen.
//! * Every state that limited faults can reach is visited; nothing is left to chance.
//!
//! # Deliberately absent
//!
//! * Time and probabilities: a lease may expire at any moment.
//! * Anything that runs Houston: `harness` does.
//!
//! # Recipe: a change of the protocol
//!
//! 1. Change the model beside the code: the table on the first page of `tests/protocol` names which file is a model of which.
//! 2. Add the property that must hold to `property.rs`, and a variant to `variant.rs` that breaks it, which the check must find.
