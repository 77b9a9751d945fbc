//! Links that an ingestion follows: the bounds that keep it from reading documents without end.

use folio_types::{DocumentId, Error, Reason, Result, Timestamp};
use serde::{Deserialize, Serialize};

/// Maximum number of links between the document at which an ingestion begins and a document that it follows.
// proto: LinkService.ListDocumentLinks "at most {} links away"
pub const FOLLOW_DEPTH_MAX: u32 = 2;
/// Maximum number of documents that are followed from one document.
// proto: LinkService.ListDocumentLinks "at most {} documents"
pub const FOLLOWED_MAX: usize = 20;

/// A document that the ingestion of another document, the root, followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowedLink {
    pub document: DocumentId,
    /// The document that contains the link: the root, or a followed document.
    pub from: DocumentId,
    /// Number of links from the root.
    pub depth: u32,
    pub at: Timestamp,
}

/// Returns the followed link from `from` to `document`. A document that was followed before is returned as it is recorded.
///
/// # Errors
/// `INVALID_FIELD` if `from` was not followed or `document` is the root; `LIMIT_REACHED` beyond [`FOLLOW_DEPTH_MAX`] or
/// [`FOLLOWED_MAX`].
pub fn follow_link(
    followed: &[FollowedLink],
    root: &DocumentId,
    from: &DocumentId,
    document: &DocumentId,
    at: Timestamp,
) -> Result<FollowedLink> {
    if let Some(found) = followed.iter().find(|link| link.document == *document) {
        return Ok(found.clone());
    }
    if document == root {
        return Err(Error::invalid_field("target", "is the document at which the ingestion began"));
    }
    let depth =
        if from == root { Some(0) } else { followed.iter().find(|link| link.document == *from).map(|link| link.depth) };
    let Some(depth) = depth else {
        return Err(Error::invalid_field("document_id", format!("{from} was not followed from {root}")));
    };
    let limit = |message: String| Err(Error::precondition(Reason::LimitReached, message));
    if depth >= FOLLOW_DEPTH_MAX {
        return limit(format!("{from} is {depth} links away from {root}; the maximum is {FOLLOW_DEPTH_MAX}"));
    }
    if followed.len() >= FOLLOWED_MAX {
        return limit(format!("{FOLLOWED_MAX} documents were followed from {root}, which is the maximum"));
    }
    Ok(FollowedLink { document: document.clone(), from: from.clone(), depth: depth + 1, at })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::at;

    fn id(name: &str) -> DocumentId {
        DocumentId::derive(&[name])
    }

    #[test]
    fn links_are_followed_to_a_depth_and_a_number_of_documents() {
        let root = id("root");
        let follow =
            |followed: &[FollowedLink], from: &str, to: &str| follow_link(followed, &root, &id(from), &id(to), at());
        let mut followed = Vec::new();
        followed.push(follow(&followed, "root", "a").unwrap());
        followed.push(follow(&followed, "a", "b").unwrap());
        assert_eq!(followed.iter().map(|link| link.depth).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(follow(&followed, "b", "c").unwrap_err().reason, Reason::LimitReached, "too deep");
        assert_eq!(follow(&followed, "root", "b").unwrap(), followed[1], "a document is followed once");
        assert_eq!(follow(&followed, "x", "c").unwrap_err().violations[0].field, "document_id");
        assert_eq!(follow(&followed, "a", "root").unwrap_err().violations[0].field, "target");
        while followed.len() < FOLLOWED_MAX {
            let name = followed.len().to_string();
            followed.push(follow(&followed, "root", &name).unwrap());
        }
        assert_eq!(follow(&followed, "root", "last").unwrap_err().reason, Reason::LimitReached, "too many");
        assert!(follow(&followed, "root", "a").is_ok());
    }
}
