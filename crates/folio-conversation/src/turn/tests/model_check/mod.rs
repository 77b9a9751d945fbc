//! The exhaustive check: the real machine on two nodes over a model of the store's conditions. A node pauses for any
//! time between two store operations, or is killed. A batch is answered, or applied with its answer lost, or arrives
//! later, or never arrives. Any node may see any other node as dead, and clocks pass the expiry independently.
//!
//! Without faults every scope must hold. It is searched breadth first up to a number of states, or, with
//! `FOLIO_CHECK_DEPTH` (`cargo xtask check-model`), up to that many steps. For each fault a scope must find the
//! violation that the omitted step prevents.

mod faults;
mod invariants;
mod scopes;
mod step;
mod world;

pub(super) use scopes::{Ask, Scope};
pub(super) use world::{Action, Budget, World};
