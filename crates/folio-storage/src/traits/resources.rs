//! Resources of every kind: a contract that adapters implement without naming a kind, and a typed handle to it.

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::sync::Arc;

use async_trait::async_trait;
use folio_resources::{
    Condition, Kind, ListQuery, NewName, Record, Resource, ResourceWrite, RevisionName, Revisioned, TextRecord,
    decode_value,
};
use folio_types::op::{Write, WriteOutcome};
use folio_types::page::{Order, Page, PageRequest};
use folio_types::{BlobId, Error, OrgId, Result, Timestamp, TurnId, limits};

use crate::page_token;
use crate::value::{DeletionRow, decode};

/// A page of any list ends with the item that reaches this total size, in bytes.
pub const PAGE_BYTES: usize = 2 * 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResource {
    pub record: Vec<u8>,
    /// The stored [`TextRecord`], for kinds with text. None: no text was reported yet.
    pub text: Option<Vec<u8>>,
}

/// Number and size of an organization's live resources of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResourceUsage {
    pub count: u64,
    /// Total size of their files.
    pub bytes: u64,
}

impl std::ops::Add for ResourceUsage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { count: self.count.saturating_add(other.count), bytes: self.bytes.saturating_add(other.bytes) }
    }
}

/// Executes writes of resources of every kind, and reads them. Callers use [`ResourceStore`].
#[async_trait]
pub trait ResourceExecutor: Send + Sync {
    /// Evaluates a write with [`folio_resources::decide`] and executes its plan.
    ///
    /// Errors: those of the decision; `NAME_TAKEN`; `IN_USE` with the users in the message; `NOT_FOUND` for a missing
    /// reference, revision or parent.
    async fn decide(&self, write: ResourceWrite) -> Result<WriteOutcome>;

    /// Returns live resources, in the order of `ids`.
    async fn get(&self, org: &OrgId, kind: &'static Kind, ids: &[String]) -> Result<Vec<Option<StoredResource>>>;

    /// Returns the id that a unique name was assigned to. The resource may have been renamed or deleted since.
    async fn id_by_name(&self, org: &OrgId, kind: &'static Kind, name: &str) -> Result<Option<String>>;

    async fn list(&self, org: &OrgId, query: ListQuery, page: &PageRequest) -> Result<Page<StoredResource>>;

    /// Returns the ids and versions of a page of [`Self::list`], with its order and its tokens. Reads no records, so that
    /// a resource with an obsolete list row may be among them.
    async fn list_versions(&self, org: &OrgId, query: ListQuery, page: &PageRequest) -> Result<Page<(String, u64)>>;

    /// Returns the versions of live resources, in the order of `ids`.
    async fn versions(&self, org: &OrgId, kind: &'static Kind, ids: &[String]) -> Result<Vec<Option<u64>>>;

    /// Returns the ids of at most `max` resources that match a query, in any order. Reads their list rows only, so that
    /// a resource that was just deleted may be among them.
    async fn matching_ids(&self, org: &OrgId, query: ListQuery, max: usize) -> Result<Vec<String>>;

    /// Returns the ids of at most `max` resources of a kind that refer to a resource with any of their revisions, in
    /// order. Reads rows of references only, so that a deleted resource, or one whose newest revision no longer refers to
    /// the resource, may be among them.
    async fn referrers(&self, org: &OrgId, kind: &'static Kind, referenced: &str, max: usize) -> Result<Vec<String>>;

    /// Returns the numbers of the stored revisions, in order.
    async fn revision_numbers(&self, org: &OrgId, id: &str) -> Result<Vec<u32>>;

    /// Stores a name, that is, a reference to a revision, so that no new revision removes the revision. Fails with `NOT_FOUND` if
    /// the revision does not exist. Idempotent.
    async fn name_revision(&self, org: &OrgId, name: NewName) -> Result<()>;

    /// Returns stored revisions, in the order of `numbers`. The revisions of a deleted resource are stored until its
    /// clean-up.
    async fn revisions(&self, org: &OrgId, id: &str, numbers: &[u32]) -> Result<Vec<Option<Vec<u8>>>>;

    /// Reads the list row of each resource.
    async fn resource_usage(&self, org: &OrgId, kind: &'static Kind) -> Result<ResourceUsage>;

    /// Returns the bytes of the texts, page images and journals of the organization. Reads a row for each of them. A
    /// journal counts as [`counted_journal_bytes`](crate::counted_journal_bytes).
    async fn content_bytes(&self, org: &OrgId) -> Result<u64>;

    /// Sets the bytes of a blob that was derived from a live resource, such as the image of a page. 0: the blob was
    /// removed. The write with the latest time wins. The deletion of the resource removes the sizes of its blobs.
    async fn set_blob_bytes(&self, org: &OrgId, id: &str, blob: &BlobId, bytes: u64, at: Timestamp) -> Result<()>;

    /// Returns at most `limit` rows of the index of a kind's deletions, of all organizations: a system index that no
    /// request reads. The rows have a time within `times`, and a fixed order, which is not necessarily that of their times.
    /// The result begins after the position of `after`, a row of an earlier result with the same times, even if that row
    /// was removed. None: the result begins with the first row. A result with fewer than `limit` rows is the last one.
    ///
    /// Reads no resource. A row is in the index before its resource is deleted, so that the deletion of a row may be in
    /// progress, or may have been refused: [`Self::confirm_deletion`] returns whether it happened.
    async fn indexed_deletions(
        &self,
        kind: &'static Kind,
        times: &RangeInclusive<Timestamp>,
        after: Option<&DeletionRow>,
        limit: usize,
    ) -> Result<Vec<DeletionRow>>;

    /// Returns true if the resource of an index row was deleted at the time of the row. Otherwise the deletion is in
    /// progress or was refused, or the resource was deleted at another time, which has a row of its own. Removes a row whose
    /// deletion did not happen and is no longer in progress from the index.
    async fn confirm_deletion(&self, kind: &'static Kind, row: &DeletionRow) -> Result<bool>;

    /// Removes the rows that a deletion left: revisions with their references, texts, dependents. Other writes wait for
    /// one page of rows at most. A call that was interrupted is repeated; it continues with the first remaining row.
    ///
    /// `is_final`: also reduces op rows to ids and times, and removes the deletion from the index of
    /// [`Self::indexed_deletions`]. Has no effect on a live resource.
    async fn clean_deleted(&self, org: &OrgId, kind: &'static Kind, id: &str, is_final: bool) -> Result<()>;
}

/// The store of one kind of resources. Cheap to clone.
pub struct ResourceStore<R> {
    executor: Arc<dyn ResourceExecutor>,
    kind: PhantomData<fn() -> R>,
}

impl<R> Clone for ResourceStore<R> {
    fn clone(&self) -> Self {
        Self { executor: Arc::clone(&self.executor), kind: PhantomData }
    }
}

impl<R: Resource> std::fmt::Debug for ResourceStore<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ResourceStore({})", R::KIND)
    }
}

/// Returns None if the resource was deleted.
fn decode_live<R: Resource>(stored: &StoredResource) -> Result<Option<R>> {
    let Record::Live(found) = decode_value(R::KIND, R::FORMAT, &stored.record, R::read_format)? else {
        return Ok(None);
    };
    Ok(Some(match &stored.text {
        Some(text) => found.with_text(&decode::<TextRecord>(text)?),
        None => found,
    }))
}

impl<R: Resource> ResourceStore<R> {
    pub fn new(executor: Arc<dyn ResourceExecutor>) -> Self {
        Self { executor, kind: PhantomData }
    }

    /// Errors: those of the kind's changes, and `REQUEST_ID_CONFLICT`; `NOT_FOUND` for a built-in resource.
    pub async fn decide(&self, id: &R::Id, write: Write<R::Change>) -> Result<WriteOutcome> {
        if R::built_in(id).is_some() {
            return Err(R::not_found(id));
        }
        self.executor.decide(ResourceWrite::new::<R>(id, write)).await
    }

    /// Returns the live or built-in resource. A resource whose parent was deleted counts as deleted.
    pub async fn get(&self, org: &OrgId, id: &R::Id) -> Result<Option<R>> {
        if let Some(found) = R::built_in(id) {
            return Ok(Some(found));
        }
        Ok(self.get_many(org, std::slice::from_ref(id)).await?.into_iter().next())
    }

    /// Returns the live resource with the record of its text. No record: no text was reported yet.
    pub async fn get_with_text(&self, org: &OrgId, id: &R::Id) -> Result<Option<(R, Option<TextRecord>)>> {
        let found = self.executor.get(org, Kind::get::<R>(), &[id.to_string()]).await?;
        let Some(stored) = found.into_iter().flatten().next() else { return Ok(None) };
        let Some(resource) = decode_live::<R>(&stored)? else { return Ok(None) };
        let text = stored.text.as_deref().map(decode::<TextRecord>).transpose()?;
        Ok(Some((resource, text)))
    }

    /// Returns the live resources among these, in the given order.
    pub async fn get_many(&self, org: &OrgId, ids: &[R::Id]) -> Result<Vec<R>> {
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        let found = self.executor.get(org, Kind::get::<R>(), &ids).await?;
        let found: Vec<Option<R>> = found.iter().flatten().map(decode_live).collect::<Result<_>>()?;
        self.with_live_parents(org, found.into_iter().flatten().collect()).await
    }

    /// Returns the resources whose parents are live, in the given order. Reads each parent once.
    async fn with_live_parents(&self, org: &OrgId, mut found: Vec<R>) -> Result<Vec<R>> {
        let live = self.live_parents(org, found.iter().filter_map(R::parent).collect()).await?;
        found.retain(|resource| resource.parent().is_none_or(|parent| live.contains(&parent)));
        Ok(found)
    }

    /// Returns the live resources among these parents, which are of one kind. Reads their versions only.
    pub async fn live_parents(&self, org: &OrgId, parents: BTreeSet<String>) -> Result<BTreeSet<String>> {
        let Some(first) = parents.first() else { return Ok(parents) };
        let (kind, parents) = (Kind::of_id(first)?, parents.into_iter().collect::<Vec<_>>());
        let versions = self.executor.versions(org, kind, &parents).await?;
        Ok(parents.into_iter().zip(versions).filter_map(|(id, version)| version.map(|_| id)).collect())
    }

    /// Returns a page of live resources. In a list over many parents, the total counts the children of a deleted parent
    /// until its clean-up.
    ///
    /// Errors: `INVALID_PAGE_TOKEN`; `INVALID_FIELD` of `filter` if too many parents match its conditions.
    pub async fn list(&self, org: &OrgId, filter: &R::Filter, page: &PageRequest) -> Result<Page<R>> {
        let Some(query) = self.query(org, filter).await? else {
            return Ok(Page { items: Vec::new(), next: None, total: 0 });
        };
        let is_of_many_parents = R::HAS_PARENT && query.parent.is_none();
        let Page { items, next, total } = self.executor.list(org, query, page).await?;
        let items: Vec<Option<R>> = items.iter().map(decode_live).collect::<Result<_>>()?;
        let mut items: Vec<R> = items.into_iter().flatten().collect();
        if is_of_many_parents {
            items = self.with_live_parents(org, items).await?;
        }
        Ok(Page { items, next, total })
    }

    /// Returns the ids and versions of a page of [`Self::list`] without reading the records. A resource that no longer
    /// matches, or whose parent was deleted, may be among them.
    ///
    /// Errors: those of [`Self::list`].
    pub async fn list_versions(
        &self,
        org: &OrgId,
        filter: &R::Filter,
        page: &PageRequest,
    ) -> Result<Page<(R::Id, u64)>> {
        let Some(query) = self.query(org, filter).await? else {
            return Ok(Page { items: Vec::new(), next: None, total: 0 });
        };
        let Page { items, next, total } = self.executor.list_versions(org, query, page).await?;
        let items = items.into_iter().map(|(id, version)| Ok((id.parse()?, version))).collect::<Result<_>>()?;
        Ok(Page { items, next, total })
    }

    /// Returns the query of a filter. None: the parent that the filter names is not live.
    async fn query(&self, org: &OrgId, filter: &R::Filter) -> Result<Option<ListQuery>> {
        let parent = R::parent_in(filter);
        if self.live_parents(org, parent.iter().cloned().collect()).await?.len() < parent.iter().len() {
            return Ok(None);
        }
        let mut conditions = R::conditions(filter);
        let filter_key = format!("{parent:?}{conditions:?}");
        for condition in &mut conditions {
            match condition {
                Condition::SharedTerm { with, field } => {
                    *condition = self.resolve_shared_term(org, with, field).await?;
                }
                Condition::ParentTerms { kind, terms } => {
                    *condition = self.resolve_parent_terms(org, kind, terms).await?;
                }
                Condition::RefersTo(referenced) => {
                    *condition = self.resolve_referrers(org, referenced).await?;
                }
                _ => {}
            }
        }
        Ok(Some(ListQuery { kind: Kind::get::<R>(), parent, conditions, filter: filter_key }))
    }

    /// Resolves a condition on the terms of another resource. A missing resource has no terms.
    async fn resolve_shared_term(&self, org: &OrgId, with: &str, field: &str) -> Result<Condition> {
        let kind = Kind::of_id(with)?;
        let found = self.executor.get(org, kind, &[with.to_owned()]).await?;
        let terms = match found.first() {
            Some(Some(stored)) => kind.read(&stored.record)?.live().map(|facts| facts.row.terms),
            _ => None,
        };
        Ok(Condition::shared(field, &terms.unwrap_or_default()))
    }

    /// Resolves a condition on the references of the newest revision. Reads the record of each resource with a reference
    /// of any revision.
    async fn resolve_referrers(&self, org: &OrgId, referenced: &str) -> Result<Condition> {
        let (kind, max) = (Kind::get::<R>(), limits::REFERRERS_MAX);
        let ids = self.executor.referrers(org, kind, referenced, max + 1).await?;
        if ids.len() > max {
            let name = kind.name;
            let problem = format!("more than {max} {name}s refer to {referenced}: list every {name} instead");
            return Err(Error::invalid_field("filter", problem));
        }
        let found = self.executor.get(org, kind, &ids).await?;
        let mut referring = BTreeSet::new();
        for (id, stored) in ids.into_iter().zip(found) {
            let Some(stored) = stored else { continue };
            let fields = kind.read(&stored.record)?.live();
            if fields.is_some_and(|fields| fields.references.contains(referenced)) {
                referring.insert(id);
            }
        }
        Ok(Condition::AnyId(referring))
    }

    /// Resolves a condition on the terms of the parents.
    async fn resolve_parent_terms(&self, org: &OrgId, kind: &str, terms: &[String]) -> Result<Condition> {
        let kind = Kind::by_name(kind).ok_or_else(|| Error::internal(format!("unknown kind {kind:?}")))?;
        let conditions = terms.iter().map(|term| Condition::AnyTerm(vec![term.clone()])).collect();
        let query = ListQuery { kind, parent: None, conditions, filter: String::new() };
        let found = self.executor.matching_ids(org, query, limits::TAGGED_DOCUMENTS_MAX + 1).await?;
        if found.len() > limits::TAGGED_DOCUMENTS_MAX {
            let (max, kind) = (limits::TAGGED_DOCUMENTS_MAX, kind.name);
            let problem = format!("more than {max} {kind}s match its conditions: add a condition, or list each {kind}");
            return Err(Error::invalid_field("filter", problem));
        }
        Ok(Condition::AnyParent(found.into_iter().collect()))
    }

    /// Returns the newest live resource that matches the filter.
    pub async fn first(&self, org: &OrgId, filter: &R::Filter) -> Result<Option<R>> {
        let mut request = PageRequest { size: 1, ..PageRequest::default() };
        loop {
            let page = self.list(org, filter, &request).await?;
            if let Some(newest) = page.items.into_iter().next() {
                return Ok(Some(newest));
            }
            // A page is empty if its only row belongs to a deleted resource.
            let Some(token) = page.next else { return Ok(None) };
            request.token = Some(token);
        }
    }

    /// Returns true if a live resource matches the filter. Reads list rows only, so that a resource that was just deleted may
    /// count. Errors: those of [`Self::list`].
    pub async fn has_match(&self, org: &OrgId, filter: &R::Filter) -> Result<bool> {
        let Some(query) = self.query(org, filter).await? else { return Ok(false) };
        Ok(!self.executor.matching_ids(org, query, 1).await?.is_empty())
    }

    /// Reads the list row of each resource of the organization: cache the result.
    pub async fn resource_usage(&self, org: &OrgId) -> Result<ResourceUsage> {
        self.executor.resource_usage(org, Kind::get::<R>()).await
    }

    /// Reads the sizes of the texts, page images and journals of the organization: cache the result.
    pub async fn content_bytes(&self, org: &OrgId) -> Result<u64> {
        self.executor.content_bytes(org).await
    }

    /// Sets the bytes of a blob that was derived from a resource. 0: the blob was removed.
    pub async fn set_blob_bytes(
        &self,
        org: &OrgId,
        id: &R::Id,
        blob: &BlobId,
        bytes: u64,
        at: Timestamp,
    ) -> Result<()> {
        self.executor.set_blob_bytes(org, &id.to_string(), blob, bytes, at).await
    }

    /// Returns at most `limit` rows of the index of deletions. See [`ResourceExecutor::indexed_deletions`].
    pub async fn indexed_deletions(
        &self,
        times: &RangeInclusive<Timestamp>,
        after: Option<&DeletionRow>,
        limit: usize,
    ) -> Result<Vec<DeletionRow>> {
        self.executor.indexed_deletions(Kind::get::<R>(), times, after, limit).await
    }

    /// Returns true if the deletion of an index row happened. See [`ResourceExecutor::confirm_deletion`].
    pub async fn confirm_deletion(&self, row: &DeletionRow) -> Result<bool> {
        self.executor.confirm_deletion(Kind::get::<R>(), row).await
    }

    /// Removes the rows that a deletion left. See [`ResourceExecutor::clean_deleted`].
    pub async fn clean_deleted(&self, org: &OrgId, id: &R::Id, is_final: bool) -> Result<()> {
        self.executor.clean_deleted(org, Kind::get::<R>(), &id.to_string(), is_final).await
    }

    /// Returns the live resource with this name, compared without regard to case.
    pub async fn by_name(&self, org: &OrgId, name: &str) -> Result<Option<R>> {
        let Some(id) = self.executor.id_by_name(org, Kind::get::<R>(), name).await? else { return Ok(None) };
        let found = self.get(org, &id.parse()?).await?;
        let wanted = Some(folio_resources::folded(name));
        Ok(found.filter(|found| found.unique_name().map(folio_resources::folded) == wanted))
    }
}

impl<R: Revisioned> ResourceStore<R> {
    pub async fn revision(&self, org: &OrgId, revid: &R::RevId) -> Result<Option<R::Revision>> {
        let (id, number) = R::parts(revid);
        let Some(resource) = self.get(org, id).await? else { return Ok(None) };
        let (newest, revision) = resource.newest();
        if number == newest {
            return Ok(Some(revision.clone()));
        }
        let found = self.executor.revisions(org, &id.to_string(), &[number]).await?;
        found.into_iter().flatten().next().map(|stored| resource.revision_under_name(&stored)).transpose()
    }

    /// Records that the thread of a turn refers to a revision, so that no new revision removes the revision.
    ///
    /// Errors: `NOT_FOUND`.
    pub async fn name_revision(&self, org: &OrgId, revid: &R::RevId, turn: &TurnId) -> Result<()> {
        let (id, number) = R::parts(revid);
        if let Some(found) = R::built_in(id) {
            return if found.newest().0 == number {
                Ok(())
            } else {
                Err(Kind::revision_not_found(&id.to_string(), number))
            };
        }
        let name = RevisionName::Thread(turn.clone());
        self.executor.name_revision(org, NewName { of: id.to_string(), number, name }).await
    }

    /// Returns the revisions among these whose resource is live, in the given order; reads them concurrently.
    pub async fn revisions(&self, org: &OrgId, revids: &[R::RevId]) -> Result<Vec<R::Revision>> {
        let found = futures::future::try_join_all(revids.iter().map(|revid| self.revision(org, revid))).await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Returns a page of the revisions of a live resource, newest first unless the request orders otherwise.
    ///
    /// Errors: `INVALID_PAGE_TOKEN`.
    pub async fn list_revisions(&self, org: &OrgId, id: &R::Id, request: &PageRequest) -> Result<Page<R::Revision>> {
        let Some(resource) = self.get(org, id).await? else {
            return Ok(Page { items: Vec::new(), next: None, total: 0 });
        };
        let (newest, _) = resource.newest();
        let id = id.to_string();
        let order = format!("{:?}", request.order);
        let scope = page_token::digest(&[org.as_str().as_bytes(), id.as_bytes(), order.as_bytes()]);
        let stored = match newest as usize > limits::REVISIONS_MAX {
            true => self.executor.revision_numbers(org, &id).await?,
            false => (1..=newest).collect(),
        };
        let total = stored.len() as u64;
        let numbers = numbers(scope, stored, request)?;
        let wanted: Vec<u32> = numbers.iter().copied().take(request.effective_size()).collect();
        let mut page = Page { items: Vec::new(), next: None, total };
        let (mut bytes, mut last) = (0_usize, None);
        for (number, stored) in wanted.iter().zip(self.executor.revisions(org, &id, &wanted).await?) {
            if bytes >= PAGE_BYTES {
                break;
            }
            if let Some(stored) = stored {
                bytes = bytes.saturating_add(stored.len());
                page.items.push(resource.revision_under_name(&stored)?);
            }
            last = Some(*number);
        }
        if let Some(last) = last.filter(|last| numbers.last() != Some(last)) {
            page.next = Some(page_token::encode(scope, "", &last.to_be_bytes()));
        }
        Ok(page)
    }
}

/// Returns the numbers of the stored revisions from the page's start on, in the requested order.
fn numbers(scope: [u8; 8], mut stored: Vec<u32>, request: &PageRequest) -> Result<Vec<u32>> {
    let after = match &request.token {
        Some(token) => {
            let (_, suffix) = page_token::decode(scope, token)?;
            Some(u32::from_be_bytes(<[u8; 4]>::try_from(suffix.as_slice()).map_err(|_| page_token::invalid())?))
        }
        None => None,
    };
    if matches!(request.order, Order::Newest | Order::NameDescending) {
        stored.retain(|number| after.is_none_or(|after| *number < after));
        stored.reverse();
    } else {
        stored.retain(|number| after.is_none_or(|after| *number > after));
    }
    Ok(stored.into_iter().skip(request.skip as usize).collect())
}
