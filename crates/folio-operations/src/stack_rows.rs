//! Operations on the rows and the cells of the table of a stack.

use std::sync::Arc;

use folio_resources::{
    CellEdit, CellState, Column, CreationPeriod, Document, FieldDecision, STACK_COLUMNS_MAX, Stack, StackRow,
    StackRowChange, StackRowFilter, StackRowId,
};
use folio_tools::stack::{TableRow, check_members, with_documents};
use folio_types::op::{Expected, OpKey, Write};
use folio_types::page::{Order, Page};
use folio_types::{Digest, DocumentId, Error, Etag, Result, StackId, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};

use crate::context::Context;
use crate::declaration::Declaration;
use crate::filter;
use crate::list::{LARGE_PAGE_MAX, ListPage, ListRequest, Listing, SortKeys};
use crate::operation::Operation;
use crate::stacks::SERVICE;
use crate::waiting_items::WaitingItem;

/// A row with the name of its document and the columns of its table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RowView {
    pub row: StackRow,
    pub document_name: String,
    #[serde(skip)]
    pub columns: Arc<[Column]>,
}

impl RowView {
    pub(crate) fn new(TableRow { row, document }: TableRow, columns: &Arc<[Column]>) -> Self {
        Self { row, document_name: document.name, columns: Arc::clone(columns) }
    }
}

/// Lists the rows of a table. Filter: `document:` a document, `cell:` a state that a cell has, `waiting:` true.
#[derive(Debug, Clone, Serialize)]
pub struct ListStackRows {
    pub stack_id: StackId,
    pub list: ListRequest,
}

impl Operation for ListStackRows {
    const DECLARATION: Declaration = SERVICE.read("ListStackRows");
    type Output = ListPage<RowView>;

    async fn run(self, context: &Context) -> Result<ListPage<RowView>> {
        let (stores, org) = (context.stores(), &context.principal().org);
        let filter = &row_filter(&self.list.filter, &self.stack_id)?;
        let scope = ["stack rows", org.as_str(), self.stack_id.as_str()];
        let listing = Listing::new(&self.list, &scope, SortKeys::CreateTime, Order::Newest, LARGE_PAGE_MAX)?;
        let stack = &context.find::<Stack>(&self.stack_id).await?;
        let columns: Arc<[Column]> = stack.columns.clone().into();
        let (rows, columns) = (&stores.of::<StackRow>(), &columns);
        let _permit = context.table_page_permit().await?;
        listing
            .fetch(|page| async move {
                let Page { items, next, total } = rows.list(org, filter, &page).await?;
                let found = with_documents(stores, org, stack, items).await?;
                Ok(Page { items: found.into_iter().map(|found| RowView::new(found, columns)).collect(), next, total })
            })
            .await
    }
}

fn row_filter(text: &str, stack: &StackId) -> Result<StackRowFilter> {
    let mut found = StackRowFilter { stack: Some(stack.clone()), ..StackRowFilter::default() };
    for condition in filter::parse(text)? {
        match condition.field.as_str() {
            "document" => filter::set_once(&mut found.document, &condition, condition.id()?)?,
            "cell" => {
                let named = CellState::from_name(&condition.search()?);
                filter::set_once(&mut found.cell_state, &condition, condition.one_of(named, &CellState::names())?)?;
            }
            "waiting" => found.is_waiting_for_review = condition.flag()?,
            _ => return Err(filter::unknown_field(&condition, "document, cell and waiting")),
        }
    }
    Ok(found)
}

/// Returns a stack, and a document of it. Error: `NOT_FOUND`.
async fn member(context: &Context, stack: &StackId, document: &DocumentId) -> Result<(Stack, Document)> {
    let (stack, found): (Stack, Document) = (context.find(stack).await?, context.find(document).await?);
    match stack.contains(&found) {
        true => Ok((stack, found)),
        false => Err(Error::not_found("document", document)),
    }
}

async fn view(context: &Context, stack: Stack, document: Document) -> Result<RowView> {
    let row: StackRow = context.find(&StackRowId::of(&stack.id, &document.id)).await?;
    let columns: Arc<[Column]> = stack.columns.into();
    Ok(RowView::new(TableRow { row, document }, &columns))
}

/// Returns the row of a document.
#[derive(Debug, Clone, Serialize)]
pub struct GetStackRow {
    pub stack_id: StackId,
    pub document_id: DocumentId,
}

impl Operation for GetStackRow {
    const DECLARATION: Declaration = SERVICE.read("GetStackRow");
    type Output = RowView;

    async fn run(self, context: &Context) -> Result<RowView> {
        let (stack, document) = member(context, &self.stack_id, &self.document_id).await?;
        view(context, stack, document).await
    }
}

/// Sets the value of a cell, and creates a missing row.
#[derive(Debug, Clone, Serialize)]
pub struct UpdateStackCell {
    pub stack_id: StackId,
    pub document_id: DocumentId,
    /// Name of the column.
    pub column: String,
    /// Null: removes the value.
    pub value: Value,
    /// The version of the row that the change is based on. None: any version.
    pub etag: Option<Etag>,
}

impl Operation for UpdateStackCell {
    const DECLARATION: Declaration = SERVICE.change("UpdateStackCell");
    type Output = RowView;

    async fn run(self, context: &Context) -> Result<RowView> {
        let (stack, document) = member(context, &self.stack_id, &self.document_id).await?;
        let column = stack.column(&self.column)?;
        let value = column.checked_value("value_json", &self.value)?;
        let columns = stack.columns.clone();
        let edit = CellEdit { column: column.number, revision: column.revision, value, columns };
        let id = StackRowId::of(&stack.id, &document.id);
        create_row(context, &stack, &document.id).await?;
        let change = StackRowChange::Edit(edit);
        let update = |_: StackRow| std::future::ready(Ok(change.clone()));
        context.request.update(context.stores(), &id, self.etag, update).await?;
        view(context, stack, document).await
    }
}

/// Creates the row of a document if there is none. Error: `TOO_LARGE` if the stack has too many members.
async fn create_row(context: &Context, stack: &Stack, document: &DocumentId) -> Result<()> {
    let (rows, principal, id) =
        (context.stores().of::<StackRow>(), context.principal(), StackRowId::of(&stack.id, document));
    if rows.get(&principal.org, &id).await?.is_some() {
        return Ok(());
    }
    check_members(context.stores(), &principal.org, stack).await?;
    let content = json!({ "row": id, "request": context.request.id() });
    let digest = Digest::of_json(&content);
    let write = Write {
        org: principal.org.clone(),
        op: OpKey::Request { user: principal.user.clone(), request: format!("folio-stack-row-{digest}").parse()? },
        digest,
        by: principal.user.clone(),
        at: context.request.received_at(),
        expected: Expected::Absent,
        change: StackRowChange::Create { stack: stack.id.clone(), document: document.clone() },
    };
    // Another request may have created the row meanwhile.
    rows.decide(&id, write).await.map(drop)
}

/// Decides about cells of a row.
#[derive(Debug, Clone, Serialize)]
pub struct ReviewStackCells {
    pub stack_id: StackId,
    pub document_id: DocumentId,
    /// Names of the columns. Empty: the columns whose cells wait for a decision.
    pub columns: Vec<String>,
    /// None: withdraws the decisions.
    pub decision: Option<FieldDecision>,
    /// The version of the row that the decision is based on. None: any version.
    pub etag: Option<Etag>,
}

impl Operation for ReviewStackCells {
    const DECLARATION: Declaration = SERVICE.change("ReviewStackCells");
    type Output = RowView;

    async fn run(self, context: &Context) -> Result<RowView> {
        if self.columns.len() > STACK_COLUMNS_MAX {
            return Err(Error::invalid_field("columns", format!("has more than {STACK_COLUMNS_MAX} elements")));
        }
        // A row remains in the inbox after its document has left the stack.
        let (stack, document): (Stack, Document) =
            (context.find(&self.stack_id).await?, context.find(&self.document_id).await?);
        let named = self.columns.iter().map(|name| stack.column(name).map(|column| column.number));
        let (named, decision): (Vec<u32>, _) = (named.collect::<Result<_>>()?, self.decision);
        let change = |row: StackRow| {
            let waiting = row.cells.iter().filter(|(_, cell)| cell.is_waiting()).map(|(number, _)| *number);
            let columns: Vec<u32> = if named.is_empty() { waiting.collect() } else { named.clone() };
            std::future::ready(match columns.is_empty() {
                true => {
                    Err(Error::invalid_field("columns", "no cell of the row waits for a decision; name the columns"))
                }
                false => Ok(StackRowChange::Review { columns, decision }),
            })
        };
        let id = StackRowId::of(&stack.id, &document.id);
        context.request.update(context.stores(), &id, self.etag, change).await?;
        view(context, stack, document).await
    }
}

/// A row with cells that wait for a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PendingCellReview {
    pub row: StackRowId,
    pub stack: StackId,
    pub document: DocumentId,
    /// Number of cells that wait.
    pub waiting: usize,
    pub approved: usize,
    pub rejected: usize,
    /// Time of creation of the row.
    pub created_at: Timestamp,
}

impl WaitingItem for PendingCellReview {
    type Resource = StackRow;

    fn filter(created: Option<CreationPeriod>) -> StackRowFilter {
        StackRowFilter { is_waiting_for_review: true, created, ..StackRowFilter::default() }
    }

    fn of(row: StackRow) -> Self {
        Self {
            waiting: row.cells.values().filter(|cell| cell.is_waiting()).count(),
            approved: row.count(CellState::Approved),
            rejected: row.count(CellState::Rejected),
            row: row.id,
            stack: row.stack,
            document: row.document,
            created_at: row.created_at,
        }
    }

    fn id(&self) -> &StackRowId {
        &self.row
    }

    fn created_at(&self) -> Timestamp {
        self.created_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_selects_rows_of_the_stack() {
        let (stack, document) = (StackId::derive(&["s"]), DocumentId::derive(&["d"]));
        let found = row_filter(&format!("document:{document} cell:filled waiting:true"), &stack).unwrap();
        let expected = StackRowFilter {
            stack: Some(stack.clone()),
            document: Some(document),
            cell_state: Some(CellState::Filled),
            is_waiting_for_review: true,
            created: None,
        };
        assert_eq!(found, expected);
        for bad in ["document:x", "cell:missing", "waiting:maybe", "name:a", "cell:empty cell:filled"] {
            assert_eq!(row_filter(bad, &stack).unwrap_err().violations[0].field, "filter", "{bad}");
        }
    }
}
