//! Tests of complete turns through the actors, on the embedded store, with the real tools and a scripted model.

mod approve;
mod assistant;
mod audit;
mod cancel;
mod chat;
mod crash;
mod current_access;
mod direct_call;
mod fallback;
mod faults;
mod first_message;
mod flaky;
mod images;
mod job_pause;
mod lifecycle;
mod ownership;
mod profiles;
mod publish;
mod queued;
mod references;
mod sandbox;
mod script;
mod several;
mod summaries;
mod tasks;
mod threads;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use folio_history::command::{
    ApproveAnswer, ApproveCommand, ChatCommand, CreateThreadCommand, ForkThreadCommand, IfBusy, IfPending,
};
use folio_history::event::{Event, EventKind, TurnStatus};
use folio_history::journal::{CallStatus, Decision, Entry};
use folio_llm::ModelError;
use folio_resources::Tag;
use folio_storage::Stores;
use folio_storage_conformance::layer::Layered;
use folio_testkit::wait_for;
use folio_types::message::Message;
use folio_types::op::{Expected, OpKey, Write};
use folio_types::{
    Code, Digest, DocumentId, Environment as _, Error, OrgId, Principal, Reason, Result, Role, ThreadId, Timestamp,
    TurnId, UserId, limits,
};
use futures::StreamExt as _;
use serde_json::json;

use self::sandbox::{SOON, Sandbox, all, approve_all, closing, decide, fork, names, reached, request};
use self::script::{Step, call, calls, gated, say};
use crate::Options;
