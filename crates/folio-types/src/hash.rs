//! Hashes of several parts.

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// Returns the SHA-256 of parts, each preceded by its length, so that parts that are divided otherwise have another hash.
pub fn hash_parts<P: AsRef<[u8]>>(parts: impl IntoIterator<Item = P>) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        let part = part.as_ref();
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// Returns a UUID that follows from parts: the start of their hash.
pub fn uuid_of_parts<P: AsRef<[u8]>>(parts: impl IntoIterator<Item = P>) -> Uuid {
    let mut bytes = [0_u8; 16];
    for (to, from) in bytes.iter_mut().zip(hash_parts(parts)) {
        *to = from;
    }
    Uuid::new_v8(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_are_divided_otherwise_have_another_hash() {
        assert_ne!(hash_parts(["ab", "c"]), hash_parts(["a", "bc"]));
        assert_ne!(hash_parts(["ab"]), hash_parts(["ab", ""]));
        assert_eq!(hash_parts(["ab", "c"]), hash_parts([b"ab".as_slice(), b"c".as_slice()]));
    }
}
