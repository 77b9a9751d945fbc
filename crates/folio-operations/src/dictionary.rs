//! Operations on the dictionary of an organization.

use bytes::Bytes;
pub use folio_export::DictionaryFormat;
use folio_export::{DictionaryRow, dictionary_header, dictionary_lines};
use folio_resources::{
    DictionaryEntry, DictionaryEntryChange, DictionaryEntryFilter, DictionaryEntryId, DictionaryEntryPatch, Document,
    ENTRY_TAGS_MAX, NewDictionaryEntry, Provenance,
};
use folio_storage::Stores;
use folio_types::access::Scope;
use folio_types::page::{Order, PageRequest};
use folio_types::{DocumentId, Error, Etag, OrgId, Result, limits};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use serde::Serialize;

use crate::context::Context;
use crate::declaration::{Declaration, service};
use crate::dictionary_import::ImportDictionary;
use crate::dictionary_questions::{
    AnswerDictionaryQuestion, DismissDictionaryQuestion, GetDictionaryQuestion, ListDictionaryQuestions,
};
use crate::dictionary_review::{ProposeDictionaryEntries, ReviewDocumentTerms};
use crate::documents::Content;
use crate::exports::chunked;
use crate::filter;
use crate::operation::{Operation, delete_operation, get_operation, list_operation};

service! {
    "DictionaryService", Some(Scope::Definitions) =>
    CreateDictionaryEntry, GetDictionaryEntry, ListDictionaryEntries, UpdateDictionaryEntry, DeleteDictionaryEntry,
    ImportDictionary, ExportDictionary, GetDictionaryQuestion, ListDictionaryQuestions, AnswerDictionaryQuestion,
    DismissDictionaryQuestion, ReviewDocumentTerms, ProposeDictionaryEntries
}

/// The message of the API that contains the fields of an entry, in front of the names of the fields in errors.
const PREFIX: &str = "dictionary_entry.";
const PROVENANCE: &str = "dictionary_entry.provenance";
/// Number of entries of one read of an export.
const READ_ENTRIES: u32 = 500;

/// Name of a kind of provenance, and the confidence of an inferred meaning.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StatedProvenance {
    pub name: String,
    pub confidence: Option<f64>,
}

impl StatedProvenance {
    pub(crate) fn parse(&self, field: &str) -> Result<Provenance> {
        Provenance::parse(field, &self.name, self.confidence)
    }
}

/// Creates an entry. Errors: `NAME_TAKEN` if the term has an entry; `NOT_FOUND` if a source document does not exist.
#[derive(Debug, Clone, Serialize)]
pub struct CreateDictionaryEntry {
    pub term: String,
    pub expansion: String,
    /// Empty: none.
    pub disambiguation: String,
    pub tags: Vec<String>,
    pub source_document_ids: Vec<DocumentId>,
    /// None: a person entered the meaning.
    pub provenance: Option<StatedProvenance>,
}

impl Operation for CreateDictionaryEntry {
    const DECLARATION: Declaration = SERVICE.change("CreateDictionaryEntry");
    type Output = DictionaryEntry;

    async fn run(self, context: &Context) -> Result<DictionaryEntry> {
        let provenance = self.provenance.map(|stated| stated.parse(PROVENANCE)).transpose()?;
        let new = NewDictionaryEntry {
            term: self.term,
            expansion: self.expansion,
            disambiguation: Some(self.disambiguation),
            tags: self.tags,
            sources: self.source_document_ids,
            provenance: provenance.unwrap_or(Provenance::Person),
        };
        let new = new.checked(PREFIX)?;
        check_sources(context, &new.sources, &[]).await?;
        context.create(DictionaryEntryChange::Create(Box::new(new))).await
    }
}

get_operation! {
    GetDictionaryEntry { dictionary_entry_id: DictionaryEntryId } -> DictionaryEntry
}

list_operation! {
    /// Lists entries. Filter: `term:` a part of the term, `term=` the term, `tag:` a tag, `provenance:` the name of a kind.
    ListDictionaryEntries -> DictionaryEntry; limits::PAGE_SIZE_MAX; |text| entry_filter(text)?
}

fn entry_filter(text: &str) -> Result<DictionaryEntryFilter> {
    let mut found = DictionaryEntryFilter::default();
    for condition in filter::parse(text)? {
        match condition.field.as_str() {
            "term" => filter::set_text(&mut found.term_search, &mut found.term, &condition)?,
            "tag" => found.all_tags.push(condition.search()?),
            "provenance" => {
                let named = Some(condition.search()?).filter(|name| Provenance::NAMES.contains(&name.as_str()));
                filter::set_once(&mut found.provenance, &condition, condition.one_of(named, &Provenance::NAMES)?)?;
            }
            _ => return Err(filter::unknown_field(&condition, "term, tag and provenance")),
        }
    }
    if found.all_tags.len() > ENTRY_TAGS_MAX {
        return Err(Error::invalid_field("filter", format!("has more than {ENTRY_TAGS_MAX} conditions on tags")));
    }
    Ok(found)
}

/// Changes an entry. A field that is None keeps its value. Errors: those of [`CreateDictionaryEntry`].
#[derive(Debug, Clone, Serialize)]
pub struct UpdateDictionaryEntry {
    pub dictionary_entry_id: DictionaryEntryId,
    pub term: Option<String>,
    pub expansion: Option<String>,
    /// Empty: removes the text.
    pub disambiguation: Option<String>,
    pub tags: Option<Vec<String>>,
    pub source_document_ids: Option<Vec<DocumentId>>,
    pub provenance: Option<StatedProvenance>,
    /// The version that the change is based on. None: any version.
    pub etag: Option<Etag>,
}

impl Operation for UpdateDictionaryEntry {
    const DECLARATION: Declaration = SERVICE.change("UpdateDictionaryEntry");
    type Output = DictionaryEntry;

    async fn run(self, context: &Context) -> Result<DictionaryEntry> {
        let patch = DictionaryEntryPatch {
            term: self.term,
            expansion: self.expansion,
            disambiguation: self.disambiguation.map(Some),
            tags: self.tags,
            sources: self.source_document_ids,
            provenance: self.provenance.map(|stated| stated.parse(PROVENANCE)).transpose()?,
        };
        let patch = &patch.checked(PREFIX)?;
        let change = |stored: DictionaryEntry| async move {
            check_sources(context, patch.sources.as_deref().unwrap_or_default(), &stored.sources).await?;
            Ok(DictionaryEntryChange::Update(Box::new(patch.clone())))
        };
        context.request.update(context.stores(), &self.dictionary_entry_id, self.etag, change).await?;
        context.find(&self.dictionary_entry_id).await
    }
}

/// Checks that the documents that an entry does not name yet exist. Error: `NOT_FOUND`.
async fn check_sources(context: &Context, sources: &[DocumentId], stored: &[DocumentId]) -> Result<()> {
    let added: Vec<DocumentId> = sources.iter().filter(|id| !stored.contains(id)).cloned().collect();
    let found = context.stores().of::<Document>().get_many(&context.principal().org, &added).await?;
    match added.iter().find(|id| !found.iter().any(|document| document.id == **id)) {
        Some(missing) => Err(Error::not_found("document", missing)),
        None => Ok(()),
    }
}

delete_operation! {
    DeleteDictionaryEntry { dictionary_entry_id: DictionaryEntryId } of DictionaryEntry
}

/// Streams the entries as a file, in the order of their terms.
#[derive(Debug, Clone, Serialize)]
pub struct ExportDictionary {
    /// As in [`ListDictionaryEntries`].
    pub filter: String,
    pub format: DictionaryFormat,
}

impl Operation for ExportDictionary {
    const DECLARATION: Declaration = SERVICE.read("ExportDictionary").long();
    type Output = Content;

    async fn run(self, context: &Context) -> Result<Content> {
        let filter = entry_filter(&self.filter)?;
        let (stores, org) = (context.stores().clone(), context.principal().org.clone());
        Ok(Content::new(chunked(file(stores, org, filter, self.format))))
    }
}

fn file(
    stores: Stores,
    org: OrgId,
    filter: DictionaryEntryFilter,
    format: DictionaryFormat,
) -> BoxStream<'static, Result<Bytes>> {
    async_stream::try_stream! {
        yield Bytes::from(dictionary_header(format)?);
        let mut request = PageRequest { size: READ_ENTRIES, order: Order::Name, ..PageRequest::default() };
        loop {
            let page = stores.of::<DictionaryEntry>().list(&org, &filter, &request).await?;
            let rows: Vec<DictionaryRow> = page.items.iter().map(Into::into).collect();
            yield Bytes::from(dictionary_lines(format, &rows)?);
            match page.next {
                Some(next) => request.token = Some(next),
                None => break,
            }
        }
    }
    .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_has_parts_of_terms_tags_and_a_provenance() {
        let all = DictionaryEntryFilter::default();
        assert_eq!(entry_filter("").unwrap(), all);
        let text = |text: &str| Some(text.to_owned());
        let found = entry_filter("term:m term=MY tag:APAC tag:\"Net sales\" provenance:inferred").unwrap();
        let tags = vec!["APAC".to_owned(), "Net sales".to_owned()];
        let expected = DictionaryEntryFilter {
            term_search: text("m"),
            term: text("MY"),
            all_tags: tags,
            provenance: text("inferred"),
        };
        assert_eq!(found, expected);
        let many = "tag:a ".repeat(ENTRY_TAGS_MAX + 1);
        for bad in ["name:a", "provenance:user", "provenance:person provenance:agent", "tag=a", "term:a term:b", &many]
        {
            assert_eq!(entry_filter(bad).unwrap_err().violations[0].field, "filter", "{bad}");
        }
    }
}
