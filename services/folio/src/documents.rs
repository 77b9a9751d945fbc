//! Upload of a file, search of a document by id or name, and waiting for the text.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use folio_proto::v1;
use folio_types::{Code, Digest, DocumentId, limits};
use serde_json::json;

use crate::client::{Client, answer, explain_error};
use crate::names::{self, Choice};
use crate::progress::ProgressLine;

/// Interval between two reads of a document whose text is being extracted.
const POLL: Duration = Duration::from_millis(150);

/// A file to upload. It has no `Debug`, because it may contain a password.
#[derive(Clone, Default)]
pub(crate) struct NewFile {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) tag_ids: Vec<String>,
    pub(crate) metadata: BTreeMap<String, String>,
    /// The password of a protected PDF. Empty: none.
    pub(crate) password: String,
    /// True if an agent makes a proposal for the document. None: as the organization states.
    pub(crate) auto_create: Option<bool>,
    /// Credits that the model calls of the agent may cost. None: the budget of the server.
    pub(crate) credit_budget: Option<u64>,
}

impl NewFile {
    /// Reads a file, which names the document.
    pub(crate) async fn read(path: &Path) -> Result<Self> {
        let bytes = tokio::fs::read(path).await.with_context(|| format!("{} cannot be read", path.display()))?;
        Ok(Self { name: name_of(path), bytes, ..Self::default() })
    }

    /// Returns the id of the request that uploads the file: the same file, tags and metadata have the same id.
    fn request_id(&self) -> String {
        let content = Digest::of(&self.bytes);
        let digest = Digest::of_json(&json!([self.name, content.as_str(), self.tag_ids, self.metadata]));
        // A file that was uploaded without a proposal is uploaded again with one.
        let kind = if self.auto_create == Some(true) { "proposal" } else { "file" };
        format!("{kind}-{digest}")
    }
}

/// Reads a file and uploads it once. `template`: the tags, the metadata and the password.
pub(crate) async fn add(
    client: &Client,
    path: &Path,
    template: &NewFile,
    progress: &ProgressLine,
) -> Result<v1::Document> {
    let NewFile { name, bytes, .. } = NewFile::read(path).await?;
    let file = NewFile { name, bytes, ..template.clone() };
    upload_once(client, &file, progress.upload(file.bytes.len())).await.map_err(|error| explain_error(&error))
}

/// Uploads a file unless a document of the same file, tags and metadata exists. `progress` receives the number of bytes
/// sent so far.
async fn upload_once(
    client: &Client,
    file: &NewFile,
    progress: impl Fn(usize) + Send + Sync + 'static,
) -> Result<v1::Document, folio_client::Error> {
    match upload(client, file, &file.request_id(), progress).await {
        // The document of this request was deleted: upload another one.
        Err(error) if error.code() == Code::NotFound => upload(client, file, "", |_| {}).await,
        sent => sent,
    }
}

/// Uploads a file. Repeating it with the same `request_id` (empty: a new one) returns the same document. `progress` receives
/// the number of bytes sent so far.
pub(crate) async fn upload(
    client: &Client,
    file: &NewFile,
    request_id: &str,
    progress: impl Fn(usize) + Send + Sync + 'static,
) -> Result<v1::Document, folio_client::Error> {
    let description = v1::DocumentDescription {
        name: file.name.clone(),
        tag_ids: file.tag_ids.clone(),
        metadata: file.metadata.clone(),
        request_id: request_id.to_owned(),
        password: file.password.clone(),
        auto_create: file.auto_create,
        credit_budget: file.credit_budget,
        ..v1::DocumentDescription::default()
    };
    client.upload(file.bytes.clone(), description, progress).await
}

/// Returns the failure of a file, which names the file once.
pub(crate) fn failure(path: &Path, error: &anyhow::Error) -> String {
    let (file, error) = (path.display().to_string(), format!("{error:#}"));
    let problem = error.strip_prefix("FILE: ").unwrap_or(&error);
    if problem.starts_with(&file) { problem.to_owned() } else { format!("{file}: {problem}") }
}

/// Finds a document by its id or name.
pub(crate) async fn find(client: &Client, what: &str, choose: Choice<v1::Document>) -> Result<v1::Document> {
    find_among(client, what, |_| true, choose).await
}

/// Returns the id of a document that is named by id or name.
pub(crate) async fn id(client: &Client, what: &str) -> Result<String> {
    Ok(find(client, what, names::choose).await?.document_id)
}

/// Returns the ids of documents that are named by ids or names.
pub(crate) async fn ids(client: &Client, documents: &[String]) -> Result<Vec<String>> {
    let mut ids = Vec::with_capacity(documents.len());
    for document in documents {
        ids.push(id(client, document).await?);
    }
    Ok(ids)
}

/// Like [`find`], with a condition for documents that a name finds.
pub(crate) async fn find_among(
    client: &Client,
    what: &str,
    is_permitted: impl Fn(&v1::Document) -> bool,
    choose: Choice<v1::Document>,
) -> Result<v1::Document> {
    if what.parse::<DocumentId>().is_ok() {
        return by_id(client, what).await;
    }
    let request = v1::ListDocumentsRequest {
        page_size: names::CANDIDATES,
        filter: names::filter(what),
        ..v1::ListDocumentsRequest::default()
    };
    let found = answer(client.documents().list_documents(request)).await?.documents;
    choose("document", what, found.into_iter().filter(is_permitted).collect())
}

async fn by_id(client: &Client, id: &str) -> Result<v1::Document> {
    let request = v1::GetDocumentRequest { document_id: id.to_owned() };
    let found = answer(client.documents().get_document(request)).await?.document;
    found.context("invalid response of the server: the document is missing")
}

/// Waits until the document's text is ready or has failed.
pub(crate) async fn wait_until_settled(client: &Client, id: &str) -> Result<v1::Document> {
    loop {
        let document = by_id(client, id).await?;
        if matches!(document.state(), v1::DocumentState::Ready | v1::DocumentState::NoText | v1::DocumentState::Failed)
        {
            return Ok(document);
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Like [`wait_until_settled`], but shows the progress.
pub(crate) async fn read_text(client: &Client, id: &str, progress: &ProgressLine) -> Result<v1::Document> {
    progress.step("reading its text");
    wait_until_settled(client, id).await
}

/// Returns the file name, reduced to a valid document name.
pub(crate) fn name_of(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let line: String = name.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let name: String = line.trim().chars().take(limits::NAME_CHARS).collect();
    let name = name.trim_end();
    if name.is_empty() { "document".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_named_after_its_file_if_the_name_is_valid() {
        let long = "x".repeat(300);
        for (path, name) in [
            ("a/b.pdf", "b.pdf"),
            ("/tmp/ \u{3000} ", "document"),
            (" b\tc.txt ", "b c.txt"),
            (&long, &long[..200]),
            ("..", "document"),
        ] {
            let reduced = name_of(Path::new(path));
            assert_eq!(reduced, name);
            folio_resources::fields::check_name("name", &reduced).unwrap();
        }
    }

    #[test]
    fn a_failure_names_its_file_once() {
        let failure = |error: &'static str| failure(Path::new("a.txt"), &anyhow::Error::msg(error));
        assert_eq!(failure("FILE: the file is empty"), "a.txt: the file is empty");
        assert_eq!(failure("a.txt cannot be read"), "a.txt cannot be read");
    }

    #[test]
    fn the_id_of_an_upload_depends_on_the_file_and_not_on_its_password() {
        let file = NewFile { name: "a.pdf".to_owned(), bytes: b"%PDF".to_vec(), ..NewFile::default() };
        let id = file.request_id();
        id.parse::<folio_types::RequestId>().unwrap();
        assert_eq!(NewFile { password: "open".to_owned(), ..file.clone() }.request_id(), id);
        for other in [
            NewFile { name: "b.pdf".to_owned(), ..file.clone() },
            NewFile { bytes: b"%PDF-".to_vec(), ..file.clone() },
            NewFile { tag_ids: vec!["tag_1".to_owned()], ..file.clone() },
            NewFile { metadata: BTreeMap::from([("year".to_owned(), "2026".to_owned())]), ..file },
        ] {
            assert_ne!(other.request_id(), id, "{}", other.name);
        }
    }
}
