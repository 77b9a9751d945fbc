//! The descriptors of the public API's messages, for the faces that translate JSON, and of its RPCs, for the bounds of requests.

use std::collections::HashSet;
use std::sync::LazyLock;

use folio_operations::Declaration;
use prost_reflect::{DescriptorPool, MethodDescriptor};

/// The API, the details of errors, and server reflection. A test proves that every operation is described.
pub(crate) static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let mut pool = DescriptorPool::decode(folio_proto::FILE_DESCRIPTOR_SET).unwrap_or_default();
    for set in [tonic_types::pb::FILE_DESCRIPTOR_SET, tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET] {
        if let Err(error) = pool.decode_file_descriptor_set(set) {
            tracing::error!(%error, "the details of errors, or server reflection, cannot be described");
        }
    }
    pool
});

/// The paths of the RPCs whose request is a stream of messages.
static CLIENT_STREAMS: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let mut paths = HashSet::new();
    for service in POOL.services() {
        let methods = service.methods().filter(MethodDescriptor::is_client_streaming);
        paths.extend(methods.map(|method| format!("/{}/{}", service.full_name(), method.name())));
    }
    paths
});

/// Returns true if the request of the RPC with this path is a stream of messages.
pub(crate) fn is_client_stream(path: &str) -> bool {
    CLIENT_STREAMS.contains(path)
}

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

    #[test]
    fn uploads_and_reflection_are_client_streams() {
        let upload = "/folio.v1.DocumentService/UploadDocument";
        let reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
        assert_eq!(*CLIENT_STREAMS, HashSet::from([upload, reflection].map(str::to_owned)));
        assert!(is_client_stream(upload) && !is_client_stream("/folio.v1.ConversationService/Chat"));
    }
}
