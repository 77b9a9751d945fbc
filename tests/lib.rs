//! Shared parts of the tests of whole processes: processes, clients, the model endpoint, connections that can be cut,
//! clusters of many processes, and the random faults with their checker.

pub mod faults;
pub mod harness;
