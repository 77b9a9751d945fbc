//! Input at a terminal: `folio chat` and `folio demo --ask` on a pseudo-terminal.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use folio_proto::v1;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{Termios, tcgetattr};
use nix::unistd::Pid;

use crate::chat::editor;
use crate::command_line::{folio, text};
use crate::process::{binary, command};
use crate::program::{Output, Running};
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
  - when: {user: table}
    answer: {text: \"The **total** is:\\n\\n| Item | Price |\\n|---|---|\\n| Paper | 10 |\\n\"}
  - answer: {text: Hello there.}
";

/// Ctrl-C and Ctrl-D as a keyboard sends them.
const CTRL_C: &str = "\u{3}";
pub(crate) const CTRL_D: &str = "\u{4}";

/// The prompt of the chat.
pub(crate) const YOU: &str = "you> ";
pub(crate) const DECISION: &str = "decision> ";

/// A control sequence that no program sends. [`Output::shown`] omits it.
const END_MARK: &str = "\u{1b}[9999z";

/// The number of columns of a terminal.
const COLUMNS: u16 = 200;

/// A program on its own pseudo-terminal. Dropping it kills the program.
pub(crate) struct Terminal {
    running: Running,
    keyboard: File,
    /// The program's side, to check in which state it leaves the terminal.
    line: File,
    before: Termios,
    /// Length of the output when the last keys were pressed.
    answered: usize,
    output: Output,
}

impl Terminal {
    /// Starts `folio` in a folder, in a session on this terminal.
    fn start(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::start_in(COLUMNS, folder, arguments, variables)
    }

    /// Like [`Terminal::start`], with another number of columns.
    pub(crate) fn start_in(columns: u16, folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let size = Winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).expect("a pseudo-terminal");
        // Processes that other tests start at the same time must not inherit the terminal.
        for end in [&pty.master, &pty.slave] {
            fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).expect("a flag is set");
        }
        let (keyboard, line) = (File::from(pty.master), File::from(pty.slave));
        let before = tcgetattr(&line).expect("the terminal has settings");
        let end = || line.try_clone().expect("the terminal is shared");
        let child = command("setsid", folder, variables)
            .arg("--ctty")
            .arg(binary("folio"))
            .args(arguments)
            .env("TERM", "xterm-256color")
            .env("VISUAL", "")
            .env_remove("NO_COLOR")
            // The program warns about variables with its prefix that are no settings.
            .env_remove("FOLIO_WRITE_DOCS")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .expect("setsid starts folio");
        let output = Output::of(keyboard.try_clone().expect("the terminal is shared"));
        Self { running: Running(child), keyboard, line, before, answered: 0, output }
    }

    /// Starts `folio chat` about a file in the sandbox's folder.
    fn chat(sandbox: &Sandbox, variables: &[(&str, &str)]) -> Self {
        Self::chat_in(COLUMNS, sandbox, variables)
    }

    /// Like [`Terminal::chat`], with another number of columns.
    pub(crate) fn chat_in(columns: u16, sandbox: &Sandbox, variables: &[(&str, &str)]) -> Self {
        std::fs::write(sandbox.folder().join("invoice.txt"), INVOICE).expect("the file is written");
        let server = sandbox.url().trim_start_matches("http://").to_owned();
        let token = sandbox.token();
        let variables = [variables, &[("FOLIO_TOKEN", &token), ("FOLIO_SERVER", &server)]].concat();
        Self::start_in(columns, sandbox.folder(), &["chat", "invoice.txt"], &variables)
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.answered = self.shown().len();
        self.keyboard.write_all(keys.as_bytes()).expect("the keys arrive");
    }

    /// Types a line at a prompt.
    pub(crate) async fn answer(&mut self, prompt: &str, line: &str) {
        self.asks(prompt).await;
        self.press(&format!("{line}\r"));
    }

    /// Waits for a prompt after the last keys.
    pub(crate) async fn asks(&self, prompt: &str) {
        let is_new = || self.shown().get(self.answered..).is_some_and(|new| new.ends_with(prompt)).then_some(());
        self.output.wait(prompt, is_new).await;
    }

    pub(crate) fn shown(&self) -> String {
        self.output.shown()
    }

    /// Returns the output with its control sequences.
    pub(crate) fn raw(&self) -> String {
        self.output.raw()
    }

    /// Waits until the text was shown.
    pub(crate) async fn until(&self, text: &str) {
        self.output.until(text, 1).await;
    }

    /// Waits until the program has ended and restored the terminal.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let child = &mut self.running.0;
        let status = self.output.wait("the end", || child.try_wait().expect("the program is a child")).await;
        assert_eq!(tcgetattr(&self.line).expect("the terminal has settings"), self.before, "the terminal is restored");
        // A terminal keeps the order of its output, so that all output of the program was read before the mark.
        self.line.write_all(END_MARK.as_bytes()).expect("the mark is written");
        let is_read = || self.output.raw().ends_with(END_MARK).then_some(());
        self.output.wait("the last output", is_read).await;
        let raw = self.raw();
        for (on, off) in [("\u{1b}[?2004h", "\u{1b}[?2004l"), ("\u{1b}[?25l", "\u{1b}[?25h")] {
            assert!(raw.rfind(on) <= raw.rfind(off), "the previous modes of pasting and cursor are restored: {raw}");
        }
        status
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.running.0.id()).expect("a process id");
        kill(Pid::from_raw(id), signal).expect("the program runs");
    }

    /// Quits the chat.
    async fn leave(mut self, prompt: &str) -> String {
        self.asks(prompt).await;
        self.press(CTRL_D);
        assert!(self.ended().await.success(), "{}", self.shown());
        self.shown()
    }
}

#[tokio::test]
async fn a_person_rejects_with_a_reason_edits_and_approves() {
    let sandbox = Sandbox::start(SCRIPT).await;
    // The editor runs with the terminal as its input, output and error output.
    let script = "test -t 0 && test -t 1 && test -t 2 && sed -i s/second/edited/ \"$1\"";
    let editor = editor(sandbox.folder(), script);
    let mut chat = Terminal::chat(&sandbox, &[("EDITOR", &editor), ("PAGER", "cat")]);
    chat.answer(YOU, "tags").await;
    chat.answer(DECISION, "s").await;
    chat.answer(DECISION, "r").await;
    chat.answer("reason (Enter: none)> ", "not that one").await;
    chat.answer(DECISION, "e").await;
    chat.answer(DECISION, "a").await;
    chat.until("Two tags are made.").await;
    assert!(chat.output.raw().contains("\u{1b}[36m"), "colours: {:?}", chat.output.raw());
    let shown = chat.leave(YOU).await;
    for line in [
        "Write a message, or /help.",
        "I make three tags.",
        "│ name: first",
        "\"name\": \"first\"",
        "– create_tag rejected: ",
    ] {
        assert!(shown.contains(line), "{line:?} in:\n{shown}");
    }
    let request_body = sandbox.sim.chat_requests().await.pop().expect("the model was called").body.to_string();
    assert!(request_body.contains("not that one"), "{request_body}");
}

#[tokio::test]
async fn an_answer_in_markdown_is_formatted() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let mut chat = Terminal::chat(&sandbox, &[]);
    chat.answer(YOU, "table").await;
    chat.until("The total is:").await;
    chat.until("Item  │ Price").await;
    let shown = chat.leave(YOU).await;
    assert!(!shown.contains("**") && !shown.contains("|---|"), "{shown}");
}

#[tokio::test]
async fn text_that_is_typed_during_a_turn_is_kept_for_the_next_message() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let mut chat = Terminal::chat(&sandbox, &[]);
    chat.answer(YOU, "slow").await;
    sandbox.sim.wait_for_waiting_request().await;
    chat.press("next mesage\u{7f}\u{7f}\u{7f}sage");
    sandbox.sim.open_gate("g").await;
    chat.until("you> next message").await;
    assert_eq!(sandbox.sim.chat_requests().await.len(), 1, "nothing is sent before Enter");
    chat.press("\r");
    chat.until("Hello there.").await;
    chat.leave(YOU).await;
    let request_body = sandbox.sim.chat_requests().await.pop().expect("the model was called").body.to_string();
    assert!(request_body.contains("next message"), "{request_body}");
}

#[tokio::test]
async fn tab_completes_commands_and_a_backslash_continues_a_message() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let mut chat = Terminal::chat(&sandbox, &[]);
    chat.asks(YOU).await;
    chat.press("/thr\t");
    chat.until("/threads").await;
    chat.press("\r");
    chat.until("no threads yet").await;
    chat.asks(YOU).await;
    chat.press("first line\\\r");
    chat.until("first line\\").await;
    chat.press("second line\r");
    chat.until("Hello there.").await;
    chat.leave(YOU).await;
    let request_body = sandbox.sim.chat_requests().await.pop().expect("the model was called").body.to_string();
    assert!(request_body.contains("first line\\nsecond line"), "{request_body}");
}

#[tokio::test]
async fn a_quoted_line_feed_continues_a_message_and_ctrl_d_says_that_it_ends_the_chat() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let mut chat = Terminal::chat(&sandbox, &[]);
    chat.asks(YOU).await;
    chat.press("third line\u{16}\nfourth line\r");
    chat.until("Hello there.").await;
    let shown = chat.leave(YOU).await;
    assert!(shown.contains("(Ctrl-D ends the chat; /threads"), "{shown}");
    let request_body = sandbox.sim.chat_requests().await.pop().expect("the model was called").body.to_string();
    assert!(request_body.contains("third line\\nfourth line"), "{request_body}");

    let mut chat = Terminal::chat(&sandbox, &[]);
    chat.answer(YOU, "tags").await;
    let shown = chat.leave(DECISION).await;
    assert!(shown.contains("(Ctrl-D ends the chat; nothing is decided)"), "{shown}");
    assert!(shown.contains("To return to it before it expires: folio chat doc_"), "{shown}");
}

#[tokio::test]
async fn the_start_of_a_server_ends_with_commands_that_work_as_printed() {
    let (data, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut server = Terminal::start(data.path(), &["serve", "--listen", "127.0.0.1:0"], &[]);
    server.until(" chat folio-sample.txt").await;
    let shown = server.shown();
    let (_, steps) = shown.split_once("Next, in another terminal:\n").expect("the next steps");
    // The log is written to the same terminal.
    let commands: Vec<&str> = steps.lines().filter_map(|line| line.strip_prefix("  ")).take(3).collect();
    assert_eq!(commands.len(), 3, "{shown}");
    let mut shell = command("sh", other.path(), &[]);
    let output = shell.args(["-e", "-c", &commands.join("\n")]).stdin(Stdio::null()).output().expect("a shell runs");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && printed.contains("accepts the token"), "{commands:?}: {printed}");
    server.press(CTRL_C);
    assert!(server.ended().await.success(), "{}", server.shown());
}

#[tokio::test]
async fn text_streams_thinking_is_folded_and_ctrl_c_cancels_the_turn() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let mut chat = Terminal::chat(&sandbox, &[]);
    chat.answer(YOU, "think").await;
    chat.until("(33 characters; /thinking shows it)").await;
    chat.until("Thought.").await;
    assert!(!chat.shown().contains("where the total stands"), "{}", chat.shown());

    chat.answer(YOU, "slow").await;
    // The received half of the answer is printed before the rest arrives.
    chat.until("three").await;
    sandbox.sim.wait_for_waiting_request().await;
    assert!(!chat.shown().contains("eight"));
    chat.press(CTRL_C);
    chat.until("The turn was cancelled.").await;
    // At the prompt, Ctrl-C only discards the typed line, and names the key that quits.
    chat.asks(YOU).await;
    chat.press("half a mess");
    chat.until("half a mess").await;
    chat.press(CTRL_C);
    chat.until("(the line is discarded; Ctrl-D or /quit quits)").await;
    chat.answer(YOU, "hello").await;
    chat.until("Hello there.").await;
    chat.leave(YOU).await;
    let request_body = sandbox.sim.chat_requests().await.pop().expect("the model was called").body.to_string();
    assert!(!request_body.contains("half a mess"), "{request_body}");
}

#[tokio::test]
async fn a_signal_ends_the_chat_in_every_state_and_restores_the_terminal() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let editor = editor(sandbox.folder(), "stty raw -echo; echo editing; exec sleep 60");
    let mut chat = Terminal::chat(&sandbox, &[]);
    chat.asks(YOU).await;
    chat.press("half a mess");
    chat.until("half a mess").await;
    chat.signal(Signal::SIGTERM);
    assert_eq!(chat.ended().await.code(), Some(143), "{}", chat.shown());
    chat.until("half a mess\nfolio: ended by SIGTERM\n").await;

    let mut chat = Terminal::chat(&sandbox, &[("EDITOR", &editor)]);
    chat.answer(YOU, "tags").await;
    chat.answer(DECISION, "e").await;
    chat.until("editing").await;
    chat.signal(Signal::SIGTERM);
    assert_eq!(chat.ended().await.code(), Some(143), "{}", chat.shown());
    assert!(sandbox.client().await.tag_names().await.is_empty(), "invariant 2");

    let mut chat = Terminal::chat(&sandbox, &[]);
    chat.answer(YOU, "slow").await;
    sandbox.sim.wait_for_waiting_request().await;
    chat.signal(Signal::SIGHUP);
    assert_eq!(chat.ended().await.code(), Some(129), "{}", chat.shown());
    sandbox.sim.open_gate("g").await;
    let client = sandbox.client().await;
    let listed = client.threads.clone().list_threads(v1::ListThreadsRequest::default()).await.unwrap().into_inner();
    let slow = listed.threads.iter().find(|thread| thread.title == "slow").expect("the thread exists");
    let turn = client.until(&format!("{}.1", slow.thread_id), v1::TurnStatus::Completed).await;
    assert!(turn.text.ends_with("ten"), "invariant 9: {turn:?}");
}

#[tokio::test]
async fn ctrl_c_in_the_editor_and_at_a_decision_decides_nothing() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let editor = editor(sandbox.folder(), "echo editing; exec sleep 60");
    let mut chat = Terminal::chat(&sandbox, &[("EDITOR", &editor)]);
    chat.answer(YOU, "tags").await;
    chat.asks(DECISION).await;
    chat.press(CTRL_C);
    chat.answer(DECISION, "e").await;
    chat.until("editing").await;
    chat.press(CTRL_C);
    chat.until("nothing is changed").await;
    chat.answer(DECISION, "/cancel").await;
    chat.until("The turn was cancelled.").await;
    let shown = chat.leave(YOU).await;
    assert_eq!(shown.matches("┌ create_tag (1 of 3)").count(), 3, "{shown}");
    assert!(sandbox.client().await.tag_names().await.is_empty(), "invariant 2");
}

#[tokio::test]
async fn rejected_values_are_shown_again_and_corrected_in_a_review() {
    const REVIEW: &str = "review> ";
    let sandbox = Sandbox::start("rules:\n  - answer: {text: '{\"number\": \"A-17\", \"total\": 957.0}'}\n").await;
    std::fs::write(sandbox.folder().join("invoice.txt"), INVOICE).expect("the file is written");
    let (url, token) = (sandbox.url(), sandbox.token());
    let variables = [("FOLIO_SERVER", url.as_str()), ("FOLIO_TOKEN", token.as_str())];
    let created = folio(sandbox.folder(), &["prompt", "create", "Totals", "-"], &variables, "Read the total.");
    assert!(created.status.success(), "{}", text(&created.stderr));

    let extract = ["extract", "invoice.txt", "--prompt", "Totals"];
    let mut extraction = Terminal::start(sandbox.folder(), &extract, &variables);
    assert!(extraction.ended().await.success(), "{}", extraction.shown());
    extraction.until("number  A-17   located   1     A-17").await;
    assert!(extraction.shown().contains("invoice.txt: extracting"), "progress: {}", extraction.shown());

    let mut review = Terminal::start(sandbox.folder(), &["review"], &variables);
    review.until("number  A-17  (2 left)").await;
    review.until("page 1: Invoice Number: A-17").await;
    review.answer(REVIEW, "r").await;
    review.until("total  957.0  (1 left)").await;
    review.answer(REVIEW, "a").await;
    review.until("1 rejected: [R]ejected again").await;
    review.answer(REVIEW, "R").await;
    review.until("number  A-17  (rejected, 1 left)").await;
    review.answer(REVIEW, "e A-18").await;
    assert!(review.ended().await.success(), "{}", review.shown());
    review.until("verified: no value is left to decide").await;

    let listed = folio(sandbox.folder(), &["review", "--output", "json"], &variables, "");
    assert_eq!(text(&listed.stdout), "[]\n", "no extraction is left to review: {}", text(&listed.stderr));
    let mut corrected = folio(sandbox.folder(), &["extraction", "export"], &variables, "").stdout;
    let record: serde_json::Value = serde_json::from_slice(&std::mem::take(&mut corrected)).unwrap();
    assert_eq!(record["data"]["number"], "A-18");
    let id = record["extraction_id"].as_str().unwrap();
    let mut review = Terminal::start(sandbox.folder(), &["review", id, "--all"], &variables);
    review.until("number  A-18  (approved, 2 left)").await;
    review.answer(REVIEW, "q").await;
    assert!(review.ended().await.success(), "{}", review.shown());
}

#[tokio::test]
async fn the_demo_asks_for_approval_in_color() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo = Terminal::start(folder.path(), &["demo", "--ask"], &[]);
    for _ in 1..=3 {
        demo.answer(DECISION, "a").await;
    }
    assert!(demo.ended().await.success(), "{}", demo.shown());
    let (raw, shown) = (demo.output.raw(), demo.shown());
    assert!(raw.contains("\u{1b}[32m") && raw.contains("\u{1b}[1m"), "color on a terminal: {raw:?}");
    for line in [
        "┌ create_schema",
        "fields (* required)",
        "* invoice_number: ",
        "┌ run_extraction",
        "\"invoice_number\": \"INV-2026-0417\"",
    ] {
        assert!(shown.contains(line), "{line:?} in:\n{shown}");
    }
}

#[tokio::test]
async fn ctrl_c_ends_the_demo_at_once_even_at_a_question() {
    let folder = tempfile::tempdir().unwrap();
    let variables = [("TMPDIR", &*folder.path().to_string_lossy())];
    let mut demo = Terminal::start(folder.path(), &["demo", "--ask"], &variables);
    demo.until(DECISION).await;
    demo.press(CTRL_C);
    assert!(!demo.ended().await.success());
    assert!(demo.shown().contains("stopped by a signal"), "{}", demo.shown());
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert!(left.is_empty(), "temporary files remain: {left:?}");
}
