//! `folio stack message` and `folio stack answer`: the agent that proposes the columns of a stack and works on its table.

use std::fmt::Write as _;

use anyhow::Result;
use folio_client::{Decision, Turn};
use folio_proto::v1;
use folio_proto::v1::event::Kind;
use serde_json::{Value, json};

use super::output::View;
use super::{DataArguments, parsed, stack};
use crate::client::{Client, answer, explain_error};
use crate::names;

#[derive(Debug, clap::Args)]
pub(crate) struct Message {
    /// The stack, by id or name.
    stack: String,
    /// The message, such as the purpose of the table.
    #[arg(value_name = "TEXT", required = true)]
    text: Vec<String>,
    /// The conversation that the message continues [default: a new one].
    #[arg(long, value_name = "THREAD_ID")]
    thread: Option<String>,
    /// Approve the columns that the agent proposes.
    #[arg(long)]
    accept: bool,
    /// The model [default: that of the conversation, otherwise of the organization].
    #[arg(long, default_value = "", hide_default_value = true)]
    model: String,
    /// Credit that the model calls may cost [default: no budget].
    #[arg(long, value_name = "CREDITS")]
    budget: Option<u64>,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Answer {
    /// The turn that waits for approval.
    turn: String,
    /// Reject the calls with this reason [default: they are approved].
    #[arg(long, value_name = "REASON")]
    reject: Option<String>,
    #[command(flatten)]
    data: DataArguments,
}

pub(super) async fn send(message: Message) -> Result<()> {
    message.data.run(async |client| chat(&client, &message).await).await
}

async fn chat(client: &Client, message: &Message) -> Result<View> {
    let thread_id = match &message.thread {
        Some(thread) => thread.clone(),
        None => {
            let stack_id = stack::id(client, &message.stack, names::choose).await?;
            let model = message.model.clone();
            let request = v1::CreateStackThreadRequest { stack_id, model, ..Default::default() };
            answer(client.stacks().create_stack_thread(request)).await?.thread_id
        }
    };
    let request = v1::ChatRequest {
        thread_id,
        text: message.text.join(" "),
        model: message.model.clone(),
        credit_budget: message.budget,
        ..v1::ChatRequest::default()
    };
    let turn = client.chat(request);
    followed(if message.accept { decided(turn, Decision::Approve) } else { turn }).await
}

pub(super) async fn decide(decision: Answer) -> Result<()> {
    let made = match &decision.reject {
        Some(reason) => Decision::Reject(reason.clone()),
        None => Decision::Approve,
    };
    let work = async |client: Client| followed(decided(client.watch_turn(&decision.turn, 0), made.clone())).await;
    decision.data.run(work).await
}

/// Makes one decision about every call that waits.
fn decided(turn: Turn, decision: Decision) -> Turn {
    turn.approving(move |_| {
        let decision = decision.clone();
        async move { decision }
    })
}

/// Reads a turn to its end or to its pause.
async fn followed(mut turn: Turn) -> Result<View> {
    while turn.next().await.map_err(|error| explain_error(&error))?.is_some() {}
    let position = turn.position();
    Ok(view(&position.thread_id, &position.turn_id, position.closing()))
}

fn view(thread_id: &str, turn_id: &str, closing: Option<&Kind>) -> View {
    let row = |status: &str, text: &str, calls: &[Value]| json!({ "status": status, "text": text, "calls": calls, "thread_id": thread_id, "turn_id": turn_id });
    match closing {
        Some(Kind::Completed(completed)) => {
            let text = format!("{}\n\nContinue with --thread {thread_id}\n", completed.text);
            View::one(row("completed", &completed.text, &[])).text(text)
        }
        Some(Kind::AwaitingApproval(waiting)) => {
            let (mut calls, mut text) = (Vec::with_capacity(waiting.pending.len()), String::new());
            for call in &waiting.pending {
                let arguments = parsed(&call.arguments_json);
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{} {arguments:#}", call.name);
                calls.push(json!({ "tool": call.name, "arguments": arguments }));
            }
            let next = format!("folio stack answer {turn_id}");
            let _ = writeln!(text, "\nApprove: {next}\nReject: {next} --reject REASON");
            View::one(row("waiting_for_approval", "", &calls)).text(text)
        }
        Some(Kind::Failed(failed)) => {
            let message = failed.error.as_ref().map(|error| error.message.clone()).unwrap_or_default();
            View::one(row("failed", "", &[])).failing(format!("the turn failed: {message}"))
        }
        _ => View::one(row("ended", "", &[])).failing("the turn is not completed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::output::Format;
    use super::*;

    #[test]
    fn a_proposal_is_shown_with_the_commands_that_answer_it() {
        let call = v1::Call {
            name: "define_columns".into(),
            arguments_json: r#"{"columns": [{"name": "Total", "type": "number"}]}"#.into(),
            ..Default::default()
        };
        let waiting = Kind::AwaitingApproval(v1::AwaitingApproval { pending: vec![call], ..Default::default() });
        let shown = view("thr_1", "thr_1.1", Some(&waiting)).render(Format::Table);
        assert!(shown.starts_with("define_columns {") && shown.contains("\"Total\""), "{shown}");
        assert!(shown.contains("folio stack answer thr_1.1 --reject REASON"), "{shown}");
        let json: Value = serde_json::from_str(&view("t", "t.1", Some(&waiting)).render(Format::Json)).unwrap();
        assert_eq!(json["calls"][0]["arguments"]["columns"][0]["name"], "Total", "{json}");
    }

    #[test]
    fn a_failed_turn_fails_the_command() {
        let error = v1::Error { message: "no credit".into(), ..Default::default() };
        let failed = Kind::Failed(v1::Failed { error: Some(error), ..Default::default() });
        assert_eq!(view("t", "t.1", Some(&failed)).failure.as_deref(), Some("the turn failed: no credit"));
        assert!(view("t", "t.1", None).failure.is_some());
        let completed = Kind::Completed(v1::Completed { text: "Done.".into(), ..Default::default() });
        assert_eq!(view("t", "t.1", Some(&completed)).failure, None);
    }
}
