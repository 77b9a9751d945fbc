//! Reads, changes and lists of the resources of the caller's organization.

use folio_resources::{Resource, Revisioned};
use folio_types::page::Order;
use folio_types::{Error, Etag, Result, limits};

use super::Context;
use crate::list::{LARGE_PAGE_MAX, ListPage, ListRequest, Listing, SortKeys};
use crate::reference::RevisionRef;
use crate::schemas::UpdateResult;

impl Context {
    /// Returns a resource that is not deleted.
    ///
    /// # Errors
    /// `NOT_FOUND`, also for a resource of another organization.
    pub async fn find<A: Resource>(&self, id: &A::Id) -> Result<A> {
        let found = self.stores().of::<A>().get(&self.principal().org, id).await?;
        found.ok_or_else(|| Error::not_found(A::target(id).kind(), id))
    }

    /// Creates a resource under the id that follows from the request, and returns it.
    pub(crate) async fn create<A: Resource>(&self, change: A::Change) -> Result<A> {
        self.find(&self.request.create::<A>(self.stores(), change).await?).await
    }

    /// Changes a resource and returns it. `etag` is the version that the change is based on. None: any version.
    pub(crate) async fn update<A: Resource>(&self, id: &A::Id, etag: Option<Etag>, change: A::Change) -> Result<A> {
        self.request.update(self.stores(), id, etag, |_: A| std::future::ready(Ok(change.clone()))).await?;
        self.find(id).await
    }

    /// Like [`Self::update`]. Also returns whether the update created a revision.
    pub(crate) async fn revise<A: Revisioned>(
        &self,
        id: &A::Id,
        etag: Option<Etag>,
        change: A::Change,
    ) -> Result<UpdateResult<A>> {
        let update = |_: A| std::future::ready(Ok(change.clone()));
        let updated = self.request.update(self.stores(), id, etag, update).await?;
        Ok(UpdateResult { resource: self.find(id).await?, revised: updated.revised() })
    }

    /// Returns a revision of a resource that is not deleted.
    ///
    /// # Errors
    /// `NOT_FOUND`, also for a resource of another organization.
    pub(crate) async fn revision<A: Revisioned>(
        &self,
        reference: &RevisionRef<A::Id, A::RevId>,
    ) -> Result<A::Revision> {
        match reference {
            RevisionRef::Newest(id) => Ok(self.find::<A>(id).await?.newest().1.clone()),
            RevisionRef::Revision(revid) => {
                let found = self.stores().of::<A>().revision(&self.principal().org, revid).await?;
                if let Some(found) = found {
                    return Ok(found);
                }
                let (id, number) = A::parts(revid);
                let mut error = Error::not_found(&format!("{} revision", A::KIND), revid);
                let resource = self.stores().of::<A>().get(&self.principal().org, id).await?;
                if resource.is_some_and(|resource| (1..resource.newest().0).contains(&number)) {
                    let max = limits::REVISIONS_MAX;
                    error.message = format!("the {} revision {revid} was removed: at most {max} are kept", A::KIND);
                }
                Err(error)
            }
        }
    }

    /// Returns a page of the caller's organization's resources that match a filter, by default the newest first. `max`
    /// bounds the page size. Errors: those of [`Listing::new`].
    pub(crate) async fn list<A: Resource>(
        &self,
        request: &ListRequest,
        filter: &A::Filter,
        keys: SortKeys,
        max: u32,
    ) -> Result<ListPage<A>> {
        let (org, parent) = (&self.principal().org, A::parent_in(filter).unwrap_or_default());
        let listing = Listing::new(request, &[A::KIND, org.as_str(), &parent], keys, Order::Newest, max)?;
        let store = &self.stores().of::<A>();
        listing.fetch(|page| async move { store.list(org, filter, &page).await }).await
    }

    /// Returns a page of the revisions of a resource, by default the newest first. Errors: `NOT_FOUND`, and those of
    /// [`Listing::new`].
    pub(crate) async fn list_revisions<A: Revisioned>(
        &self,
        request: &ListRequest,
        id: &A::Id,
    ) -> Result<ListPage<A::Revision>> {
        let org = &self.principal().org;
        let scope = ["revisions", &id.to_string(), org.as_str()];
        let listing = Listing::new(request, &scope, SortKeys::CreateTime, Order::Newest, LARGE_PAGE_MAX)?;
        self.find::<A>(id).await?;
        let store = &self.stores().of::<A>();
        listing.fetch(|page| async move { store.list_revisions(org, id, &page).await }).await
    }
}
