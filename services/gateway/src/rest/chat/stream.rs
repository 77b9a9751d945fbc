//! The answer of a chat: a result, or server-sent events. The last frame of an event has the id `TURN.NUMBER`, with which a client
//! rejoins the stream.

use axum::response::sse::Event as Sent;
use folio_history::event::{Event, EventKind, TurnView};
use folio_history::peer::EventStream;
use folio_operations::conversations::{GetTurn, WatchTurn};
use folio_types::{Error, TurnId};
use futures::{Stream, StreamExt as _};

use super::frames::Frames;
use super::result::{PendingCalls, TurnResult, answer, executed, given};
use crate::rest::events::{self, error_frame, sent};
use crate::rest::extract::{Client, Json};
use crate::rest::failure::Failure;
use crate::rest::reply::Reply;
use crate::rest::turn_events::{TurnAnswer, closing_event, event_id, turn_error, until_closing};

/// Answers with the events of a turn after the number `after`. 0: all.
pub(super) async fn respond(
    client: Client,
    events: EventStream,
    is_stream: bool,
    after: u64,
) -> Reply<TurnAnswer<TurnResult>> {
    let events = client.bounded(events);
    if is_stream {
        return Ok(TurnAnswer::Events(events::response(sent_events(client, events, after).boxed())));
    }
    let closing = closing_event(events).await?;
    turn_result(&client, &closing, 1).await.map(|result| TurnAnswer::Result(Box::new(Json(result))))
}

/// Continues the stream of a turn after an event. The events before it are read again, because frames depend on them.
pub(super) async fn rejoin(
    client: Client,
    turn_id: TurnId,
    after: u64,
    is_stream: bool,
) -> Reply<TurnAnswer<TurnResult>> {
    let events = client.run(WatchTurn { turn_id, from_event: 1 }).await?;
    respond(client, events, is_stream, after).await
}

/// Translates events to frames. The stream ends after the closing event, or after an error.
fn sent_events(
    client: Client,
    events: impl Stream<Item = Result<Event, Error>> + Send + Unpin + 'static,
    after: u64,
) -> impl Stream<Item = Sent> + Send {
    async_stream::stream! {
        let (mut events, mut frames) = (until_closing(events), Frames::default());
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    let paused = paused_turn(&client, &event).await;
                    let mut found = frames.of(&event, paused.as_ref());
                    if event.number <= after {
                        found.clear();
                    }
                    // Only the last frame has the id: a client that lacks it receives the frames of the event again.
                    let last = found.pop();
                    for frame in &found {
                        yield sent(frame);
                    }
                    if let Some(frame) = last {
                        yield sent(&frame).id(event_id(&event));
                    }
                }
                Err(error) => {
                    yield sent(&error_frame(&error));
                }
            }
        }
    }
}

/// Returns the turn of an event after which it waits. None: another event, or the turn cannot be read.
async fn paused_turn(client: &Client, event: &Event) -> Option<TurnView> {
    match event.kind {
        EventKind::AwaitingApproval { .. } => client.run(GetTurn { turn_id: event.turn.clone() }).await.ok(),
        _ => None,
    }
}

/// Returns the result of a turn from its closing event. `first`: number of the first round in the result.
///
/// # Errors
/// The error of the turn. Status 409 if the turn was cancelled or superseded, 400 if its approval expired.
pub(super) async fn turn_result(client: &Client, closing: &Event, first: u32) -> Result<TurnResult, Failure> {
    match &closing.kind {
        EventKind::Completed { text, thinking, working, rounds, finish, .. } => {
            let last = (answer(text, *finish), given(thinking));
            Ok(TurnResult::new(last, working.into(), executed(rounds, first), None))
        }
        EventKind::AwaitingApproval { round, pending, expires_at } => {
            let turn = client.run(GetTurn { turn_id: closing.turn.clone() }).await?;
            let waiting = turn.rounds.iter().find(|found| found.round == *round);
            let last = waiting.map(|round| (round.text.clone(), given(&round.thinking))).unwrap_or_default();
            let pending = PendingCalls::new(&closing.turn, pending, *expires_at);
            Ok(TurnResult::new(last, (&turn.working).into(), executed(&turn.rounds, first), Some(pending)))
        }
        kind => Err(turn_error(kind).into()),
    }
}
