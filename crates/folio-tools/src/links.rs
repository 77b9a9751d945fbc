//! Links between documents: the documents that a target refers to, and the tool `hyperlink_resolver`. Nothing is read from the
//! network.

use std::time::Duration;

use async_trait::async_trait;
use folio_resources::{
    Document, FOLLOW_DEPTH_MAX, FOLLOWED_MAX, FollowedLink, LINK_TARGET_BYTES, LinkKey, TextState, document_keys,
    target_keys,
};
use folio_storage::Stores;
use folio_storage::value::DocumentLink;
use folio_types::{Error, OrgId, Reason, Result};
use futures::{StreamExt as _, TryStreamExt as _};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::arguments::{optional, required, text};
use crate::call::{ReadCall, read_tool};
use crate::documents::{of_conversation, read_by_argument};
use crate::tool::{CallContext, Tool, ToolError};

/// Number of links that are resolved concurrently.
const RESOLVED_AT_ONCE: usize = 16;
/// Maximum time for which a change of a document updates its keys. Many documents may refer to a name.
const KEYS_WAIT: Duration = Duration::from_secs(5);

folio_types::named_enum! {
    /// The status of a target.
    pub enum LinkStatus {
        /// The target refers to one document.
        Matched = "matched",
        /// The target refers to several documents.
        Ambiguous = "ambiguous",
        /// The organization has no such document.
        Missing = "missing",
        /// The target is no document, such as an e-mail address.
        NotADocument = "not_a_document",
    }
}

/// The documents that a target refers to.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolution {
    pub status: LinkStatus,
    /// The key that the target and the documents have in common. None: the target refers to no document.
    pub key: Option<LinkKey>,
    /// At most [`folio_storage::MATCHES_MAX`].
    pub documents: Vec<Document>,
}

/// Returns the documents of an organization that a target with these keys refers to: those with the first key that any of them
/// has.
pub async fn resolve(stores: &Stores, org: &OrgId, keys: &[LinkKey]) -> Result<Resolution> {
    let found = |key: &LinkKey, documents: Vec<Document>| {
        let status = if documents.len() == 1 { LinkStatus::Matched } else { LinkStatus::Ambiguous };
        Resolution { status, key: Some(key.clone()), documents }
    };
    let documents = stores.of::<Document>();
    // A document has its id before its keys are stored.
    if let Some(key) = keys.first()
        && let LinkKey::Id(id) = key
        && let Some(document) = documents.get(org, id).await?
    {
        return Ok(found(key, vec![document]));
    }
    let mut rest = keys;
    while let Some(matched) = stores.links().find(org, rest).await? {
        // The clean-up of a deleted document, and the keys of a renamed one, may be later.
        let mut live = documents.get_many(org, &matched.documents).await?;
        live.retain(|document| document_keys(document).contains(&matched.key));
        if !live.is_empty() {
            return Ok(found(&matched.key, live));
        }
        let after = rest.iter().position(|key| *key == matched.key).map_or(rest.len(), |at| at + 1);
        rest = rest.get(after..).unwrap_or_default();
    }
    let status = if keys.is_empty() { LinkStatus::NotADocument } else { LinkStatus::Missing };
    Ok(Resolution { status, key: None, documents: Vec::new() })
}

/// Stores the keys of a document whose name or metadata were changed, within five seconds. A failure is logged: the next ingestion
/// repeats it, and readers check each link meanwhile.
pub async fn update_keys(stores: &Stores, document: &Document) {
    let written = async {
        stores.links().write_keys(&document.org, &document.id, &document_keys(document)).await?;
        // The clean-up of a deletion may have been earlier than the write.
        match stores.of::<Document>().get(&document.org, &document.id).await? {
            Some(_) => Ok(()),
            None => stores.links().remove_document(&document.org, &document.id).await,
        }
    };
    let ended = tokio::time::timeout(KEYS_WAIT, written).await;
    let late = || Error::unavailable(Reason::StoreUnavailable, "too many documents refer to the document");
    if let Err(error) = ended.unwrap_or_else(|_| Err(late())) {
        tracing::warn!(document = %document.id, %error, "the keys of links of a changed document are not stored");
    }
}

/// Resolves links of a document, several at a time, and returns them in their order.
pub async fn resolve_all(
    stores: &Stores,
    org: &OrgId,
    links: Vec<DocumentLink>,
) -> Result<Vec<(DocumentLink, Resolution)>> {
    let reads: Vec<_> = links
        .into_iter()
        .map(|link| async move {
            let found = resolve(stores, org, &link.keys).await?;
            Ok::<_, Error>((link, found))
        })
        .collect();
    futures::stream::iter(reads).buffered(RESOLVED_AT_ONCE).try_collect().await
}

/// Creates the tool `hyperlink_resolver`.
pub fn tool() -> Tool {
    let follow = format!(
        "True: the link is followed now. Requires that document_id contains the link and that it refers to one document; \
         refused beyond {FOLLOW_DEPTH_MAX} links from the conversation's document or {FOLLOWED_MAX} documents. Default: false, \
         which leaves the link for later."
    );
    read_tool::<ResolveLink>(
        "hyperlink_resolver",
        "Returns the documents of the organization that a hyperlink or a reference in a text refers to. It reads nothing from the \
         network. Call it with a url from pdf_outline, the name of a file, a title or a document_id. Result: status (matched, ambiguous, \
         missing or not_a_document), matched_by (id, url, name or title), documents (document_id, document_name, pages, has_text), \
         listed_as_missing (true if the server reports the document as missing until it arrives), followed (depth, from_document_id; \
         only if the link was followed), suggested_actions.",
        vec![
            required("target", text("URL, name of a file, title or document_id, at most 1,024 bytes.")),
            optional("document_id", text("Document that contains the link. Default: the conversation's document."))
                .or_empty(),
            optional("follow", json!({ "type": "boolean", "description": follow })),
        ],
    )
}

#[derive(Deserialize)]
struct ResolveLink {
    target: String,
    document_id: Option<String>,
    #[serde(default)]
    follow: bool,
}

#[async_trait]
impl ReadCall for ResolveLink {
    async fn run(self, context: &CallContext) -> Result<Value, ToolError> {
        let target = self.target.trim();
        if target.is_empty() || target.len() > LINK_TARGET_BYTES {
            let message =
                format!("target must have 1 to {LINK_TARGET_BYTES} bytes: pass the url or the name of one link.");
            return Err(ToolError::ForModel(message));
        }
        let (stores, org) = (&context.resources.stores, &context.principal.org);
        let from: Option<Document> = match (&self.document_id, context.documents.is_empty()) {
            (None, true) => None,
            (named, _) => Some(read_by_argument(context, named.as_deref()).await?),
        };
        let keys = target_keys(target);
        let links = match &from {
            Some(document) => stores.links().links(org, &document.id).await?,
            None => Vec::new(),
        };
        // The text of the link may name the document, too.
        let link = links.iter().find(|link| !keys.is_empty() && link.keys.first() == keys.first());
        let found = resolve(stores, org, link.map_or(keys.as_slice(), |link| link.keys.as_slice())).await?;
        let followed = match (&from, self.follow) {
            (Some(from), true) => Some(follow(context, from, link, &found).await?),
            (None, true) => {
                let message =
                    "This conversation has no document: pass document_id, the document that contains the link.";
                return Err(ToolError::ForModel(message.to_owned()));
            }
            (_, false) => None,
        };
        Ok(shown(&found, link.is_some(), followed.as_ref()))
    }
}

/// Records that the link is followed from the conversation's document.
async fn follow(
    context: &CallContext,
    from: &Document,
    link: Option<&DocumentLink>,
    found: &Resolution,
) -> Result<FollowedLink, ToolError> {
    if link.is_none() {
        let message =
            format!("{} contains no such link: pass the document_id of the document that contains it.", from.id);
        return Err(ToolError::ForModel(message));
    }
    let [document] = found.documents.as_slice() else {
        let status = found.status.as_str();
        return Err(ToolError::ForModel(format!("The link cannot be followed: its status is {status}. Omit follow.")));
    };
    let root = of_conversation(context).await?;
    let (stores, org, at) = (&context.resources.stores, &context.principal.org, context.resources.environment.now());
    if context.is_preview {
        let followed = stores.links().followed(org, &root.id).await?;
        return Ok(folio_resources::follow_link(&followed, &root.id, &from.id, &document.id, at)?);
    }
    Ok(stores.links().follow(org, (&root.id, &from.id), &document.id, at).await?)
}

fn shown(found: &Resolution, is_link: bool, followed: Option<&FollowedLink>) -> Value {
    let document = |document: &Document| {
        json!({
            "document_id": document.id,
            "document_name": document.name,
            "pages": document.pages,
            "has_text": document.state == TextState::Ready,
        })
    };
    let actions: &[&str] = match (found.status, followed) {
        (_, Some(_)) => &["Read the document now: call pdf_outline with its document_id."],
        (LinkStatus::Matched, None) if is_link => &[
            "Follow it now if the task needs the document: call hyperlink_resolver with follow = true.",
            "Otherwise leave it: the link is stored with the document.",
        ],
        (LinkStatus::Matched, None) => {
            &["Read the document if the task needs it: call pdf_outline with its document_id."]
        }
        (LinkStatus::Ambiguous, None) => {
            &["Compare the documents and pass the document_id of the right one as target."]
        }
        (LinkStatus::Missing, None) if is_link => &["Leave it: the link resolves itself when the document arrives."],
        (LinkStatus::Missing, None) => &["Report the document as missing."],
        (LinkStatus::NotADocument, None) => &["Ignore it."],
    };
    let mut result = json!({
        "status": found.status.as_str(),
        "documents": found.documents.iter().map(document).collect::<Vec<_>>(),
        "listed_as_missing": found.status == LinkStatus::Missing && is_link,
        "suggested_actions": actions,
    });
    if let Some(members) = result.as_object_mut() {
        if let Some(key) = &found.key {
            members.insert("matched_by".to_owned(), key.kind().into());
        }
        if let Some(followed) = followed {
            let followed = json!({ "depth": followed.depth, "from_document_id": followed.from });
            members.insert("followed".to_owned(), followed);
        }
    }
    result
}
