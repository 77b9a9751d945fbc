//! folio-process
