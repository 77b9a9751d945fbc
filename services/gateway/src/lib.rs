//! folio-gateway
