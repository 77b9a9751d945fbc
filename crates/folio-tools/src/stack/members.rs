//! The documents of a stack, and the rows of its table.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use folio_resources::{Document, STACK_ROWS_MAX, Stack, StackMembers, StackRow, StackRowFilter, StackRowId};
use folio_storage::Stores;
use folio_types::page::{Order, PageRequest};
use folio_types::{DocumentId, Error, OrgId, Reason, Result};
use futures::stream::{BoxStream, StreamExt as _};

/// Number of documents or rows of one read.
const READ_AT_ONCE: usize = 100;
/// Number of list rows of one read.
const LISTED_AT_ONCE: u32 = 1_000;
/// Maximum total of a list that every store counts exactly.
const COUNTED_MAX: u64 = 1_024;

/// A row with its document, which is a member of the stack.
#[derive(Debug, Clone, PartialEq)]
pub struct TableRow {
    pub row: StackRow,
    pub document: Document,
}

/// Returns the ids of the documents of a stack in their order: that of the list, or the oldest first. A document that was just
/// deleted may be among them.
///
/// # Errors
/// `TOO_LARGE` if more documents than [`STACK_ROWS_MAX`] fulfill the rule.
pub async fn member_ids(stores: &Stores, org: &OrgId, stack: &Stack) -> Result<Vec<DocumentId>> {
    let documents = stores.of::<Document>();
    let mut members = Vec::new();
    match &stack.members {
        StackMembers::Documents(listed) => {
            for ids in listed.chunks(READ_AT_ONCE) {
                let live = documents.live_parents(org, ids.iter().map(ToString::to_string).collect()).await?;
                members.extend(ids.iter().filter(|id| live.contains(id.as_str())).cloned());
            }
        }
        StackMembers::Rule(rule) => {
            let filter = rule.filter();
            let mut request = PageRequest { size: LISTED_AT_ONCE, order: Order::Oldest, ..PageRequest::default() };
            loop {
                let page = documents.list_versions(org, &filter, &request).await?;
                members.extend(page.items.into_iter().map(|(id, _)| id));
                if members.len() > STACK_ROWS_MAX {
                    return Err(too_many_members());
                }
                let Some(next) = page.next else { break };
                request.token = Some(next);
            }
        }
    }
    Ok(members)
}

fn too_many_members() -> Error {
    let message = format!("more than {STACK_ROWS_MAX} documents fulfill the rule of the stack; narrow the rule");
    Error::precondition(Reason::TooLarge, message)
}

/// Returns true if more documents than [`STACK_ROWS_MAX`] fulfill the rule of a stack. A list of documents never has more.
pub async fn has_too_many_members(stores: &Stores, org: &OrgId, stack: &Stack) -> Result<bool> {
    let StackMembers::Rule(rule) = &stack.members else { return Ok(false) };
    let first = PageRequest { size: 1, ..PageRequest::default() };
    if stores.of::<Document>().list_versions(org, &rule.filter(), &first).await?.total <= COUNTED_MAX {
        return Ok(false);
    }
    match member_ids(stores, org, stack).await {
        Ok(_) => Ok(false),
        Err(error) if error.reason == Reason::TooLarge => Ok(true),
        Err(error) => Err(error),
    }
}

/// Checks that rows of a stack may be created. A row belongs to a member, so that the table never has more rows than
/// [`STACK_ROWS_MAX`].
///
/// # Errors
/// `TOO_LARGE` if more documents fulfill the rule.
pub async fn check_members(stores: &Stores, org: &OrgId, stack: &Stack) -> Result<()> {
    if has_too_many_members(stores, org, stack).await? { Err(too_many_members()) } else { Ok(()) }
}

/// Returns the members without a row, or with a cell that is not filled, in their order. Reads every row of the table.
pub async fn unfilled(stores: &Stores, org: &OrgId, stack: &Stack) -> Result<Vec<DocumentId>> {
    let (members, rows) = (member_ids(stores, org, stack).await?, stores.of::<StackRow>());
    let mut missing = Vec::new();
    for documents in members.chunks(READ_AT_ONCE) {
        let ids: Vec<StackRowId> = documents.iter().map(|document| StackRowId::of(&stack.id, document)).collect();
        let found = rows.get_many(org, &ids).await?;
        let is_complete = |row: &StackRow| !stack.columns.iter().any(|column| row.is_missing(column));
        let complete: BTreeSet<DocumentId> = found.into_iter().filter(is_complete).map(|row| row.document).collect();
        missing.extend(documents.iter().filter(|document| !complete.contains(document)).cloned());
    }
    Ok(missing)
}

/// Returns the rows of these pages whose documents are members of the stack, with the documents.
pub async fn with_documents(stores: &Stores, org: &OrgId, stack: &Stack, rows: Vec<StackRow>) -> Result<Vec<TableRow>> {
    let ids: Vec<DocumentId> = rows.iter().map(|row| row.document.clone()).collect();
    let documents = stores.of::<Document>().get_many(org, &ids).await?;
    let mut documents: HashMap<DocumentId, Document> =
        documents.into_iter().map(|document| (document.id.clone(), document)).collect();
    // A list of members is read once for all rows.
    let members: HashSet<DocumentId> = match &stack.members {
        StackMembers::Documents(listed) => listed.iter().filter(|id| documents.contains_key(*id)).cloned().collect(),
        StackMembers::Rule(_) => {
            let selected = documents.values().filter(|document| stack.contains(document));
            selected.map(|document| document.id.clone()).collect()
        }
    };
    let with_document = |row: StackRow| {
        let document = documents.remove(&row.document).filter(|document| members.contains(&document.id))?;
        Some(TableRow { row, document })
    };
    Ok(rows.into_iter().filter_map(with_document).collect())
}

/// Streams the rows of a table in pages, oldest first.
pub fn table_rows(stores: Stores, org: OrgId, stack: Stack) -> BoxStream<'static, Result<Vec<TableRow>>> {
    let size = u32::try_from(READ_AT_ONCE).unwrap_or(u32::MAX);
    let request = PageRequest { size, order: Order::Oldest, ..PageRequest::default() };
    let filter = StackRowFilter { stack: Some(stack.id.clone()), ..StackRowFilter::default() };
    let table = Arc::new((stores, org, stack, filter));
    futures::stream::try_unfold(Some(request), move |request| {
        let table = Arc::clone(&table);
        async move {
            let Some(request) = request else { return Ok(None) };
            let (stores, org, stack, filter) = &*table;
            let page = stores.of::<StackRow>().list(org, filter, &request).await?;
            let next = page.next.map(|token| PageRequest { token: Some(token), ..request });
            let rows = with_documents(stores, org, stack, page.items).await?;
            Ok::<_, Error>(Some((rows, next)))
        }
    })
    .boxed()
}
