//! Listing and resuming the threads of the document.

use anyhow::{Context as _, Result, bail};
use folio_proto::v1;

use super::view::Output;
use super::{card, view};
use crate::client::{Client, answer};
use crate::terminal::DIM;

/// Maximum number of listed threads.
const THREADS_MAX: i32 = 20;
/// Maximum number of messages that are shown when a thread is resumed.
const MESSAGES_MAX: i32 = 20;

/// Returns the document's newest threads and their total number.
pub(super) async fn list(client: &Client, document: &str) -> Result<(Vec<v1::Thread>, i32)> {
    let request = v1::ListThreadsRequest {
        page_size: THREADS_MAX,
        filter: format!("document:{document}"),
        ..v1::ListThreadsRequest::default()
    };
    let page = answer(client.threads().list_threads(request)).await?;
    Ok((page.threads, page.total_size))
}

pub(super) fn format(threads: &[v1::Thread], total: i32) -> Vec<Output> {
    if threads.is_empty() {
        return vec![Output::Line(DIM, "no threads yet".to_owned())];
    }
    let mut lines: Vec<Output> = (1..).zip(threads).map(|(number, thread)| card::thread(number, thread)).collect();
    let more = usize::try_from(total).unwrap_or(0).saturating_sub(threads.len());
    if more > 0 {
        lines.push(Output::Line(DIM, format!("     and {more} older")));
    }
    lines
}

/// Returns the thread id that an argument of `/resume` identifies: a number of the list, or an id.
pub(super) fn id_of(which: &str, listed: &[v1::Thread]) -> Result<String> {
    let Ok(number) = which.parse::<usize>() else { return Ok(which.to_owned()) };
    match number.checked_sub(1).and_then(|at| listed.get(at)) {
        Some(thread) => Ok(thread.thread_id.clone()),
        None if listed.is_empty() => bail!("list the threads with /threads first"),
        None => bail!("the list has {} threads", listed.len()),
    }
}

/// A resumed thread.
pub(super) struct Resumed {
    pub(super) thread: v1::Thread,
    /// The last messages of the thread, formatted, oldest first.
    pub(super) lines: Vec<Output>,
    /// The running or waiting turn.
    pub(super) open: Option<v1::Turn>,
}

pub(super) async fn resume(client: &Client, id: String) -> Result<Resumed> {
    let request = v1::GetThreadRequest {
        thread_id: id,
        page_size: MESSAGES_MAX,
        order_by: "create_time desc".to_owned(),
        ..v1::GetThreadRequest::default()
    };
    let found = answer(client.threads().get_thread(request)).await?;
    let thread = found.thread.context("invalid response of the server: the thread is missing")?;
    let mut lines = Vec::new();
    let earlier = usize::try_from(found.total_size).unwrap_or(0).saturating_sub(found.messages.len());
    if earlier > 0 {
        lines.push(Output::Line(DIM, format!("({earlier} earlier messages)")));
    }
    // Answers and tool results of the open turn are shown with the state of the turn.
    let open = found.open_turn;
    let is_shown = |message: &&v1::Message| {
        let is_of_open_turn = open.as_ref().is_some_and(|turn| turn.turn_id == message.turn_id);
        !is_of_open_turn || matches!(message.kind, Some(v1::message::Kind::User(_)))
    };
    lines.extend(found.messages.iter().rev().filter(is_shown).flat_map(view::message));
    Ok(Resumed { thread, lines, open })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_identified_by_its_number_or_its_id() {
        let thread = |id: &str| v1::Thread { thread_id: id.to_owned(), ..v1::Thread::default() };
        let listed = [thread("thr_a"), thread("thr_b")];
        assert_eq!(id_of("2", &listed).unwrap(), "thr_b");
        assert_eq!(id_of("thr_x", &listed).unwrap(), "thr_x");
        for wrong in ["0", "3"] {
            assert!(id_of(wrong, &listed).is_err(), "{wrong}");
        }
        assert!(id_of("1", &[]).unwrap_err().to_string().contains("/threads"));
    }

    #[test]
    fn a_list_states_what_it_omits() {
        let thread = v1::Thread { title: "Invoice".to_owned(), turns: 1, ..v1::Thread::default() };
        let lines = format(&[thread], 31);
        assert_eq!(lines.len(), 2);
        assert!(matches!(&lines[0], Output::Line(_, line) if line.contains("1  Invoice  (1 turn)")), "{lines:?}");
        assert!(matches!(&lines[1], Output::Line(_, line) if line.contains("30 older")), "{lines:?}");
    }
}
