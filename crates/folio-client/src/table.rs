//! Tables of stacks: watches of a table, jobs that fill it, and exports of it.

use std::collections::VecDeque;

use folio_proto::v1;
use futures::stream::{BoxStream, StreamExt as _};
use tonic::{Response, Status};
use v1::watch_table_response::Change;

use crate::connection::Client;
use crate::error::Result;
use crate::extraction::present;
use crate::rejoined::{Opening, Rejoined, Update, opening};
use crate::turn::set_request_id;
use crate::watched_table::WatchedTable;

/// Number of rows of a page of a list.
const PAGE_ROWS: i32 = 100;

/// A watch of a table: the stack and its rows, and then each change, without end.
///
/// A lost connection is reopened, and the rows that changed meanwhile are returned. All rows are returned again after a change of the
/// stack.
pub struct TableWatch {
    client: Client,
    stack_id: String,
    open: Box<dyn Fn() -> Opening<v1::WatchTableResponse> + Send + Sync>,
    streams: Rejoined<v1::WatchTableResponse>,
    table: WatchedTable,
    /// The rows of a list that are returned before the next message of the stream. None: no list is in progress.
    rows: Option<BoxStream<'static, Result<v1::StackRow>>>,
    removed: VecDeque<String>,
}

impl TableWatch {
    /// Returns the next change, or the notice that the connection broke. Dropping the future loses no change.
    ///
    /// # Errors
    /// The server refuses the request, or the connection is lost and cannot be restored. `NotFound`: the stack was deleted.
    pub async fn next_update(&mut self) -> Result<Update<v1::WatchTableResponse>> {
        let message = |change| Ok(Update::Message(v1::WatchTableResponse { change: Some(change) }));
        loop {
            if let Some(id) = self.removed.pop_front() {
                return message(Change::RemovedStackRowId(id));
            }
            if let Some(rows) = &mut self.rows {
                match rows.next().await {
                    Some(Ok(row)) if self.table.add(&row) => return message(Change::Row(row)),
                    Some(Ok(_)) => {}
                    Some(Err(error)) => {
                        self.rows = None;
                        self.table.start_stream();
                        self.streams.restart();
                        return Err(error);
                    }
                    None => {
                        self.rows = None;
                        self.removed.extend(self.table.end_list());
                    }
                }
                continue;
            }
            match self.streams.next(&self.open).await? {
                Update::Reconnecting => {
                    self.table.start_stream();
                    return Ok(Update::Reconnecting);
                }
                Update::Message(message) => {
                    self.streams.progressed();
                    if message.change.as_ref().is_some_and(|change| self.table.apply(change)) {
                        let request = v1::ListStackRowsRequest {
                            stack_id: self.stack_id.clone(),
                            page_size: PAGE_ROWS,
                            order_by: "create_time".to_owned(),
                            ..Default::default()
                        };
                        self.rows = Some(self.client.list_stack_rows(request));
                    }
                    return Ok(Update::Message(message));
                }
            }
        }
    }

    /// Returns the next change.
    ///
    /// # Errors
    /// Those of [`TableWatch::next_update`].
    pub async fn next(&mut self) -> Result<v1::WatchTableResponse> {
        loop {
            if let Update::Message(message) = self.next_update().await? {
                return Ok(message);
            }
        }
    }
}

impl Client {
    /// Watches the table of a stack.
    pub fn watch_table(&self, stack_id: &str) -> TableWatch {
        let (client, watched) = (self.clone(), stack_id.to_owned());
        let open = move || {
            let (mut service, request) = (client.stacks(), v1::WatchTableRequest { stack_id: watched.clone() });
            opening(async move { service.watch_table(request).await }, |message| message)
        };
        TableWatch {
            client: self.clone(),
            stack_id: stack_id.to_owned(),
            open: Box::new(open),
            streams: Rejoined::new(self.retry),
            table: WatchedTable::default(),
            rows: None,
            removed: VecDeque::new(),
        }
    }

    /// Starts a job that fills the missing cells of a table. [`Client::wait_for_job`] waits for the job. A request without a `request_id`
    /// gets one.
    ///
    /// # Errors
    /// The server refuses the request, for example with the reason `NO_EXTRACTION` if no cell is missing.
    pub async fn fill_stack(&self, mut request: v1::FillStackRequest) -> Result<v1::Job> {
        set_request_id(&mut request.request_id);
        let started = self.repeat(|| {
            let (mut service, request) = (self.stacks(), request.clone());
            async move { service.fill_stack(request).await }
        });
        present(started.await?.job)
    }

    /// Exports a table, and returns the file. The whole file is kept in memory.
    ///
    /// # Errors
    /// The server refuses the request, or the connection is lost and cannot be restored.
    pub async fn export_table(&self, request: v1::ExportTableRequest) -> Result<Vec<u8>> {
        let exported = self.repeat(|| {
            let (mut service, request) = (self.stacks(), request.clone());
            async move {
                let mut chunks = service.export_table(request).await?.into_inner();
                let mut file = Vec::new();
                while let Some(part) = chunks.message().await? {
                    file.extend_from_slice(&part.chunk);
                }
                Ok::<_, Status>(Response::new(file))
            }
        });
        exported.await
    }
}
