//! The descriptors of the public API's messages, for the faces that translate JSON.

use std::sync::LazyLock;

use folio_operations::Declaration;
use prost_reflect::{DescriptorPool, MethodDescriptor};

/// The messages of the API, and those of the details of errors. A test proves that every operation is described.
pub(crate) static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let mut pool = DescriptorPool::decode(folio_proto::FILE_DESCRIPTOR_SET).unwrap_or_default();
    if let Err(error) = pool.decode_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET) {
        tracing::error!(%error, "the details of errors cannot be described");
    }
    pool
});

/// Returns the RPC that carries an operation.
pub(crate) fn method(operation: &Declaration) -> Option<MethodDescriptor> {
    let service = POOL.get_service_by_name(&format!("folio.v1.{}", operation.service.name))?;
    service.methods().find(|method| method.name() == operation.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_and_detail_is_described() {
        let missing: Vec<_> = folio_operations::operations().filter(|operation| method(operation).is_none()).collect();
        assert!(missing.is_empty(), "{missing:?}");
        for detail in ["ErrorInfo", "BadRequest", "RetryInfo", "QuotaFailure", "ResourceInfo"] {
            assert!(POOL.get_message_by_name(&format!("google.rpc.{detail}")).is_some(), "{detail}");
        }
    }
}
