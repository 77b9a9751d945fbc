//! Loads the sections of the system message once per turn and again after each write.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use folio_history::journal::Mention;
use folio_resources::{Collection, Document, Prompt, Resource, Revisioned, Schema, Tag, TextRecord, TextState};
use folio_storage::Stores;
use folio_types::{DocumentId, OrgId, Result, limits};
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _, try_join};
use serde_json::Value;

use super::documents::{DocumentPart, FoundDocument, page_mark};
use super::excerpts::{Excerpt, ExcerptKey, Excerpts};
use super::mentions::Artifact;
use super::{Parts, system_message};

/// Pages of the first read. Each read of nearly blank pages doubles the number, up to [`PAGES_PER_READ_MAX`].
const PAGES_PER_READ: u32 = 4;
const PAGES_PER_READ_MAX: u32 = 64;
/// Maximum number of documents that are read concurrently.
const CONCURRENT_DOCUMENTS: usize = 4;

/// Loads and caches the sections of a turn's system messages that come from the stores.
pub(crate) struct ContextLoader {
    stores: Stores,
    org: OrgId,
    documents: Vec<DocumentId>,
    mentions: Vec<Mention>,
    /// None: the system message contains no text of the documents.
    excerpts: Option<Excerpts>,
    loaded: Option<Arc<ContextSections>>,
}

struct ContextSections {
    /// Value of the turn's write counter at the time of the read.
    write_counter: u64,
    documents: Vec<DocumentPart>,
    artifacts: Vec<Artifact>,
}

impl ContextLoader {
    pub(crate) fn new(
        stores: Stores,
        excerpts: Option<Excerpts>,
        org: OrgId,
        documents: Vec<DocumentId>,
        mentions: Vec<Mention>,
    ) -> Self {
        Self { stores, org, documents, mentions, excerpts, loaded: None }
    }

    /// Loads the sections in advance. If this fails, the next model call loads them.
    pub(crate) async fn prefetch(&mut self, write_counter: u64) {
        if let Err(error) = self.load(write_counter).await {
            tracing::debug!(%error, "cannot prefetch the context");
        }
    }

    /// Returns the system message for the next model call, with the instructions, the guide and the JSON Schema of the
    /// answer. `write_counter` is the turn's write counter; sections that were read before the newest write are read again.
    pub(crate) async fn system_message(
        &mut self,
        (instructions, guide, answer_schema): (&str, &str, Option<&Value>),
        context_tokens: u32,
        write_counter: u64,
    ) -> Result<String> {
        let loaded = self.load(write_counter).await?;
        Ok(system_message(Parts {
            documents: &loaded.documents,
            artifacts: &loaded.artifacts,
            has_excerpt: self.excerpts.is_some(),
            instructions,
            answer_schema,
            guide,
            context_tokens,
        }))
    }

    /// Returns the current sections. They are cached unless the text of a document is still being extracted.
    async fn load(&mut self, write_counter: u64) -> Result<Arc<ContextSections>> {
        let loaded = match self.loaded.take().filter(|loaded| loaded.write_counter == write_counter) {
            Some(loaded) => loaded,
            None => {
                let (documents, artifacts) = try_join!(self.load_documents(), self.load_artifacts())?;
                Arc::new(ContextSections { write_counter, documents, artifacts })
            }
        };
        let is_settled = loaded.documents.iter().all(|document| match &document.found {
            Some(found) => found.state.is_settled(),
            None => true,
        });
        if is_settled {
            self.loaded = Some(loaded.clone());
        }
        Ok(loaded)
    }

    async fn load_documents(&self) -> Result<Vec<DocumentPart>> {
        let each = limits::EXCERPT_CHARS / self.documents.len().max(1);
        let parts: Vec<_> = self.documents.iter().map(|id| self.load_document(id, each).boxed()).collect();
        futures::stream::iter(parts).buffered(CONCURRENT_DOCUMENTS).try_collect().await
    }

    async fn load_document(&self, id: &DocumentId, chars: usize) -> Result<DocumentPart> {
        let found = match self.stores.of::<Document>().get_with_text(&self.org, id).await? {
            Some((document, record)) => {
                let text = match (record.filter(|record| record.text == TextState::Ready), &self.excerpts) {
                    (Some(record), Some(excerpts)) => self.excerpt(excerpts, (id, &record), chars).await?,
                    _ => Excerpt::default(),
                };
                Some(FoundDocument::new(document, text))
            }
            None => None,
        };
        Ok(DocumentPart { id: id.clone(), found })
    }

    /// Returns the first pages, as many as contain more than `chars` characters. Reads them from the cache if possible.
    async fn excerpt(
        &self,
        excerpts: &Excerpts,
        (id, record): (&DocumentId, &TextRecord),
        chars: usize,
    ) -> Result<Excerpt> {
        let key = ExcerptKey::new(&self.org, id, record, chars);
        if let Some(excerpt) = excerpts.get(&key) {
            return Ok(excerpt);
        }
        let pages: Excerpt = self.first_pages(id, record.pages, chars).await?.into();
        excerpts.insert(key, Arc::clone(&pages));
        Ok(pages)
    }

    /// Reads the first pages, as many as contain more than `chars` characters.
    async fn first_pages(&self, id: &DocumentId, pages: u32, chars: usize) -> Result<Vec<(u32, String)>> {
        let mut out = Vec::new();
        let mut chars_read = 0;
        let (mut from, mut count) = (1, PAGES_PER_READ);
        while from <= pages && chars_read <= chars {
            let batch = self.stores.texts.text(&self.org, id.as_str(), from, count).await?;
            if batch.is_empty() {
                break;
            }
            let before = chars_read;
            for page in batch {
                chars_read += page_mark(page.number, pages).len() + page.text.chars().count();
                out.push((page.number, page.text));
            }
            from += count;
            if chars_read - before < chars / 8 {
                count = PAGES_PER_READ_MAX.min(2 * count);
            }
        }
        Ok(out)
    }

    async fn load_artifacts(&self) -> Result<Vec<Artifact>> {
        if self.mentions.is_empty() {
            return Ok(Vec::new());
        }
        let (mut prompt_ids, mut schema_ids, mut tag_ids) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut collection_ids = BTreeSet::new();
        for mention in &self.mentions {
            match mention {
                Mention::Prompt(revid) => drop(prompt_ids.insert(revid.clone())),
                Mention::Schema(revid) => drop(schema_ids.insert(revid.clone())),
                Mention::Tag(id) => drop(tag_ids.insert(id.clone())),
                Mention::Collection(id) => drop(collection_ids.insert(id.clone())),
            }
        }
        let prompts = self.revisions::<Prompt>(prompt_ids).await?;
        let prompts: HashMap<_, _> = prompts.into_iter().map(|prompt| (prompt.revid.clone(), prompt)).collect();
        schema_ids.extend(prompts.values().filter_map(|prompt| prompt.schema.clone()));
        tag_ids.extend(prompts.values().flat_map(|prompt| prompt.tags.clone()));
        let schemas = self.revisions::<Schema>(schema_ids).await?;
        let schemas: HashMap<_, _> = schemas.into_iter().map(|schema| (schema.revid.clone(), schema)).collect();
        let tags = self.resources::<Tag>(tag_ids).await?;
        let tags: HashMap<_, _> = tags.into_iter().map(|tag| (tag.id.clone(), tag)).collect();
        let collections = self.resources::<Collection>(collection_ids).await?;
        let collections: HashMap<_, _> = collections.into_iter().map(|found| (found.id.clone(), found)).collect();
        let resolve = |mention: &Mention| match mention {
            Mention::Schema(revid) => schemas.get(revid).cloned().map(Artifact::Schema),
            Mention::Prompt(revid) => prompts.get(revid).map(|prompt| {
                let schema = prompt.schema.as_ref().and_then(|revid| schemas.get(revid)).cloned();
                let tags = prompt.tags.iter().filter_map(|id| tags.get(id)).cloned().collect();
                Artifact::Prompt(prompt.clone(), schema, tags)
            }),
            Mention::Tag(id) => tags.get(id).cloned().map(Artifact::Tag),
            Mention::Collection(id) => collections.get(id).cloned().map(Artifact::Collection),
        };
        Ok(self.mentions.iter().map(|m| resolve(m).unwrap_or_else(|| Artifact::Missing(m.clone()))).collect())
    }

    async fn resources<R: Resource>(&self, ids: BTreeSet<R::Id>) -> Result<Vec<R>> {
        let ids: Vec<_> = ids.into_iter().collect();
        if ids.is_empty() { Ok(Vec::new()) } else { self.stores.of::<R>().get_many(&self.org, &ids).await }
    }

    async fn revisions<R: Revisioned>(&self, ids: BTreeSet<R::RevId>) -> Result<Vec<R::Revision>> {
        let ids: Vec<_> = ids.into_iter().collect();
        if ids.is_empty() { Ok(Vec::new()) } else { self.stores.of::<R>().revisions(&self.org, &ids).await }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use async_trait::async_trait;
    use folio_storage::value::{PageBoxes, PageElements, PageHeadings, PageText};
    use folio_storage::{IngestUpdate, PendingText, TextStore, TextWait};
    use folio_storage_embedded::{EmbeddedStore, Options};

    use super::*;

    /// A document whose pages are blank. Counts the reads.
    #[derive(Default)]
    struct BlankPages(AtomicU32);

    #[async_trait]
    impl TextStore for BlankPages {
        async fn ingest(&self, _: &OrgId, _: &str, _: IngestUpdate) -> Result<()> {
            Ok(())
        }

        async fn text(&self, _: &OrgId, _: &str, from: u32, count: u32) -> Result<Vec<PageText>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok((from..from + count)
                .map(|number| PageText { number, text: String::new(), gap: None, first_cell: None })
                .collect())
        }

        async fn boxes(&self, _: &OrgId, _: &str, _: u32, _: u32) -> Result<Vec<PageBoxes>> {
            Ok(Vec::new())
        }

        async fn headings(&self, _: &OrgId, _: &str, _: u32, _: u32) -> Result<Vec<PageHeadings>> {
            Ok(Vec::new())
        }

        async fn elements(&self, _: &OrgId, _: &str, _: u32, _: u32) -> Result<Vec<PageElements>> {
            Ok(Vec::new())
        }

        async fn waiting_texts(&self, _: TextWait, _: Option<&PendingText>, _: usize) -> Result<Vec<PendingText>> {
            Ok(Vec::new())
        }
    }

    #[tokio::test]
    async fn the_excerpt_of_a_scan_with_blank_pages_takes_few_reads() {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(Options::at(folder.path())).unwrap();
        let texts = Arc::new(BlankPages::default());
        let stores = Stores { texts: texts.clone(), ..store.stores() };
        let org = OrgId::derive(&["org"]);
        let loader = ContextLoader::new(stores, Some(Excerpts::default()), org, Vec::new(), Vec::new());
        let pages = loader.first_pages(&DocumentId::derive(&["scan"]), 2_000, limits::EXCERPT_CHARS).await.unwrap();
        // The marks of about 740 pages fill the excerpt.
        let marks: usize = pages.iter().map(|(number, _)| page_mark(*number, 2_000).len()).sum();
        assert!((limits::EXCERPT_CHARS..limits::EXCERPT_CHARS + 1_000).contains(&marks), "{marks}");
        let reads = texts.0.load(Ordering::Relaxed);
        assert!(reads <= 16, "{} pages with {reads} reads", pages.len());
        store.close().await;
    }
}
