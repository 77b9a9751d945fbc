//! `folio inbox`.

use std::collections::BTreeMap;

use anyhow::Result;
use folio_proto::v1;
use serde_json::{Map, Value, json};
use v1::inbox_item::Subject;
use v1::watch_inbox_response::Change;

use super::job::word;
use super::output::{Format, View};
use super::{DataArguments, collect, time, watched};
use crate::client::{APPROVALS_INCOMPLETE, Client, answer};
use crate::terminal::{note, stdout_closed, write_stdout};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only items of this kind.
    #[arg(long, value_enum)]
    kind: Option<Kind>,
    /// Maximum number of items.
    #[arg(long, value_name = "N", default_value = "1000")]
    limit: usize,
    /// Print the items, and then each change until a signal stops the command; a broken connection is restored. As JSON, each
    /// line is an object.
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Kind {
    /// Turns that wait for decisions on tool calls.
    Approval,
    /// Extractions that wait for decisions on their values.
    FieldReview,
    /// Proposals that wait to be accepted or rejected.
    Proposal,
    /// Questions about the meaning of terms.
    DictionaryQuestion,
    /// Rows of stacks that wait for decisions on their cells.
    CellReview,
}

const COLUMNS: [&str; 7] = ["kind", "item_id", "create_time", "expire_time", "roles", "document_ids", "subject"];
/// Minimum widths of the columns of a printed change, without the last one, so that the lines of all changes are aligned.
const CHANGE_WIDTHS: [usize; 7] = [7, 19, 38, 20, 20, 12, 36];

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let work = async |client: Client| match arguments.watch {
        // Without this branch the command would notice the end of its reader only at the next change.
        true => tokio::select! {
            ended = watch(&client, &arguments) => ended,
            () = stdout_closed() => Err(std::io::Error::from(std::io::ErrorKind::BrokenPipe).into()),
        },
        false => list(&client, &arguments).await,
    };
    arguments.data.run(work).await
}

impl Arguments {
    fn filter(&self) -> String {
        match self.kind {
            None => String::new(),
            Some(Kind::Approval) => "kind:approval".to_owned(),
            Some(Kind::FieldReview) => "kind:field_review".to_owned(),
            Some(Kind::Proposal) => "kind:proposal".to_owned(),
            Some(Kind::DictionaryQuestion) => "kind:dictionary_question".to_owned(),
            Some(Kind::CellReview) => "kind:cell_review".to_owned(),
        }
    }
}

async fn list(client: &Client, arguments: &Arguments) -> Result<View> {
    let mut is_incomplete = false;
    let found = collect(arguments.limit, async |page_size, page_token| {
        let request =
            v1::ListInboxItemsRequest { page_size, page_token, filter: arguments.filter(), ..Default::default() };
        let page = answer(client.inbox().list_inbox_items(request)).await?;
        is_incomplete |= page.incomplete;
        Ok((page.items, page.next_page_token))
    });
    let found = found.await?;
    if is_incomplete {
        note(APPROVALS_INCOMPLETE);
    }
    Ok(View::list(COLUMNS, found.iter().map(row).collect()))
}

async fn watch(client: &Client, arguments: &Arguments) -> Result<View> {
    let (mut waiting, mut is_first) = (Waiting::default(), true);
    let mut changes = client.watch_inbox(&arguments.filter());
    loop {
        let change = watched(changes.next_update().await)?.and_then(|message| message.change);
        if let Some(row) = change.and_then(|change| waiting.apply(change)) {
            write_stdout(&line(row, arguments.data.format(), is_first))?;
            is_first = false;
        }
    }
}

/// The rows of the items that were printed as waiting, by id. After a lost connection, the server sends all items again; only
/// differences to these rows are printed.
#[derive(Debug, Default)]
struct Waiting(BTreeMap<String, Value>);

impl Waiting {
    /// Applies a change, and returns the row to print.
    fn apply(&mut self, change: Change) -> Option<Value> {
        match change {
            Change::Item(item) => {
                let row = row(&item);
                let before = self.0.insert(item.item_id, row.clone());
                (before.as_ref() != Some(&row)).then(|| with_change("waiting", row))
            }
            Change::RemovedItemId(id) => {
                let row = self.0.remove(&id)?;
                Some(with_change("removed", json!({ "kind": row.get("kind"), "item_id": id })))
            }
            Change::CaughtUp(_) => None,
        }
    }
}

/// Returns a change as a line, after the header if it is the first one.
fn line(row: Value, format: Format, is_first: bool) -> String {
    let format = if format == Format::Json { Format::Jsonl } else { format };
    let text = View::list(["change"].into_iter().chain(COLUMNS), vec![row]).min_widths(&CHANGE_WIDTHS).render(format);
    match text.split_once('\n') {
        Some((_, line)) if !is_first && format != Format::Jsonl => line.to_owned(),
        _ => text,
    }
}

fn with_change(change: &str, row: Value) -> Value {
    let mut members = Map::from_iter([("change".to_owned(), Value::from(change))]);
    if let Value::Object(row) = row {
        members.extend(row);
    }
    Value::Object(members)
}

fn row(item: &v1::InboxItem) -> Value {
    let roles: Vec<String> = item.roles().map(|role| word(role.as_str_name(), "ROLE_")).collect();
    let (subject, document_ids) = match &item.subject {
        Some(Subject::Approval(approval)) => {
            let names: Vec<&str> = approval.calls.iter().map(|call| call.name.as_str()).collect();
            (names.join(", "), approval.document_ids.clone())
        }
        Some(Subject::FieldReview(review)) => {
            let v1::PendingReview { values, approved_values, rejected_values, .. } = review;
            let subject = format!("{approved_values} of {values} values approved, {rejected_values} rejected");
            (subject, vec![review.document_id.clone()])
        }
        Some(Subject::Proposal(proposal)) => {
            let subject = match proposal.document_type.as_str() {
                "" => "proposed for an unknown type of document".to_owned(),
                document_type => format!("proposed for {document_type}"),
            };
            (subject, vec![proposal.document_id.clone()])
        }
        Some(Subject::DictionaryQuestion(question)) => {
            let guess = if question.guess.is_empty() { String::new() } else { format!(": {}?", question.guess) };
            (format!("{}{guess}", question.term), vec![question.document_id.clone()])
        }
        Some(Subject::CellReview(review)) => {
            let v1::PendingCellReview { waiting_cells, approved_cells, rejected_cells, .. } = review;
            let subject = format!("{waiting_cells} cells wait, {approved_cells} approved, {rejected_cells} rejected");
            (subject, vec![review.document_id.clone()])
        }
        None => Default::default(),
    };
    json!({
        "kind": word(item.kind().as_str_name(), "INBOX_ITEM_KIND_"), "item_id": item.item_id, "subject": subject,
        "document_ids": document_ids, "roles": roles, "user_id": item.user_id,
        "excluded_user_id": item.excluded_user_id, "create_time": time(item.create_time.as_ref()),
        "expire_time": time(item.expire_time.as_ref()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item() -> v1::InboxItem {
        let review =
            v1::PendingReview { values: 3, approved_values: 1, document_id: "doc_1".to_owned(), ..Default::default() };
        v1::InboxItem {
            item_id: "ext_1".to_owned(),
            kind: v1::InboxItemKind::FieldReview.into(),
            roles: vec![v1::Role::Member.into()],
            subject: Some(Subject::FieldReview(review)),
            ..Default::default()
        }
    }

    #[test]
    fn a_row_names_the_kind_the_documents_the_subject_and_the_roles() {
        let review = row(&item());
        assert_eq!((&review["kind"], &review["roles"]), (&json!("field_review"), &json!(["member"])));
        assert_eq!(review["subject"], "1 of 3 values approved, 0 rejected");
        assert_eq!(review["document_ids"], json!(["doc_1"]));
        let call = v1::Call { name: "create_tag".to_owned(), ..Default::default() };
        let document_ids = vec!["doc_2".to_owned(), "doc_3".to_owned()];
        let approval = v1::PendingApproval { calls: vec![call], document_ids, ..Default::default() };
        let approval = v1::InboxItem { subject: Some(Subject::Approval(approval)), ..item() };
        let approval = row(&approval);
        assert_eq!(
            (&approval["subject"], &approval["document_ids"]),
            (&json!("create_tag"), &json!(["doc_2", "doc_3"]))
        );
        let proposal =
            v1::Proposal { document_type: "Invoice".to_owned(), document_id: "doc_4".to_owned(), ..Default::default() };
        let kind = v1::InboxItemKind::Proposal.into();
        let proposal = row(&v1::InboxItem { kind, subject: Some(Subject::Proposal(proposal)), ..item() });
        assert_eq!((&proposal["kind"], &proposal["document_ids"]), (&json!("proposal"), &json!(["doc_4"])));
        assert_eq!(proposal["subject"], "proposed for Invoice");
        let of_unknown_type = Subject::Proposal(v1::Proposal::default());
        let unknown = row(&v1::InboxItem { subject: Some(of_unknown_type), ..item() });
        assert_eq!(unknown["subject"], "proposed for an unknown type of document");
        let question = |guess: &str| {
            let (term, guess) = ("MY".to_owned(), guess.to_owned());
            let question = v1::DictionaryQuestion { term, guess, ..Default::default() };
            row(&v1::InboxItem { subject: Some(Subject::DictionaryQuestion(question)), ..item() })["subject"].clone()
        };
        assert_eq!((question("Malaysia"), question("")), (json!("MY: Malaysia?"), json!("MY")));
    }

    #[test]
    fn only_differences_to_the_printed_items_are_printed() {
        let waits = |id: &str, approved_values| {
            let review = v1::PendingReview { values: 3, approved_values, ..Default::default() };
            Change::Item(v1::InboxItem {
                item_id: id.to_owned(),
                subject: Some(Subject::FieldReview(review)),
                ..Default::default()
            })
        };
        let (removed, caught_up) = (|id: &str| Change::RemovedItemId(id.to_owned()), Change::CaughtUp(v1::CaughtUp {}));
        let mut waiting = Waiting::default();
        for (changes, expected) in [
            (vec![waits("a", 0), waits("b", 0), caught_up.clone()], "+a +b"),
            (vec![waits("b", 0), waits("b", 1), removed("other"), removed("a"), caught_up.clone()], "+b -a"),
            (vec![waits("b", 1), removed("b"), caught_up, waits("b", 1)], "-b +b"),
        ] {
            let rows: Vec<String> = changes
                .into_iter()
                .filter_map(|change| waiting.apply(change))
                .map(|row| {
                    let sign = if row["change"] == "waiting" { "+" } else { "-" };
                    format!("{sign}{}", row["item_id"].as_str().unwrap())
                })
                .collect();
            assert_eq!(rows.join(" "), expected);
        }
    }

    #[test]
    fn the_lines_of_a_watch_are_aligned() {
        let review = |values| {
            let review = v1::PendingReview { values, document_id: format!("doc_{:032}", 1), ..Default::default() };
            let item_id = format!("ext_{values:032}");
            row(&v1::InboxItem { item_id, subject: Some(Subject::FieldReview(review)), ..item() })
        };
        let call = v1::Call { name: "create_tag".to_owned(), ..Default::default() };
        let approval = v1::PendingApproval { calls: vec![call], ..Default::default() };
        let (item_id, kind) = (format!("thr_{:032}.1", 1), v1::InboxItemKind::Approval.into());
        let approval = row(&v1::InboxItem { item_id, kind, subject: Some(Subject::Approval(approval)), ..item() });
        let lines = [review(3), approval, review(100)].into_iter().enumerate();
        let printed: String =
            lines.map(|(at, row)| line(with_change("waiting", row), Format::Table, at == 0)).collect();
        let start = printed.find("SUBJECT").unwrap();
        let subjects: Vec<&str> = printed.lines().map(|line| line.get(start..).unwrap_or_default()).collect();
        let [header, first, second, third] = subjects.as_slice() else { panic!("{printed}") };
        assert_eq!((*header, *second), ("SUBJECT", "create_tag"), "{printed}");
        assert!(first.starts_with("0 of 3 values") && third.starts_with("0 of 100 values"), "{printed}");
    }

    #[test]
    fn only_the_first_change_has_a_header() {
        let change = with_change("removed", json!({ "item_id": "ext_1" }));
        let csv = |is_first| line(change.clone(), Format::Csv, is_first);
        assert_eq!(csv(true), format!("change,{}\nremoved,,ext_1,,,,,\n", COLUMNS.join(",")));
        assert_eq!(csv(false), "removed,,ext_1,,,,,\n");
        let json = "{\"change\":\"removed\",\"item_id\":\"ext_1\"}\n";
        assert_eq!(
            (line(change.clone(), Format::Json, true), line(change, Format::Json, false)),
            (json.into(), json.into())
        );
    }
}
