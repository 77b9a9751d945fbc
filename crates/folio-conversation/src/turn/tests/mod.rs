//! The machine against a store in memory: by behaviour, over random commands, and exhaustively.

mod children;
mod direct_call;
mod ends;
mod graph;
mod group;

mod model_check;
mod pauses;
mod policies;
mod profiles;
mod progress;
mod properties;
mod references;
mod refused;
mod rig;
mod rounds;
mod sizes;
mod store;
mod summary;
mod takeovers;

use folio_history::command::{IfBusy, IfPending};
use folio_history::event::{EventKind, TurnStatus};
use folio_history::journal::{CallStatus, Decision, End};
use folio_types::message::{FinishReason, Message};
use folio_types::{Digest, Error, Reason, Role, UserId, limits};
use serde_json::json;

use self::rig::{Mishap, Rig, approve, call_position, calls_reply, reject, result, text_reply};
use super::{Answer, Command, DEFERRED_MAX, Effect, Patience, PlanFailure, Reply, Start, ToolOutcome, bounds};
