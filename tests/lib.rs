//! Shared parts of the tests of whole processes: processes, clients, the model endpoint, connections that can be cut,
//! clusters of many processes, the random faults with their checker, and the load of the soak test.

pub mod faults;
pub mod harness;
pub mod soak;
