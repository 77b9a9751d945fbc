//! Random faults with a checker: clients chat and approve without a pause while processes are killed, stopped and
//! continued, stores are restarted and connections cut; then what the stores hold and what the clients heard is judged.

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
