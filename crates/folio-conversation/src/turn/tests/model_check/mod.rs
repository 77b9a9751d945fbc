//! Model check of the turn protocol: the real machine on two nodes over a model of the store's conditional writes. A
//! node pauses for any time between two store operations, or is killed. A batch of writes is applied and answered, is
//! applied but its answer is lost, arrives later, or never arrives. Any node may see any other node as dead, and clocks
//! pass the expiry independently.
//!
//! A scope is a search space: it fixes the requests and the model answers, and bounds the number of failures. Without
//! faults, no reachable state of a scope may violate an invariant. Each scope is searched breadth first up to a number
//! of states, or, with `FOLIO_CHECK_DEPTH` (`cargo xtask check-model`), up to that many steps. A fault omits one step
//! of the protocol; for each fault, the search of a scope must find the violation that the omitted step prevents.

mod faults;
mod group;
mod invariants;
mod scopes;
mod step;
mod world;

pub(super) use scopes::{Ask, Scope};
pub(super) use world::{Action, Budget, World};
