//! The trait of operations, and the call of one.

use folio_types::{RequestId, Result};
use serde::Serialize;

use crate::audit::AuditRecord;
use crate::context::Context;
use crate::declaration::Declaration;

/// One public action. The implementing type is its input.
///
/// The serialized input is what the idempotency digest and, by default, the audit log see: a stream of bytes is skipped, and a
/// secret is serialized as its digest or skipped.
pub trait Operation: Serialize + Send + Sync + Sized + 'static {
    /// The declaration, which authorization, idempotency, audit and quotas are derived from.
    const DECLARATION: Declaration;

    /// The result.
    type Output: Send + 'static;

    /// Runs the operation for an authorized caller.
    fn run(self, context: &Context) -> impl Future<Output = Result<Self::Output>> + Send;

    /// Prepares the audit entry of a recorded operation, before anything is changed: the arguments without secrets, the
    /// organizations whose logs record it, and the changed resource. An error refuses the operation unrecorded.
    ///
    /// Default: the serialized input, in the log of the caller's organization.
    fn audit(&self, _context: &Context) -> impl Future<Output = Result<AuditRecord<Self::Output>>> + Send {
        let arguments = serde_json::to_value(self);
        async move { AuditRecord::of_input(arguments) }
    }
}

/// An operation together with the id that makes its repetition harmless.
#[derive(Debug, Clone)]
pub struct Call<O> {
    /// The input.
    pub operation: O,
    /// The client's id of the request. None: the request cannot be repeated.
    pub request_id: Option<RequestId>,
}

impl<O: Operation> Call<O> {
    /// A call without a request id.
    pub const fn new(operation: O) -> Self {
        Self { operation, request_id: None }
    }

    /// A call under a request id.
    pub const fn under(request_id: Option<RequestId>, operation: O) -> Self {
        Self { operation, request_id }
    }
}
