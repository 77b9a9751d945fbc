//! The conversation of a simulated user: one thread for the whole run, whose oldest messages leave the window of the model and are
//! summarized.

use folio_proto::v1;
use folio_types::RequestId;

use super::simulated_user::SimulatedUser;

/// Number of messages that a user sends in a row.
const MESSAGES: usize = 4;

impl SimulatedUser {
    /// Sends messages of the conversation, each after the end of the turn before it.
    pub(super) async fn talk(&mut self, number: usize) {
        for message in 1..=MESSAGES {
            let text = format!("{} talk {}-{number}-{message}", self.tenant.marker, self.name);
            let request: RequestId = format!("{}-{number}-{message}", self.name).parse().expect("a request id");
            let is_first = self.conversation.is_empty();
            let chat = v1::ChatRequest {
                thread_id: self.conversation.clone(),
                document_ids: is_first.then(|| self.document.clone()).into_iter().collect(),
                text,
                ..Default::default()
            };
            let turn = self.begin(&chat, &request).await;
            self.conversation = turn.thread.to_string();
            loop {
                let found = self.wait_for_turn(&turn).await;
                match found.status() {
                    v1::TurnStatus::Running => self.follow(&turn).await,
                    v1::TurnStatus::Failed if found.retriable => self.resume(&turn).await,
                    _ => break,
                }
            }
        }
    }
}
