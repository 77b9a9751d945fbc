//! Errors that clients receive. Killed and replaced gateways and cut connections cause errors of the transport at that
//! time; any other error must be an answer of Folio that states what a client can do.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use folio_types::{Code, Error, Reason};
use tonic::Status;

/// The connection of a client to a gateway.
#[derive(Debug, Clone, Copy)]
pub(super) struct Connection {
    /// Number of the gateway.
    pub(super) gateway: usize,
    /// Time at which the client connected.
    pub(super) since: Instant,
}

/// An error of one request.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) error: Error,
    /// The connection on which the request was sent.
    connection: Connection,
    /// True if the connection failed, so that the server answered nothing.
    is_of_transport: bool,
}

/// Numbers of errors of all clients, and the gateways that a fault disturbs. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Refusals(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    by_reason: BTreeMap<String, usize>,
    faults: BTreeMap<String, usize>,
    /// Gateways that were killed, replaced or cut off, with the end of the last such fault. None: the fault continues.
    disturbed: BTreeMap<usize, Option<Instant>>,
}

impl Refusal {
    pub(super) fn new(status: &Status, connection: Connection) -> Self {
        // Only a status of the client library has a source.
        Self { error: folio_proto::status::to_error(status), connection, is_of_transport: status.source().is_some() }
    }

    /// The error of a request that was not answered in time.
    pub(super) fn unanswered(connection: Connection) -> Self {
        Self { error: Error::unavailable(Reason::NodeLost, "no answer"), connection, is_of_transport: true }
    }

    /// Returns true if a retry may succeed.
    pub(super) fn is_retriable(&self) -> bool {
        let is_retriable = matches!(
            self.error.code,
            Code::Unavailable | Code::ResourceExhausted | Code::DeadlineExceeded | Code::Aborted
        );
        is_retriable || self.is_of_transport || self.error.reason == Reason::TurnBusy
    }

    /// Returns true if only a defect explains the error. A gRPC status UNKNOWN has the code `INTERNAL` here.
    fn is_fault(&self, is_disturbed: bool) -> bool {
        let is_excused = self.is_of_transport && is_disturbed;
        !is_excused && matches!(self.error.code, Code::Internal | Code::Cancelled | Code::DataLoss)
    }
}

impl Counts {
    /// Returns true if a fault may have broken the connection. A client may notice it much later, when it uses the
    /// connection again.
    fn is_disturbed(&self, connection: Connection) -> bool {
        match self.disturbed.get(&connection.gateway) {
            None => false,
            Some(None) => true,
            Some(Some(end)) => connection.since <= *end,
        }
    }

    fn count(&mut self, refusal: &Refusal) {
        let Refusal { error, connection, is_of_transport } = refusal;
        let gateway = connection.gateway;
        let origin = if *is_of_transport { "transport" } else { error.reason.as_str() };
        *self.by_reason.entry(format!("{:?} {origin}", error.code)).or_default() += 1;
        if refusal.is_fault(self.is_disturbed(*connection)) {
            let text = format!("a client of gateway {gateway} received {:?} {origin}: {}", error.code, error.message);
            *self.faults.entry(text).or_default() += 1;
        }
    }
}

impl Refusals {
    pub(super) fn count(&self, refusal: &Refusal) {
        self.counts().count(refusal);
    }

    /// Records that a fault begins that ends the connections of a gateway.
    pub(super) fn begin_disturbance(&self, gateway: usize) {
        self.counts().disturbed.insert(gateway, None);
    }

    /// Records that the gateway is reachable again.
    pub(super) fn end_disturbance(&self, gateway: usize) {
        self.counts().disturbed.insert(gateway, Some(Instant::now()));
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the numbers of errors by code and reason.
    pub fn all(&self) -> BTreeMap<String, usize> {
        self.counts().by_reason.clone()
    }

    /// Returns the errors that only a defect explains.
    pub fn faults(&self) -> Vec<String> {
        self.counts().faults.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use folio_proto::status::from_error;

    use super::*;

    fn connection(gateway: usize) -> Connection {
        Connection { gateway, since: Instant::now() }
    }

    fn broken(connection: Connection) -> Refusal {
        Refusal::new(&Status::from_error(Box::new(std::io::Error::other("the connection broke"))), connection)
    }

    #[test]
    fn an_internal_error_of_folio_is_a_fault() {
        let refusals = Refusals::default();
        refusals.begin_disturbance(0);
        refusals.count(&Refusal::unanswered(connection(0)));
        refusals.count(&Refusal::new(&from_error(Error::unavailable(Reason::Draining, "later")), connection(0)));
        assert_eq!(refusals.faults(), [""; 0]);
        let internal = Refusal::new(&from_error(Error::internal("a defect")), connection(0));
        refusals.count(&internal);
        refusals.count(&Refusal::new(&Status::cancelled("without details"), connection(0)));
        assert!(!internal.is_retriable());
        assert_eq!(refusals.faults().len(), 2, "{:?}", refusals.faults());
    }

    #[test]
    fn an_error_of_the_transport_is_a_fault_unless_its_connection_was_disturbed() {
        let (old, refusals) = (broken(connection(1)), Refusals::default());
        assert!(old.is_of_transport && old.is_retriable(), "{old:?}");
        refusals.begin_disturbance(1);
        refusals.count(&old);
        refusals.count(&broken(connection(1)));
        refusals.end_disturbance(1);
        refusals.count(&old);
        assert_eq!(refusals.faults(), [""; 0]);
        refusals.count(&broken(connection(0)));
        assert_eq!(refusals.faults().len(), 1, "the other gateway was not disturbed");
        refusals.count(&broken(connection(1)));
        assert_eq!(refusals.faults().len(), 2, "the connection is newer than the fault: {:?}", refusals.faults());
    }
}
