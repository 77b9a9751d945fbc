//! Input at a terminal: `folio chat` and `folio demo --ask` on a pseudo-terminal.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};

use folio_proto::v1;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{Termios, tcgetattr};
use nix::unistd::Pid;

use crate::LIMIT;
use crate::chat::editor;
use crate::process::binary;
use crate::sandbox::{INVOICE, Sandbox};

const SCRIPT: &str = "
rules:
  - when: {user: tags}
    rounds:
      - text: I make three tags.
        calls: [{name: create_tag, arguments: {name: first}}, {name: create_tag, arguments: {name: second}}, {name: create_tag, arguments: {name: third}}]
      - text: Two tags are made.
  - when: {user: think}
    answer: {text: Thought., thinking: [{text: let me see where the total stands, signature: sig-1}]}
  - when: {user: slow}
    fault: {hold: {gate: g, after_chunks: 3}}
    answer: {text: one two three four five six seven eight nine ten}
  - answer: {text: Hello there.}
";

/// Ctrl-C and Ctrl-D as a keyboard sends them.
const CTRL_C: &str = "\u{3}";
const CTRL_D: &str = "\u{4}";

/// The prompt of the chat.
const YOU: &str = "you> ";
const DECISION: &str = "decision> ";

/// A program on its own pseudo-terminal. Dropping it kills the program.
struct Terminal {
    child: Child,
    keyboard: File,
    /// The program's side, to check in which state it leaves the terminal.
    line: File,
    before: Termios,
    /// Length of the output when the last keys were pressed.
    answered: usize,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    /// Starts `folio` in a folder, in a session on this terminal.
    fn start(folder: &Path, arguments: &[&str], variables: &[(&str, OsString)]) -> Self {
        let size = Winsize { ws_row: 50, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).expect("a pseudo-terminal");
        // Processes that other tests start at the same time must not inherit the terminal.
        for end in [&pty.master, &pty.slave] {
            fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).expect("a flag is set");
        }
        let (keyboard, line) = (File::from(pty.master), File::from(pty.slave));
        let before = tcgetattr(&line).expect("the terminal has settings");
        let end = || line.try_clone().expect("the terminal is shared");
        let child = Command::new("setsid")
            .arg("--ctty")
            .arg(binary("folio"))
            .args(arguments)
            .env("TERM", "xterm-256color")
            .env("VISUAL", "")
            .env_remove("NO_COLOR")
            .env_remove("OPENAI_API_KEY")
            .env_remove("OPENAI_BASE_URL")
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .current_dir(folder)
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .expect("setsid starts folio");
        let written = Arc::new(Mutex::new(Vec::new()));
        let (kept, mut screen) = (Arc::clone(&written), keyboard.try_clone().expect("the terminal is shared"));
        std::thread::spawn(move || {
            let mut buffer = [0; 4_096];
            while let Ok(count @ 1..) = screen.read(&mut buffer) {
                kept.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..count]);
            }
        });
        Self { child, keyboard, line, before, answered: 0, written }
    }

    /// Starts `folio chat` about a file in the sandbox's folder.
    fn chat(sandbox: &Sandbox, variables: &[(&str, &str)]) -> Self {
        std::fs::write(sandbox.folder().join("invoice.txt"), INVOICE).expect("the file is written");
        let server = sandbox.url().trim_start_matches("http://").to_owned();
        let mut all = vec![("FOLIO_TOKEN", OsString::from(sandbox.token()))];
        all.extend(variables.iter().map(|(name, value)| (*name, OsString::from(value))));
        Self::start(sandbox.folder(), &["chat", "invoice.txt", "--server", &server], &all)
    }

    fn press(&mut self, keys: &str) {
        self.answered = self.shown().len();
        self.keyboard.write_all(keys.as_bytes()).expect("the keys arrive");
    }

    /// Types a line at a prompt.
    async fn answer(&mut self, prompt: &str, line: &str) {
        self.asks(prompt).await;
        self.press(&format!("{line}\r"));
    }

    /// Waits for a prompt after the last keys.
    async fn asks(&self, prompt: &str) {
        self.wait(prompt, || self.shown().get(self.answered..).is_some_and(|new| new.ends_with(prompt))).await;
    }

    /// Returns the complete output.
    fn raw(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// Returns the output without control sequences.
    fn shown(&self) -> String {
        let raw = self.raw();
        let mut parts = raw.split('\u{1b}');
        let mut shown = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let after = part.find(|c: char| c.is_ascii_alphabetic()).map_or(part.len(), |end| end + 1);
            shown.push_str(&part[after..]);
        }
        shown.replace('\r', "")
    }

    /// Waits until the text was shown this many times.
    async fn until(&self, text: &str, times: usize) {
        self.wait(text, || self.shown().matches(text).count() >= times).await;
    }

    async fn wait(&self, what: &str, condition: impl Fn() -> bool) {
        let waiting = folio_testkit::wait_for(what, LIMIT * 2, || std::future::ready(condition().then_some(())));
        let waited = tokio::time::timeout(LIMIT, waiting).await;
        assert!(waited.is_ok(), "timed out waiting for {what:?} in:\n{}", self.shown());
    }

    /// Waits until the program has ended and restored the terminal.
    async fn ended(&mut self) -> ExitStatus {
        let waiting = folio_testkit::wait_for("the end", LIMIT * 2, || {
            std::future::ready(self.child.try_wait().expect("the program is ours"))
        });
        let waited = tokio::time::timeout(LIMIT, waiting).await;
        let status = waited.unwrap_or_else(|_| panic!("the program does not end:\n{}", self.shown()));
        assert_eq!(tcgetattr(&self.line).expect("the terminal has settings"), self.before, "the terminal is restored");
        // The last output may not have been read yet.
        for (on, off) in [("\u{1b}[?2004h", "\u{1b}[?2004l"), ("\u{1b}[?25l", "\u{1b}[?25h")] {
            self.wait("pasting and the cursor as before", || self.raw().rfind(on) <= self.raw().rfind(off)).await;
        }
        status
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).expect("a process id");
        kill(Pid::from_raw(id), signal).expect("the program is ours");
    }

    /// Quits the chat.
    async fn leave(mut self, prompt: &str) -> String {
        self.asks(prompt).await;
        self.press(CTRL_D);
        assert!(self.ended().await.success(), "{}", self.shown());
        self.shown()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn a_person_rejects_with_a_reason_edits_and_approves() {
    let sandbox = Sandbox::start(SCRIPT).await;
    // The editor runs with the terminal as its input, output and error output.
    let script = "test -t 0 && test -t 1 && test -t 2 && sed -i s/second/edited/ \"$1\"";
    let editor = editor(sandbox.folder(), script);
    let mut chat = Terminal::chat(&sandbox, &[("EDITOR", &editor)]);
    chat.answer(YOU, "tags").await;
    chat.answer(DECISION, "r not that one").await;
    chat.answer(DECISION, "e").await;
    chat.answer(DECISION, "a").await;
    chat.until("Two tags are made.", 1).await;
    assert!(chat.raw().contains("\u{1b}[36m"), "colours: {:?}", chat.raw());
    let shown = chat.leave(YOU).await;
    for line in ["Write a message, or /help.", "I make three tags.", "\"name\": \"first\"", "– create_tag rejected: "]
    {
        assert!(shown.contains(line), "{line:?} in:\n{shown}");
    }
}

#[tokio::test]
async fn text_streams_thinking_is_folded_and_ctrl_c_cancels_the_turn() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let mut chat = Terminal::chat(&sandbox, &[]);
    chat.answer(YOU, "think").await;
    chat.until("(33 characters; /thinking shows it)", 1).await;
    chat.until("Thought.", 1).await;
    assert!(!chat.shown().contains("where the total stands"), "{}", chat.shown());

    chat.answer(YOU, "slow").await;
    // The received half of the answer is printed before the rest arrives.
    chat.until("three", 1).await;
    sandbox.sim.until_held().await;
    assert!(!chat.shown().contains("eight"));
    chat.press(CTRL_C);
    chat.until("The turn was cancelled.", 1).await;
    // At the prompt, Ctrl-C only discards the typed line.
    chat.asks(YOU).await;
    chat.press("half a mess");
    chat.until("half a mess", 1).await;
    chat.press(CTRL_C);
    chat.answer(YOU, "hello").await;
    chat.until("Hello there.", 1).await;
    chat.leave(YOU).await;
    let request_body = sandbox.sim.chats().await.pop().expect("the model was called").body.to_string();
    assert!(!request_body.contains("half a mess"), "{request_body}");
}

#[tokio::test]
async fn a_signal_ends_the_chat_in_every_state_and_restores_the_terminal() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let editor = editor(sandbox.folder(), "stty raw -echo; echo editing; exec sleep 60");
    let mut chat = Terminal::chat(&sandbox, &[]);
    chat.asks(YOU).await;
    chat.press("half a mess");
    chat.until("half a mess", 1).await;
    chat.signal(Signal::SIGTERM);
    assert_eq!(chat.ended().await.code(), Some(143), "{}", chat.shown());
    chat.until("half a mess\nfolio: ended by SIGTERM\n", 1).await;

    let mut chat = Terminal::chat(&sandbox, &[("EDITOR", &editor)]);
    chat.answer(YOU, "tags").await;
    chat.answer(DECISION, "e").await;
    chat.until("editing", 1).await;
    chat.signal(Signal::SIGTERM);
    assert_eq!(chat.ended().await.code(), Some(143), "{}", chat.shown());
    assert!(sandbox.client().await.tag_names().await.is_empty(), "invariant 2");

    let mut chat = Terminal::chat(&sandbox, &[]);
    chat.answer(YOU, "slow").await;
    sandbox.sim.until_held().await;
    chat.signal(Signal::SIGHUP);
    assert_eq!(chat.ended().await.code(), Some(129), "{}", chat.shown());
    sandbox.sim.open("g").await;
    let client = sandbox.client().await;
    let listed = client.threads.clone().list_threads(v1::ListThreadsRequest::default()).await.unwrap().into_inner();
    let slow = listed.threads.iter().find(|thread| thread.title == "slow").expect("the thread exists");
    let turn = client.until(&format!("{}.1", slow.thread_id), v1::TurnStatus::Completed).await;
    assert!(turn.text.ends_with("ten"), "invariant 9: {turn:?}");
}

#[tokio::test]
async fn ctrl_c_in_the_editor_and_at_a_card_decides_nothing() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let editor = editor(sandbox.folder(), "echo editing; exec sleep 60");
    let mut chat = Terminal::chat(&sandbox, &[("EDITOR", &editor)]);
    chat.answer(YOU, "tags").await;
    chat.asks(DECISION).await;
    chat.press(CTRL_C);
    chat.answer(DECISION, "e").await;
    chat.until("editing", 1).await;
    chat.press(CTRL_C);
    chat.until("nothing is changed", 1).await;
    chat.answer(DECISION, "/cancel").await;
    chat.until("The turn was cancelled.", 1).await;
    let shown = chat.leave(YOU).await;
    assert_eq!(shown.matches("┌ create_tag (1 of 3)").count(), 3, "{shown}");
    assert!(sandbox.client().await.tag_names().await.is_empty(), "invariant 2");
}

#[tokio::test]
async fn the_demo_asks_for_approval_in_color() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo = Terminal::start(folder.path(), &["demo", "--ask"], &[]);
    for _ in 1..=3 {
        demo.answer("approve? [y]es, [n]o, or no and why: ", "y").await;
    }
    assert!(demo.ended().await.success(), "{}", demo.shown());
    let (raw, shown) = (demo.raw(), demo.shown());
    assert!(raw.contains("\u{1b}[32m") && raw.contains("\u{1b}[1m"), "color on a terminal: {raw:?}");
    for line in
        ["create_schema wants to run with", "run_extraction wants to run with", "\"invoice_number\": \"INV-2026-0417\""]
    {
        assert!(shown.contains(line), "{line:?} in:\n{shown}");
    }
}

#[tokio::test]
async fn ctrl_c_ends_the_demo_at_once_also_at_its_question() {
    let folder = tempfile::tempdir().unwrap();
    let variables = [("TMPDIR", folder.path().as_os_str().to_owned())];
    let mut demo = Terminal::start(folder.path(), &["demo", "--ask"], &variables);
    demo.until("approve? ", 1).await;
    demo.press(CTRL_C);
    assert!(!demo.ended().await.success());
    assert!(demo.shown().contains("stopped by a signal"), "{}", demo.shown());
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert!(left.is_empty(), "nothing is left behind: {left:?}");
}
