//! Jobs that writes cause: deliveries of events to webhook endpoints, runs of prompts by tags, proposals, and ingestions.
//!
//! | part | task |
//! |---|---|
//! | `event.rs` | derives events from records, pure |
//! | [`with_events`] | a layer over the stores that creates the deliveries of an event before the write of its record |
//! | `tag_runs.rs` | creates the jobs of prompts that share a tag with a document, before the write of the document |
//! | `auto_create.rs` | creates the job that makes a proposal for a document, before the write of its text |
//! | `ingestions.rs` | creates the job that ingests a document, before the write of its text, a change or its deletion |
//! | `stack_fills.rs` | creates the jobs that fill rows of stacks, before the write of a document or of a stack |
//! | `follow_up_jobs.rs` | creates these jobs within the limits of their organization |
//! | `outbox.rs` | creates deliveries, and caches the endpoints of organizations |
//! | [`Delivery`] | a job with one item: an event for an endpoint |
//! | [`DeliveryJobs`] | sends the event of a delivery, and reports the result to the endpoint |
//!
//! A delivery exists before the record of its event, so that no death of a process loses the event. The job sends
//! nothing until it has read the record.

mod auto_create;
mod counters;
mod delivery;
mod event;
mod follow_up_jobs;
mod ingestions;
mod layer;
mod outbox;
mod sender;
mod signature;
mod stack_fills;
mod tag_runs;
#[cfg(test)]
mod tests;

pub use counters::Counters;
pub use delivery::{Attempt, Delivery, DeliveryState, admit, create_delivery, open_deliveries};
pub use event::{EVENT_BYTES, Event, EventId, EventType};
pub use layer::with_events;
pub use sender::DeliveryJobs;
pub use signature::{generate_secret, signing_key};
