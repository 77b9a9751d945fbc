//! The exhaustive check: the real machine on two nodes, over a model of the store's conditions. Nodes rest between any two
//! store operations for any time or are killed; a batch is answered, or applied with its answer lost, or arrives later, or
//! never; anybody may believe anybody dead; clocks pass expiry independently.
//!
//! With all rules every scope must hold: searched breadth first up to a number of states, or, where `FOLIO_CHECK_DEPTH` is
//! set (`cargo xtask check-model`), up to that many steps. For each rule that is left out a scope must find what the rule
//! prevents.

mod faults;
mod judge;
mod scopes;
mod step;
mod world;

pub(super) use scopes::{Ask, Scope};
pub(super) use world::{Action, Budget, World};
