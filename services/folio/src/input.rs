//! Sources of input lines: a line editor on a terminal, otherwise standard input.

use std::io::{BufRead as _, Write as _};
use std::sync::mpsc as blocking;

use anyhow::Result;
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use rustyline::error::ReadlineError;
use tokio::sync::mpsc;

/// Maximum number of lines that are read ahead.
const READ_AHEAD: usize = 16;

pub(crate) enum Input {
    /// A user at a terminal.
    Terminal(Terminal),
    /// Lines of a pipe or a file.
    Piped(Piped),
}

/// Lines of a pipe. A separate thread reads them, because a blocking read cannot be interrupted.
pub(crate) struct Piped {
    lines: mpsc::Receiver<String>,
    peeked: Option<String>,
}

/// The line editor. It runs in a separate thread, because a blocking read cannot be interrupted.
pub(crate) struct Terminal {
    prompts: blocking::Sender<String>,
    lines: mpsc::Receiver<Option<String>>,
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
    pub(crate) fn new(is_terminal: bool) -> Result<Self> {
        Ok(if is_terminal { Self::Terminal(Terminal::start()?) } else { Self::Piped(Piped::start()?) })
    }

    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self, Self::Terminal(_))
    }

    /// None: the end of the input.
    pub(crate) async fn line(&mut self, prompt: &str) -> Option<String> {
        match self {
            Self::Terminal(terminal) => {
                terminal.prompts.send(prompt.to_owned()).ok()?;
                terminal.lines.recv().await.flatten()
            }
            Self::Piped(piped) => match piped.peeked.take() {
                Some(line) => Some(line),
                None => piped.lines.recv().await,
            },
        }
    }

    /// Waits until the user cancels: Ctrl-C, or `/cancel` as the next line of a pipe. Dropping the future loses no
    /// line.
    pub(crate) async fn cancelled(&mut self) {
        match self {
            Self::Terminal(_) => {
                if tokio::signal::ctrl_c().await.is_err() {
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
    fn start() -> Result<Self> {
        let (send, lines) = mpsc::channel(READ_AHEAD);
        std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
            for line in std::io::stdin().lock().lines() {
                let Ok(line) = line else { return };
                if send.blocking_send(line).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { lines, peeked: None })
    }
}

impl Terminal {
    fn start() -> Result<Self> {
        let before = TerminalMode(tcgetattr(std::io::stdin())?);
        let mut editor = rustyline::DefaultEditor::new()?;
        let (prompts, received) = blocking::channel::<String>();
        let (send, lines) = mpsc::channel(1);
        std::thread::Builder::new().name("line editor".to_owned()).spawn(move || {
            for prompt in received {
                let line = match editor.readline(&prompt) {
                    Ok(line) => {
                        // Failing to add a line to the history is harmless.
                        let _ = editor.add_history_entry(line.as_str());
                        Some(line)
                    }
                    Err(ReadlineError::Interrupted) => Some(String::new()),
                    Err(_) => None,
                };
                if send.blocking_send(line).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { prompts, lines, _mode: before })
    }
}
