//! The state machine at the prompt: an input line becomes a call, whose outcome determines the next prompt.

mod model_choice;

use std::path::Path;
use std::time::{Duration, Instant};

use anstyle::Style;
use anyhow::{Result, anyhow, bail};
use folio_client::{Start, TurnPosition};
use folio_proto::v1;
use folio_proto::v1::event::Kind;
use folio_types::{RequestId, System};
use jiff::tz::TimeZone;

use super::command::{self, Command, InputLine};
use super::complete::Mentions;
use super::decide::{Decided, Desk};
use super::follow::{ConnectionLost, Follower};
use super::images::NextImages;
use super::pending::Pending;
use super::screen::ChatScreen;
use super::view::{Output, View};
use super::{card, mention, threads};
use crate::client::{APPROVALS_INCOMPLETE, Client, answer, explain_error};
use crate::input::{Entry, Input};
use crate::terminal::{BOLD, DIM, GOOD, NOTE};

/// Maximum number of attempts to send decisions over broken connections.
const ATTEMPTS: u32 = 8;
/// Maximum time to read the names that mentions complete, before a prompt.
const MENTIONS_TIME: Duration = Duration::from_secs(1);

pub(super) struct Session {
    client: Client,
    document: v1::Document,
    /// The model of the next messages. Empty: the thread's model.
    model: String,
    /// The credit budget of each turn. None: no budget.
    credit_budget: Option<u64>,
    images: NextImages,
    /// The argument `--server` with a leading blank, for command lines that the chat shows. Empty: they need no such argument.
    server: String,
    screen: ChatScreen,
    input: Input,
    mentions: Mentions,
    view: View,
    started_at: Instant,
    /// Empty before the first message.
    thread: String,
    turn: TurnPosition,
    /// The round that waits for decisions.
    pending: Option<Pending>,
    /// If true, the turn waits for decisions of other users only.
    waits_for_others: bool,
    /// If true, the last turn failed and can be resumed.
    retriable: bool,
    listed: Vec<threads::Listed>,
    models: Vec<String>,
    /// If true, the last message, decision or retry failed.
    has_failed: bool,
}

impl Session {
    pub(super) fn new(
        client: Client,
        document: v1::Document,
        (model, credit_budget, server): (String, Option<u64>, String),
        screen: ChatScreen,
        input: Input,
        mentions: Mentions,
    ) -> Self {
        Self {
            client,
            document,
            model,
            credit_budget,
            images: NextImages::default(),
            server,
            screen,
            input,
            mentions,
            view: View::new(),
            started_at: Instant::now(),
            thread: String::new(),
            turn: TurnPosition::default(),
            pending: None,
            waits_for_others: false,
            retriable: false,
            listed: Vec::new(),
            models: Vec::new(),
            has_failed: false,
        }
    }

    /// Sets the images of the first message.
    #[must_use]
    pub(super) fn with_images(self, images: NextImages) -> Self {
        Self { images, ..self }
    }

    /// Runs until the user quits or the input ends. An error of one line is shown, and the next line is read.
    pub(super) async fn run(mut self) -> Result<()> {
        if let Err(error) = self.show_waiting().await {
            self.screen.error(&error);
        }
        loop {
            let continues = match self.pending.take() {
                Some(pending) => self.decide(pending).await,
                None => self.read_line().await,
            };
            match continues {
                Ok(true) => {}
                Ok(false) => return self.quit(),
                Err(error) => self.screen.error(&error),
            }
        }
    }

    /// Lists the threads of the document whose turns wait for approval.
    async fn show_waiting(&mut self) -> Result<()> {
        let (client, document) = (&self.client, &self.document.document_id);
        let (mut listed, _) = threads::list(client, document).await?;
        // A viewer may not decide, and may not list the turns that wait.
        let (waiting, is_incomplete) = threads::list_waiting(client, document, &listed).await.unwrap_or_default();
        listed.extend(waiting);
        if is_incomplete {
            self.screen.line(NOTE, APPROVALS_INCOMPLETE);
        }
        let waiting = threads::format_waiting(&listed, &TimeZone::system());
        if !waiting.is_empty() {
            self.screen.show(waiting);
            self.listed = listed;
        }
        Ok(())
    }

    /// Shows the effect of Ctrl-D. The end of a pipe needs no explanation.
    fn explain_end(&mut self, text: &str) {
        if self.input.is_terminal() {
            self.screen.line(DIM, text);
        }
    }

    fn quit(&mut self) -> Result<()> {
        self.screen.end_line();
        if self.pending.is_some() {
            // The name may be that of a local file, or of a newer document.
            let command = format!("folio chat {}{}", self.document.document_id, self.server);
            let note = format!("A turn waits for approval. To return to it before it expires: {command}");
            self.screen.line(NOTE, &note);
        }
        // A user at a terminal saw the error; a script needs the exit status.
        if self.has_failed && !self.input.is_terminal() {
            bail!("the last turn failed: see above");
        }
        Ok(())
    }

    async fn read_line(&mut self) -> Result<bool> {
        self.screen.end_line();
        if self.input.is_terminal() {
            // Without the names, only commands are completed.
            let mentions = tokio::time::timeout(MENTIONS_TIME, mention::all(&self.client)).await;
            self.mentions.set(mentions.ok().and_then(Result::ok).unwrap_or_default());
        }
        let line = match self.input.message("you> ").await {
            Entry::Line(line) => line,
            Entry::Interrupted => {
                self.screen.line(DIM, "(the line is discarded; Ctrl-D or /quit quits)");
                return Ok(true);
            }
            Entry::End => {
                self.explain_end(
                    "(Ctrl-D ends the chat; /threads in the next chat about the document lists its threads)",
                );
                return Ok(false);
            }
        };
        match command::parse(&line) {
            InputLine::Empty => Ok(true),
            InputLine::Message(text) => {
                if !self.input.is_terminal() {
                    self.screen.line(GOOD, &format!("you: {text}"));
                }
                self.chat(text).await.map(|()| true)
            }
            InputLine::Command(command) => self.command(command).await,
            InputLine::Unknown(line) => bail!("{line} is not a command; /help lists the commands"),
        }
    }

    async fn chat(&mut self, text: String) -> Result<()> {
        let mentions = mention::resolve(&self.client, &text).await?;
        let documents = if self.thread.is_empty() { vec![self.document.document_id.clone()] } else { Vec::new() };
        let request = v1::ChatRequest {
            document_ids: documents,
            thread_id: self.thread.clone(),
            text,
            mentions,
            model: self.model.clone(),
            credit_budget: self.credit_budget,
            request_id: RequestId::generate(&System).to_string(),
            image_ids: self.images.ids(),
            ..v1::ChatRequest::default()
        };
        self.turn = TurnPosition::default();
        self.follow(&Start::Chat(Box::new(request))).await?;
        // The images of a refused message are sent with the next one.
        self.images.clear();
        Ok(())
    }

    /// Follows the turn to its closing event and updates the state.
    async fn follow(&mut self, start: &Start) -> Result<()> {
        self.retriable = false;
        self.waits_for_others = false;
        self.input.start_turn();
        let (mut follower, turn) = self.follower();
        let closing = follower.run(turn, start).await;
        self.input.end_turn();
        self.has_failed = matches!(&closing, Err(_) | Ok(Kind::Failed(_)));
        if !self.turn.thread_id.is_empty() {
            self.thread.clone_from(&self.turn.thread_id);
        }
        self.closed(closing.map_err(with_remedy)?);
        Ok(())
    }

    fn follower(&mut self) -> (Follower<'_>, &mut TurnPosition) {
        let Self { client, screen, view, input, started_at, turn, .. } = self;
        (Follower { client, screen, view, input, started_at: *started_at }, turn)
    }

    fn closed(&mut self, closing: Kind) {
        match closing {
            Kind::AwaitingApproval(event) => self.pending = Some(Pending::of_event(event)),
            Kind::Failed(failed) => self.retriable = failed.retriable,
            _ => {}
        }
    }

    /// Prompts for the next decision, or sends all decisions.
    async fn decide(&mut self, mut pending: Pending) -> Result<bool> {
        if !pending.is_complete() {
            // The event does not contain the permissions of the user.
            return self.refresh_pending(Some(pending)).await.map(|()| true);
        }
        if pending.next().is_none() {
            if pending.is_left_to_others() {
                self.waits_for_others = true;
                self.screen.line(NOTE, "(the turn waits for others; /resume shows its state)");
                return Ok(true);
            }
            return self.approve(&pending).await.map(|()| true);
        }
        let Self { client, screen, input, document, .. } = self;
        let decided = Desk { client, screen, input, document: &document.document_id }.decide(&mut pending).await;
        self.pending = Some(pending);
        match decided? {
            Decided::Applied => Ok(true),
            Decided::Other(line) => self.not_a_decision(line).await,
            Decided::Interrupted => {
                self.screen
                    .line(DIM, "(nothing is decided; /cancel cancels the turn, Ctrl-D quits and leaves it waiting)");
                Ok(true)
            }
            Decided::End => {
                self.explain_end("(Ctrl-D ends the chat; nothing is decided)");
                Ok(false)
            }
        }
    }

    async fn not_a_decision(&mut self, typed: InputLine) -> Result<bool> {
        match typed {
            InputLine::Empty => Ok(true),
            InputLine::Command(command) => self.command(command).await,
            InputLine::Message(_) | InputLine::Unknown(_) => {
                bail!("expected a reply to the card; /cancel cancels the turn, /new leaves it waiting")
            }
        }
    }

    /// Sends the decisions and shows the following events. Retries over broken connections, because the request is
    /// idempotent.
    async fn approve(&mut self, pending: &Pending) -> Result<()> {
        let request = pending.request(&self.turn.turn_id);
        for attempt in 1.. {
            match self.approve_once(request.clone()).await {
                Ok(()) => return Ok(()),
                Err(Failure::Broken) if attempt < ATTEMPTS => {
                    self.screen.line(NOTE, "(the connection broke; sending the decisions again)");
                    tokio::time::sleep(Duration::from_millis(300) * attempt).await;
                }
                Err(Failure::Broken) => {
                    self.has_failed = true;
                    bail!(
                        "the connection is lost; it is unknown whether the server received the decisions: /resume shows the state"
                    );
                }
                Err(Failure::Refused(error)) => {
                    self.has_failed = true;
                    self.refresh_pending(None).await?;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    async fn approve_once(&mut self, request: v1::ApproveRequest) -> Result<(), Failure> {
        self.input.start_turn();
        let (mut follower, turn) = self.follower();
        let answer = follower.approve(turn, request).await;
        self.input.end_turn();
        match answer {
            Ok(answer) => match answer.outcome {
                Some(v1::approve_response::Outcome::StillAwaiting(_)) => {
                    self.waits_for_others = true;
                    self.screen
                        .line(NOTE, "(the decisions are recorded; the turn waits for others: /resume shows its state)");
                    Ok(())
                }
                _ => self.follow(&Start::Watch).await.map_err(Failure::Refused),
            },
            Err(status) => {
                let error = folio_client::Error::from(status);
                Err(if error.is_interruption() { Failure::Broken } else { Failure::Refused(explain_error(&error)) })
            }
        }
    }

    /// Reads the pending round of the turn from the server, or follows the turn if the turn no longer waits. `known`: the round
    /// that is used if the turn cannot be read.
    async fn refresh_pending(&mut self, known: Option<Pending>) -> Result<()> {
        let request = v1::GetTurnRequest { turn_id: self.turn.turn_id.clone() };
        let turn = match answer(self.client.conversations().get_turn(request)).await {
            Ok(found) => found.turn,
            Err(error) => {
                self.pending = known.map(Pending::with_unknown_permissions);
                return Err(error);
            }
        };
        self.pending = turn.as_ref().and_then(Pending::of_turn);
        let status = turn.map(|turn| turn.status());
        let has_ended = known.is_some() && self.pending.is_none();
        match has_ended || status == Some(v1::TurnStatus::Running) {
            true => self.follow(&Start::Watch).await,
            false => Ok(()),
        }
    }

    async fn command(&mut self, command: Command) -> Result<bool> {
        match command {
            Command::Help => self.screen.line(Style::new(), &command::help()),
            Command::Threads => {
                let (listed, total) = threads::list(&self.client, &self.document.document_id).await?;
                self.screen.show(threads::format(&listed, total, &TimeZone::system()));
                self.listed = listed;
            }
            Command::Resume(which) => self.resume(which.as_deref()).await?,
            Command::New => {
                self.pending = None;
                self.waits_for_others = false;
                self.retriable = false;
                self.thread.clear();
                self.turn = TurnPosition::default();
                self.screen.line(DIM, "(the next message starts a new thread)");
            }
            Command::Cancel => self.cancel().await?,
            Command::Retry => self.retry().await?,
            Command::Model(which) => self.choose_model(which).await?,
            Command::Image(Some(file)) => {
                let line = self.images.add(&self.client, Path::new(&file)).await?;
                self.screen.line(DIM, &line);
            }
            Command::Image(None) => {
                let line = format!("(images of the next message: {})", self.images.ids().len());
                self.screen.line(DIM, &line);
            }
            Command::Thinking(None) if self.view.thinking().is_empty() => self.screen.line(DIM, "(no thinking yet)"),
            Command::Thinking(None) => {
                let thinking = self.view.thinking().to_owned();
                self.screen.line(DIM, &thinking);
            }
            Command::Thinking(Some(on)) => self.view.unfold(on),
            Command::Quit => return Ok(false),
        }
        Ok(true)
    }

    async fn resume(&mut self, which: Option<&str>) -> Result<()> {
        let id = match which {
            Some(which) => threads::id_of(which, &self.listed)?,
            None if self.thread.is_empty() => bail!("no thread is open; /threads lists the threads"),
            None => self.thread.clone(),
        };
        let resumed = threads::resume(&self.client, id, self.screen.columns()).await?;
        self.pending = None;
        self.waits_for_others = false;
        self.retriable = false;
        self.thread.clone_from(&resumed.thread.thread_id);
        self.turn = TurnPosition::in_thread(&self.thread);
        let title = card::one_line(&resumed.thread.title, 80);
        self.screen.line(BOLD, &format!("── {}", if title.is_empty() { "(no title)" } else { &title }));
        self.screen.show(resumed.lines);
        let Some(open) = resumed.open else { return Ok(()) };
        self.turn.turn_id.clone_from(&open.turn_id);
        match Pending::of_turn(&open) {
            Some(pending) => {
                self.turn.last_event = open.next_event.saturating_sub(1);
                let width = self.screen.columns();
                self.screen.show(open.rounds.iter().flat_map(|round| rounds_so_far(round, width)).collect());
                self.pending = Some(pending);
                Ok(())
            }
            None => self.follow(&Start::Watch).await,
        }
    }

    async fn cancel(&mut self) -> Result<()> {
        if self.pending.is_none() && !self.waits_for_others {
            bail!("the thread has no running or waiting turn");
        }
        let request = v1::CancelTurnRequest { turn_id: self.turn.turn_id.clone(), request_id: String::new() };
        answer(self.client.conversations().cancel_turn(request)).await?;
        self.pending = None;
        self.follow(&Start::Watch).await
    }

    async fn retry(&mut self) -> Result<()> {
        if !self.retriable {
            bail!("there is no failed turn to resume");
        }
        let request = v1::ResumeTurnRequest {
            turn_id: self.turn.turn_id.clone(),
            request_id: RequestId::generate(&System).to_string(),
        };
        self.follow(&Start::Resume(request)).await
    }
}

/// Formats a round of a waiting turn. If no call has a result, the calls are omitted, because their cards follow.
fn rounds_so_far(round: &v1::Round, width: Option<usize>) -> Vec<Output> {
    match round.results.is_empty() {
        true => card::round(&v1::Round { calls: Vec::new(), ..round.clone() }, width),
        false => card::round(round, width),
    }
}

/// Adds the commands that help to an error.
fn with_remedy(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<ConnectionLost>() {
        Some(ConnectionLost { is_accepted: true }) => anyhow!("{error}; /resume shows its state"),
        Some(ConnectionLost { is_accepted: false }) => {
            anyhow!("{error}; /threads lists the thread of a received message")
        }
        None => error,
    }
}

enum Failure {
    Broken,
    Refused(anyhow::Error),
}

#[cfg(test)]
mod tests;
