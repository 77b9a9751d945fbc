//! folio-conversation
