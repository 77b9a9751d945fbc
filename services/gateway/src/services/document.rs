//! Serves `DocumentService`.

use folio_documents::SplitReason;
use folio_operations::document_splits::{NamedPart, ProposeSplit, RequestedPart, SplitDocument};
use folio_operations::document_structure::{
    FoundSection, GetDocumentImage, GetDocumentStructure, GetSection, ImagePage, ListImages, ListLinks, OnPage,
    StructurePages,
};
use folio_operations::document_watch::{DocumentChange, WatchDocument};
use folio_operations::documents::{
    Content, DeleteDocument, DocumentPage, DocumentText, Download, DownloadDocument, DownloadForm, GetDocument,
    GetDocumentText, GetPageImage, GetPageWords, ListDocuments, PageWords, ReadDocumentAgain, UpdateDocument,
};
use folio_operations::{Call, ListPage, ListRequest, Operation};
use folio_proto::{fields, image_format, status, text_state, v1};
use folio_resources::{Link, PageImage, TextLine};
use folio_storage::value::PageText;
use futures::{StreamExt as _, TryStreamExt as _};
use tonic::{Request, Response, Streaming};
use v1::document_service_server::DocumentService;
use v1::download_document_response::Part;
use v1::watch_document_response::Change;

use super::document_structure::{image, link, section, section_id, table};
use super::handler::{change, delete, get, read};
use super::{Api, ResponseStream, RpcResult, caller, grid, list_request, total_size};

#[tonic::async_trait]
impl DocumentService for Api {
    type DownloadDocumentStream = ResponseStream<v1::DownloadDocumentResponse>;
    type GetPageImageStream = ResponseStream<v1::GetPageImageResponse>;
    type GetDocumentImageStream = ResponseStream<v1::GetDocumentImageResponse>;
    type WatchDocumentStream = ResponseStream<v1::WatchDocumentResponse>;

    async fn upload_document(
        &self,
        request: Request<Streaming<v1::UploadDocumentRequest>>,
    ) -> RpcResult<v1::UploadDocumentResponse> {
        let caller = caller(&request)?;
        let call = self.upload(request.into_inner()).await.map_err(status::from_error)?;
        let document = self.operations.run(&caller, call).await.map_err(status::from_error)?;
        Ok(Response::new(v1::UploadDocumentResponse { document: Some((&document).into()) }))
    }

    get!(get_document, GetDocumentRequest, GetDocument { document_id }, GetDocumentResponse { document });

    async fn download_document(
        &self,
        request: Request<v1::DownloadDocumentRequest>,
    ) -> RpcResult<Self::DownloadDocumentStream> {
        let call = |request: v1::DownloadDocumentRequest| {
            let form = match fields::choice("form", request.form)? {
                v1::DownloadForm::Unspecified | v1::DownloadForm::Original => DownloadForm::Original,
                v1::DownloadForm::Pdf => DownloadForm::Pdf,
            };
            Ok(Call::new(DownloadDocument { document_id: fields::id("document_id", &request.document_id)?, form }))
        };
        let response = |Download { document, content }: Download| {
            let first = futures::stream::once(async move { Ok(Part::Document((&document).into())) });
            let chunks = content.into_stream().map_ok(|chunk| Part::Chunk(chunk.into()));
            let parts = first.chain(chunks).map_ok(|part| v1::DownloadDocumentResponse { part: Some(part) });
            self.transfer(parts)
        };
        self.call(request, call, response).await
    }

    read!(
        list_documents,
        ListDocumentsRequest,
        ListDocumentsResponse,
        |request| {
            let grid = grid::parse(request.grid)?;
            ListDocuments { list: ListRequest { grid, ..list_request!(request) } }
        },
        |DocumentPage { page, extracted }| v1::ListDocumentsResponse {
            documents: page.items.iter().map(Into::into).collect(),
            next_page_token: page.next_page_token,
            total_size: total_size(page.total_size),
            total_size_estimated: page.is_total_estimate,
            extracted_document_ids: extracted.into_iter().collect(),
        }
    );

    change!(update_document, UpdateDocumentRequest, UpdateDocumentResponse { document }, |request| {
        let document = fields::required("document", request.document)?;
        let document_id = fields::id("document.document_id", &document.document_id)?;
        let set = [
            ("name", !document.name.is_empty()),
            ("tag_ids", !document.tag_ids.is_empty()),
            ("metadata", !document.metadata.is_empty()),
        ];
        let mask = fields::mask(request.update_mask.as_ref(), &set)?;
        let tag_ids = mask.take("tag_ids", document.tag_ids);
        UpdateDocument {
            document_id,
            etag: fields::etag("document.etag", &document.etag)?,
            name: mask.take("name", document.name),
            tag_ids: tag_ids.map(|ids| fields::tags("document.tag_ids", &ids)).transpose()?,
            metadata: mask.take("metadata", document.metadata),
        }
    });

    delete!(delete_document, DeleteDocumentRequest, DeleteDocument { document_id }, DeleteDocumentResponse);

    read!(
        get_document_text,
        GetDocumentTextRequest,
        GetDocumentTextResponse,
        |request| GetDocumentText {
            document_id: fields::id("document_id", &request.document_id)?,
            from_page: request.from_page,
            page_count: request.page_count,
        },
        |text: DocumentText| {
            let (state, reason) = text_state(&text.state);
            let page = |page: PageText| v1::PageText { number: page.number, text: page.text };
            v1::GetDocumentTextResponse {
                state: state.into(),
                state_reason: reason.to_owned(),
                total_pages: text.total_pages,
                next_page: text.next_page.unwrap_or_default(),
                pages: text.pages.into_iter().map(page).collect(),
            }
        }
    );

    read!(
        get_page_words,
        GetPageWordsRequest,
        GetPageWordsResponse,
        |request| GetPageWords { document_id: fields::id("document_id", &request.document_id)?, page: request.page },
        |page: PageWords| {
            let word = |(at, text): (usize, &str)| v1::PageWord {
                text: text.to_owned(),
                bounding_box: page.boxes.fractions(at).map(Into::into),
            };
            v1::GetPageWordsResponse {
                width: page.boxes.width,
                height: page.boxes.height,
                words: page.text.split_whitespace().enumerate().map(word).collect(),
                lines: page.boxes.lines(&page.text).into_iter().map(text_line).collect(),
            }
        }
    );

    async fn get_page_image(&self, request: Request<v1::GetPageImageRequest>) -> RpcResult<Self::GetPageImageStream> {
        let call = |request: v1::GetPageImageRequest| {
            let document_id = fields::id("document_id", &request.document_id)?;
            let image = PageImage::new(request.page, request.dpi, image_format("format", request.format)?)?;
            Ok(Call::new(GetPageImage { document_id, image }))
        };
        let response = |content: Content| {
            let chunks = content.into_stream().map_ok(|chunk| v1::GetPageImageResponse { chunk: chunk.into() });
            self.transfer(chunks)
        };
        self.call(request, call, response).await
    }

    read!(
        get_document_structure,
        GetDocumentStructureRequest,
        GetDocumentStructureResponse,
        |request| GetDocumentStructure {
            document_id: fields::id("document_id", &request.document_id)?,
            from_page: request.from_page,
            page_count: request.page_count,
        },
        |pages: StructurePages| v1::GetDocumentStructureResponse {
            sections: pages.sections().map(|found| section(&pages.text, found, pages.document.pages)).collect(),
            tables: pages.tables.iter().map(|found| table(found, section_id(pages.section_of(found)))).collect(),
            total_pages: pages.document.pages,
            next_page: pages.next_page().unwrap_or_default(),
            text_generation: v1::Document::from(&pages.document).text_generation,
        }
    );

    read!(
        get_section,
        GetSectionRequest,
        GetSectionResponse,
        |request| GetSection {
            section_id: fields::id("section_id", &request.section_id)?,
            max_tokens: request.max_tokens,
        },
        |FoundSection { document, text, text_id }: FoundSection| v1::GetSectionResponse {
            section: Some(section(&text_id, &text.section, document.pages)),
            tokens: u32::try_from(text.tokens).unwrap_or(u32::MAX),
            rest_id: section_id(text.rest),
            pages: text.pages.into_iter().map(|page| v1::PageText { number: page.number, text: page.text }).collect(),
        }
    );

    read!(
        list_links,
        ListLinksRequest,
        ListLinksResponse,
        |request| {
            let v1::ListLinksRequest { document_id, page_size, page_token, skip, filter, order_by } = request;
            let list = ListRequest { page_size, page_token, skip, filter, order_by, grid: None };
            ListLinks { document_id: fields::id("document_id", &document_id)?, list }
        },
        |page: ListPage<OnPage<Link>>| v1::ListLinksResponse {
            links: page.items.into_iter().map(link).collect(),
            next_page_token: page.next_page_token,
            total_size: total_size(page.total_size),
        }
    );

    read!(
        list_images,
        ListImagesRequest,
        ListImagesResponse,
        |request| {
            let v1::ListImagesRequest { document_id, page_size, page_token, skip, filter, order_by } = request;
            let list = ListRequest { page_size, page_token, skip, filter, order_by, grid: None };
            ListImages { document_id: fields::id("document_id", &document_id)?, list }
        },
        |images: ImagePage| v1::ListImagesResponse {
            images: images.page.items.iter().map(|found| image(images.id(found), found)).collect(),
            total_size: total_size(images.page.total_size),
            next_page_token: images.page.next_page_token,
        }
    );

    async fn get_document_image(
        &self,
        request: Request<v1::GetDocumentImageRequest>,
    ) -> RpcResult<Self::GetDocumentImageStream> {
        let call = |request: v1::GetDocumentImageRequest| {
            Ok(Call::new(GetDocumentImage { image_id: fields::id("image_id", &request.image_id)? }))
        };
        let response = |content: Content| {
            let chunks = content.into_stream().map_ok(|chunk| v1::GetDocumentImageResponse { chunk: chunk.into() });
            self.transfer(chunks)
        };
        self.call(request, call, response).await
    }

    change!(read_document_again, ReadDocumentAgainRequest, ReadDocumentAgainResponse { document }, |request| {
        ReadDocumentAgain { document_id: fields::id("document_id", &request.document_id)? }
    });

    read!(
        propose_split,
        ProposeSplitRequest,
        ProposeSplitResponse,
        |request| ProposeSplit { document_id: fields::id("document_id", &request.document_id)? },
        |parts: Vec<NamedPart>| v1::ProposeSplitResponse { parts: parts.into_iter().map(proposed).collect() }
    );

    change!(
        split_document,
        SplitDocumentRequest,
        SplitDocumentResponse,
        |request| {
            let part = |part: v1::SplitPart| RequestedPart {
                first_page: part.first_page,
                last_page: part.last_page,
                name: Some(part.name).filter(|name| !name.is_empty()),
            };
            SplitDocument {
                document_id: fields::id("document_id", &request.document_id)?,
                parts: request.parts.into_iter().map(part).collect(),
            }
        },
        |documents: Vec<folio_resources::Document>| v1::SplitDocumentResponse {
            documents: documents.iter().map(Into::into).collect(),
        }
    );

    async fn watch_document(&self, request: Request<v1::WatchDocumentRequest>) -> RpcResult<Self::WatchDocumentStream> {
        let call = |request: v1::WatchDocumentRequest| {
            Ok(Call::new(WatchDocument { document_id: fields::id("document_id", &request.document_id)? }))
        };
        let response = |changes: <WatchDocument as Operation>::Output| {
            self.watched(changes.map_ok(|change| v1::WatchDocumentResponse { change: Some(encode(change)) }))
        };
        self.call(request, call, response).await
    }
}

fn text_line(TextLine { words, area }: TextLine) -> v1::PageLine {
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    v1::PageLine {
        first_word: number(words.start),
        word_count: number(words.len()),
        bounding_box: area.map(Into::into),
    }
}

fn proposed(NamedPart { part, name }: NamedPart) -> v1::ProposedPart {
    let reason = |reason: SplitReason| match reason {
        SplitReason::Start => v1::SplitReason::Start.into(),
        SplitReason::NumberingRestarts => v1::SplitReason::NumberingRestarts.into(),
        SplitReason::DocumentNumber => v1::SplitReason::DocumentNumber.into(),
        SplitReason::BlankPageBefore => v1::SplitReason::BlankPageBefore.into(),
        SplitReason::Bookmark => v1::SplitReason::Bookmark.into(),
    };
    v1::ProposedPart {
        first_page: part.pages.first,
        last_page: part.pages.last,
        name,
        reasons: part.reasons.into_iter().map(reason).collect(),
        label: part.label.unwrap_or_default(),
    }
}

fn encode(change: DocumentChange) -> Change {
    match change {
        DocumentChange::Document(document) => {
            let document = v1::Document::from(&*document);
            let text_generation = document.text_generation.clone();
            Change::Document(v1::DocumentStatus { document: Some(document), text_generation })
        }
        DocumentChange::Extraction(extraction) => Change::Extraction((&*extraction).into()),
        DocumentChange::RemovedExtraction(extraction) => Change::RemovedExtractionId(extraction.to_string()),
        DocumentChange::CaughtUp => Change::CaughtUp(v1::CaughtUp {}),
    }
}
