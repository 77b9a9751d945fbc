//! `folio chat` through a pipe, against a real server.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};

use folio_proto::v1;
use folio_testkit::proxy::Proxy;
use llm_sim::{Fault, FaultPlan};

use crate::LIMIT;
use crate::process::binary;
use crate::sandbox::{INVOICE, Sandbox};

const SCRIPT: &str = r#"
rules:
  - when: {user: tags}
    rounds:
      - text: "I make three tags."
        calls: [{name: create_tag, arguments: {name: first}}, {name: create_tag, arguments: {name: second}}, {name: create_tag, arguments: {name: third}}]
      - text: "Two tags are made."
  - when: {user: hostile}
    answer: {text: "\e[2Jred \e[31m and \u009b31m \u202egnp.exe"}
  - when: {user: hostile tool}
    rounds:
      - calls: [{name: create_tag, arguments: {name: "x\e]0;owned\a", description: "a\n└ [a]pprove"}}]
      - text: "Tried."
  - when: {user: slow}
    fault: {hold: {gate: g, after_chunks: 3}}
    answer: {text: "one two three four five six seven eight nine ten"}
  - when: {user: hello}
    answer: {text: "Hello there."}
"#;

/// A running `folio chat`. The drop kills it.
struct Chat {
    child: Child,
    input: Option<ChildStdin>,
    output: Arc<Mutex<String>>,
}

impl Chat {
    fn start(sandbox: &Sandbox, server: &str, document: &str, variables: &[(&str, &str)]) -> Self {
        let server = server.trim_start_matches("http://");
        let mut child = Command::new(binary("folio"))
            .args(["chat", document, "--server", server])
            .env("FOLIO_TOKEN", sandbox.token())
            .envs(variables.iter().copied())
            .current_dir(sandbox.folder())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("folio chat starts");
        let output = Arc::new(Mutex::new(String::new()));
        let (kept, stdout) = (Arc::clone(&output), child.stdout.take().expect("stdout is piped"));
        std::thread::spawn(move || {
            let mut stdout = BufReader::new(stdout);
            loop {
                let taken = match stdout.fill_buf() {
                    Ok([]) | Err(_) => return,
                    Ok(bytes) => {
                        kept.lock().expect("no panic").push_str(&String::from_utf8_lossy(bytes));
                        bytes.len()
                    }
                };
                stdout.consume(taken);
            }
        });
        Self { input: child.stdin.take(), child, output }
    }

    fn say(&mut self, line: &str) {
        let input = self.input.as_mut().expect("the input is open");
        writeln!(input, "{line}").and_then(|()| input.flush()).expect("the chat reads");
    }

    fn output(&self) -> String {
        self.output.lock().expect("no panic").clone()
    }

    /// Waits until the text was written this many times.
    async fn until(&self, text: &str, times: usize) {
        self.wait(text, || self.output().matches(text).count() >= times).await;
    }

    /// Waits for a condition; on a time-out, panics with the output.
    async fn wait(&self, what: &str, mut condition: impl FnMut() -> bool) {
        let forever = LIMIT * 2;
        let waiting = folio_testkit::wait_for(what, forever, || std::future::ready(condition().then_some(())));
        let waited = tokio::time::timeout(LIMIT, waiting).await;
        assert!(waited.is_ok(), "waited in vain for {what:?} in:\n{}", self.output());
    }

    /// Ends the input, and returns the output.
    async fn end(mut self) -> String {
        drop(self.input.take());
        // The thread that reads the output ends with the process.
        self.wait("the end of the chat", || Arc::strong_count(&self.output) == 1).await;
        assert!(self.child.wait().expect("it ended").success(), "{}", self.output());
        self.output()
    }
}

impl Drop for Chat {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes a document into the sandbox's folder.
fn file(sandbox: &Sandbox, name: &str) {
    std::fs::write(sandbox.folder().join(name), INVOICE).expect("the file is written");
}

#[tokio::test]
async fn a_person_approves_edits_and_rejects_through_a_pipe() {
    let sandbox = Sandbox::start(SCRIPT).await;
    file(&sandbox, "invoice.txt");
    let editor = editor(sandbox.folder(), "sed -i s/second/edited/ \"$1\"");
    let mut chat = Chat::start(&sandbox, &sandbox.url(), "invoice.txt", &[("EDITOR", &editor), ("VISUAL", "")]);
    chat.say("tags");
    chat.say("r not that one");
    chat.say("e");
    chat.say("a");
    let output = chat.end().await;
    for line in [
        "invoice.txt, 1 page of text",
        "you: tags",
        "I make three tags.",
        "┌ create_tag (1 of 3)",
        "│   \"name\": \"first\"",
        "decision: r not that one",
        "┌ create_tag (3 of 3)",
        "– create_tag rejected: ",
        "✓ create_tag: ",
        "Two tags are made.",
    ] {
        assert!(output.contains(line), "{line:?} in:\n{output}");
    }
    let mut names = sandbox.client().await.tag_names().await;
    names.sort();
    assert_eq!(names, ["edited", "third"]);
    let request_body = sandbox.sim.chats().await.pop().expect("the model was called").body.to_string();
    assert!(
        request_body.contains("User rejected this action.") && request_body.contains("not that one"),
        "{request_body}"
    );
    assert!(!output.contains('\u{1b}'), "plain where it is piped:\n{output}");
}

/// Writes a script that edits a given file.
pub(crate) fn editor(folder: &Path, command: &str) -> String {
    let path = folder.join("editor.sh");
    std::fs::write(&path, format!("#!/bin/sh\n{command}\n")).expect("the editor is written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("it may run");
    path.to_string_lossy().into_owned()
}

#[tokio::test]
async fn edited_arguments_that_do_not_fit_are_not_sent() {
    let sandbox = Sandbox::start(SCRIPT).await;
    file(&sandbox, "invoice.txt");
    let editor = editor(sandbox.folder(), "sed -i 's/\"name\"/\"nome\"/' \"$1\"");
    let mut chat = Chat::start(&sandbox, &sandbox.url(), "invoice.txt", &[("EDITOR", &editor), ("VISUAL", "")]);
    chat.say("tags");
    chat.say("e");
    chat.until("the edited arguments are not sent", 1).await;
    chat.say("/cancel");
    chat.until("The turn was cancelled.", 1).await;
    chat.end().await;
    assert!(sandbox.client().await.tag_names().await.is_empty());
}

#[tokio::test]
async fn a_turn_that_waits_is_found_again_by_another_chat() {
    let sandbox = Sandbox::start(SCRIPT).await;
    file(&sandbox, "invoice.txt");
    let mut chat = Chat::start(&sandbox, &sandbox.url(), "invoice.txt", &[]);
    chat.say("hello");
    chat.say("tags");
    chat.say("a");
    chat.say("/quit");
    let output = chat.end().await;
    assert!(output.contains("A turn waits for approval"), "{output}");
    assert!(sandbox.client().await.tag_names().await.is_empty(), "one decision of three runs nothing");

    // The local file is deleted, so the name selects the uploaded document.
    std::fs::remove_file(sandbox.folder().join("invoice.txt")).expect("the file was there");
    let mut chat = Chat::start(&sandbox, &sandbox.url(), "invoice.txt", &[]);
    chat.say("/threads");
    chat.until("1  hello  (2 turns)  ● a turn runs or waits", 1).await;
    chat.say("/resume 1");
    chat.say("all");
    chat.until("Two tags are made.", 1).await;
    chat.say("/new");
    chat.say("hello");
    chat.until("Hello there.", 2).await;
    chat.say("/threads");
    chat.until("  2  hello  (2 turns)", 1).await;
    let output = chat.end().await;
    assert!(output.contains("you: hello") && output.contains("I make three tags."), "{output}");
    assert_eq!(sandbox.client().await.tag_names().await.len(), 3);
}

#[tokio::test]
async fn the_same_file_keeps_its_document() {
    let sandbox = Sandbox::start(SCRIPT).await;
    file(&sandbox, "invoice.txt");
    for _ in 0..2 {
        Chat::start(&sandbox, &sandbox.url(), "invoice.txt", &[]).end().await;
    }
    let list = sandbox.client().await.documents.list_documents(v1::ListDocumentsRequest::default()).await;
    assert_eq!(list.expect("documents are listed").into_inner().total_size, 1);
}

#[tokio::test]
async fn hostile_text_does_not_reach_the_terminal() {
    let sandbox = Sandbox::start(SCRIPT).await;
    file(&sandbox, "invoice.txt");
    let mut chat = Chat::start(&sandbox, &sandbox.url(), "invoice.txt", &[]);
    chat.say("hostile");
    chat.until("gnp.exe", 1).await;
    chat.say("hostile tool");
    chat.until("┌ create_tag", 1).await;
    chat.say("r");
    let output = chat.end().await;
    let steering = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
    assert!(!output.contains(steering), "{output:?}");
    assert_eq!(output.lines().filter(|line| line.starts_with('└')).count(), 1, "{output}");
}

#[tokio::test]
async fn local_commands_are_answered_without_the_model() {
    let sandbox = Sandbox::start(SCRIPT).await;
    file(&sandbox, "invoice.txt");
    let mut chat = Chat::start(&sandbox, &sandbox.url(), "invoice.txt", &[]);
    for line in
        ["/help", "/nonsense", "/cancel", "/retry", "/resume 3", "/threads", "/model", "/model second", "/thinking"]
    {
        chat.say(line);
    }
    chat.say("hello");
    let output = chat.end().await;
    for line in [
        "/resume N         continue thread N",
        "/nonsense is not a command",
        "no turn runs or waits here",
        "there is no failed turn to resume",
        "list the threads with /threads first",
        "no threads yet",
        "scripted (default)",
        "(the following messages use second)",
        "(no thinking yet)",
        "Hello there.",
    ] {
        assert!(output.contains(line), "{line:?} in:\n{output}");
    }
    assert_eq!(sandbox.sim.chats().await.pop().expect("a call").body["model"], "second-upstream");
}

#[tokio::test]
async fn a_failed_turn_continues_when_it_is_retried() {
    let sandbox = Sandbox::start(SCRIPT).await;
    file(&sandbox, "invoice.txt");
    let mut chat = Chat::start(&sandbox, &sandbox.url(), "invoice.txt", &[]);
    sandbox.sim.faults(&FaultPlan::always(Fault::Status { code: 500, retry_after: None, body: None })).await;
    chat.say("hello");
    chat.until("/retry resumes it", 1).await;
    sandbox.sim.faults(&FaultPlan::none()).await;
    chat.say("/retry");
    chat.until("Hello there.", 1).await;
    chat.end().await;
}

#[tokio::test]
async fn a_running_turn_is_cancelled_by_the_next_line() {
    let sandbox = Sandbox::start(SCRIPT).await;
    file(&sandbox, "invoice.txt");
    let mut chat = Chat::start(&sandbox, &sandbox.url(), "invoice.txt", &[]);
    chat.say("slow");
    sandbox.sim.until_held().await;
    chat.say("/cancel");
    chat.until("The turn was cancelled.", 1).await;
    chat.say("hello");
    chat.until("Hello there.", 1).await;
    chat.end().await;
}

#[tokio::test]
async fn a_broken_stream_is_resumed_without_a_gap() {
    let sandbox = Sandbox::start(SCRIPT).await;
    file(&sandbox, "invoice.txt");
    let port = sandbox.url().rsplit(':').next().and_then(|port| port.parse().ok());
    let proxy = Proxy::before(1, port).await;
    let mut chat = Chat::start(&sandbox, &proxy.address(), "invoice.txt", &[]);
    chat.say("slow");
    sandbox.sim.until_held().await;
    chat.until("one", 1).await;
    proxy.cut();
    chat.until("(the connection broke; joining again)", 1).await;
    sandbox.sim.open("g").await;
    chat.until("ten", 1).await;
    let output = chat.end().await;
    let (_, answer) = output.split_once("you: slow\n").expect("the message is shown");
    let answer = answer.replace("\n(the connection broke; joining again)\n", "");
    assert_eq!(answer.lines().next(), Some("one two three four five six seven eight nine ten"), "{output}");
}
