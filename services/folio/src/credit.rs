//! `folio credit`: balance, cost of model calls, and grants of the platform's administrator.

use std::io::Write as _;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use folio_proto::v1;
use serde_json::{Value, json};
use tokio_stream::StreamExt as _;

use crate::client::{Client, ServerArguments, answer, explain};
use crate::data::output::{Format, View};
use crate::data::{DataArguments, time};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Print the balance, and the grants with credit left.
    Balance(DataArguments),
    /// Print the usage and cost of model calls, aggregated by group.
    Usage(Usage),
    /// Print each model call as a line of JSON, oldest first.
    Export(Export),
    /// Grant credit to an organization.
    Grant(Grant),
    /// Withdraw available credit (credit that no process has drawn).
    Withdraw(Withdraw),
}

/// A period.
#[derive(Debug, clap::Args)]
struct Range {
    /// Start of the period, such as 2026-05-01 or 2026-05-01T09:30:00Z [default: 30 days before the end].
    #[arg(long, value_name = "TIME", value_parser = crate::arguments::time)]
    from: Option<folio_types::Timestamp>,
    /// End of the period, exclusive [default: now].
    #[arg(long, value_name = "TIME", value_parser = crate::arguments::time)]
    until: Option<folio_types::Timestamp>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Usage {
    /// The fields to group by, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "model,operation")]
    by: Vec<Group>,
    #[command(flatten)]
    range: Range,
    #[command(flatten)]
    data: DataArguments,
}

/// A field to group by.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Group {
    /// The model.
    Model,
    /// The purpose of the call.
    Operation,
    /// The document.
    Document,
    /// The user.
    User,
    /// The day (UTC).
    Day,
}

impl Group {
    /// Returns the column of the group.
    fn column(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Operation => "operation",
            Self::Document => "document_id",
            Self::User => "user_id",
            Self::Day => "day",
        }
    }
}

impl From<Group> for v1::UsageGroup {
    fn from(group: Group) -> Self {
        match group {
            Group::Model => Self::Model,
            Group::Operation => Self::Operation,
            Group::Document => Self::Document,
            Group::User => Self::User,
            Group::Day => Self::Day,
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct Export {
    #[command(flatten)]
    range: Range,
    #[command(flatten)]
    server: ServerArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Grant {
    /// The amount in credits.
    credits: u64,
    /// The organization [default: the organization of the token].
    #[arg(long, value_name = "ORGANIZATION")]
    organization: Option<String>,
    /// The time at which the unused credits expire [default: never].
    #[arg(long, value_name = "TIME", value_parser = crate::arguments::time)]
    expires_at: Option<folio_types::Timestamp>,
    /// The priority: grants with a lower value are used first.
    #[arg(long, default_value = "0")]
    priority: u8,
    /// The purpose.
    #[arg(long, default_value = "", hide_default_value = true)]
    note: String,
    /// Idempotency key: a repeated request with the same id grants nothing more.
    #[arg(long, default_value = "", hide_default_value = true)]
    request_id: String,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Withdraw {
    /// The amount in credits.
    credits: u64,
    /// The organization [default: the organization of the token].
    #[arg(long, value_name = "ORGANIZATION")]
    organization: Option<String>,
    /// The purpose.
    #[arg(long, default_value = "", hide_default_value = true)]
    note: String,
    /// Idempotency key: a repeated request with the same id withdraws nothing more.
    #[arg(long, default_value = "", hide_default_value = true)]
    request_id: String,
    #[command(flatten)]
    data: DataArguments,
}

pub(crate) async fn run(command: Command) -> Result<()> {
    match command {
        Command::Balance(data) => data.run(async |client| balance(&client).await).await,
        Command::Usage(arguments) => arguments.data.run(async |client| usage(&client, &arguments).await).await,
        Command::Export(arguments) => export(arguments).await,
        Command::Grant(arguments) => arguments.data.run(async |client| grant(&client, &arguments).await).await,
        Command::Withdraw(arguments) => arguments.data.run(async |client| withdraw(&client, &arguments).await).await,
    }
}

/// Returns the balance, with a table of the grants below it.
async fn balance(client: &Client) -> Result<View> {
    let balance = answer(client.usages().get_balance(v1::GetBalanceRequest::default())).await?;
    let grants: Vec<Value> = balance.grants.iter().map(grant_row).collect();
    let mut row = json!({
        "available": balance.available, "in_blocks": balance.in_blocks, "granted": balance.granted,
        "expired": balance.expired, "settled": balance.settled, "unlimited": balance.unlimited,
    });
    let mut text = View::one(row.clone()).render(Format::Table);
    if !grants.is_empty() {
        let columns = ["grant_id", "kind", "available", "credits", "expire_time", "note"];
        text = format!("{text}\n{}", View::list(columns, grants.clone()).render(Format::Table));
    }
    if let Some(members) = row.as_object_mut() {
        members.insert("grants".to_owned(), grants.into());
    }
    Ok(View::one(row).text(text))
}

fn grant_row(grant: &v1::Grant) -> Value {
    json!({
        "grant_id": grant.grant_id,
        "kind": grant.kind().as_str_name().trim_start_matches("GRANT_KIND_").to_lowercase(),
        "available": grant.available, "credits": grant.credits, "expire_time": time(grant.expire_time.as_ref()),
        "note": grant.note,
    })
}

/// Returns the usage by group. The table ends with the total.
async fn usage(client: &Client, Usage { by, range, data: _ }: &Usage) -> Result<View> {
    let request = v1::GetUsageRequest {
        start_time: range.from.map(folio_proto::time::to_proto),
        end_time: range.until.map(folio_proto::time::to_proto),
        group_by: by.iter().map(|group| v1::UsageGroup::from(*group).into()).collect(),
    };
    let usage = answer(client.usages().get_usage(request)).await?;
    Ok(usage_view(by, &usage))
}

fn usage_view(by: &[Group], usage: &v1::GetUsageResponse) -> View {
    let groups = by.iter().map(|group| group.column());
    let columns: Vec<&str> = groups.chain(COUNTS).collect();
    let rows: Vec<Value> = usage.rows.iter().map(usage_row).collect();
    let mut total = usage_row(&usage.total.clone().unwrap_or_default());
    if let (Some(members), Some(first)) = (total.as_object_mut(), columns.first()) {
        members.insert((*first).to_owned(), "total".into());
    }
    let table = View::list(columns.clone(), rows.iter().cloned().chain([total]).collect()).render(Format::Table);
    View::list(columns, rows).text(table)
}

/// The columns of the usage after those of its groups.
const COUNTS: [&str; 6] =
    ["calls", "input_tokens", "cached_input_tokens", "output_tokens", "credits", "cost_microdollars"];

fn usage_row(row: &v1::UsageRow) -> Value {
    json!({
        "model": row.model, "operation": row.operation, "document_id": row.document_id, "user_id": row.user_id,
        "day": row.day, "calls": row.calls, "input_tokens": row.input_tokens,
        "cached_input_tokens": row.cached_input_tokens, "output_tokens": row.output_tokens, "credits": row.credits,
        "cost_microdollars": row.cost_microdollars, "unpriced_calls": row.unpriced_calls,
    })
}

async fn export(Export { range, server }: Export) -> Result<()> {
    let client = server.connect().await?;
    let request = v1::DownloadUsageRequest {
        start_time: range.from.map(folio_proto::time::to_proto),
        end_time: range.until.map(folio_proto::time::to_proto),
    };
    let mut stream = answer(client.usages().download_usage(request)).await?;
    let mut out = std::io::stdout();
    while let Some(entries) = stream.next().await {
        for entry in entries.map_err(|status| explain(&status))?.entries {
            writeln!(out, "{}", entry_row(&entry))?;
        }
    }
    Ok(())
}

fn entry_row(entry: &v1::UsageEntry) -> Value {
    json!({
        "key": entry.key,
        "at": entry.end_time.as_ref().map(ToString::to_string),
        "user_id": entry.user_id,
        "operation": entry.operation,
        "model": entry.model,
        "document_id": entry.document_id,
        "input_tokens": entry.input_tokens,
        "cached_input_tokens": entry.cached_input_tokens,
        "output_tokens": entry.output_tokens,
        "completed": entry.completed,
        "credits": entry.credits,
        "cost_microdollars": entry.cost_microdollars,
        "basis": entry.basis().as_str_name().trim_start_matches("USAGE_BASIS_").to_lowercase(),
        "written_off_credits": entry.written_off_credits,
    })
}

async fn grant(client: &Client, grant: &Grant) -> Result<View> {
    let request = v1::GrantCreditRequest {
        organization_id: grant.organization.clone().unwrap_or_default(),
        credits: grant.credits,
        expire_time: grant.expires_at.map(folio_proto::time::to_proto),
        priority: grant.priority.into(),
        note: grant.note.clone(),
        request_id: grant.request_id.clone(),
    };
    let granted = answer(client.credits().grant_credit(request)).await?.grant;
    Ok(View::one(grant_row(&granted.context("invalid response of the server: the grant is missing")?)))
}

async fn withdraw(client: &Client, withdraw: &Withdraw) -> Result<View> {
    let request = v1::WithdrawCreditRequest {
        organization_id: withdraw.organization.clone().unwrap_or_default(),
        credits: withdraw.credits,
        note: withdraw.note.clone(),
        request_id: withdraw.request_id.clone(),
    };
    answer(client.credits().withdraw_credit(request)).await?;
    Ok(View::one(json!({ "withdrawn": withdraw.credits })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usage_is_a_table_by_group_with_a_total() {
        let row = v1::UsageRow { model: "m1".to_owned(), calls: 2, credits: 3, ..v1::UsageRow::default() };
        let total = v1::UsageRow { calls: 2, credits: 3, ..v1::UsageRow::default() };
        let usage = v1::GetUsageResponse { rows: vec![row], total: Some(total) };
        let view = usage_view(&[Group::Model], &usage);
        let table = view.render(Format::Table);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].starts_with("MODEL  CALLS") && lines[1].starts_with("m1"), "{table}");
        assert!(lines[2].starts_with("total  2"), "{table}");
        let rows: Value = serde_json::from_str(&view.render(Format::Json)).unwrap();
        assert_eq!((rows.as_array().map(Vec::len), &rows[0]["credits"]), (Some(1), &json!(3)));
    }
}
