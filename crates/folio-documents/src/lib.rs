//! folio-documents
