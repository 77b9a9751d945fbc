//! The bounded parts of the memory of this process, which must fit into the memory limit of its container.

use folio_blobs::S3Options;
use folio_documents::MemoryPart;
use folio_index::UPSERT_BYTES;

use crate::settings::{Role, Settings, qdrant};

const MIB: u64 = 1024 * 1024;
/// Memory of the program, its threads and its connections without load.
const PROGRAM_BYTES: u64 = 64 * MIB;

/// Returns the parts that the roles of this process use, with their maximum sizes.
pub(super) fn parts(settings: &Settings) -> Vec<MemoryPart> {
    let (is_gateway, is_node) = (settings.server.is(Role::Gateway), settings.server.is(Role::Node));
    let has_index = is_node && qdrant(&settings.index).is_none();
    let size = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
    let documents = settings.documents.clone().for_roles(is_gateway, is_node);
    let parts = [
        (true, "the program", PROGRAM_BYTES),
        (
            is_gateway && settings.storage.blobs.starts_with("s3://"),
            "uploads to the bucket (documents.uploads, 8 MiB each)",
            size(documents.uploads.saturating_mul(S3Options::default().part_bytes)),
        ),
        (
            is_gateway,
            "incomplete requests (gateway.incomplete_message_bytes)",
            size(settings.gateway.incomplete_message_bytes),
        ),
        (
            is_node,
            "histories (twice conversation.history_bytes_max)",
            settings.conversation.history_bytes_max.saturating_mul(2),
        ),
        (is_node, "ingestions (index.ingestion_bytes)", settings.index.ingestion_bytes),
        (has_index, "vectors (index.memory_bytes)", settings.index.memory_bytes),
        (has_index, "writers of indexes (index.writers_max)", settings.index.embedded().writer_bytes()),
        (has_index && settings.storage.is_shared(), "writes to indexes that arrive in parts", size(UPSERT_BYTES)),
        (
            true,
            "texts of documents (documents.concurrency + documents.slow_concurrency + documents.protected_uploads)",
            documents.text_bytes(),
        ),
    ];
    let used = parts.into_iter().filter(|(is_used, ..)| *is_used);
    used.map(|(_, name, bytes)| MemoryPart { name, bytes }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1024 * MIB;
    /// Minimum memory of the child processes of both roles, of a gateway and of a node: 160 MiB each.
    const CHILDREN: [u64; 3] = [6 * 160 * MIB, 160 * MIB, 5 * 160 * MIB];

    fn settings(roles: &[Role]) -> Settings {
        let mut settings = Settings::default();
        settings.server.roles = roles.to_vec();
        settings
    }

    fn sum(settings: &Settings) -> u64 {
        parts(settings).iter().map(|part| part.bytes).sum()
    }

    #[test]
    fn the_defaults_fit_into_small_containers() {
        let both = settings(&[Role::Gateway, Role::Node]);
        assert!(sum(&both) + CHILDREN[0] <= 4 * GIB, "{:?}", parts(&both));
        let mut gateway = settings(&[Role::Gateway]);
        assert!(sum(&gateway) + CHILDREN[1] <= GIB, "{:?}", parts(&gateway));
        gateway.storage.blobs = "s3://bucket".to_owned();
        gateway.documents.uploads = 128;
        assert!(sum(&gateway) + CHILDREN[1] <= 2 * GIB, "the values of the chart: {:?}", parts(&gateway));
        let mut node = settings(&[Role::Node]);
        let alone = sum(&node);
        node.storage.cql.contact_points = vec!["host".to_owned()];
        assert_eq!(sum(&node) - alone, 512 * MIB);
        assert!(sum(&node) + CHILDREN[2] <= 4 * GIB, "less than the limit of the chart: {:?}", parts(&node));
        node.index.qdrant_url = "https://host:6334".to_owned();
        assert!(parts(&node).iter().all(|part| !part.name.contains("index.memory_bytes")));
    }
}
