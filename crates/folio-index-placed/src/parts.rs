//! Parts of upserts that exceed the size of a request.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use folio_index::{IndexedDocument, Passage, UPSERT_BYTES};
use folio_types::{Error, OrgId, Reason, Result};

use crate::call::{Call, Part};

/// Maximum bytes of the texts and vectors that wait for the last part of their upsert, of all organizations together. The largest
/// upsert fits alone.
const STAGED_BYTES: usize = UPSERT_BYTES;
/// Maximum upserts whose last part is missing.
const STAGED_MAX: usize = 16;
/// Maximum upserts of one organization among these. Their bytes are at most half of [`STAGED_BYTES`], except for a single upsert.
const ORGANIZATION_STAGED_MAX: usize = STAGED_MAX / 2;
/// Time after the last part of an upsert after which its parts are removed.
const STAGED_FOR: Duration = Duration::from_secs(120);
const RETRY_AFTER: Duration = Duration::from_secs(2);
/// Encoded size of a document without passages, and of a passage without texts and vectors, in bytes.
const OVERHEAD_BYTES: usize = 512;

/// Returns the encoded size of a text in bytes. A control character has six.
fn escaped(text: &str) -> usize {
    let size = |c: char| if c < ' ' { 6 } else { c.len_utf8() + usize::from(c == '"' || c == '\\') };
    text.chars().map(size).fold(0, usize::saturating_add)
}

/// Returns an upper bound of the encoded size of a passage in bytes.
fn size_of_passage(passage: &Passage) -> usize {
    let texts = escaped(&passage.text).saturating_add(escaped(&passage.context)).saturating_add(OVERHEAD_BYTES);
    let of_vector = |dimensions: usize| dimensions.saturating_mul(6).saturating_add(OVERHEAD_BYTES);
    passage.vectors.iter().map(|vector| of_vector(vector.values.len())).fold(texts, usize::saturating_add)
}

/// Returns an upper bound of the encoded size of a document without its passages.
fn size_of_document(document: &IndexedDocument) -> usize {
    let pairs = document.metadata.iter().map(|(key, value)| 6 * key.len().saturating_add(value.len()));
    let tags = document.tags.len().saturating_mul(64);
    pairs.fold(OVERHEAD_BYTES.saturating_add(tags), usize::saturating_add)
}

/// Divides an upsert into lists of documents whose encoded size does not exceed `most` bytes each. The passages of a
/// document may be in several consecutive lists. A single passage may exceed the bound.
pub(crate) fn divide(documents: Vec<IndexedDocument>, most: usize) -> Vec<Vec<IndexedDocument>> {
    let (mut parts, mut part, mut bytes) = (Vec::new(), Vec::<IndexedDocument>::new(), 0usize);
    for mut document in documents {
        let passages = std::mem::take(&mut document.passages);
        let head = size_of_document(&document);
        if bytes.saturating_add(head) > most && !part.is_empty() {
            parts.push(std::mem::take(&mut part));
            bytes = 0;
        }
        bytes = bytes.saturating_add(head);
        let mut current = document.clone();
        for passage in passages {
            let size = size_of_passage(&passage);
            let is_first = part.is_empty() && current.passages.is_empty();
            if bytes.saturating_add(size) > most && !is_first {
                part.push(std::mem::replace(&mut current, document.clone()));
                parts.push(std::mem::take(&mut part));
                bytes = head;
            }
            bytes = bytes.saturating_add(size);
            current.passages.push(passage);
        }
        part.push(current);
    }
    parts.push(part);
    parts
}

/// Joins the passages of a document that are in consecutive lists.
fn join(staged: &mut Vec<IndexedDocument>, documents: Vec<IndexedDocument>) {
    for document in documents {
        match staged.last_mut() {
            Some(last) if last.document == document.document && last.generation == document.generation => {
                last.passages.extend(document.passages);
            }
            _ => staged.push(document),
        }
    }
}

struct StagedUpsert {
    documents: Vec<IndexedDocument>,
    parts: usize,
    bytes: usize,
    last_part_at: Instant,
}

/// The parts that wait for the last part of their upsert.
#[derive(Default)]
pub(crate) struct Staged {
    upserts: HashMap<(OrgId, String), StagedUpsert>,
    bytes: usize,
}

impl Staged {
    /// Returns the call that the index makes. None: a part was added to an upsert. Every call removes the parts that have expired,
    /// so that those of a process that died do not remain in memory.
    ///
    /// # Errors
    /// `OVERLOADED` if too many parts wait. `ABORTED` if a part is missing: the caller sends all parts again.
    pub(crate) fn accept(&mut self, org: &OrgId, call: Call, now: Instant) -> Result<Option<Call>> {
        self.expire(now);
        match call {
            Call::Stage(part) => {
                let bytes = part.documents.iter().map(IndexedDocument::bytes).fold(0, usize::saturating_add);
                self.add(org, part, bytes, now).map(|()| None)
            }
            Call::Commit(part) => self.finish(org, part).map(Some),
            other => Ok(Some(other)),
        }
    }

    /// Adds a part. `bytes`: the size of its texts and vectors. A repeated part has no effect.
    ///
    /// # Errors
    /// `OVERLOADED` if too many parts wait. `ABORTED` if an earlier part is missing: the caller sends all parts again.
    fn add(&mut self, org: &OrgId, part: Part, bytes: usize, now: Instant) -> Result<()> {
        let Part { upload, number, documents } = part;
        let key = (org.clone(), upload);
        let known = self.upserts.get(&key).map_or(0, |staged| staged.parts);
        if number < known {
            return Ok(());
        }
        if number > known {
            return Err(incomplete());
        }
        let (others, own_bytes) = self.others(&key);
        let is_new = known == 0;
        let is_full = self.bytes.saturating_add(bytes) > STAGED_BYTES || (is_new && self.upserts.len() >= STAGED_MAX);
        let is_beyond_share = (is_new && others >= ORGANIZATION_STAGED_MAX)
            || (others > 0 && own_bytes.saturating_add(bytes) > STAGED_BYTES / 2);
        if is_full || is_beyond_share {
            let message = "too many parts of writes of the index of passages wait; repeat the request later";
            return Err(Error::exhausted(Reason::Overloaded, message).retry_after(RETRY_AFTER));
        }
        let empty = || StagedUpsert { documents: Vec::new(), parts: 0, bytes: 0, last_part_at: now };
        let staged = self.upserts.entry(key).or_insert_with(empty);
        staged.parts = staged.parts.saturating_add(1);
        staged.bytes = staged.bytes.saturating_add(bytes);
        staged.last_part_at = now;
        join(&mut staged.documents, documents);
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }

    /// Returns the number of the other upserts of the organization of an upsert, and the bytes of all upserts of the organization.
    fn others(&self, key: &(OrgId, String)) -> (usize, usize) {
        let own = self.upserts.iter().filter(|((org, _), _)| *org == key.0);
        own.fold((0, 0), |(others, bytes), (found, staged)| {
            (others + usize::from(found != key), bytes.saturating_add(staged.bytes))
        })
    }

    /// Returns the upsert whose last part this is.
    ///
    /// # Errors
    /// `ABORTED` if an earlier part is missing.
    fn finish(&mut self, org: &OrgId, part: Part) -> Result<Call> {
        let Part { upload, number, documents } = part;
        let staged = self.upserts.remove(&(org.clone(), upload)).ok_or_else(incomplete)?;
        self.bytes = self.bytes.saturating_sub(staged.bytes);
        if staged.parts != number {
            return Err(incomplete());
        }
        let mut all = staged.documents;
        join(&mut all, documents);
        Ok(Call::Upsert { documents: all })
    }

    fn expire(&mut self, now: Instant) {
        self.upserts.retain(|_, staged| now.saturating_duration_since(staged.last_part_at) < STAGED_FOR);
        self.bytes = self.upserts.values().map(|staged| staged.bytes).sum();
    }
}

fn incomplete() -> Error {
    let message = "a part of a write of the index of passages is missing; repeat the write";
    Error::version_conflict(message)
}

#[cfg(test)]
mod tests {
    use folio_index::Embedding;
    use folio_types::DocumentId;

    use super::*;
    use crate::call::encode;

    fn document(name: &str, passages: u32) -> IndexedDocument {
        let passage = |number| Passage {
            number,
            text: format!("text \u{1}\"{number}\"").repeat(20),
            vectors: vec![Embedding { space: "a".to_owned(), values: vec![0.5; 100] }],
            ..Passage::default()
        };
        IndexedDocument {
            document: DocumentId::derive(&[name]),
            generation: 1,
            tags: vec![],
            metadata: [].into(),
            date: None,
            passages: (0..passages).map(passage).collect(),
        }
    }

    fn org() -> OrgId {
        OrgId::derive(&["a"])
    }

    #[test]
    fn parts_are_within_the_bound_and_join_to_the_upsert() {
        let documents = vec![document("a", 3), document("b", 0), document("c", 40), document("d", 1)];
        for most in [1, 3_000, 20_000, 10_000_000] {
            let parts = divide(documents.clone(), most);
            assert_eq!(parts.len() == 1, most == 10_000_000, "{most}");
            let (mut staged, now, count) = (Staged::default(), Instant::now(), parts.len());
            let mut last = None;
            for (number, documents) in parts.into_iter().enumerate() {
                let part = Part { upload: "u".to_owned(), number, documents };
                let bytes = encode(&Call::Stage(part.clone())).unwrap().len();
                assert!(bytes <= most + 200 || most < 3_000, "{bytes} of {most}");
                if number + 1 < count {
                    staged.add(&org(), part.clone(), bytes, now).unwrap();
                    staged.add(&org(), part, bytes, now).unwrap();
                } else if count > 1 {
                    last = Some(staged.finish(&org(), part).unwrap());
                }
            }
            if let Some(last) = last {
                assert_eq!(last, Call::Upsert { documents: documents.clone() }, "{most}");
                assert_eq!((staged.upserts.len(), staged.bytes), (0, 0));
            }
        }
    }

    #[test]
    fn passages_with_the_longest_vectors_are_divided_within_the_bound_of_a_request() {
        const REQUEST_BYTES: usize = 8 << 20;
        let vector = |space: &str| Embedding { space: space.to_owned(), values: vec![-0.123_456_79; 8_192] };
        let passage = |number| Passage {
            number,
            text: "\u{1}".repeat(1_000),
            vectors: vec![vector("first"), vector("second")],
            ..Passage::default()
        };
        let upsert = vec![IndexedDocument { passages: (0..200).map(passage).collect(), ..document("a", 0) }];
        let bytes: usize = upsert.iter().map(IndexedDocument::bytes).sum();
        assert!(bytes > REQUEST_BYTES, "{bytes}");
        let parts = divide(upsert, REQUEST_BYTES / 10 * 9);
        assert!(parts.len() > 1 && parts.len() < 2 * bytes / REQUEST_BYTES + 2, "{} parts", parts.len());
        for (number, documents) in parts.into_iter().enumerate() {
            let part = Part { upload: "u".to_owned(), number, documents };
            let bytes = encode(&Call::Stage(part)).unwrap().len();
            assert!(bytes <= REQUEST_BYTES, "{bytes}");
        }
    }

    #[test]
    fn missing_and_late_parts_are_refused_and_waiting_parts_are_bounded() {
        let (mut staged, now) = (Staged::default(), Instant::now());
        let part = |upload: &str, number| Part { upload: upload.to_owned(), number, documents: vec![document("a", 1)] };
        assert!(staged.add(&org(), part("u", 1), 10, now).is_err());
        staged.add(&org(), part("u", 0), 10, now).unwrap();
        assert!(staged.finish(&OrgId::derive(&["b"]), part("u", 1)).is_err(), "a part of another organization");
        assert!(staged.finish(&org(), part("u", 2)).is_err());
        staged.add(&org(), part("u", 0), 10, now).unwrap();
        let late = staged.accept(&org(), Call::Commit(part("u", 1)), now + STAGED_FOR);
        assert!(late.is_err(), "the parts have expired");
        for number in 0..STAGED_MAX {
            let org = OrgId::derive(&[&(number % 3).to_string()]);
            staged.add(&org, part(&number.to_string(), 0), 1, now).unwrap();
        }
        assert_eq!(staged.add(&org(), part("more", 0), 1, now).unwrap_err().reason, Reason::Overloaded);
        let org = || OrgId::derive(&["0"]);
        let full = staged.add(&org(), part("0", 1), STAGED_BYTES, now).unwrap_err();
        assert_eq!(full.reason, Reason::Overloaded);
    }

    #[test]
    fn invariant_10_parts_of_one_organization_leave_memory_to_others() {
        let (mut staged, now) = (Staged::default(), Instant::now());
        let part = |upload: &str, number| Part { upload: upload.to_owned(), number, documents: vec![document("a", 1)] };
        let other = OrgId::derive(&["b"]);
        let refused = |result: Result<()>| result.unwrap_err().reason == Reason::Overloaded;
        for number in 0..ORGANIZATION_STAGED_MAX {
            staged.add(&org(), part(&number.to_string(), 0), 1, now).unwrap();
        }
        assert!(refused(staged.add(&org(), part("more", 0), 1, now)), "too many upserts");
        staged.add(&org(), part("0", 1), 1, now).unwrap();
        assert!(refused(staged.add(&org(), part("0", 2), STAGED_BYTES / 2, now)), "too many bytes");
        staged.add(&other, part("alone", 0), STAGED_BYTES / 2, now).unwrap();
        staged.add(&other, part("alone", 1), STAGED_BYTES / 4, now).unwrap();
    }

    #[test]
    fn any_call_removes_the_parts_that_have_expired() {
        let (mut staged, now) = (Staged::default(), Instant::now());
        let part = Part { upload: "u".to_owned(), number: 0, documents: vec![document("a", 1)] };
        let bytes = part.documents[0].bytes();
        assert_eq!(staged.accept(&org(), Call::Stage(part), now).unwrap(), None);
        assert_eq!(staged.accept(&org(), Call::State, now).unwrap(), Some(Call::State));
        assert_eq!((staged.upserts.len(), staged.bytes), (1, bytes));
        staged.accept(&org(), Call::State, now + STAGED_FOR).unwrap();
        assert_eq!((staged.upserts.len(), staged.bytes), (0, 0));
    }
}
