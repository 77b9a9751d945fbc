//! folio-node
