//! Lists and resumes the threads of the document of a chat.

use anstyle::Style;
use anyhow::{Context as _, Result, bail};
use folio_proto::v1;
use folio_types::counted;
use jiff::tz::TimeZone;

use super::view::Output;
use super::{card, view};
use crate::client::{Client, answer};
use crate::layout::Span;
use crate::terminal::{BOLD, DIM, NOTE};

/// Maximum number of listed threads.
const THREADS_MAX: i32 = 20;
/// Maximum number of turns per page of the pending approvals.
const PENDING_PAGE: i32 = 200;
/// Maximum number of pages of the pending approvals that are read when a document is opened.
const PENDING_PAGES_MAX: u32 = 5;
/// Maximum number of waiting threads that are listed in addition to the newest threads.
const WAITING_MAX: usize = 20;
/// Maximum number of characters of a displayed title.
const TITLE_CHARS: usize = 80;
/// Number of characters of an id that distinguish threads with equal titles.
const ID_CHARS: usize = 6;
/// Maximum number of messages that are shown when a thread is resumed.
const MESSAGES_MAX: i32 = 20;

/// The state of the open turn of a thread, for the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// No turn is open.
    Idle,
    Running,
    /// A call waits for a decision that the user may make, or the turn waits to be resumed.
    WaitingForUser,
    WaitingForOthers,
}

impl State {
    fn of(turn: &v1::Turn) -> Self {
        let needs_decision = turn.pending.iter().any(|call| call.needs_approval);
        match turn.status() {
            v1::TurnStatus::Running => Self::Running,
            v1::TurnStatus::AwaitingApproval if turn.approvable_call_ids.is_empty() && needs_decision => {
                Self::WaitingForOthers
            }
            v1::TurnStatus::AwaitingApproval => Self::WaitingForUser,
            _ => Self::Idle,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "",
            Self::Running => "running",
            Self::WaitingForUser => "waiting for you",
            Self::WaitingForOthers => "waiting for others",
        }
    }

    fn is_waiting(self) -> bool {
        matches!(self, Self::WaitingForUser | Self::WaitingForOthers)
    }
}

/// A listed thread with the state of its turn.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Listed {
    pub(super) thread: v1::Thread,
    pub(super) state: State,
}

/// Returns the document's newest threads with their states, and the total number of threads.
pub(super) async fn list(client: &Client, document: &str) -> Result<(Vec<Listed>, i32)> {
    let request = v1::ListThreadsRequest {
        page_size: THREADS_MAX,
        filter: format!("document:{document}"),
        ..v1::ListThreadsRequest::default()
    };
    let page = answer(client.threads().list_threads(request)).await?;
    let listed = page.threads.into_iter().map(|thread| async move {
        let state = state(client, &thread.open_turn_id).await;
        Listed { thread, state }
    });
    Ok((futures::future::join_all(listed).await, page.total_size))
}

/// Returns threads about the document whose turns wait for a decision that the user may make, without the `listed` ones: older
/// threads, and threads of other users. Threads that cannot be read are omitted. The second value is true if turns may be
/// missing, because their index was lost or unavailable a short time ago.
pub(super) async fn list_waiting(client: &Client, document: &str, listed: &[Listed]) -> Result<(Vec<Listed>, bool)> {
    let (mut found, mut page_token, mut is_incomplete) = (Vec::new(), String::new(), false);
    for _ in 0..PENDING_PAGES_MAX {
        let request = v1::ListPendingApprovalsRequest { page_size: PENDING_PAGE, page_token, ..Default::default() };
        let page = answer(client.conversations().list_pending_approvals(request)).await?;
        found.extend(page.pending_approvals);
        is_incomplete |= page.incomplete;
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    let is_new = |pending: &v1::PendingApproval| {
        let is_listed = listed.iter().any(|listed| listed.thread.thread_id == pending.thread_id);
        !is_listed && pending.document_ids.iter().any(|id| id == document)
    };
    let threads = found.into_iter().filter(is_new).take(WAITING_MAX).map(|pending| async move {
        let request = v1::GetThreadRequest { thread_id: pending.thread_id, page_size: 1, ..Default::default() };
        answer(client.threads().get_thread(request)).await.ok().and_then(|found| found.thread)
    });
    let threads = futures::future::join_all(threads).await.into_iter().flatten();
    Ok((threads.map(|thread| Listed { thread, state: State::WaitingForUser }).collect(), is_incomplete))
}

/// Returns the state of a turn. A turn that cannot be read is shown as running.
async fn state(client: &Client, turn_id: &str) -> State {
    if turn_id.is_empty() {
        return State::Idle;
    }
    let request = v1::GetTurnRequest { turn_id: turn_id.to_owned() };
    let turn = answer(client.conversations().get_turn(request)).await.ok().and_then(|found| found.turn);
    turn.map_or(State::Running, |turn| State::of(&turn))
}

/// Formats a list of threads, each with its number, date, title, number of turns and state.
pub(super) fn format(threads: &[Listed], total: i32, zone: &TimeZone) -> Vec<Output> {
    if threads.is_empty() {
        return vec![Output::Line(DIM, "no threads yet".to_owned())];
    }
    let mut lines: Vec<Output> =
        (1..).zip(titles(threads)).zip(threads).map(|(entry, listed)| line(entry, listed, zone)).collect();
    let more = usize::try_from(total).unwrap_or(0).saturating_sub(threads.len());
    if more > 0 {
        lines.push(Output::Line(DIM, format!("     and {more} older")));
    }
    lines
}

/// Formats the threads whose turns wait for approval. Empty if none waits.
pub(super) fn format_waiting(threads: &[Listed], zone: &TimeZone) -> Vec<Output> {
    let entries = (1..).zip(titles(threads)).zip(threads).filter(|(_, listed)| listed.state.is_waiting());
    let mut lines: Vec<Output> = entries.map(|(entry, listed)| line(entry, listed, zone)).collect();
    if !lines.is_empty() {
        lines.insert(0, Output::Line(NOTE, "Waiting for approval (/resume N continues a thread):".to_owned()));
    }
    lines
}

fn line((number, title): (usize, String), listed: &Listed, zone: &TimeZone) -> Output {
    let thread = &listed.thread;
    let date = thread.update_time.as_ref().or(thread.create_time.as_ref()).and_then(|time| date(time.seconds, zone));
    let turns = if thread.turns == 1 { "1 turn".to_owned() } else { format!("{} turns", thread.turns) };
    let mut line = vec![
        Span::new(Style::new(), format!("{number:>3}  {}  ", date.unwrap_or_else(|| " ".repeat(16)))),
        Span::new(BOLD, title),
        Span::new(DIM, format!("  ({turns})")),
    ];
    if listed.state != State::Idle {
        line.push(Span::new(NOTE, format!("  ● {}", listed.state.as_str())));
    }
    Output::Spans(line)
}

/// Returns the titles of the threads. Equal titles are followed by the end of the id of their thread.
fn titles(threads: &[Listed]) -> Vec<String> {
    let title = |listed: &Listed| match listed.thread.title.as_str() {
        "" => "(no title)".to_owned(),
        title => card::one_line(title, TITLE_CHARS),
    };
    let titles: Vec<String> = threads.iter().map(title).collect();
    let suffix = |listed: &Listed| {
        let id = &listed.thread.thread_id;
        let start = id.char_indices().rev().nth(ID_CHARS - 1).map_or(0, |(at, _)| at);
        id.get(start..).unwrap_or_default().to_owned()
    };
    let is_unique = |title: &String| titles.iter().filter(|other| *other == title).count() == 1;
    let distinct = titles.iter().zip(threads).map(|(title, listed)| match is_unique(title) {
        true => title.clone(),
        false => format!("{title} …{}", suffix(listed)),
    });
    distinct.collect()
}

/// Formats a time in seconds since 1970. None: the time is out of range.
fn date(seconds: i64, zone: &TimeZone) -> Option<String> {
    let time = jiff::Timestamp::from_second(seconds).ok()?;
    Some(time.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M").to_string())
}

/// Returns the thread id that an argument of `/resume` identifies: a number of the list, or an id.
pub(super) fn id_of(which: &str, listed: &[Listed]) -> Result<String> {
    let Ok(number) = which.parse::<usize>() else { return Ok(which.to_owned()) };
    match number.checked_sub(1).and_then(|at| listed.get(at)) {
        Some(listed) => Ok(listed.thread.thread_id.clone()),
        None if listed.is_empty() => bail!("list the threads with /threads first"),
        None => bail!("the list has {}", counted(listed.len() as u64, "thread")),
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

/// Reads a thread to resume it. `width`: number of columns for the formatted messages. None: the messages remain Markdown.
pub(super) async fn resume(client: &Client, id: String, width: Option<usize>) -> Result<Resumed> {
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
    lines.extend(found.messages.iter().rev().filter(is_shown).flat_map(|message| view::message(message, width)));
    Ok(Resumed { thread, lines, open })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::view::texts;

    fn thread(id: &str, title: &str, state: State) -> Listed {
        let thread = v1::Thread {
            thread_id: id.to_owned(),
            title: title.to_owned(),
            turns: 1,
            update_time: Some(folio_proto::time::to_proto(jiff::Timestamp::constant(1_790_000_000, 0))),
            ..v1::Thread::default()
        };
        Listed { thread, state }
    }

    #[test]
    fn a_thread_is_identified_by_its_number_or_its_id() {
        let listed = [thread("thr_a", "", State::Idle), thread("thr_b", "", State::Idle)];
        assert_eq!(id_of("2", &listed).unwrap(), "thr_b");
        assert_eq!(id_of("thr_x", &listed).unwrap(), "thr_x");
        for wrong in ["0", "3"] {
            assert!(id_of(wrong, &listed).is_err(), "{wrong}");
        }
        assert!(id_of("1", &[]).unwrap_err().to_string().contains("/threads"));
    }

    #[test]
    fn a_list_shows_date_title_and_state_and_what_it_omits() {
        let threads = [
            thread("thr_1234567", "Invoice", State::Idle),
            thread("thr_7654321", "Invoice", State::WaitingForUser),
            thread("thr_3", "Other", State::WaitingForOthers),
            thread("thr_4", "", State::Running),
        ];
        let lines = texts(&format(&threads, 34, &TimeZone::UTC));
        let expected = [
            "  1  2026-09-21 14:13  Invoice …234567  (1 turn)",
            "  2  2026-09-21 14:13  Invoice …654321  (1 turn)  ● waiting for you",
            "  3  2026-09-21 14:13  Other  (1 turn)  ● waiting for others",
            "  4  2026-09-21 14:13  (no title)  (1 turn)  ● running",
            "     and 30 older",
        ];
        assert_eq!(lines, expected);
        let waiting = texts(&format_waiting(&threads, &TimeZone::UTC));
        assert_eq!((waiting.len(), waiting[1].as_str()), (3, lines[1].as_str()));
        assert!(format_waiting(&threads[..1], &TimeZone::UTC).is_empty());
    }

    #[test]
    fn the_state_of_a_turn_depends_on_the_permitted_decisions() {
        let turn = |status: v1::TurnStatus, needs_approval, approvable: &[&str]| v1::Turn {
            status: status.into(),
            pending: vec![v1::Call { needs_approval, ..v1::Call::default() }],
            approvable_call_ids: approvable.iter().map(|id| (*id).to_owned()).collect(),
            ..v1::Turn::default()
        };
        let waits = v1::TurnStatus::AwaitingApproval;
        assert_eq!(State::of(&turn(waits, true, &["1"])), State::WaitingForUser);
        assert_eq!(State::of(&turn(waits, true, &[])), State::WaitingForOthers);
        assert_eq!(State::of(&turn(waits, false, &[])), State::WaitingForUser, "it waits to be resumed");
        assert_eq!(State::of(&turn(v1::TurnStatus::Running, true, &[])), State::Running);
        assert_eq!(State::of(&turn(v1::TurnStatus::Failed, true, &[])), State::Idle);
    }
}
