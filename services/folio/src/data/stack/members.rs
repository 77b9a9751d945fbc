//! The creation of stacks and the changes of their members.

use anyhow::Result;
use folio_proto::v1;

use super::super::output::View;
use super::super::{DataArguments, present, stack_text, tag};
use super::id;
use crate::client::{Client, answer};
use crate::{documents, names};

#[derive(Debug, clap::Args)]
pub(crate) struct Create {
    /// The name.
    name: String,
    /// A text that describes the table to agents and people.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    description: String,
    /// A document, by id or name; may be given several times.
    #[arg(long = "document", value_name = "DOCUMENT", conflicts_with_all = ["tags", "metadata"])]
    documents: Vec<String>,
    /// Documents with this tag, by id or name, also later ones; may be given several times.
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Documents whose entry KEY of the metadata is this text; may be given several times.
    #[arg(long = "metadata", value_name = "KEY=TEXT", value_parser = super::super::document::entry)]
    metadata: Vec<(String, String)>,
    /// The model of the turns that fill rows [default: the default of the organization].
    #[arg(long, default_value = "", hide_default_value = true)]
    model: String,
    /// Approve values with at least this confidence, from 0 to 1; the others wait for a decision.
    #[arg(long, value_name = "CONFIDENCE")]
    approve_from: Option<f64>,
    /// Approve only values with a citation.
    #[arg(long, requires = "approve_from")]
    require_citation: bool,
    /// Fill rows of new documents without a request.
    #[arg(long)]
    auto_fill: bool,
    /// Credit that each automatic job may cost [default: no budget].
    #[arg(long, value_name = "CREDITS", requires = "auto_fill")]
    auto_fill_budget: Option<u64>,
    #[command(flatten)]
    pub(super) data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Members {
    /// The stack, by id or name.
    stack: String,
    /// The documents, by id or name.
    #[arg(value_name = "DOCUMENT", required = true)]
    documents: Vec<String>,
    #[command(flatten)]
    pub(super) data: DataArguments,
}

pub(super) async fn make(client: &Client, create: &Create) -> Result<View> {
    let has_rule = !create.tags.is_empty() || !create.metadata.is_empty();
    let rule = v1::StackMemberRule {
        tag_ids: tag::ids(client, &create.tags).await?,
        metadata: create.metadata.iter().cloned().collect(),
    };
    let review_rule = create
        .approve_from
        .map(|min_confidence| v1::StackReviewRule { min_confidence, requires_citation: create.require_citation });
    let stack = v1::Stack {
        name: create.name.clone(),
        description: create.description.clone(),
        document_ids: documents::ids(client, &create.documents).await?,
        rule: has_rule.then_some(rule),
        model: create.model.clone(),
        review_rule,
        auto_fill: create.auto_fill.then_some(v1::StackAutoFill { credit_budget: create.auto_fill_budget }),
        ..v1::Stack::default()
    };
    let request = v1::CreateStackRequest { stack: Some(stack), ..Default::default() };
    Ok(stack_text::view(&present(answer(client.stacks().create_stack(request)).await?.stack)?))
}

pub(super) async fn change(client: &Client, members: &Members, adds: bool) -> Result<View> {
    let documents = documents::ids(client, &members.documents).await?;
    let (add_document_ids, remove_document_ids) = if adds { (documents, Vec::new()) } else { (Vec::new(), documents) };
    let stack_id = id(client, &members.stack, names::choose).await?;
    let request = v1::UpdateStackRequest {
        stack: Some(v1::Stack { stack_id, ..v1::Stack::default() }),
        add_document_ids,
        remove_document_ids,
        ..Default::default()
    };
    Ok(stack_text::view(&present(answer(client.stacks().update_stack(request)).await?.stack)?))
}
