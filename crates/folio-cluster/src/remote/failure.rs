//! Interpretation of a gRPC status from a node or from the transport.
//!
//! A status of a node has details and is decoded completely. A status without details is from the transport: the node
//! was unreachable, or was lost before it responded.

use std::error::Error as StdError;
use std::time::Duration;

use folio_proto::status;
use folio_types::{Error, Reason};
use tonic::{Code, ConnectError, Status};

use crate::signed_principal::untrusted;

/// Name of the error detail with the loss stage. If a `NODE_LOST` error lacks this detail, a node reported it.
const LOSS_STAGE: &str = "request";
const NOT_SENT: &str = "not sent";
const PERHAPS_SENT: &str = "perhaps sent";
/// Retry delay of an RPC to an unreachable node. It adds to the time until another node takes over its threads.
const RETRY: Duration = folio_proto::status::RETRY_SOON;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LossStage {
    /// The request had no effect.
    NotSent,
    /// The request may take effect.
    PerhapsSent,
}

/// Returns the stage of the RPC at which the node was lost. None: another error, or an error that a node reported.
pub(crate) fn loss_stage(error: &Error) -> Option<LossStage> {
    if error.reason != Reason::NodeLost {
        return None;
    }
    match error.details.get(LOSS_STAGE)?.as_str() {
        NOT_SENT => Some(LossStage::NotSent),
        _ => Some(LossStage::PerhapsSent),
    }
}

/// Returns the error of an RPC whose node died.
pub(crate) fn node_lost() -> Error {
    node_lost_at(LossStage::PerhapsSent)
}

fn node_lost_at(stage: LossStage) -> Error {
    let detail = match stage {
        LossStage::NotSent => NOT_SENT,
        LossStage::PerhapsSent => PERHAPS_SENT,
    };
    Error::unavailable(Reason::NodeLost, "the node is unreachable").retry_after(RETRY).detail(LOSS_STAGE, detail)
}

pub(crate) fn to_error(status: &Status, address: &str) -> Error {
    if !status.details().is_empty() {
        let error = status::to_error(status);
        return if error.reason == Reason::InvalidPrincipal { untrusted(&error) } else { error };
    }
    let is_of_transport = matches!(status.code(), Code::Unavailable | Code::Cancelled | Code::Unknown);
    if status.source().is_none() && !is_of_transport {
        return Error::internal(format!("unexpected status of the node at {address}: {status:?}"));
    }
    if sources(status).any(|source| source.is::<ConnectError>()) {
        tracing::warn!(%address, error = ?status, "cannot connect to a node");
        return node_lost_at(LossStage::NotSent);
    }
    tracing::debug!(%address, error = ?status, "a node was lost during an RPC");
    node_lost_at(LossStage::PerhapsSent)
}

fn sources(status: &Status) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    let mut next = status.source();
    std::iter::from_fn(move || {
        let source = next?;
        next = source.source();
        Some(source)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_detail_of_a_nodes_error_is_decoded() {
        let reported = Error::unavailable(Reason::NodeLost, "the turn's node died").retry_after(RETRY);
        let read_back = to_error(&status::from_error(reported.clone()), "a:1");
        assert_eq!((&read_back, loss_stage(&read_back)), (&reported, None));
    }

    #[test]
    fn a_status_of_the_transport_is_a_lost_node() {
        for status in [Status::unavailable(""), Status::cancelled(""), Status::unknown("")] {
            let error = to_error(&status, "a:1");
            assert_eq!((error.reason, loss_stage(&error)), (Reason::NodeLost, Some(LossStage::PerhapsSent)));
            assert!(error.is_retriable() && error.retry_after.is_some());
        }
        let strange = to_error(&Status::unimplemented("an older node"), "a:1");
        assert_eq!((strange.reason, loss_stage(&strange)), (Reason::Internal, None));
    }

    #[test]
    fn an_untrusted_gateway_is_no_fault_of_the_client() {
        let refused = Error::new(folio_types::Code::Unauthenticated, Reason::InvalidPrincipal, "expired");
        let error = to_error(&status::from_error(refused), "a:1");
        assert_eq!((error.code, error.reason), (folio_types::Code::Unavailable, Reason::InvalidPrincipal));
    }
}
