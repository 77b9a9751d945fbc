//! `folio credit`: balance, cost of model calls, and grants of the platform's administrator.

use std::io::Write as _;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use folio_proto::v1;
use tokio_stream::StreamExt as _;

use crate::client::{ServerArguments, answer, explain};
use crate::terminal::printable;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Print the balance, and the grants with credit left.
    Balance(ServerArguments),
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
    /// Start of the period, such as 2026-05-01T00:00:00Z [default: 30 days before the end].
    #[arg(long, value_name = "TIME")]
    from: Option<folio_types::Timestamp>,
    /// End of the period, exclusive [default: now].
    #[arg(long, value_name = "TIME")]
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
    server: ServerArguments,
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
    #[arg(long, value_name = "TIME")]
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
    server: ServerArguments,
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
    server: ServerArguments,
}

pub(crate) async fn run(command: Command) -> Result<()> {
    match command {
        Command::Balance(server) => balance(&server).await,
        Command::Usage(arguments) => usage(arguments).await,
        Command::Export(arguments) => export(arguments).await,
        Command::Grant(arguments) => grant(arguments).await,
        Command::Withdraw(arguments) => withdraw(arguments).await,
    }
}

async fn balance(server: &ServerArguments) -> Result<()> {
    let client = server.connect().await?;
    let balance = answer(client.usages().get_balance(v1::GetBalanceRequest::default())).await?;
    let v1::GetBalanceResponse { available, in_blocks, granted, expired, settled, .. } = balance;
    let mut out = std::io::stdout();
    if balance.unlimited {
        writeln!(out, "calls are recorded and not limited")?;
    }
    writeln!(out, "available {available}, in blocks of processes {in_blocks}")?;
    writeln!(out, "granted {granted}, expired {expired}, settled {settled}")?;
    for grant in &balance.grants {
        let expires = grant.expire_time.as_ref().map_or_else(|| "never".to_owned(), ToString::to_string);
        let kind = grant.kind().as_str_name().trim_start_matches("GRANT_KIND_").to_lowercase();
        let (id, left, note) = (&grant.grant_id, grant.available, printable(&grant.note));
        writeln!(out, "{id} {kind} {left} of {} expires={expires} {note}", grant.credits)?;
    }
    Ok(())
}

async fn usage(Usage { by, range, server }: Usage) -> Result<()> {
    let client = server.connect().await?;
    let request = v1::GetUsageRequest {
        start_time: range.from.map(folio_proto::time::to_proto),
        end_time: range.until.map(folio_proto::time::to_proto),
        group_by: by.into_iter().map(|group| v1::UsageGroup::from(group).into()).collect(),
    };
    let usage = answer(client.usages().get_usage(request)).await?;
    let mut out = std::io::stdout();
    for row in &usage.rows {
        writeln!(out, "{}", line(row))?;
    }
    Ok(writeln!(out, "total {}", line(&usage.total.unwrap_or_default()))?)
}

fn line(row: &v1::UsageRow) -> String {
    let labels = [&row.model, &row.operation, &row.document_id, &row.user_id, &row.day];
    let labels: Vec<_> = labels.into_iter().filter(|label| !label.is_empty()).map(|label| printable(label)).collect();
    let counts = format!(
        "calls={} input_tokens={} cached_input_tokens={} output_tokens={} credits={} cost_microdollars={}",
        row.calls, row.input_tokens, row.cached_input_tokens, row.output_tokens, row.credits, row.cost_microdollars
    );
    if labels.is_empty() { counts } else { format!("{} {counts}", labels.join(" ")) }
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
            writeln!(out, "{}", json(&entry))?;
        }
    }
    Ok(())
}

fn json(entry: &v1::UsageEntry) -> serde_json::Value {
    serde_json::json!({
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

async fn grant(grant: Grant) -> Result<()> {
    let client = grant.server.connect().await?;
    let request = v1::GrantCreditRequest {
        organization_id: grant.organization.unwrap_or_default(),
        credits: grant.credits,
        expire_time: grant.expires_at.map(folio_proto::time::to_proto),
        priority: grant.priority.into(),
        note: grant.note,
        request_id: grant.request_id,
    };
    let granted = answer(client.credits().grant_credit(request)).await?.grant;
    let granted = granted.context("invalid response of the server: the grant is missing")?;
    Ok(writeln!(std::io::stdout(), "{} {}", granted.grant_id, granted.credits)?)
}

async fn withdraw(withdraw: Withdraw) -> Result<()> {
    let client = withdraw.server.connect().await?;
    let request = v1::WithdrawCreditRequest {
        organization_id: withdraw.organization.unwrap_or_default(),
        credits: withdraw.credits,
        note: withdraw.note,
        request_id: withdraw.request_id,
    };
    answer(client.credits().withdraw_credit(request)).await.map(drop)
}
