//! folio-proto
