//! folio-tests
