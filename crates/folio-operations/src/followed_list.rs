//! The first resources of a list, followed by polls.
//!
//! A poll reads the list rows and the version of each resource, and the records only of the resources that are new or
//! changed since the last poll. A poll without a change therefore reads a few bytes for each resource, regardless of the
//! size of the resource.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use folio_resources::Resource;
use folio_storage::ResourceStore;
use folio_types::page::{Order, PageRequest};
use folio_types::{OrgId, Result};

/// A resource of a list as it was last read.
#[derive(Debug, PartialEq)]
pub(crate) struct Followed<T> {
    id: String,
    version: u64,
    parent: Option<String>,
    /// The part of the resource that the watchers need.
    pub(crate) item: T,
}

impl<T> Followed<T> {
    pub(crate) fn new<R: Resource>(resource: R, convert: fn(R) -> T) -> Self {
        let (id, version, parent) = (resource.id().to_string(), resource.version(), resource.parent());
        Self { id, version, parent, item: convert(resource) }
    }
}

/// The resources in the order of the list. An unchanged resource is shared with the previous poll.
pub(crate) type FollowedList<T> = Vec<Arc<Followed<T>>>;

/// Reads the first `max` resources of a list. `last`: the result of the last poll, empty for the first one. The filter has
/// no condition about another resource than the parent.
///
/// A poll without a change costs a count, a read of the list rows and a read of the version of each resource and of each parent
/// that the filter does not name.
pub(crate) async fn read<R: Resource, T>(
    store: &ResourceStore<R>,
    org: &OrgId,
    filter: &R::Filter,
    (order, max): (Order, usize),
    last: &[Arc<Followed<T>>],
    convert: fn(R) -> T,
) -> Result<FollowedList<T>> {
    let size = u32::try_from(max).unwrap_or(u32::MAX);
    let (mut request, mut versions) = (PageRequest { size, order, ..PageRequest::default() }, Vec::new());
    loop {
        let page = store.list_versions(org, filter, &request).await?;
        versions.extend(page.items.into_iter().map(|(id, version)| (id.to_string(), id, version)));
        request.token = page.next;
        if versions.len() >= max || request.token.is_none() {
            break;
        }
    }
    versions.truncate(max);
    let mut followed: BTreeMap<&str, Arc<Followed<T>>> = BTreeMap::new();
    let known: BTreeMap<&str, &Arc<Followed<T>>> = last.iter().map(|known| (known.id.as_str(), known)).collect();
    let mut changed = Vec::new();
    for (key, id, version) in &versions {
        match known.get(key.as_str()).filter(|known| known.version == *version) {
            Some(known) => {
                followed.insert(key.as_str(), Arc::clone(known));
            }
            None => changed.push(id.clone()),
        }
    }
    if R::HAS_PARENT && R::parent_in(filter).is_none() {
        let parents: BTreeSet<String> = followed.values().filter_map(|known| known.parent.clone()).collect();
        let live = store.live_parents(org, parents).await?;
        followed.retain(|_, known| known.parent.as_ref().is_none_or(|parent| live.contains(parent)));
    }
    let read = match changed.is_empty() {
        true => Vec::new(),
        false => store.get_many(org, &changed).await?,
    };
    let conditions = R::conditions(filter);
    // The list row of a write that was lost refers to a resource that does not match.
    let matching = read.into_iter().filter(|resource| resource.list_row().matches(&conditions));
    let read: Vec<_> = matching.map(|resource| Arc::new(Followed::new(resource, convert))).collect();
    followed.extend(versions.iter().filter_map(|(key, ..)| {
        let found = read.iter().find(|found| found.id == *key)?;
        Some((key.as_str(), Arc::clone(found)))
    }));
    Ok(versions.iter().filter_map(|(key, ..)| followed.get(key.as_str()).cloned()).collect())
}
