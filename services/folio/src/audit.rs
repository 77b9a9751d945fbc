//! `folio audit`: decisions on tool calls, their effects, and changes by administrators.

use std::io::Write as _;

use anyhow::Result;
use folio_proto::v1;
use tokio_stream::StreamExt as _;

use crate::client::{ServerArguments, answer, explain};
use crate::terminal::printable;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Print a line for each entry, newest first.
    List(List),
    /// Print each entry as a line of JSON, oldest first.
    Export(Export),
}

/// The selection of entries.
#[derive(Debug, clap::Args)]
struct Selection {
    /// Start of the period, such as 2026-05-01 or 2026-05-01T09:30:00Z [default: the first entry].
    #[arg(long, value_name = "TIME", value_parser = crate::arguments::time)]
    from: Option<folio_types::Timestamp>,
    /// End of the period, exclusive [default: now].
    #[arg(long, value_name = "TIME", value_parser = crate::arguments::time)]
    until: Option<folio_types::Timestamp>,
    /// Conditions that must all hold, such as "user=ID thread=ID turn=ID kind=call_approved subject=create_tag".
    #[arg(long, default_value = "", hide_default_value = true)]
    filter: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct List {
    #[command(flatten)]
    selection: Selection,
    /// Maximum number of entries.
    #[arg(long, value_name = "N", default_value = "100")]
    limit: usize,
    #[command(flatten)]
    server: ServerArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Export {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    server: ServerArguments,
}

pub(crate) async fn run(command: Command) -> Result<()> {
    match command {
        Command::List(list) => print(list).await,
        Command::Export(arguments) => export(arguments).await,
    }
}

async fn print(List { selection, limit, server }: List) -> Result<()> {
    let client = server.connect().await?;
    let mut out = std::io::stdout();
    let mut request = v1::ListAuditEntriesRequest {
        start_time: selection.from.map(folio_proto::time::to_proto),
        end_time: selection.until.map(folio_proto::time::to_proto),
        filter: selection.filter,
        ..v1::ListAuditEntriesRequest::default()
    };
    let mut left = limit;
    while left > 0 {
        request.page_size = i32::try_from(left).unwrap_or(i32::MAX);
        let page = answer(client.audits().list_audit_entries(request.clone())).await?;
        for entry in &page.entries {
            writeln!(out, "{}", line(entry))?;
        }
        left = left.saturating_sub(page.entries.len());
        if page.next_page_token.is_empty() {
            return Ok(());
        }
        request.page_token = page.next_page_token;
    }
    Ok(())
}

async fn export(Export { selection, server }: Export) -> Result<()> {
    let client = server.connect().await?;
    let request = v1::DownloadAuditEntriesRequest {
        start_time: selection.from.map(folio_proto::time::to_proto),
        end_time: selection.until.map(folio_proto::time::to_proto),
        filter: selection.filter,
    };
    let (mut stream, mut out) = (answer(client.audits().download_audit_entries(request)).await?, std::io::stdout());
    while let Some(lines) = stream.next().await {
        out.write_all(lines.map_err(|status| explain(&status))?.json_lines.as_bytes())?;
    }
    Ok(out.flush()?)
}

fn line(entry: &v1::AuditEntry) -> String {
    let word = |name: &str, prefix: &str| name.trim_start_matches(prefix).to_lowercase();
    let mut parts = vec![
        entry.create_time.as_ref().map(ToString::to_string).unwrap_or_default(),
        word(entry.kind().as_str_name(), "AUDIT_KIND_"),
        printable(&entry.subject),
    ];
    let ground = match entry.ground() {
        v1::AuditGround::Unspecified => String::new(),
        v1::AuditGround::Rule => format!("{:?}", printable(&entry.rule)),
        ground => word(ground.as_str_name(), "AUDIT_GROUND_"),
    };
    let labels = [
        ("outcome", &entry.outcome),
        ("by", &ground),
        ("user", &entry.user_id),
        ("call", &entry.call_id),
        ("target", &entry.target_id),
        ("arguments", &entry.arguments_json),
    ];
    for (name, value) in labels.into_iter().filter(|(_, value)| !value.is_empty()) {
        parts.push(format!("{name}={}", printable(value)));
    }
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_the_known_fields_and_no_terminal_escapes() {
        let entry = v1::AuditEntry {
            kind: v1::AuditKind::CallApproved.into(),
            subject: "create_tag".to_owned(),
            ground: v1::AuditGround::Rule.into(),
            rule: "two\u{1b}[31m eyes".to_owned(),
            arguments_json: "{\"name\":\"<4 characters>\"}".to_owned(),
            ..v1::AuditEntry::default()
        };
        let line = line(&entry);
        assert!(line.contains("call_approved create_tag by=") && line.contains("arguments={\"name\""), "{line}");
        assert!(!line.contains('\u{1b}') && !line.contains("user="), "{line}");
    }
}
