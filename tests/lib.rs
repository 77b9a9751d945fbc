//! What tests of whole processes share: starting and ending them, clients, the model endpoint, connections that can be cut,
//! a cluster of many processes, and the program of random faults with its checker.

pub mod faults;
pub mod harness;
