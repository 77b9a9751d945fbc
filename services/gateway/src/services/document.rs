//! DocumentService.

use folio_operations::documents::{
    DeleteDocument, DocumentText, Download, DownloadDocument, GetDocument, GetDocumentText, ListDocuments,
    UpdateDocument,
};
use folio_operations::{Call, ListPage};
use folio_proto::{fields, status, text_state, v1};
use folio_resources::Document;
use folio_storage::NewPage;
use futures::{StreamExt as _, TryStreamExt as _};
use tonic::{Request, Response, Streaming};
use v1::document_service_server::DocumentService;
use v1::download_document_response::Part;

use super::{Answer, Api, Reply, caller, list_request, streamed, total_size};

#[tonic::async_trait]
impl DocumentService for Api {
    type DownloadDocumentStream = Answer<v1::DownloadDocumentResponse>;

    async fn upload_document(
        &self,
        request: Request<Streaming<v1::UploadDocumentRequest>>,
    ) -> Reply<v1::UploadDocumentResponse> {
        let caller = caller(&request)?;
        let call = self.upload(request.into_inner()).await.map_err(status::from_error)?;
        let document = self.operations.run(&caller, call).await.map_err(status::from_error)?;
        Ok(Response::new(v1::UploadDocumentResponse { document: Some((&document).into()) }))
    }

    async fn get_document(&self, request: Request<v1::GetDocumentRequest>) -> Reply<v1::GetDocumentResponse> {
        let call = |request: v1::GetDocumentRequest| {
            Ok(Call::new(GetDocument { document_id: fields::id("document_id", &request.document_id)? }))
        };
        self.call(request, call, |found| v1::GetDocumentResponse { document: Some((&found).into()) }).await
    }

    async fn download_document(
        &self,
        request: Request<v1::DownloadDocumentRequest>,
    ) -> Reply<Self::DownloadDocumentStream> {
        let call = |request: v1::DownloadDocumentRequest| {
            Ok(Call::new(DownloadDocument { document_id: fields::id("document_id", &request.document_id)? }))
        };
        let (limits, cut) = (self.transfer_limits(), self.cut.clone());
        let response = |Download { document, content }: Download| {
            let first = futures::stream::once(async move { Ok(Part::Document((&document).into())) });
            let chunks = content.into_stream().map_ok(|chunk| Part::Chunk(chunk.into()));
            let parts = first.chain(chunks).map_ok(|part| v1::DownloadDocumentResponse { part: Some(part) });
            streamed(parts, limits, cut)
        };
        self.call(request, call, response).await
    }

    async fn list_documents(&self, request: Request<v1::ListDocumentsRequest>) -> Reply<v1::ListDocumentsResponse> {
        let call = |request: v1::ListDocumentsRequest| Ok(Call::new(ListDocuments { list: list_request!(request) }));
        let response = |page: ListPage<Document>| v1::ListDocumentsResponse {
            documents: page.items.iter().map(Into::into).collect(),
            next_page_token: page.next_page_token,
            total_size: total_size(page.total_size),
        };
        self.call(request, call, response).await
    }

    async fn update_document(&self, request: Request<v1::UpdateDocumentRequest>) -> Reply<v1::UpdateDocumentResponse> {
        let call = |request: v1::UpdateDocumentRequest| {
            let document = fields::required("document", request.document)?;
            let document_id = fields::id("document.document_id", &document.document_id)?;
            let set = [
                ("name", !document.name.is_empty()),
                ("tag_ids", !document.tag_ids.is_empty()),
                ("metadata", !document.metadata.is_empty()),
            ];
            let mask = fields::mask(request.update_mask.as_ref(), &set)?;
            let tag_ids = mask.take("tag_ids", document.tag_ids);
            let operation = UpdateDocument {
                document_id,
                etag: fields::etag("document.etag", &document.etag)?,
                name: mask.take("name", document.name),
                tag_ids: tag_ids.map(|ids| fields::tags("document.tag_ids", &ids)).transpose()?,
                metadata: mask.take("metadata", document.metadata),
            };
            Ok(Call::under(fields::request_id(&request.request_id)?, operation))
        };
        self.call(request, call, |updated| v1::UpdateDocumentResponse { document: Some((&updated).into()) }).await
    }

    async fn delete_document(&self, request: Request<v1::DeleteDocumentRequest>) -> Reply<v1::DeleteDocumentResponse> {
        let call = |request: v1::DeleteDocumentRequest| {
            let document_id = fields::id("document_id", &request.document_id)?;
            let etag = fields::etag("etag", &request.etag)?;
            Ok(Call::under(fields::request_id(&request.request_id)?, DeleteDocument { document_id, etag }))
        };
        self.call(request, call, |()| v1::DeleteDocumentResponse {}).await
    }

    async fn get_document_text(
        &self,
        request: Request<v1::GetDocumentTextRequest>,
    ) -> Reply<v1::GetDocumentTextResponse> {
        let call = |request: v1::GetDocumentTextRequest| {
            Ok(Call::new(GetDocumentText {
                document_id: fields::id("document_id", &request.document_id)?,
                from_page: request.from_page,
                page_count: request.page_count,
            }))
        };
        let page = |page: NewPage| v1::PageText { number: page.number, text: page.text };
        let response = |text: DocumentText| {
            let (state, reason) = text_state(&text.state);
            v1::GetDocumentTextResponse {
                state: state.into(),
                state_reason: reason.to_owned(),
                total_pages: text.total_pages,
                next_page: text.next_page.unwrap_or_default(),
                pages: text.pages.into_iter().map(page).collect(),
            }
        };
        self.call(request, call, response).await
    }
}
