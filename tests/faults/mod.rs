//! Random faults with a checker. Clients chat and approve continuously while processes are killed and stopped, stores
//! are restarted and connections are cut. At the end the checker compares the stores with the clients' logs.

pub mod batch;
pub mod checker;
mod conversation;
mod coverage;
mod credit_grants;
mod incidents;
mod ingestion_user;
pub mod ingestions;
mod injection;
mod job_tables;
mod job_user;
mod leftovers;
pub mod log;
pub mod memory;
pub mod outage;
mod passages;
pub mod program;
pub mod refusals;
pub mod report;
pub mod run;
mod schedule;
mod servers;
pub mod settle;
pub mod simulated_user;
mod stack_user;
pub mod tables;
pub mod upgrade;
