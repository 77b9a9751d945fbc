//! DocumentService, without the upload.

use std::collections::BTreeMap;

use folio_proto::{fields, status, v1};
use folio_storage::{DocumentChange, DocumentFilter};
use folio_types::document::{Document, DocumentPatch, TextState};
use folio_types::{DocumentId, Error, Principal, Result, limits};
use tonic::{Request, Response, Status, Streaming};
use v1::document_service_server::DocumentService;
use v1::download_document_response::Part;

use super::{Answer, Api, answer, asked, listing, principal, streamed};
use crate::filter;
use crate::page::By;

/// Bytes of text at which an answer ends.
const TEXT_BYTES: usize = 2 * 1024 * 1024;
/// Pages that are read at once.
const PAGES_AT_ONCE: u32 = 16;

#[tonic::async_trait]
impl DocumentService for Api {
    type DownloadDocumentStream = Answer<v1::DownloadDocumentResponse>;

    async fn upload_document(
        &self,
        request: Request<Streaming<v1::UploadDocumentRequest>>,
    ) -> Result<Response<v1::UploadDocumentResponse>, Status> {
        let principal = principal(&request)?;
        let document = self.upload(&principal, request.into_inner()).await.map_err(status::from_error)?;
        Ok(Response::new(v1::UploadDocumentResponse { document: Some((&document).into()) }))
    }

    async fn get_document(
        &self,
        request: Request<v1::GetDocumentRequest>,
    ) -> Result<Response<v1::GetDocumentResponse>, Status> {
        answer(request, async |principal, request| {
            let document = self.document(&principal, &request.document_id).await?;
            Ok(v1::GetDocumentResponse { document: Some((&document).into()) })
        })
        .await
    }

    async fn download_document(
        &self,
        request: Request<v1::DownloadDocumentRequest>,
    ) -> Result<Response<Self::DownloadDocumentStream>, Status> {
        answer(request, |principal, request| self.download(principal, request)).await
    }

    async fn list_documents(
        &self,
        request: Request<v1::ListDocumentsRequest>,
    ) -> Result<Response<v1::ListDocumentsResponse>, Status> {
        answer(request, |principal, request| self.documents(principal, request)).await
    }

    async fn update_document(
        &self,
        request: Request<v1::UpdateDocumentRequest>,
    ) -> Result<Response<v1::UpdateDocumentResponse>, Status> {
        answer(request, async |principal, request| {
            let id: DocumentId = fields::id("document_id", &request.document_id)?;
            let op = self.op(&principal, "UpdateDocument", &request.request_id, &request)?;
            let change = DocumentChange::Update(patch(&request)?);
            let change = async |_: Document| Ok(change.clone());
            op.change(&self.gateway.stores, &id, request.expected_version, change).await?;
            let document = self.document(&principal, &request.document_id).await?;
            Ok(v1::UpdateDocumentResponse { document: Some((&document).into()) })
        })
        .await
    }

    async fn delete_document(
        &self,
        request: Request<v1::DeleteDocumentRequest>,
    ) -> Result<Response<v1::DeleteDocumentResponse>, Status> {
        answer(request, async |principal, request| {
            let id: DocumentId = fields::id("document_id", &request.document_id)?;
            let op = self.op(&principal, "DeleteDocument", &request.request_id, &request)?;
            op.delete::<Document>(&self.gateway.stores, &id, request.expected_version).await?;
            self.gateway.clean_up.sweep_soon();
            Ok(v1::DeleteDocumentResponse {})
        })
        .await
    }

    async fn get_document_text(
        &self,
        request: Request<v1::GetDocumentTextRequest>,
    ) -> Result<Response<v1::GetDocumentTextResponse>, Status> {
        answer(request, |principal, request| self.text(principal, request)).await
    }
}

impl Api {
    async fn document(&self, principal: &Principal, text: &str) -> Result<Document> {
        let id: DocumentId = fields::id("document_id", text)?;
        self.found(principal, &id).await
    }

    async fn download(
        &self,
        principal: Principal,
        request: v1::DownloadDocumentRequest,
    ) -> Result<Answer<v1::DownloadDocumentResponse>> {
        let document = self.document(&principal, &request.document_id).await?;
        let blob = self.gateway.stores.blobs.open(&principal.org, &document.id).await?;
        // The document goes before its bytes do.
        let mut blob = blob.ok_or_else(|| Error::not_found("document", &document.id))?;
        let parts = async_stream::try_stream! {
            yield Part::Document((&document).into());
            while let Some(chunk) = blob.read().await? {
                yield Part::Chunk(chunk.into());
            }
        };
        let parts = futures::StreamExt::map(parts, |part: Result<Part>| {
            part.map(|part| v1::DownloadDocumentResponse { part: Some(part) })
        });
        Ok(streamed(parts, self.transfer_limits(), self.cut.clone()))
    }

    async fn documents(
        &self,
        principal: Principal,
        request: v1::ListDocumentsRequest,
    ) -> Result<v1::ListDocumentsResponse> {
        let filter = document_filter(&request.filter)?;
        let by = By::Name("name");
        let listing = listing(&principal, "documents", &request.filter, asked!(request), by, limits::PAGE_SIZE_MAX)?;
        let documents = &self.gateway.stores.documents;
        let page = listing.fetch(async |page| documents.list(&principal.org, &filter, &page).await).await?;
        Ok(v1::ListDocumentsResponse {
            documents: page.items,
            next_page_token: page.next_page_token,
            total_size: page.total_size,
        })
    }

    async fn text(
        &self,
        principal: Principal,
        request: v1::GetDocumentTextRequest,
    ) -> Result<v1::GetDocumentTextResponse> {
        let document = self.document(&principal, &request.document_id).await?;
        let shown = v1::Document::from(&document);
        let mut answer = v1::GetDocumentTextResponse {
            state: shown.state,
            state_reason: shown.state_reason,
            total_pages: document.pages,
            ..Default::default()
        };
        if document.state != TextState::Ready {
            return Ok(answer);
        }
        let first = request.from_page.max(1);
        let asked = if request.page_count == 0 { u32::MAX } else { request.page_count };
        let end = first.saturating_add(asked).min(document.pages.saturating_add(1));
        let mut next = first;
        let mut bytes = 0;
        while next < end && bytes < TEXT_BYTES {
            let count = PAGES_AT_ONCE.min(end - next);
            let pages = self.gateway.stores.documents.text(&principal.org, &document.id, next, count).await?;
            if pages.is_empty() {
                break;
            }
            for page in pages {
                if bytes > 0 && bytes + page.text.len() > TEXT_BYTES {
                    bytes = TEXT_BYTES;
                    break;
                }
                bytes += page.text.len();
                next = page.number.saturating_add(1);
                answer.pages.push(v1::PageText { number: page.number, text: page.text });
            }
        }
        answer.next_page = if next <= document.pages && first <= document.pages { next } else { 0 };
        Ok(answer)
    }
}

fn document_filter(text: &str) -> Result<DocumentFilter> {
    let mut filter = DocumentFilter::default();
    for term in filter::parse(text)? {
        match term.field.split_once('.') {
            None if term.field == "name" => filter::once(&mut filter.name_search, &term, term.search()?)?,
            None if term.field == "tag" => filter.all_tags.push(term.id()?),
            Some(("metadata", key)) if !key.is_empty() => {
                if filter.metadata.insert(key.to_owned(), term.search()?).is_some() {
                    return Err(Error::invalid_field("filter", format!("metadata.{key} stands twice")));
                }
            }
            _ => return Err(filter::unknown(&term, "name, tag and metadata.KEY")),
        }
    }
    if filter.all_tags.len() > limits::TAGS_MAX {
        return Err(Error::invalid_field("filter", format!("more than {} tags", limits::TAGS_MAX)));
    }
    Ok(filter)
}

fn patch(request: &v1::UpdateDocumentRequest) -> Result<DocumentPatch> {
    if request.name.is_none() && request.tags.is_none() && request.metadata.is_none() {
        return Err(Error::invalid_field("name", "nothing to change: give name, tags or metadata"));
    }
    let tags = request.tags.as_ref().map(|tags| fields::tags("tags.tag_ids", &tags.tag_ids)).transpose()?;
    let metadata: Option<BTreeMap<String, String>> = request.metadata.as_ref().map(|metadata| metadata.entries.clone());
    let patch = DocumentPatch { name: request.name.clone(), tags, metadata };
    folio_tools::rules::check_document_patch("", patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_filter_is_read_as_documented() {
        let tag = folio_types::TagId::derive(&["t"]);
        let filter = document_filter(&format!("name:\"inv oice\" AND tag:{tag} metadata.year:2024")).unwrap();
        assert_eq!(filter.name_search.as_deref(), Some("inv oice"));
        assert_eq!(filter.all_tags, [tag]);
        assert_eq!(filter.metadata, BTreeMap::from([("year".to_owned(), "2024".to_owned())]));
        for bad in
            ["color:red", "name:a name:b", "tag:nonsense", "metadata.:x", "metadata.k:a metadata.k:b", "name:\"\""]
        {
            assert!(document_filter(bad).is_err(), "{bad}");
        }
    }
}
