//! The state machine at the prompt: an input line becomes a call, whose outcome determines the next prompt.

use std::time::{Duration, Instant};

use anstyle::Style;
use anyhow::{Result, bail};
use folio_proto::v1;
use folio_proto::v1::decision::Decision;
use folio_proto::v1::event::Kind;
use folio_types::{RequestId, System};

use super::command::{self, Command, InputLine, Reply};
use super::follow::{Follower, Start, Turn, is_broken};
use super::pending::Pending;
use super::screen::ChatScreen;
use super::view::{Output, View};
use super::{card, edit, threads};
use crate::client::{Client, answer, explain};
use crate::input::Input;
use crate::terminal::{BOLD, DIM, GOOD, NOTE};

/// Maximum number of attempts to send decisions over broken connections.
const ATTEMPTS: u32 = 8;
/// Page size that lists all tools of a profile.
const TOOLS: i32 = 1_000;

pub(super) struct Session {
    client: Client,
    document: v1::Document,
    /// The model of the next messages. Empty: the thread's model.
    model: String,
    screen: ChatScreen,
    input: Input,
    view: View,
    started_at: Instant,
    /// Empty before the first message.
    thread: String,
    turn: Turn,
    /// The round that waits for decisions.
    pending: Option<Pending>,
    /// If true, the last turn failed and can be resumed.
    retriable: bool,
    listed: Vec<v1::Thread>,
    models: Vec<String>,
    /// If true, the last message, decision or retry failed.
    has_failed: bool,
}

impl Session {
    pub(super) fn new(client: Client, document: v1::Document, model: String, screen: ChatScreen, input: Input) -> Self {
        Self {
            client,
            document,
            model,
            screen,
            input,
            view: View::new(),
            started_at: Instant::now(),
            thread: String::new(),
            turn: Turn::default(),
            pending: None,
            retriable: false,
            listed: Vec::new(),
            models: Vec::new(),
            has_failed: false,
        }
    }

    /// Runs until the user quits or the input ends. An error of one line is shown, and the next line is read.
    pub(super) async fn run(mut self) -> Result<()> {
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

    fn quit(&mut self) -> Result<()> {
        self.screen.end_line();
        if self.pending.is_some() {
            self.screen.line(NOTE, "A turn waits for approval: /threads and /resume return to it until it expires.");
        }
        // A user at a terminal saw the error; a script needs the exit status.
        if self.has_failed && !self.input.is_terminal() {
            bail!("the last turn failed: see above");
        }
        Ok(())
    }

    async fn read_line(&mut self) -> Result<bool> {
        self.screen.end_line();
        let Some(line) = self.input.line("you> ").await else { return Ok(false) };
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
        let documents = if self.thread.is_empty() { vec![self.document.document_id.clone()] } else { Vec::new() };
        let request = v1::ChatRequest {
            document_ids: documents,
            thread_id: self.thread.clone(),
            text,
            model: self.model.clone(),
            request_id: RequestId::generate(&System).to_string(),
            ..v1::ChatRequest::default()
        };
        self.turn = Turn::default();
        self.follow(&Start::Chat(Box::new(request))).await
    }

    /// Follows the turn to its closing event and updates the state.
    async fn follow(&mut self, start: &Start) -> Result<()> {
        self.retriable = false;
        let (mut follower, turn) = self.follower();
        let closing = follower.run(turn, start).await;
        self.has_failed = matches!(&closing, Err(_) | Ok(Kind::Failed(_)));
        if !self.turn.thread.is_empty() {
            self.thread.clone_from(&self.turn.thread);
        }
        self.closed(closing?);
        Ok(())
    }

    fn follower(&mut self) -> (Follower<'_>, &mut Turn) {
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
        let Some((call, number, count)) = pending.next() else { return self.approve(&pending).await.map(|()| true) };
        let call = call.clone();
        self.screen.show(card::waiting(&call, number, count, pending.shows_all_arguments));
        let line = self.input.line("decision> ").await;
        let Some(line) = line else {
            self.pending = Some(pending);
            return Ok(false);
        };
        if !self.input.is_terminal() {
            self.screen.line(DIM, &format!("decision: {}", line.trim()));
        }
        match command::parse_reply(&line) {
            Reply::Approve => pending.decide(Decision::Approved(v1::Approved {})),
            Reply::ApproveAll => pending.approve_all(),
            Reply::Reject(reason) => pending.decide(Decision::Rejected(v1::Rejected { reason })),
            Reply::Show => pending.shows_all_arguments = true,
            Reply::Edit => {
                let edited = self.edit(&call, &mut pending).await;
                self.pending = Some(pending);
                return edited.map(|()| true);
            }
            Reply::Other(typed) => {
                self.pending = Some(pending);
                return self.not_a_decision(typed).await;
            }
        }
        self.pending = Some(pending);
        Ok(true)
    }

    async fn not_a_decision(&mut self, typed: InputLine) -> Result<bool> {
        match typed {
            InputLine::Empty => Ok(true),
            InputLine::Command(command) => self.command(command).await,
            InputLine::Message(_) | InputLine::Unknown(_) => {
                bail!("expected a decision: {}; /cancel ends the turn, /new leaves it waiting", command::CHOICES)
            }
        }
    }

    /// Opens the arguments in an editor. Valid arguments decide the call; invalid ones are kept as a draft.
    async fn edit(&mut self, call: &v1::Call, pending: &mut Pending) -> Result<()> {
        let shown = card::pretty(&call.arguments_json);
        let before = pending.draft.clone().unwrap_or_else(|| shown.clone());
        let edited = edit::in_editor(&before, self.input.is_terminal()).await?;
        if edited.trim() == shown.trim() {
            self.screen.line(NOTE, "(no change; decide about the original arguments)");
            return Ok(());
        }
        match edit::check(&edited, &self.schema_of(&call.name).await?).await {
            Ok(arguments_json) => {
                pending.decide(Decision::ApprovedEdited(v1::ApprovedEdited { arguments_json }));
                Ok(())
            }
            Err(problem) => {
                pending.draft = Some(edited);
                bail!("the edited arguments are not sent: {problem}\n[e]dit opens them again")
            }
        }
    }

    async fn schema_of(&self, tool: &str) -> Result<String> {
        let request = v1::ListToolsRequest { page_size: TOOLS, ..v1::ListToolsRequest::default() };
        let tools = answer(self.client.conversations().list_tools(request)).await?.tools;
        let found = tools.into_iter().find(|found| found.name == tool);
        Ok(found.map(|found| found.parameters_json).unwrap_or_default())
    }

    /// Sends the decisions and shows the following events. Retries over broken connections, because the request is
    /// idempotent.
    async fn approve(&mut self, pending: &Pending) -> Result<()> {
        let request = pending.request(&self.turn.id);
        for attempt in 1.. {
            match self.approve_once(request.clone()).await {
                Ok(()) => return Ok(()),
                Err(Failure::Broken) if attempt < ATTEMPTS => {
                    self.screen.line(NOTE, "(the connection broke; sending the decisions again)");
                    tokio::time::sleep(Duration::from_millis(300) * attempt).await;
                }
                Err(Failure::Broken) => {
                    self.has_failed = true;
                    bail!("the connection is lost; /resume shows the state of the turn");
                }
                Err(Failure::Refused(error)) => {
                    self.has_failed = true;
                    self.refresh_pending().await?;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    async fn approve_once(&mut self, request: v1::ApproveRequest) -> Result<(), Failure> {
        let (mut follower, turn) = self.follower();
        match follower.approve(turn, request).await {
            Ok(answer) => match answer.outcome {
                Some(v1::approve_response::Outcome::StillAwaiting(_)) => {
                    self.refresh_pending().await.map_err(Failure::Refused)
                }
                _ => self.follow(&Start::Watch).await.map_err(Failure::Refused),
            },
            Err(status) if is_broken(&status) => Err(Failure::Broken),
            Err(status) => Err(Failure::Refused(explain(&status))),
        }
    }

    /// Reads the pending round of the turn from the server.
    async fn refresh_pending(&mut self) -> Result<()> {
        let request = v1::GetTurnRequest { turn_id: self.turn.id.clone() };
        let turn = answer(self.client.conversations().get_turn(request)).await?.turn;
        self.pending = turn.as_ref().and_then(Pending::of_turn);
        Ok(())
    }

    async fn command(&mut self, command: Command) -> Result<bool> {
        match command {
            Command::Help => self.screen.line(Style::new(), command::HELP),
            Command::Threads => {
                let (listed, total) = threads::list(&self.client, &self.document.document_id).await?;
                self.screen.show(threads::format(&listed, total));
                self.listed = listed;
            }
            Command::Resume(which) => self.resume(&which).await?,
            Command::New => {
                self.pending = None;
                self.retriable = false;
                self.thread.clear();
                self.turn = Turn::default();
                self.screen.line(DIM, "(the next message starts a new thread)");
            }
            Command::Cancel => self.cancel().await?,
            Command::Retry => self.retry().await?,
            Command::Model(which) => self.choose_model(which).await?,
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

    async fn resume(&mut self, which: &str) -> Result<()> {
        let id = threads::id_of(which, &self.listed)?;
        let resumed = threads::resume(&self.client, id).await?;
        self.pending = None;
        self.retriable = false;
        self.thread.clone_from(&resumed.thread.thread_id);
        self.turn = Turn { thread: self.thread.clone(), ..Turn::default() };
        let title = card::one_line(&resumed.thread.title, 80);
        self.screen.line(BOLD, &format!("── {}", if title.is_empty() { "(no title)" } else { &title }));
        self.screen.show(resumed.lines);
        let Some(open) = resumed.open else { return Ok(()) };
        self.turn.id.clone_from(&open.turn_id);
        match Pending::of_turn(&open) {
            Some(pending) => {
                self.turn.last_event = open.next_event.saturating_sub(1);
                self.screen.show(open.rounds.iter().flat_map(rounds_so_far).collect());
                self.pending = Some(pending);
                Ok(())
            }
            None => self.follow(&Start::Watch).await,
        }
    }

    async fn cancel(&mut self) -> Result<()> {
        if self.pending.is_none() {
            bail!("the thread has no running or waiting turn");
        }
        let request = v1::CancelTurnRequest { turn_id: self.turn.id.clone(), request_id: String::new() };
        answer(self.client.conversations().cancel_turn(request)).await?;
        self.pending = None;
        self.follow(&Start::Watch).await
    }

    async fn retry(&mut self) -> Result<()> {
        if !self.retriable {
            bail!("there is no failed turn to resume");
        }
        let request = v1::ResumeTurnRequest {
            turn_id: self.turn.id.clone(),
            request_id: RequestId::generate(&System).to_string(),
        };
        self.follow(&Start::Resume(request)).await
    }

    async fn choose_model(&mut self, which: Option<String>) -> Result<()> {
        if let Some(which) = which {
            let listed =
                which.parse::<usize>().ok().and_then(|number| self.models.get(number.checked_sub(1)?).cloned());
            self.model = listed.unwrap_or(which);
            let chosen = format!("(the following messages use {})", self.model);
            self.screen.line(DIM, &chosen);
            return Ok(());
        }
        let request = v1::ListModelsRequest { r#use: v1::ModelUse::Chat.into(), ..v1::ListModelsRequest::default() };
        let listed = answer(self.client.models().list_models(request)).await?;
        let lines = (1..).zip(&listed.models).map(|(number, model)| {
            let chosen = if model.name == self.model { " (chosen)" } else { "" };
            let default = if model.name == listed.default_model { " (default)" } else { "" };
            Output::Line(Style::new(), format!("{number:>3}  {}{default}{chosen}", card::one_line(&model.name, 80)))
        });
        self.screen.show(lines.collect());
        self.models = listed.models.into_iter().map(|model| model.name).collect();
        Ok(())
    }
}

/// Formats a round of a waiting turn. If no call has a result, the calls are omitted, because their cards follow.
fn rounds_so_far(round: &v1::Round) -> Vec<Output> {
    let has_results = !round.results.is_empty();
    if has_results { card::round(round) } else { card::round(&v1::Round { calls: Vec::new(), ..round.clone() }) }
}

enum Failure {
    Broken,
    Refused(anyhow::Error),
}
