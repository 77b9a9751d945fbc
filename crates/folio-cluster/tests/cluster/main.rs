//! Tests of the transport between nodes: clients call real listeners on loopback, behind which a scripted peer answers
//! in place of a node.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod limits;
mod routing;
mod sandbox;
mod scripted;
mod takeover;
mod tls;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use folio_cluster::{CallContext, NodePeer as _, Options, Peers, RemotePeer, Router};
use folio_history::command::{
    ApproveAnswer, ChatCommand, CreateThreadCommand, DeleteThreadCommand, RenameThreadCommand,
};
use folio_history::event::{Event, EventKind};
use folio_history::peer::{ConversationPeer as _, EventStream};
use folio_storage::SharedOptions;
use folio_types::{
    Code, Environment as _, Error, FieldViolation, Incarnation, Principal, Reason, Role, Secret, System, ThreadId,
    Timestamp, UserId,
};
use futures::StreamExt as _;

use sandbox::{Cluster, LIMIT, Node, Server, all, approve, fork, options, peer, principal, thread, turn, with_timeout};
use scripted::Behavior;
