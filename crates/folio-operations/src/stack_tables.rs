//! Aggregates, conflicts, changes and exports of the table of a stack.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use folio_export::{Spool, StackRecord, TableFormat};
use folio_resources::{Column, Stack, StackRow, StackRowFilter, StackRowId};
pub use folio_tools::stack::TableAnswer;
use folio_tools::stack::{
    Aggregate, AggregateFunction, ConflictFinder, TableConflict, TableQuery, answer_table, check_key_columns,
    table_rows, with_documents,
};
use folio_types::page::{Order, PageRequest};
use folio_types::{Error, Result, StackId};
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::context::Context;
use crate::declaration::Declaration;
use crate::documents::Content;
use crate::exports::{ExportFormat, Records, json_array, json_lines, spooled, tables};
use crate::operation::Operation;
use crate::stack_rows::RowView;
use crate::stacks::SERVICE;

/// Interval at which a stream reads its table.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Time without a change after which a stream sends the stack again.
// proto: StackService.WatchTable "after {} s"
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// Number of list rows of one read.
const READ_VERSIONS: u32 = 1_000;
/// Number of changed rows of one read.
const READ_ROWS: usize = 100;

/// Computes aggregates of the cells of a table.
#[derive(Debug, Clone, Serialize)]
pub struct AskTable {
    pub stack_id: StackId,
    /// Names of functions with the names of columns.
    pub aggregates: Vec<RequestedAggregate>,
    pub group_by: Vec<String>,
    /// Values by the names of columns: only rows with exactly these values count. Null: rows without a value that counts.
    pub filter: BTreeMap<String, Value>,
    pub approved_only: bool,
}

/// A function of a column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RequestedAggregate {
    /// The name of an [`AggregateFunction`].
    pub function: String,
    /// None: the rows.
    pub column: Option<String>,
}

impl Operation for AskTable {
    const DECLARATION: Declaration = SERVICE.read("AskTable").long();
    type Output = TableAnswer;

    async fn run(self, context: &Context) -> Result<TableAnswer> {
        let mut aggregates = Vec::with_capacity(self.aggregates.len());
        for (index, RequestedAggregate { function, column }) in self.aggregates.into_iter().enumerate() {
            let function = AggregateFunction::from_name(&function).ok_or_else(|| {
                let names = AggregateFunction::names().join(", ");
                Error::invalid_field(format!("aggregates[{index}].function"), format!("must be one of {names}"))
            })?;
            aggregates.push(Aggregate { function, column });
        }
        let (group_by, filter, approved_only) = (self.group_by, self.filter, self.approved_only);
        let query = TableQuery { group_by, aggregates, filter, approved_only };
        query.check()?;
        let stack: Stack = context.find(&self.stack_id).await?;
        // The rows of the whole table are read.
        let _permit = context.sorted_list_permit().await?;
        answer_table(context.stores(), &context.principal().org, stack, query, |_| true).await
    }
}

/// Lists rows with the same key and different values.
#[derive(Debug, Clone, Serialize)]
pub struct GetStackConflicts {
    pub stack_id: StackId,
    pub key_columns: Vec<String>,
    /// Empty: all other columns.
    pub columns: Vec<String>,
}

impl Operation for GetStackConflicts {
    const DECLARATION: Declaration = SERVICE.read("GetStackConflicts").long();
    /// The first conflicts, and the number of all conflicts.
    type Output = (Vec<TableConflict>, u64);

    async fn run(self, context: &Context) -> Result<Self::Output> {
        check_key_columns(&self.key_columns)?;
        let stack: Stack = context.find(&self.stack_id).await?;
        let mut finder = ConflictFinder::new(&stack, &self.key_columns, &self.columns)?;
        let _permit = context.sorted_list_permit().await?;
        let mut pages = table_rows(context.stores().clone(), context.principal().org.clone(), stack);
        while let Some(page) = pages.try_next().await? {
            page.iter().try_for_each(|found| finder.add(&found.row))?;
        }
        Ok(finder.finish())
    }
}

/// Streams the changes of a table, after the stack. A caller that lists the rows after the first element misses no change.
#[derive(Debug, Clone, Serialize)]
pub struct WatchTable {
    pub stack_id: StackId,
}

/// A change of a table.
#[derive(Debug, Clone, PartialEq)]
pub enum TableChange {
    /// The stack, at the start, after a change, and as a keep-alive.
    Stack(Box<Stack>),
    /// A row that is new or changed.
    Row(Box<RowView>),
    Removed(StackRowId),
}

impl Operation for WatchTable {
    const DECLARATION: Declaration = SERVICE.read("WatchTable").long();
    type Output = BoxStream<'static, Result<TableChange>>;

    async fn run(self, context: &Context) -> Result<Self::Output> {
        let mut stack: Stack = context.find(&self.stack_id).await?;
        let context = context.clone();
        let changes = async_stream::try_stream! {
            // A caller that does not read must occupy neither a permit nor the rows of the table, so that a permit ends before the
            // next change is sent, and rows are read in parts.
            let permit = context.poll_permit().await?;
            let mut versions = row_versions(&context, &stack.id).await?;
            drop(permit);
            let mut sent_at = Instant::now();
            yield TableChange::Stack(Box::new(stack.clone()));
            loop {
                tokio::time::sleep(POLL_INTERVAL).await;
                let permit = context.poll_permit().await?;
                let poll = poll(&context, &stack.id, &versions).await?;
                drop(permit);
                let Some(TablePoll { current, latest, removed, changed }) = poll else { break };
                let is_unchanged = removed.is_empty() && changed.is_empty();
                let is_stack_sent = current.version != stack.version || (is_unchanged && sent_at.elapsed() >= KEEP_ALIVE);
                (stack, versions) = (current, latest);
                if is_stack_sent {
                    sent_at = Instant::now();
                    yield TableChange::Stack(Box::new(stack.clone()));
                }
                for row in removed {
                    sent_at = Instant::now();
                    yield TableChange::Removed(row);
                }
                for ids in changed.chunks(READ_ROWS) {
                    let permit = context.poll_permit().await?;
                    let rows = read_rows(&context, &stack, ids).await?;
                    drop(permit);
                    for row in rows {
                        sent_at = Instant::now();
                        yield TableChange::Row(Box::new(row));
                    }
                }
            }
        };
        Ok(changes.boxed())
    }
}

/// The state of a table after a poll.
struct TablePoll {
    current: Stack,
    latest: HashMap<StackRowId, u64>,
    removed: Vec<StackRowId>,
    /// The rows that are new or changed.
    changed: Vec<StackRowId>,
}

/// Reads which rows of a table changed. None: the stack was deleted.
async fn poll(context: &Context, stack: &StackId, versions: &HashMap<StackRowId, u64>) -> Result<Option<TablePoll>> {
    let Some(current) = context.stores().of::<Stack>().get(&context.principal().org, stack).await? else {
        return Ok(None);
    };
    let latest = row_versions(context, stack).await?;
    let removed = versions.keys().filter(|id| !latest.contains_key(*id)).cloned().collect();
    let is_changed = |(id, version): &(&StackRowId, &u64)| versions.get(*id) != Some(*version);
    let changed = latest.iter().filter(is_changed).map(|(id, _)| id.clone()).collect();
    Ok(Some(TablePoll { current, latest, removed, changed }))
}

/// Reads rows of a table, without those whose documents are no members of the stack.
async fn read_rows(context: &Context, stack: &Stack, ids: &[StackRowId]) -> Result<Vec<RowView>> {
    let (stores, org) = (context.stores(), &context.principal().org);
    let columns: Arc<[Column]> = stack.columns.clone().into();
    let rows = stores.of::<StackRow>().get_many(org, ids).await?;
    let rows = with_documents(stores, org, stack, rows).await?;
    Ok(rows.into_iter().map(|found| RowView::new(found, &columns)).collect())
}

/// Returns the versions of the rows of a table. Reads list rows only.
async fn row_versions(context: &Context, stack: &StackId) -> Result<HashMap<StackRowId, u64>> {
    let (rows, org) = (context.stores().of::<StackRow>(), &context.principal().org);
    let filter = StackRowFilter { stack: Some(stack.clone()), ..StackRowFilter::default() };
    let mut request = PageRequest { size: READ_VERSIONS, order: Order::Oldest, ..PageRequest::default() };
    let mut versions = HashMap::new();
    loop {
        let page = rows.list_versions(org, &filter, &request).await?;
        versions.extend(page.items);
        let Some(next) = page.next else { return Ok(versions) };
        request.token = Some(next);
    }
}

/// Streams a table as a file.
#[derive(Debug, Clone, Serialize)]
pub struct ExportTable {
    pub stack_id: StackId,
    pub format: ExportFormat,
    /// If true, the export contains the state and the evidence of each cell.
    pub has_details: bool,
}

impl Operation for ExportTable {
    const DECLARATION: Declaration = SERVICE.read("ExportTable").long();
    type Output = Content;

    async fn run(self, context: &Context) -> Result<Content> {
        let (stack, has_details): (Stack, _) = (context.find(&self.stack_id).await?, self.has_details);
        let pages = table_rows(context.stores().clone(), context.principal().org.clone(), stack.clone());
        let of_stack = stack.clone();
        let record = move |found: folio_tools::stack::TableRow| {
            StackRecord::new(&of_stack, &found.row, &found.document.name, has_details)
        };
        let records: Records<StackRecord> = pages.map_ok(move |page| page.into_iter().map(&record).collect()).boxed();
        // A page of long texts has tens of megabytes, which a slow caller of a stream would keep in memory.
        let permit = context.export_permit().await?;
        let format = match self.format {
            ExportFormat::JsonLines => return Ok(spooled(json_lines(records), permit)),
            ExportFormat::Json => return Ok(spooled(json_array(records), permit)),
            ExportFormat::Csv => TableFormat::Csv,
            ExportFormat::Xlsx => TableFormat::Xlsx,
        };
        let new = move || Spool::of_stack(&stack, has_details);
        Ok(tables(records, new, Spool::add_stack_record, (format, permit)))
    }
}
