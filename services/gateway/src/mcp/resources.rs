//! The resources: the texts of documents, as `folio://documents/DOCUMENT_ID` and, from a later page on,
//! `folio://documents/DOCUMENT_ID?from_page=PAGE`.

use folio_operations::ListRequest;
use folio_operations::documents::{DocumentText, GetDocumentText, ListDocuments};
use folio_resources::{Document, TextState};
use folio_types::{DocumentId, Error, Reason, Result};
use serde_json::{Map, Value, json};

use super::Client;
use super::message::Failure;

use crate::json_member::set_member;

const DOCUMENTS: &str = "folio://documents/";
const FROM_PAGE: &str = "?from_page=";
const TEXT: &str = "text/plain";

pub(super) async fn list(client: &Client, params: &Map<String, Value>) -> Result<Value, Failure> {
    let cursor = match params.get("cursor") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(cursor)) => cursor.clone(),
        Some(_) => return Err(Failure::invalid_params("cursor must be a string")),
    };
    let list = ListRequest { page_token: cursor, ..ListRequest::default() };
    let page = client.run(ListDocuments { list }).await?.page;
    let resources: Vec<Value> = page.items.iter().map(resource).collect();
    let mut result = json!({ "resources": resources });
    if !page.next_page_token.is_empty() {
        set_member(&mut result, "nextCursor", page.next_page_token.into());
    }
    Ok(client.protocol.cached(result))
}

fn resource(document: &Document) -> Value {
    json!({ "uri": format!("{DOCUMENTS}{}", document.id), "name": document.name, "mimeType": TEXT })
}

pub(super) fn templates() -> Value {
    let template = |suffix: &str, name: &str, description: &str| {
        let uri = format!("{DOCUMENTS}{{document_id}}{suffix}");
        json!({ "uriTemplate": uri, "name": name, "description": description, "mimeType": TEXT })
    };
    json!({
        "resourceTemplates": [
            template("", "text of a document", "The text from the first page on, about 2 MiB at most."),
            template("?from_page={page}", "text from a page on", "The text from this page on, about 2 MiB at most."),
        ],
    })
}

/// Reads the text of a document. If pages remain, `_meta.next_uri` is the resource that starts with the next page.
pub(super) async fn read(client: &Client, params: &Map<String, Value>) -> Result<Value, Failure> {
    let uri = params.get("uri").and_then(Value::as_str);
    let uri = uri.ok_or_else(|| Failure::invalid_params("uri must be a string"))?;
    let parsed = parse(uri).ok_or_else(|| Failure::invalid_params("uri is not a resource of this server"))?;
    let (document_id, from_page) = parsed;
    let text = client.run(GetDocumentText { document_id: document_id.clone(), from_page, page_count: 0 }).await?;
    check_state(&text)?;
    let pages: Vec<String> = text.pages.iter().map(|page| format!("# Page {}\n{}", page.number, page.text)).collect();
    let mut contents = json!({ "uri": uri, "mimeType": TEXT, "text": pages.join("\n\n") });
    if let Some(page) = text.next_page {
        set_member(&mut contents, "_meta", json!({ "next_uri": format!("{DOCUMENTS}{document_id}{FROM_PAGE}{page}") }));
    }
    Ok(client.protocol.cached(json!({ "contents": [contents] })))
}

/// Returns the document and the first page. None: the URI is malformed.
fn parse(uri: &str) -> Option<(DocumentId, u32)> {
    let rest = uri.strip_prefix(DOCUMENTS)?;
    match rest.split_once(FROM_PAGE) {
        None => Some((rest.parse().ok()?, 1)),
        Some((document, page)) => Some((document.parse().ok()?, page.parse().ok().filter(|page| *page > 0)?)),
    }
}

fn check_state(text: &DocumentText) -> Result<()> {
    let problem = match &text.state {
        TextState::Ready => return Ok(()),
        TextState::Uploaded | TextState::Processing => "the text of the document is not ready; try again".to_owned(),
        TextState::NoText(reason) => format!("the document has no text: {reason}"),
        TextState::Failed(reason) => format!("the text of the document could not be read: {reason}"),
    };
    Err(Error::precondition(Reason::NoText, problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_names_a_document_and_a_page() {
        let document = DocumentId::derive(&["d"]);
        assert_eq!(parse(&format!("{DOCUMENTS}{document}")), Some((document.clone(), 1)));
        assert_eq!(parse(&format!("{DOCUMENTS}{document}{FROM_PAGE}7")), Some((document.clone(), 7)));
        for bad in [
            "file:///etc/passwd".to_owned(),
            format!("{DOCUMENTS}../../etc/passwd"),
            format!("{DOCUMENTS}{document}/"),
            format!("{DOCUMENTS}{document}{FROM_PAGE}0"),
            format!("{DOCUMENTS}{document}{FROM_PAGE}-1"),
        ] {
            assert_eq!(parse(&bad), None, "{bad}");
        }
    }
}
