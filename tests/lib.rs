//! Shared parts of the tests of whole processes: processes, clients, the model endpoint, connections that can be cut,
//! clusters of many processes, the random faults with their checker, the load of the soak test, and the evaluation of
//! extraction.

pub mod eval;
pub mod faults;
pub mod harness;
pub mod soak;
