//! Trace spans of storage operations.

use folio_types::Result;
use futures::TryFutureExt as _;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

/// Returns the span of a store operation. `table`: the table that the operation accesses, if the store has tables.
pub fn operation_span(system: &'static str, operation: &'static str, table: Option<&str>) -> Span {
    tracing::debug_span!(
        "store",
        otel.name = operation,
        otel.kind = "client",
        otel.status_code = Empty,
        db.system.name = system,
        db.operation.name = operation,
        db.collection.name = table,
        "error.type" = Empty,
    )
}

/// Runs an operation in a span that records its error.
pub async fn run_in_span<T>(
    system: &'static str,
    name: &'static str,
    run: impl Future<Output = Result<T>>,
) -> Result<T> {
    let span = operation_span(system, name, None);
    recorded(span.clone(), run.instrument(span)).await
}

/// Measures an operation that neither logs nor starts spans. Its span is not entered, which would cost as much as a small
/// read for each poll of the operation.
pub fn measured<T>(
    system: &'static str,
    name: &'static str,
    run: impl Future<Output = Result<T>>,
) -> impl Future<Output = Result<T>> {
    recorded(operation_span(system, name, None), run)
}

/// Ends the span with the operation, and records its error.
fn recorded<T>(span: Span, run: impl Future<Output = Result<T>>) -> impl Future<Output = Result<T>> {
    run.inspect_err(move |error| folio_trace::record_error(&span, error.reason.as_str()))
}
