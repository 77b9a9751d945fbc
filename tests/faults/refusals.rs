//! Errors that clients receive. Killed processes and cut connections cause errors of the transport; an error that Folio
//! answers must state what a client can do.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::sync::{Arc, Mutex, PoisonError};

use folio_types::{Code, Error, Reason};
use tonic::Status;

/// An error of one request.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) error: Error,
    /// True if the connection failed, so that the server answered nothing.
    is_of_transport: bool,
}

/// Numbers of errors of all clients. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Refusals(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    by_reason: BTreeMap<String, usize>,
    faults: BTreeMap<String, usize>,
}

impl Refusal {
    pub(super) fn new(status: &Status) -> Self {
        // Only a status of the client library has a source.
        Self { error: folio_proto::status::to_error(status), is_of_transport: status.source().is_some() }
    }

    /// The error of a request that was not answered in time.
    pub(super) fn unanswered() -> Self {
        Self { error: Error::unavailable(Reason::NodeLost, "no answer"), is_of_transport: true }
    }

    /// Returns true if a retry may succeed.
    pub(super) fn is_retriable(&self) -> bool {
        let is_retriable = matches!(
            self.error.code,
            Code::Unavailable | Code::ResourceExhausted | Code::DeadlineExceeded | Code::Aborted
        );
        is_retriable || self.is_of_transport || self.error.reason == Reason::TurnBusy
    }

    /// Returns true if Folio answered with an error that only a defect explains.
    fn is_fault(&self) -> bool {
        !self.is_of_transport && matches!(self.error.code, Code::Internal | Code::Cancelled | Code::DataLoss)
    }
}

impl Refusals {
    pub(super) fn count(&self, refusal: &Refusal) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Refusal { error, is_of_transport } = refusal;
        let origin = if *is_of_transport { "transport" } else { error.reason.as_str() };
        *counts.by_reason.entry(format!("{:?} {origin}", error.code)).or_default() += 1;
        if refusal.is_fault() {
            *counts.faults.entry(format!("a client received {:?}: {}", error.code, error.message)).or_default() += 1;
        }
    }

    /// Returns the numbers of errors by code and reason.
    pub fn all(&self) -> BTreeMap<String, usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).by_reason.clone()
    }

    /// Returns the answers of Folio that only a defect explains.
    pub fn faults(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).faults.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use folio_proto::status::from_error;

    use super::*;

    #[test]
    fn an_internal_error_of_folio_is_a_fault_and_one_of_the_transport_is_not() {
        let refusals = Refusals::default();
        let broken = std::io::Error::other("the connection broke");
        refusals.count(&Refusal::new(&Status::from_error(Box::new(broken))));
        refusals.count(&Refusal::unanswered());
        refusals.count(&Refusal::new(&from_error(Error::unavailable(Reason::Draining, "later"))));
        assert_eq!(refusals.faults(), [""; 0]);
        let internal = Refusal::new(&from_error(Error::internal("a defect")));
        refusals.count(&internal);
        refusals.count(&Refusal::new(&Status::cancelled("without details")));
        assert!(!internal.is_retriable());
        assert_eq!(refusals.faults().len(), 2, "{:?}", refusals.faults());
    }
}
