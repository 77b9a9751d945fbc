//! The run of an authorized operation, with its audit entries and the record of its outcome.

use folio_types::Result;

use super::Context;
use crate::audit::AuditedChange;
use crate::declaration::{Audit, Idempotency};
use crate::operation::Operation;

/// Runs an authorized operation. Writes the audit entries and the record of the outcome that its declaration requires.
pub(super) async fn perform<O: Operation>(operation: O, context: Context) -> Result<O::Output> {
    let (declaration, request, stores) = (&O::DECLARATION, &context.request, context.stores());
    let record = match declaration.audit {
        Audit::Unrecorded | Audit::ByOperation => None,
        Audit::Recorded => Some(operation.audit(&context).await?),
    };
    let records_outcome = declaration.idempotency == Idempotency::Outcome && request.is_repeatable();
    // A request that is repeated while the first one runs waits for its outcome.
    let key = (context.principal().org.clone(), request.key());
    let _guard = if records_outcome { Some(context.operations.inner.requests.acquire(&key).await) } else { None };
    if records_outcome && let Some(outcome) = request.begin(stores, declaration.name).await? {
        return operation.replay(&context, outcome).await;
    }
    let run = Box::pin(operation.run(&context));
    let output = match record {
        None => run.await?,
        Some(record) => {
            let change = AuditedChange::new(declaration, &context);
            change.run(stores.audit.as_ref(), context.environment(), record, run).await?
        }
    };
    if records_outcome {
        let outcome = O::to_outcome(&output);
        debug_assert!(outcome.is_ok(), "{} declares an outcome and has none", declaration.name);
        let recorded = match outcome {
            Ok(outcome) => request.complete(stores, &outcome).await,
            Err(error) => Err(error),
        };
        if let Err(error) = recorded {
            let operation = declaration.name;
            tracing::warn!(operation, %error, "the outcome of a request is not recorded; a repeated request runs the operation again");
        }
    }
    Ok(output)
}
