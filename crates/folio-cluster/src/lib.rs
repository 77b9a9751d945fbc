//! folio-cluster
