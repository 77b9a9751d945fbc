//! Random faults with a checker. Clients chat and approve continuously while processes are killed and stopped, stores
//! are restarted and connections are cut. At the end the checker compares the stores with the clients' logs.

pub mod checker;
pub mod log;
pub mod person;
pub mod reading;
pub mod rest;
pub mod run;
mod schedule;
mod servers;
mod strike;
mod topping_up;
