//! Serves `DictionaryService`.

use folio_operations::dictionary::{
    CreateDictionaryEntry, DeleteDictionaryEntry, DictionaryFormat, ExportDictionary, GetDictionaryEntry,
    ListDictionaryEntries, StatedProvenance, UpdateDictionaryEntry,
};
use folio_operations::dictionary_import::{ImportDictionary, ImportedRow};
use folio_operations::dictionary_questions::{
    AnswerDictionaryQuestion, AnsweredQuestion, DismissDictionaryQuestion, GetDictionaryQuestion,
    ListDictionaryQuestions,
};
use folio_operations::dictionary_review::{
    ProposeDictionaryEntries, ProposedEntries, ProposedEntry, ReviewDocumentTerms, StewardReport,
};
use folio_operations::documents::Content;
use folio_operations::{Call, ListRequest};
use folio_proto::{fields, v1};
use folio_resources::ENTRY_SOURCES_MAX;
use folio_types::{DocumentId, Error, Result};
use futures::TryStreamExt as _;
use tonic::Request;
use v1::dictionary_service_server::DictionaryService;

use super::handler::{change, delete, get, list, read};
use super::{Api, ResponseStream, RpcResult};

#[tonic::async_trait]
impl DictionaryService for Api {
    type ExportDictionaryStream = ResponseStream<v1::ExportDictionaryResponse>;

    change!(
        create_dictionary_entry,
        CreateDictionaryEntryRequest,
        CreateDictionaryEntryResponse { dictionary_entry },
        |request| {
            let entry = fields::required("dictionary_entry", request.dictionary_entry)?;
            CreateDictionaryEntry {
                source_document_ids: sources(&entry.source_document_ids)?,
                provenance: provenance(entry.provenance, entry.confidence)?,
                term: entry.term,
                expansion: entry.expansion,
                disambiguation: entry.disambiguation,
                tags: entry.tags,
            }
        }
    );

    get!(
        get_dictionary_entry,
        GetDictionaryEntryRequest,
        GetDictionaryEntry { dictionary_entry_id },
        GetDictionaryEntryResponse { dictionary_entry }
    );

    list!(
        list_dictionary_entries,
        ListDictionaryEntriesRequest,
        ListDictionaryEntries {},
        ListDictionaryEntriesResponse { dictionary_entries }
    );

    change!(
        update_dictionary_entry,
        UpdateDictionaryEntryRequest,
        UpdateDictionaryEntryResponse { dictionary_entry },
        |request| {
            let entry = fields::required("dictionary_entry", request.dictionary_entry)?;
            let stated = provenance(entry.provenance, entry.confidence)?;
            let set = [
                ("term", !entry.term.is_empty()),
                ("expansion", !entry.expansion.is_empty()),
                ("disambiguation", !entry.disambiguation.is_empty()),
                ("tags", !entry.tags.is_empty()),
                ("source_document_ids", !entry.source_document_ids.is_empty()),
                ("provenance", stated.is_some()),
            ];
            let mask = fields::mask(request.update_mask.as_ref(), &set)?;
            UpdateDictionaryEntry {
                dictionary_entry_id: fields::id("dictionary_entry.dictionary_entry_id", &entry.dictionary_entry_id)?,
                etag: fields::etag("dictionary_entry.etag", &entry.etag)?,
                source_document_ids: mask
                    .take("source_document_ids", &entry.source_document_ids)
                    .map(|ids| sources(ids))
                    .transpose()?,
                provenance: mask.take("provenance", stated).flatten(),
                term: mask.take("term", entry.term),
                expansion: mask.take("expansion", entry.expansion),
                disambiguation: mask.take("disambiguation", entry.disambiguation),
                tags: mask.take("tags", entry.tags),
            }
        }
    );

    delete!(
        delete_dictionary_entry,
        DeleteDictionaryEntryRequest,
        DeleteDictionaryEntry { dictionary_entry_id },
        DeleteDictionaryEntryResponse
    );

    change!(
        import_dictionary,
        ImportDictionaryRequest,
        ImportDictionaryResponse,
        |request| ImportDictionary { format: format(request.format)?, content: request.content },
        imported
    );

    get!(
        get_dictionary_question,
        GetDictionaryQuestionRequest,
        GetDictionaryQuestion { dictionary_question_id },
        GetDictionaryQuestionResponse { dictionary_question }
    );

    list!(
        list_dictionary_questions,
        ListDictionaryQuestionsRequest,
        ListDictionaryQuestions {},
        ListDictionaryQuestionsResponse { dictionary_questions }
    );

    change!(
        answer_dictionary_question,
        AnswerDictionaryQuestionRequest,
        AnswerDictionaryQuestionResponse,
        |request| AnswerDictionaryQuestion {
            dictionary_question_id: fields::id("dictionary_question_id", &request.dictionary_question_id)?,
            etag: fields::etag("etag", &request.etag)?,
            expansion: request.expansion,
            disambiguation: request.disambiguation,
            tags: request.tags,
        },
        |answered: AnsweredQuestion| v1::AnswerDictionaryQuestionResponse {
            dictionary_question: Some((&answered.question).into()),
            dictionary_entry: Some((&answered.entry).into()),
        }
    );

    change!(
        dismiss_dictionary_question,
        DismissDictionaryQuestionRequest,
        DismissDictionaryQuestionResponse { dictionary_question },
        |request| {
            let dictionary_question_id = fields::id("dictionary_question_id", &request.dictionary_question_id)?;
            DismissDictionaryQuestion { dictionary_question_id, etag: fields::etag("etag", &request.etag)? }
        }
    );

    change!(
        review_document_terms,
        ReviewDocumentTermsRequest,
        ReviewDocumentTermsResponse,
        |request| ReviewDocumentTerms {
            document_id: fields::id("document_id", &request.document_id)?,
            without_model: request.without_model,
        },
        |report: StewardReport| v1::ReviewDocumentTermsResponse {
            known: number(report.known),
            unconfirmed: number(report.unconfirmed),
            inferred: number(report.inferred),
            unknown: number(report.unknown),
            questions: number(report.questions),
            too_many_questions: report.has_too_many_questions,
            not_inferred_reason: report.not_inferred.unwrap_or_default(),
            truncated: report.is_truncated,
        }
    );

    read!(
        propose_dictionary_entries,
        ProposeDictionaryEntriesRequest,
        ProposeDictionaryEntriesResponse,
        |request| ProposeDictionaryEntries {
            list: ListRequest {
                page_size: request.page_size,
                page_token: request.page_token,
                ..ListRequest::default()
            }
        },
        |found: ProposedEntries| v1::ProposeDictionaryEntriesResponse {
            proposals: found.proposals.into_iter().map(proposed).collect(),
            document_count: number(found.documents),
            next_page_token: found.next_page_token,
        }
    );

    async fn export_dictionary(
        &self,
        request: Request<v1::ExportDictionaryRequest>,
    ) -> RpcResult<Self::ExportDictionaryStream> {
        let call = |request: v1::ExportDictionaryRequest| {
            Ok(Call::new(ExportDictionary { filter: request.filter, format: format(request.format)? }))
        };
        let response = |content: Content| {
            let chunks = content.into_stream().map_ok(|chunk| v1::ExportDictionaryResponse { chunk: chunk.into() });
            self.transfer(chunks)
        };
        self.call(request, call, response).await
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn proposed(entry: ProposedEntry) -> v1::ProposedDictionaryEntry {
    v1::ProposedDictionaryEntry {
        term: entry.term,
        expansion: entry.expansion,
        document_ids: entry.documents.iter().map(ToString::to_string).collect(),
        count: u64::try_from(entry.count).unwrap_or(u64::MAX),
    }
}

fn sources(ids: &[String]) -> Result<Vec<DocumentId>> {
    fields::ids("dictionary_entry.source_document_ids", ids, ENTRY_SOURCES_MAX)
}

/// Returns the provenance of an entry. None: it is not stated.
fn provenance(number: i32, confidence: Option<f64>) -> Result<Option<StatedProvenance>> {
    let name = match fields::choice("dictionary_entry.provenance", number)? {
        v1::DictionaryProvenance::Unspecified if confidence.is_none() => return Ok(None),
        v1::DictionaryProvenance::Unspecified => {
            let problem = "requires the provenance DICTIONARY_PROVENANCE_INFERRED";
            return Err(Error::invalid_field("dictionary_entry.confidence", problem));
        }
        v1::DictionaryProvenance::Person => "person",
        v1::DictionaryProvenance::Agent => "agent",
        v1::DictionaryProvenance::Inferred => "inferred",
    };
    Ok(Some(StatedProvenance { name: name.to_owned(), confidence }))
}

fn format(number: i32) -> Result<DictionaryFormat> {
    Ok(match fields::choice("format", number)? {
        v1::DictionaryFormat::Unspecified | v1::DictionaryFormat::JsonLines => DictionaryFormat::JsonLines,
        v1::DictionaryFormat::Csv => DictionaryFormat::Csv,
    })
}

fn imported(rows: Vec<ImportedRow>) -> v1::ImportDictionaryResponse {
    let mut response = v1::ImportDictionaryResponse::default();
    for (number, ImportedRow { term, result }) in (1..).zip(rows) {
        let mut row = v1::ImportedDictionaryRow { row: number, term, ..Default::default() };
        match result {
            Ok(entry) => {
                row.dictionary_entry_id = entry.id.to_string();
                row.created = entry.is_created;
                match entry.is_created {
                    true => response.created_count += 1,
                    false => response.updated_count += 1,
                }
            }
            Err(error) => {
                response.failed_count += 1;
                row.error_reason = error.reason.as_str().to_owned();
                row.error_message = error.message;
            }
        }
        response.rows.push(row);
    }
    response
}
