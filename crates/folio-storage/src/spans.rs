//! Trace spans of storage operations.

use folio_types::Result;
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
    let answer = run.instrument(span.clone()).await;
    if let Err(error) = &answer {
        folio_trace::record_error(&span, error.reason.as_str());
    }
    answer
}
