//! Lists of extractions over many documents, part of the suite of resources.

use std::collections::BTreeSet;

use folio_resources::{
    CreationPeriod, Document, DocumentChange, DocumentPatch, Extraction, ExtractionChange, ExtractionFilter,
    ExtractionReport, NewExtraction,
};
use folio_types::op::Expected;
use folio_types::page::{Order, Page, PageRequest};
use folio_types::{DocumentId, ExtractionId, PromptRevId, SchemaRevId, TagId, Timestamp};
use serde_json::json;

use super::context::{Context, create_document, done};
use super::{Failure, Outcome, check, paging, refused, same};

/// More documents than a store reads the rows of, one by one.
const DOCUMENTS: usize = 20;

/// The state of an extraction, with the tags of its document.
#[derive(Debug, Clone)]
struct Created {
    id: ExtractionId,
    document: DocumentId,
    tags: BTreeSet<TagId>,
    prompt: PromptRevId,
    schema: Option<SchemaRevId>,
    verified: bool,
    /// True if a review is requested.
    is_requested: bool,
    version: u64,
    at: Timestamp,
}

impl Created {
    /// Writes a change, and applies it to this state.
    async fn change(&mut self, context: &Context, change: ExtractionChange) -> Outcome {
        match change {
            ExtractionChange::Verify { verified } => self.verified = verified,
            ExtractionChange::RequestReview { requested } => self.is_requested = requested,
            _ => {}
        }
        let write = context.write(Expected::Version(self.version), change)?;
        self.version += 1;
        done(context.stores.of::<Extraction>().decide(&self.id, write).await?).map(|_| ())
    }

    fn matches(&self, filter: &ExtractionFilter) -> bool {
        let ExtractionFilter { document, document_tags, prompt, prompt_revision, .. } = filter;
        let ExtractionFilter { schema, schema_revision, verified, created, is_waiting_for_review, .. } = filter;
        let CreationPeriod { start, end } = created.unwrap_or_default();
        let of_schema = self.schema.as_ref().map(|schema| &schema.of);
        document.as_ref().is_none_or(|document| *document == self.document)
            && document_tags.iter().all(|tag| self.tags.contains(tag))
            && prompt.as_ref().is_none_or(|prompt| *prompt == self.prompt.of)
            && prompt_revision.as_ref().is_none_or(|revision| *revision == self.prompt)
            && schema.as_ref().is_none_or(|schema| Some(schema) == of_schema)
            && schema_revision.as_ref().is_none_or(|revision| Some(revision) == self.schema.as_ref())
            && verified.is_none_or(|verified| verified == self.verified)
            && (!is_waiting_for_review || (self.is_requested && !self.verified))
            && start.is_none_or(|start| start <= self.at)
            && end.is_none_or(|end| self.at < end)
    }
}

/// The tags, prompts and schemas of the extractions.
struct Links {
    /// The tag of all documents except the first.
    common: TagId,
    /// The tag of the second document.
    rare: TagId,
    unused: TagId,
    /// Prompts with their schemas.
    one: (PromptRevId, SchemaRevId),
    two: (PromptRevId, SchemaRevId),
}

impl Links {
    async fn new(context: &Context) -> Result<Self, Failure> {
        let (one, two) = (context.schema("one").await?, context.schema("two").await?);
        let first_prompt = context.prompt("one", Some(&one), &[]).await?;
        let second_prompt = context.prompt("two", Some(&two), &[]).await?;
        Ok(Self {
            common: context.tag("common").await?,
            rare: context.tag("rare").await?,
            unused: context.tag("unused").await?,
            one: (first_prompt, one),
            two: (second_prompt, two),
        })
    }

    fn tags(&self, number: usize) -> Vec<TagId> {
        match number {
            0 => Vec::new(),
            1 => vec![self.common.clone(), self.rare.clone()],
            _ => vec![self.common.clone()],
        }
    }

    fn filters(&self, created: &[Created]) -> Vec<ExtractionFilter> {
        let all = ExtractionFilter::default();
        let at = |number: usize| created.get(number).map(|extraction| extraction.at);
        let period = |start: Option<usize>, end: Option<usize>| {
            Some(CreationPeriod { start: start.and_then(at), end: end.and_then(at) })
        };
        let ((prompt, schema), (other_prompt, other_schema)) = (&self.one, &self.two);
        let missing = PromptRevId::new(prompt.of.clone(), 2);
        let document = created.get(1).map(|extraction| extraction.document.clone());
        vec![
            all.clone(),
            ExtractionFilter { document, ..all.clone() },
            ExtractionFilter { prompt: Some(other_prompt.of.clone()), ..all.clone() },
            ExtractionFilter { prompt_revision: Some(prompt.clone()), ..all.clone() },
            ExtractionFilter { prompt_revision: Some(missing), ..all.clone() },
            ExtractionFilter { schema: Some(other_schema.of.clone()), ..all.clone() },
            ExtractionFilter { schema_revision: Some(schema.clone()), ..all.clone() },
            ExtractionFilter { verified: Some(true), ..all.clone() },
            ExtractionFilter { verified: Some(false), ..all.clone() },
            ExtractionFilter { created: period(Some(5), None), ..all.clone() },
            ExtractionFilter { created: period(None, Some(5)), ..all.clone() },
            ExtractionFilter { created: period(Some(5), Some(5)), ..all.clone() },
            ExtractionFilter { created: period(Some(5), Some(15)), verified: Some(true), ..all },
            waiting_for_review(),
            ExtractionFilter { created: period(Some(8), None), ..waiting_for_review() },
            ExtractionFilter { document_tags: vec![self.common.clone()], ..waiting_for_review() },
            tagged(&[&self.common]),
            tagged(&[&self.rare]),
            tagged(&[&self.common, &self.rare]),
            tagged(&[&self.unused]),
            ExtractionFilter { prompt: Some(other_prompt.of.clone()), verified: Some(true), ..tagged(&[&self.common]) },
            ExtractionFilter { created: period(Some(3), Some(12)), ..tagged(&[&self.common]) },
        ]
    }
}

fn tagged(tags: &[&TagId]) -> ExtractionFilter {
    ExtractionFilter { document_tags: tags.iter().copied().cloned().collect(), ..ExtractionFilter::default() }
}

fn waiting_for_review() -> ExtractionFilter {
    ExtractionFilter { is_waiting_for_review: true, ..ExtractionFilter::default() }
}

/// Compares the list of each filter, some in all orders and page sizes, also after changes of the documents.
pub(crate) async fn over_documents(context: &Context) -> Outcome {
    let links = Links::new(context).await?;
    let mut created = Vec::new();
    for number in 0..DOCUMENTS {
        let tags = links.tags(number);
        let document = document(context, number, &tags).await?;
        let (prompt, schema) = if number % 2 == 0 { &links.one } else { &links.two };
        let mut extraction = create(context, &document, prompt, Some(schema).filter(|_| number % 3 > 0)).await?;
        if number % 3 == 2 {
            extraction.change(context, ExtractionChange::RequestReview { requested: true }).await?;
        }
        if number % 4 == 1 {
            extraction.change(context, ExtractionChange::Verify { verified: true }).await?;
        }
        created.push(Created { tags: tags.into_iter().collect(), ..extraction });
    }
    let filters = links.filters(&created);
    for filter in &filters {
        first_page(context, &created, filter).await?;
    }
    let (all, common, waiting) = (ExtractionFilter::default(), tagged(&[&links.common]), waiting_for_review());
    for filter in [&all, &common, &waiting].into_iter().chain(filters.last()) {
        all_pages(context, &created, filter).await?;
    }
    // An extraction waits while its review is requested and it is not verified.
    for (number, change) in [
        (2, ExtractionChange::RequestReview { requested: false }),
        (8, ExtractionChange::Verify { verified: true }),
        (5, ExtractionChange::Verify { verified: false }),
    ] {
        if let Some(extraction) = created.get_mut(number) {
            extraction.change(context, change).await?;
        }
        first_page(context, &created, &waiting).await?;
    }
    // The tags of a document count as they are now.
    if let [first, .., last] = created.as_mut_slice() {
        retag(context, &last.document, &[]).await?;
        retag(context, &first.document, std::slice::from_ref(&links.common)).await?;
        last.tags.clear();
        first.tags.insert(links.common.clone());
    }
    first_page(context, &created, &common).await?;
    // The extraction of a deleted document is not listed, and does not count after the clean-up.
    let deleted = created.remove(1);
    context.delete_document(&deleted.document).await?;
    for filter in [&all, &common] {
        same!(listed(context, filter).await?.items, expected(&created, filter), "a list with a deleted document");
    }
    context.stores.of::<Document>().clean_deleted(&context.org, &deleted.document, false).await?;
    for filter in [&all, &common, &tagged(&[&links.rare])] {
        first_page(context, &created, filter).await?;
    }
    tokens(context, &all, &common).await
}

/// Returns the ids of the extractions that match a filter, newest first.
fn expected(created: &[Created], filter: &ExtractionFilter) -> Vec<ExtractionId> {
    let matching = created.iter().rev().filter(|extraction| extraction.matches(filter));
    matching.map(|extraction| extraction.id.clone()).collect()
}

fn with_ids(page: Page<Extraction>) -> Page<ExtractionId> {
    let items = page.items.into_iter().map(|extraction| extraction.id).collect();
    Page { items, next: page.next, total: page.total }
}

/// Returns the first page, newest first.
async fn listed(context: &Context, filter: &ExtractionFilter) -> Result<Page<ExtractionId>, Failure> {
    let request = PageRequest { size: 1000, ..PageRequest::default() };
    Ok(with_ids(context.stores.of::<Extraction>().list(&context.org, filter, &request).await?))
}

/// Compares the first page of the list, and then of its versions, because the first list removes obsolete list rows.
async fn first_page(context: &Context, created: &[Created], filter: &ExtractionFilter) -> Outcome {
    let (page, expected) = (listed(context, filter).await?, expected(created, filter));
    same!(page.total, expected.len() as u64, "the total of a list with {filter:?}");
    same!(page.items, expected, "a list with {filter:?}");
    let (store, request) = (context.stores.of::<Extraction>(), PageRequest { size: 1000, ..PageRequest::default() });
    let found = store.list_versions(&context.org, filter, &request).await?;
    let matching = created.iter().rev().filter(|extraction| extraction.matches(filter));
    let versions: Vec<_> = matching.map(|extraction| (extraction.id.clone(), extraction.version)).collect();
    same!((found.total, found.items), (page.total, versions), "the versions of a list with {filter:?}");
    same!(store.list(&context.other(), filter, &request).await?.total, 0, "a list of another organization");
    same!(store.list_versions(&context.other(), filter, &request).await?.total, 0, "versions of another organization");
    Ok(())
}

/// A page token is refused by a list with another filter, and accepted after a change of the tagged documents.
async fn tokens(context: &Context, all: &ExtractionFilter, tagged: &ExtractionFilter) -> Outcome {
    let (store, org) = (&context.stores.of::<Extraction>(), &context.org);
    let first = PageRequest { size: 1, ..PageRequest::default() };
    let token = store.list(org, tagged, &first).await?.next;
    check!(token.is_some(), "a list of many extractions has one page");
    document(context, DOCUMENTS, &tagged.document_tags).await?;
    let second = PageRequest { token, ..first };
    let next = store.list(org, tagged, &second).await?;
    same!(next.items.len(), 1, "the second page, after another document was tagged");
    refused!(store.list(org, all, &second).await, InvalidPageToken, "the token of another filter");
    Ok(())
}

/// Compares all pages, in all orders and page sizes. Extractions have no names: lists by name are in the order of creation.
async fn all_pages(context: &Context, created: &[Created], filter: &ExtractionFilter) -> Outcome {
    let in_order = |order| {
        let mut ids = expected(created, filter);
        if matches!(order, Order::Oldest | Order::Name) {
            ids.reverse();
        }
        Ok(ids)
    };
    let (store, org) = (&context.stores.of::<Extraction>(), &context.org);
    let list = |page: PageRequest| async move { store.list(org, filter, &page).await.map(with_ids) };
    paging::walk(in_order, list).await.map_err(|Failure(what)| Failure(format!("{filter:?}: {what}")))
}

async fn document(context: &Context, number: usize, tags: &[TagId]) -> Result<DocumentId, Failure> {
    let id = context.document_id();
    let write = context.write(Expected::Absent, create_document(&format!("{number}.txt"), tags))?;
    done(context.stores.of::<Document>().decide(&id, write).await?)?;
    Ok(id)
}

async fn create(
    context: &Context,
    document: &DocumentId,
    prompt: &PromptRevId,
    schema: Option<&SchemaRevId>,
) -> Result<Created, Failure> {
    let (id, document, prompt, schema) = (context.extraction_id(), document.clone(), prompt.clone(), schema.cloned());
    let new = NewExtraction {
        document: document.clone(),
        prompt: prompt.clone(),
        schema: schema.clone(),
        model: "model".to_owned(),
        data: json!({}),
        report: ExtractionReport::default(),
        approvals: None,
    };
    let write = context.write(Expected::Absent, ExtractionChange::Create(Box::new(new)))?;
    let at = write.at;
    done(context.stores.of::<Extraction>().decide(&id, write).await?)?;
    let (tags, verified, is_requested, version) = (BTreeSet::new(), false, false, 1);
    Ok(Created { id, document, tags, prompt, schema, verified, is_requested, version, at })
}

async fn retag(context: &Context, id: &DocumentId, tags: &[TagId]) -> Outcome {
    let patch = DocumentPatch { tags: Some(tags.to_vec()), ..DocumentPatch::default() };
    let write = context.write(Expected::Version(1), DocumentChange::Update(patch))?;
    done(context.stores.of::<Document>().decide(id, write).await?).map(|_| ())
}
