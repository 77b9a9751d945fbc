//! A client that creates a stack of documents and fills its rows.

use folio_proto::v1;

use super::job_user::request_id;
use super::log::ClientEvent;
use super::simulated_user::{SimulatedUser, call};

impl SimulatedUser {
    /// Creates a stack of documents with a column. Returns its id. None: it was refused.
    pub(super) async fn create_stack(&mut self, name: &str, documents: &[String]) -> Option<String> {
        let stack = v1::Stack { name: name.to_owned(), document_ids: documents.to_vec(), ..Default::default() };
        let request = v1::CreateStackRequest { stack: Some(stack), request_id: request_id("stack", name) };
        let made = self.retry(call!(stacks.create_stack(request))).await;
        let made = made.inspect_err(|error| println!("  a stack was not created: {error}")).ok()?;
        let stack_id = made.into_inner().stack.expect("a stack").stack_id;
        self.log.add(&self.tenant.org, ClientEvent::Created { id: stack_id.clone() });
        let total = v1::StackColumn {
            name: "Total".to_owned(),
            r#type: v1::StackColumnType::Number.into(),
            ..Default::default()
        };
        let request = v1::DefineStackColumnsRequest {
            stack_id: stack_id.clone(),
            columns: vec![total],
            request_id: request_id("columns", name),
            ..Default::default()
        };
        let defined = self.retry(call!(stacks.define_stack_columns(request))).await;
        defined.inspect_err(|error| println!("  the columns were not defined: {error}")).ok()?;
        Some(stack_id)
    }

    /// Starts the job that fills the rows of a stack, with a credit budget. Returns its id. None: it was refused.
    pub(super) async fn fill_stack(&mut self, stack: &str, name: &str, credits: u64) -> Option<String> {
        let request = v1::FillStackRequest {
            stack_id: stack.to_owned(),
            credit_budget: Some(credits),
            request_id: request_id("fill", name),
            ..Default::default()
        };
        match self.retry(call!(stacks.fill_stack(request))).await {
            Ok(answer) => Some(answer.into_inner().job.expect("a job").job_id),
            Err(error) => {
                println!("  {name} was refused: {error}");
                None
            }
        }
    }
}
