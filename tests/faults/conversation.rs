//! Turns of a simulated user that need no approval: a conversation, and questions to the assistant.
//!
//! The conversation is one thread for the whole run, whose oldest messages leave the window of the model and are summarized. A
//! question is a turn with several nodes, which continues at the chosen node after a fault.

use folio_proto::v1;
use folio_types::{RequestId, TurnId};

use super::simulated_user::SimulatedUser;

/// Number of messages of the conversation that a user sends in a row.
const MESSAGES: usize = 4;

impl SimulatedUser {
    /// Sends messages of the conversation, each after the end of the turn before it.
    pub(super) async fn talk(&mut self, number: usize) {
        for message in 1..=MESSAGES {
            let is_first = self.conversation.is_empty();
            let chat = v1::ChatRequest {
                thread_id: self.conversation.clone(),
                document_ids: is_first.then(|| self.document.clone()).into_iter().collect(),
                text: format!("{} talk {}-{number}-{message}", self.tenant.marker, self.name),
                ..Default::default()
            };
            self.conversation = self.run_to_end(&chat, &format!("{number}-{message}")).await.thread.to_string();
        }
    }

    /// Has the assistant compute a sum.
    pub(super) async fn question(&mut self, number: usize) {
        let chat = v1::ChatRequest {
            profile: "assistant".to_owned(),
            text: format!("{} question {}-{number}", self.tenant.marker, self.name),
            ..Default::default()
        };
        self.run_to_end(&chat, &number.to_string()).await;
    }

    /// Runs a turn that waits for no approval to its end. `number`: unique among the requests of the user.
    async fn run_to_end(&mut self, chat: &v1::ChatRequest, number: &str) -> TurnId {
        let request: RequestId = format!("{}-{number}", self.name).parse().expect("a request id");
        let turn = self.begin(chat, &request).await;
        loop {
            let found = self.wait_for_turn(&turn).await;
            match found.status() {
                v1::TurnStatus::Running => self.follow(&turn).await,
                v1::TurnStatus::Failed if found.retriable => self.resume(&turn).await,
                _ => return turn,
            }
        }
    }
}
