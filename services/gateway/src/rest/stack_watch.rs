//! The route that streams the changes of a table. No client of DocRouter calls it.
//!
//! | change | frame |
//! |---|---|
//! | the stack, first, after a change and as a keep-alive | `{"type": "stack", "stack"}` |
//! | a row that is new or changed | `{"type": "row", "row"}` |
//! | a row that was removed | `{"type": "row_removed", "row_id"}` |
//! | the stream fails | `{"type": "error", "error", "code"}`, the last frame |

use axum::response::sse::Event;
use axum::response::{IntoResponse, Response};
use folio_operations::stack_tables::{TableChange, WatchTable};
use folio_proto::status;
use folio_types::StackId;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use serde_json::json;
use tonic::Status;

use super::endpoint::{Document, DocumentOutput, get};
use super::events::{self, error_frame, sent};
use super::extract::{Client, Id};
use super::reply::Reply;
use super::routes::{Level, Route, org_path, route};
use super::stack_tables::RowBody;
use super::stacks::StackBody;

pub(super) fn routes() -> Vec<Route> {
    vec![route::<WatchTable>(Level::Own, get(org_path!("/stacks/{stack_id}/watch"), watch))]
}

/// The changes of a table.
struct TableEvents(BoxStream<'static, Event>);

impl IntoResponse for TableEvents {
    fn into_response(self) -> Response {
        events::response(self.0)
    }
}

impl DocumentOutput for TableEvents {
    fn document(document: &mut Document) {
        let description = "The stack, and then each change of its table as JSON in `data:`.";
        document.respond(200, description, json!({ "text/event-stream": {} }));
    }
}

async fn watch(client: Client, Id(stack_id): Id<StackId>) -> Reply<TableEvents> {
    let changes = client.run(WatchTable { stack_id }).await?;
    Ok(TableEvents(client.api().watched(changes).map(event).boxed()))
}

fn event(change: Result<TableChange, Status>) -> Event {
    sent(&match change {
        Ok(TableChange::Stack(stack)) => json!({ "type": "stack", "stack": StackBody::from(&*stack) }),
        Ok(TableChange::Row(found)) => json!({ "type": "row", "row": RowBody::from(&*found) }),
        Ok(TableChange::Removed(id)) => json!({ "type": "row_removed", "row_id": id }),
        Err(status) => error_frame(&status::to_error(&status)),
    })
}
