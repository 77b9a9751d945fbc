//! A client that creates a stack of documents, fills its rows, and adds documents whose rows are filled automatically.

use std::time::Duration;

use folio_proto::v1;

use super::job_user::request_id;
use super::log::ClientEvent;
use super::simulated_user::{SimulatedUser, call};

/// Columns of the table. The script of the model fills them with one call.
pub(super) const COLUMNS: [(&str, v1::StackColumnType); 2] =
    [("Total", v1::StackColumnType::Number), ("Note", v1::StackColumnType::Text)];
/// Credit for each row of the job whose budget does not suffice: that of about one model call with its reservation.
const SHORT_CREDITS_PER_ROW: u64 = 12;
/// Interval at which a row is read until its cells are filled.
const ROW_INTERVAL: Duration = Duration::from_millis(500);

/// The table of a client.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) stack: String,
    /// Name of the table in request ids.
    pub(super) name: String,
    /// Credit for each row of the jobs whose budget suffices.
    pub(super) credits_per_row: u64,
}

impl SimulatedUser {
    /// Creates a stack of documents with columns. Returns its id. None: it was refused.
    pub(super) async fn create_stack(&mut self, name: &str, documents: &[String]) -> Option<String> {
        let stack = v1::Stack { name: name.to_owned(), document_ids: documents.to_vec(), ..Default::default() };
        let request = v1::CreateStackRequest { stack: Some(stack), request_id: request_id("stack", name) };
        let made = self.retry(call!(stacks.create_stack(request))).await;
        let made = made.inspect_err(|error| println!("  a stack was not created: {error}")).ok()?;
        let stack_id = made.into_inner().stack.expect("a stack").stack_id;
        self.log.add(&self.tenant.org, ClientEvent::Created { id: stack_id.clone() });
        let column = |(name, kind): (&str, v1::StackColumnType)| v1::StackColumn {
            name: name.to_owned(),
            r#type: kind.into(),
            ..Default::default()
        };
        let request = v1::DefineStackColumnsRequest {
            stack_id: stack_id.clone(),
            columns: COLUMNS.map(column).to_vec(),
            request_id: request_id("columns", name),
            ..Default::default()
        };
        let defined = self.retry(call!(stacks.define_stack_columns(request))).await;
        defined.inspect_err(|error| println!("  the columns were not defined: {error}")).ok()?;
        Some(stack_id)
    }

    /// Fills the rows of a table with this number of rows by two jobs, and then adds documents, whose rows a job of the setting
    /// `auto_fill` fills. The credit budget of the first job does not suffice for all rows; the second job continues with the
    /// rest. Returns the last of both jobs. None: the first job was refused.
    pub(super) async fn fill_table(&mut self, table: &Table, rows: u64, added: &[String]) -> Option<v1::Job> {
        let short = self.fill_stack(table, "short", SHORT_CREDITS_PER_ROW * rows).await?;
        let mut ended = self.wait_for_job(&short).await;
        println!("the job with a short budget ended: {} done, {} failed", ended.done_items, ended.failed_items);
        // The server refuses a job that has no row to fill.
        if let Some(rest) = self.fill_stack(table, "rest", table.credits_per_row * rows).await {
            ended = self.wait_for_job(&rest).await;
        }
        self.add_members(table, added).await;
        for document in added {
            self.wait_for_row(&table.stack, document).await;
        }
        Some(ended)
    }

    /// Starts the job that fills the rows of a stack, with a credit budget. Returns its id. None: it was refused.
    async fn fill_stack(&mut self, table: &Table, name: &str, credits: u64) -> Option<String> {
        let request = v1::FillStackRequest {
            stack_id: table.stack.clone(),
            credit_budget: Some(credits),
            request_id: request_id("fill", &format!("{} {name}", table.name)),
            ..Default::default()
        };
        match self.retry(call!(stacks.fill_stack(request))).await {
            Ok(answer) => Some(answer.into_inner().job.expect("a job").job_id),
            Err(error) => {
                println!("  the job {name} was refused: {error}");
                None
            }
        }
    }

    /// Adds documents to a stack, which fills their rows automatically from then on.
    async fn add_members(&mut self, table: &Table, documents: &[String]) {
        let credit_budget = table.credits_per_row * u64::try_from(documents.len()).expect("a small number");
        let auto_fill = v1::StackAutoFill { credit_budget: Some(credit_budget.max(1)) };
        let stack = v1::Stack { stack_id: table.stack.clone(), auto_fill: Some(auto_fill), ..Default::default() };
        let request = v1::UpdateStackRequest {
            stack: Some(stack),
            add_document_ids: documents.to_vec(),
            request_id: request_id("add", &table.name),
            ..Default::default()
        };
        if let Err(error) = self.retry(call!(stacks.update_stack(request))).await {
            println!("  the documents were not added: {error}");
        }
    }

    /// Waits until all cells of a row are filled.
    async fn wait_for_row(&mut self, stack: &str, document: &str) {
        let request = v1::GetStackRowRequest { stack_id: stack.to_owned(), document_id: document.to_owned() };
        loop {
            let found = self.retry(call!(stacks.get_stack_row(request))).await;
            let row = found.ok().and_then(|found| found.into_inner().row);
            if row.is_some_and(|row| row.missing_columns.is_empty()) {
                return;
            }
            self.resume_waiting_jobs().await;
            // The nodes work during the sleep.
            tokio::time::sleep(ROW_INTERVAL).await;
        }
    }
}
