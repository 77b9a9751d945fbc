//! What a status from a node, or from the way to it, means.
//!
//! A node's own statuses carry details and are read whole. One without is of the transport: the node is not reached, or
//! was lost before it answered.

use std::error::Error as StdError;
use std::time::Duration;

use folio_proto::status;
use folio_types::{Error, Reason};
use tonic::{Code, ConnectError, Status};

use crate::seal::not_believed;

/// The detail that tells an unreached node from an error that a node reported.
const LOST: &str = "request";
const NOT_SENT: &str = "not sent";
const PERHAPS_SENT: &str = "perhaps sent";
/// When a node that is not reached may be asked again.
const RETRY: Duration = Duration::from_secs(1);

/// How a node was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    /// Before the request went out: nothing happened.
    NotSent,
    /// After: what was asked may have happened, or still happen.
    PerhapsSent,
}

/// How the node was lost, where that is what the error says.
pub(crate) fn lost(error: &Error) -> Option<Lost> {
    if error.reason != Reason::NodeLost {
        return None;
    }
    match error.details.get(LOST)?.as_str() {
        NOT_SENT => Some(Lost::NotSent),
        _ => Some(Lost::PerhapsSent),
    }
}

/// A node that is not there any more while it is asked.
pub(crate) fn gone() -> Error {
    unreached(Lost::PerhapsSent)
}

fn unreached(how: Lost) -> Error {
    let told = match how {
        Lost::NotSent => NOT_SENT,
        Lost::PerhapsSent => PERHAPS_SENT,
    };
    Error::unavailable(Reason::NodeLost, "the node is not reached").retry_after(RETRY).detail(LOST, told)
}

/// The error of a status.
pub(crate) fn read(status: &Status, address: &str) -> Error {
    if !status.details().is_empty() {
        let error = status::to_error(status);
        return if error.reason == Reason::InvalidPrincipal { not_believed(&error) } else { error };
    }
    let of_transport = matches!(status.code(), Code::Unavailable | Code::Cancelled | Code::Unknown);
    if status.source().is_none() && !of_transport {
        return Error::internal(format!("the node at {address} answered {status:?}"));
    }
    if sources(status).any(|source| source.is::<ConnectError>()) {
        tracing::warn!(%address, error = ?status, "no connection to a node");
        return unreached(Lost::NotSent);
    }
    tracing::debug!(%address, error = ?status, "a node was lost while it was asked");
    unreached(Lost::PerhapsSent)
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
    fn what_a_node_says_is_read_whole() {
        let said = Error::unavailable(Reason::NodeLost, "the turn's node died").retry_after(RETRY);
        let read_back = read(&status::from_error(said.clone()), "a:1");
        assert_eq!((&read_back, lost(&read_back)), (&said, None));
    }

    #[test]
    fn a_status_of_the_transport_is_a_lost_node() {
        for status in [Status::unavailable(""), Status::cancelled(""), Status::unknown("")] {
            let error = read(&status, "a:1");
            assert_eq!((error.reason, lost(&error)), (Reason::NodeLost, Some(Lost::PerhapsSent)));
            assert!(error.is_retriable() && error.retry_after.is_some());
        }
        let strange = read(&Status::unimplemented("an older node"), "a:1");
        assert_eq!((strange.reason, lost(&strange)), (Reason::Internal, None));
    }

    #[test]
    fn a_node_that_does_not_believe_its_caller_is_no_fault_of_the_client() {
        let refused = Error::new(folio_types::Code::Unauthenticated, Reason::InvalidPrincipal, "expired");
        let error = read(&status::from_error(refused), "a:1");
        assert_eq!((error.code, error.reason), (folio_types::Code::Unavailable, Reason::InvalidPrincipal));
    }
}
