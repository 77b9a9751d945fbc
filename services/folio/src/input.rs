//! Sources of input lines: a line editor on a terminal, otherwise standard input.

mod type_ahead;

use std::io::{BufRead as _, Write as _};
use std::sync::mpsc as blocking;

use anyhow::Result;
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{CompletionType, Config, Editor, Helper};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use type_ahead::TypeAhead;

/// Maximum number of lines that are read ahead.
const READ_AHEAD: usize = 16;
/// The end of a line that the next line continues.
const CONTINUATION: char = '\\';

/// An entry at a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    /// One line, or several lines with line feeds.
    Line(String),
    /// Ctrl-C, which discards the typed text.
    Interrupted,
    /// Ctrl-D, or the end of a pipe.
    End,
}

pub(crate) enum Input {
    /// A user at a terminal.
    Terminal(Box<Terminal>),
    /// Lines of a pipe or a file.
    Piped(Piped),
}

/// Lines of a pipe. A separate thread reads them, because a blocking read cannot be interrupted.
pub(crate) struct Piped {
    lines: mpsc::Receiver<String>,
    peeked: Option<String>,
    /// If true, prompts are written to stderr.
    has_prompts: bool,
}

/// A prompt, and the text that is already typed.
struct Prompt {
    prompt: String,
    typed: String,
}

/// The line editor. It runs in a separate thread, because a blocking read cannot be interrupted.
pub(crate) struct Terminal {
    prompts: blocking::Sender<Prompt>,
    lines: mpsc::Receiver<Entry>,
    /// Reads the keys while no prompt is shown. None: a prompt may be shown.
    type_ahead: Option<TypeAhead>,
    /// Receives Ctrl-C (SIGINT) during a turn. A listener per wait would lose a signal that arrives between two waits.
    interrupts: Option<Signal>,
    /// The text that was typed while no prompt was shown.
    typed: String,
    _mode: TerminalMode,
}

/// The original mode of the terminal. Dropping it restores the mode, which the line editor changes while it waits for a
/// line, and which a killed editor of the user leaves changed.
struct TerminalMode(Termios);

impl Drop for TerminalMode {
    fn drop(&mut self) {
        let stdin = std::io::stdin();
        if tcgetattr(&stdin).is_ok_and(|now| now != self.0) {
            // The terminal may be closed.
            let _ = tcsetattr(&stdin, SetArg::TCSADRAIN, &self.0);
            let _ = std::io::stdout().write_all(RESET_SEQUENCE.as_bytes());
            let _ = std::io::stdout().flush();
        }
    }
}

/// Ends bracketed paste, shows the cursor, and starts a new line.
const RESET_SEQUENCE: &str = "\u{1b}[?2004l\u{1b}[?25h\r\n";

impl Input {
    /// Starts the line editor with completions.
    pub(crate) fn terminal(helper: impl Helper + Send + 'static) -> Result<Self> {
        Ok(Self::Terminal(Box::new(Terminal::start(helper)?)))
    }

    /// Reads standard input. `has_prompts`: prompts are written to stderr.
    pub(crate) fn piped(has_prompts: bool) -> Result<Self> {
        Ok(Self::Piped(Piped::start(has_prompts)?))
    }

    /// Returns an input that is at its end. Standard input is not read, so that the command can read it elsewhere.
    pub(crate) fn closed() -> Self {
        let (_, lines) = mpsc::channel(1);
        Self::Piped(Piped { lines, peeked: None, has_prompts: false })
    }

    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self, Self::Terminal(_))
    }

    /// Returns true if the user sees the prompts and the typed text.
    pub(crate) fn has_prompts(&self) -> bool {
        match self {
            Self::Terminal(_) => true,
            Self::Piped(piped) => piped.has_prompts,
        }
    }

    /// Reads a message, which may have several lines: a backslash at the end of a line continues it. Text that was typed
    /// during a turn precedes it.
    pub(crate) async fn message(&mut self, prompt: &str) -> Entry {
        let typed = match self {
            Self::Terminal(terminal) => std::mem::take(&mut terminal.typed),
            Self::Piped(_) => String::new(),
        };
        let mut entry = self.read(prompt, typed).await;
        if self.is_terminal() {
            if let Entry::Line(line) = &mut entry {
                *line = line.replace("\\\n", "\n");
            }
            return entry;
        }
        while let Entry::Line(line) = &mut entry
            && line.ends_with(CONTINUATION)
        {
            line.pop();
            let Entry::Line(next) = self.read(prompt, String::new()).await else { break };
            line.push('\n');
            line.push_str(&next);
        }
        entry
    }

    /// Reads a line. Text that was typed during a turn is kept for the next message.
    pub(crate) async fn line(&mut self, prompt: &str) -> Entry {
        self.read(prompt, String::new()).await
    }

    async fn read(&mut self, prompt: &str, typed: String) -> Entry {
        match self {
            Self::Terminal(terminal) => {
                let prompt = Prompt { prompt: prompt.to_owned(), typed };
                if terminal.prompts.send(prompt).is_err() {
                    return Entry::End;
                }
                terminal.lines.recv().await.unwrap_or(Entry::End)
            }
            Self::Piped(piped) => {
                if piped.has_prompts {
                    // Standard error may be closed.
                    let mut err = std::io::stderr();
                    let _ = err.write_all(prompt.as_bytes()).and_then(|()| err.flush());
                }
                let line = match piped.peeked.take() {
                    Some(line) => Some(line),
                    None => piped.lines.recv().await,
                };
                line.map_or(Entry::End, Entry::Line)
            }
        }
    }

    /// Starts to keep the typed text for the next message and hides it, and starts to listen to Ctrl-C.
    pub(crate) fn start_turn(&mut self) {
        if let Self::Terminal(terminal) = self {
            terminal.interrupts = terminal.interrupts.take().or_else(|| signal(SignalKind::interrupt()).ok());
            terminal.type_ahead = terminal.type_ahead.take().or_else(TypeAhead::start);
        }
    }

    /// Ends the state that [`Input::start_turn`] starts.
    pub(crate) fn end_turn(&mut self) {
        if let Self::Terminal(terminal) = self {
            terminal.interrupts = None;
            if let Some(type_ahead) = terminal.type_ahead.take() {
                type_ahead.end(&mut terminal.typed);
            }
        }
    }

    /// Waits until the user cancels: Ctrl-C since the start of the turn, or `/cancel` as the next line of a pipe. Dropping
    /// the future loses no signal and no line.
    pub(crate) async fn cancelled(&mut self) {
        match self {
            Self::Terminal(terminal) => {
                let interrupted = match &mut terminal.interrupts {
                    Some(interrupts) => interrupts.recv().await,
                    None => None,
                };
                if interrupted.is_none() {
                    std::future::pending::<()>().await;
                }
            }
            Self::Piped(piped) => {
                if piped.peeked.is_none() {
                    piped.peeked = piped.lines.recv().await;
                }
                if piped.peeked.take_if(|line| line.trim() == "/cancel").is_none() {
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}

impl Piped {
    fn start(has_prompts: bool) -> Result<Self> {
        let (send, lines) = mpsc::channel(READ_AHEAD);
        std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
            for line in std::io::stdin().lock().lines() {
                let Ok(line) = line else { return };
                if send.blocking_send(line).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { lines, peeked: None, has_prompts })
    }
}

impl Terminal {
    fn start(helper: impl Helper + Send + 'static) -> Result<Self> {
        let before = TerminalMode(tcgetattr(std::io::stdin())?);
        let config = Config::builder().completion_type(CompletionType::List).build();
        let mut editor = Editor::<_, DefaultHistory>::with_config(config)?;
        editor.set_helper(Some(helper));
        let (prompts, received) = blocking::channel::<Prompt>();
        let (send, lines) = mpsc::channel(1);
        std::thread::Builder::new().name("line editor".to_owned()).spawn(move || {
            for Prompt { prompt, typed } in received {
                let entry = match editor.readline_with_initial(&prompt, (typed.as_str(), "")) {
                    Ok(line) => {
                        // Failing to add a line to the history is harmless.
                        let _ = editor.add_history_entry(line.as_str());
                        Entry::Line(line)
                    }
                    Err(ReadlineError::Interrupted) => Entry::Interrupted,
                    Err(_) => Entry::End,
                };
                if send.blocking_send(entry).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { prompts, lines, type_ahead: None, interrupts: None, typed: String::new(), _mode: before })
    }
}
