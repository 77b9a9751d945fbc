//! `folio chat` through a pipe, against a real server.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{ChildStdin, Stdio};

use folio_proto::v1;
use folio_testkit::proxy::Proxy;
use llm_sim::{Fault, FaultPlan};

use crate::LIMIT;
use crate::client::Client;
use crate::process::{binary, command};
use crate::program::{Output, Running};
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
  - when: {user: {contains: [urgent]}}
    answer: {text: "Mentioned."}
"#;

/// A running `folio chat` with pipes.
struct Chat {
    running: Running,
    input: Option<ChildStdin>,
    output: Output,
}

impl Chat {
    /// Starts a chat about `invoice.txt`.
    fn start(sandbox: &Sandbox, server: &str, variables: &[(&str, &str)]) -> Self {
        let token = sandbox.token();
        let variables = [&[("FOLIO_TOKEN", token.as_str())][..], variables].concat();
        let mut child = command(binary("folio"), sandbox.folder(), &variables)
            .args(["chat", "invoice.txt", "--server", server.trim_start_matches("http://")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("folio chat starts");
        let output = Output::of(child.stdout.take().expect("stdout is piped"));
        Self { input: child.stdin.take(), running: Running(child), output }
    }

    /// Starts a server and a chat about a document, which is written into the sandbox's folder.
    async fn in_sandbox() -> (Sandbox, Self) {
        let sandbox = sandbox_with_file().await;
        let chat = Self::start(&sandbox, &sandbox.url(), &[]);
        (sandbox, chat)
    }

    fn write_lines(&mut self, lines: &[&str]) {
        let input = self.input.as_mut().expect("the input is open");
        writeln!(input, "{}", lines.join("\n")).and_then(|()| input.flush()).expect("the chat reads its input");
    }

    /// Waits until the output contains `text`.
    async fn until(&self, text: &str) {
        self.output.until(text, 1).await;
    }

    /// Ends the input, and returns the output.
    async fn end(mut self) -> String {
        drop(self.input.take());
        self.output.wait("the end of the chat", || self.output.is_complete().then_some(())).await;
        assert!(self.running.0.wait().expect("the chat ends").success(), "{}", self.output.raw());
        self.output.raw()
    }
}

async fn sandbox_with_file() -> Sandbox {
    let sandbox = Sandbox::start(SCRIPT).await;
    std::fs::write(sandbox.folder().join("invoice.txt"), INVOICE).expect("the file is written");
    sandbox
}

#[tokio::test]
async fn a_person_approves_edits_and_rejects_through_a_pipe() {
    let sandbox = sandbox_with_file().await;
    let editor = editor(sandbox.folder(), "sed -i s/second/edited/ \"$1\"");
    let mut chat = Chat::start(&sandbox, &sandbox.url(), &[("EDITOR", &editor), ("VISUAL", "")]);
    chat.write_lines(&["tags", "r not that one", "e", "a"]);
    let output = chat.end().await;
    for line in [
        "invoice.txt, 1 page of text",
        "you: tags",
        "I make three tags.",
        "┌ create_tag (1 of 3)",
        "│ writes, waits for your decision",
        "│ name: first",
        "└ [a]pprove, [r]eject, [e]dit, [s]how the full JSON, approve a[l]l",
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
    let request_body = sandbox.sim.chat_requests().await.pop().expect("the model was called").body.to_string();
    assert!(
        request_body.contains("User rejected this action.") && request_body.contains("not that one"),
        "{request_body}"
    );
    assert!(!output.contains('\u{1b}'), "a pipe receives no control sequences:\n{output}");
}

/// Writes an editor script, which runs `command` on the file `$1`, and returns the path of the script.
pub(crate) fn editor(folder: &Path, command: &str) -> String {
    let path = folder.join("editor.sh");
    std::fs::write(&path, format!("#!/bin/sh\n{command}\n")).expect("the editor is written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("the editor is executable");
    path.to_string_lossy().into_owned()
}

#[tokio::test]
async fn invalid_edited_arguments_are_not_sent() {
    let sandbox = sandbox_with_file().await;
    let editor = editor(sandbox.folder(), "sed -i 's/\"name\"/\"nome\"/' \"$1\"");
    let mut chat = Chat::start(&sandbox, &sandbox.url(), &[("EDITOR", &editor), ("VISUAL", "")]);
    chat.write_lines(&["tags", "e"]);
    chat.until("the edited arguments are not sent").await;
    chat.write_lines(&["/cancel"]);
    chat.until("The turn was cancelled.").await;
    chat.end().await;
    assert!(sandbox.client().await.tag_names().await.is_empty());
}

#[tokio::test]
async fn a_waiting_turn_is_listed_and_resumed_by_another_chat() {
    let (sandbox, mut chat) = Chat::in_sandbox().await;
    chat.write_lines(&["hello", "tags", "a", "/quit"]);
    let output = chat.end().await;
    let server = sandbox.url().trim_start_matches("http://").to_owned();
    let after_id = output.split_once("page of text (").expect("the id of the document is printed").1;
    let (document_id, _) = after_id.split_once(')').expect("the id is in parentheses");
    let command = format!("folio chat {document_id} --server {server}\n");
    let hint = format!("A turn waits for approval. To return to it before it expires: {command}");
    assert!(output.contains(&hint), "{output}");
    assert!(sandbox.client().await.tag_names().await.is_empty(), "no call runs while two of three are undecided");

    // The local file is deleted, so the name selects the uploaded document.
    std::fs::remove_file(sandbox.folder().join("invoice.txt")).expect("the file is removed");
    let mut chat = Chat::start(&sandbox, &sandbox.url(), &[]);
    // The pending approval is shown when the document is opened, with the number that /resume takes.
    chat.until("Waiting for approval (/resume N continues a thread):\n  1  20").await;
    chat.until("  hello  (2 turns)  ● waiting for you").await;
    chat.write_lines(&["/resume 1", "all"]);
    chat.until("Two tags are made.").await;
    chat.write_lines(&["/new", "hello"]);
    chat.output.until("Hello there.", 2).await;
    chat.write_lines(&["/threads"]);
    // Threads with equal titles are distinguished by the end of their ids.
    chat.until("(2 turns)\n").await;
    let output = chat.end().await;
    assert_eq!(
        output.lines().filter(|line| line.contains("  hello …") && line.contains(" turn")).count(),
        2,
        "{output}"
    );
    assert!(output.contains("you: hello") && output.contains("I make three tags."), "{output}");
    assert_eq!(sandbox.client().await.tag_names().await.len(), 3);
}

#[tokio::test]
async fn a_file_that_was_uploaded_before_is_not_uploaded_again() {
    let sandbox = sandbox_with_file().await;
    for _ in 0..2 {
        Chat::start(&sandbox, &sandbox.url(), &[]).end().await;
    }
    let list = sandbox.client().await.documents.list_documents(v1::ListDocumentsRequest::default()).await;
    assert_eq!(list.expect("documents are listed").into_inner().total_size, 1);
}

#[tokio::test]
async fn hostile_text_does_not_reach_the_terminal() {
    let (_sandbox, mut chat) = Chat::in_sandbox().await;
    chat.write_lines(&["hostile"]);
    chat.until("gnp.exe").await;
    chat.write_lines(&["hostile tool"]);
    chat.until("┌ create_tag").await;
    chat.write_lines(&["s", "r", "no reason"]);
    let output = chat.end().await;
    let is_control = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
    assert!(!output.contains(is_control), "{output:?}");
    // The card is shown again after the full JSON.
    assert_eq!(output.lines().filter(|line| line.starts_with('└')).count(), 2, "{output}");
}

#[tokio::test]
async fn local_commands_are_answered_without_the_model() {
    let (sandbox, mut chat) = Chat::in_sandbox().await;
    chat.write_lines(&[
        "/help",
        "/nonsense",
        "/cancel",
        "/retry",
        "/resume",
        "/resume 3",
        "/threads",
        "/model",
        "/model second",
        "/model nosuch",
    ]);
    chat.write_lines(&["/thinking", "hello"]);
    let output = chat.end().await;
    for line in [
        "/resume [N]         continue thread N",
        "/nonsense is not a command",
        "the thread has no running or waiting turn",
        "there is no failed turn to resume",
        "list the threads with /threads first",
        "no thread is open; /threads lists the threads",
        "no threads yet",
        "scripted (default)",
        "(the following messages use second)",
        "no model for chats is named \"nosuch\"; the models are ",
        "(no thinking yet)",
        "Hello there.",
    ] {
        assert!(output.contains(line), "{line:?} in:\n{output}");
    }
    assert_eq!(sandbox.sim.chat_requests().await.pop().expect("a call").body["model"], "second-upstream");
}

#[tokio::test]
async fn a_failed_turn_continues_when_it_is_retried() {
    let (sandbox, mut chat) = Chat::in_sandbox().await;
    sandbox.sim.set_faults(&FaultPlan::always(Fault::Status { code: 500, retry_after: None, body: None })).await;
    chat.write_lines(&["hello"]);
    chat.until("/retry resumes it").await;
    sandbox.sim.set_faults(&FaultPlan::none()).await;
    chat.write_lines(&["/retry"]);
    chat.until("Hello there.").await;
    chat.end().await;
}

#[tokio::test]
async fn a_running_turn_is_cancelled_by_the_next_line() {
    let (sandbox, mut chat) = Chat::in_sandbox().await;
    chat.write_lines(&["slow"]);
    sandbox.sim.wait_for_waiting_request().await;
    chat.write_lines(&["/cancel"]);
    chat.until("The turn was cancelled.").await;
    chat.write_lines(&["hello"]);
    chat.until("Hello there.").await;
    chat.end().await;
}

#[tokio::test]
async fn a_broken_stream_is_resumed_without_a_gap() {
    let sandbox = sandbox_with_file().await;
    let port = sandbox.url().rsplit(':').next().and_then(|port| port.parse().ok());
    let proxy = Proxy::start_for(1, port).await;
    let mut chat = Chat::start(&sandbox, &proxy.address(), &[]);
    chat.write_lines(&["slow"]);
    sandbox.sim.wait_for_waiting_request().await;
    chat.until("one").await;
    proxy.cut();
    chat.until("(the connection broke; reconnecting)").await;
    sandbox.sim.open_gate("g").await;
    chat.until("ten").await;
    let output = chat.end().await;
    let (_, answer) = output.split_once("you: slow\n").expect("the message is shown");
    let answer = answer.replace("\n(the connection broke; reconnecting)\n", "");
    assert_eq!(answer.lines().next(), Some("one two three four five six seven eight nine ten"), "{output}");
}

#[tokio::test]
async fn a_call_of_another_approver_is_left_to_it() {
    let sandbox = sandbox_with_file().await;
    let client = sandbox.client().await;
    let policy = v1::Policy {
        rules: vec![v1::PolicyRule {
            name: "four eyes".to_owned(),
            ruling: Some(v1::policy_rule::Ruling::Ask(v1::Ask { not_by_requester: true, ..v1::Ask::default() })),
            ..v1::PolicyRule::default()
        }],
        ..v1::Policy::default()
    };
    let request = v1::SetPolicyRequest { policy: Some(policy), ..v1::SetPolicyRequest::default() };
    let mut policies = v1::policy_service_client::PolicyServiceClient::new(client.channel.clone());
    policies.set_policy(request).await.expect("the policy is set");
    let mut chat = Chat::start(&sandbox, &sandbox.url(), &[]);
    chat.write_lines(&["tags", "a", "w", "w", "w", "/threads"]);
    let output = chat.end().await;
    for line in [
        "│ you may not approve this call",
        "└ [r]eject, [s]how the full JSON, [w]ait for others",
        "you may not approve this call; ",
        "(the turn waits for others; /resume shows its state)",
        "● waiting for others",
    ] {
        assert!(output.contains(line), "{line:?} in:\n{output}");
    }
    assert!(!output.contains("[a]pprove"), "{output}");
    assert!(client.tag_names().await.is_empty(), "invariant 2");
}

#[tokio::test]
async fn a_turn_of_another_member_is_shown_to_its_approver() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (client, document) = sandbox.with_document().await;
    let ask = v1::Ask { roles: vec![v1::Role::Member.into()], not_by_requester: true };
    let rule = v1::PolicyRule {
        name: "four eyes".to_owned(),
        ruling: Some(v1::policy_rule::Ruling::Ask(ask)),
        ..v1::PolicyRule::default()
    };
    let policy = Some(v1::Policy { rules: vec![rule], ..v1::Policy::default() });
    let mut policies = v1::policy_service_client::PolicyServiceClient::new(client.channel.clone());
    let request = v1::SetPolicyRequest { policy, ..v1::SetPolicyRequest::default() };
    policies.set_policy(request).await.expect("the policy is set");
    // The administrator creates both tokens, so neither is one that the requester created.
    let (requester, token) = (token_of_new_member(&client, "Bo").await, token_of_new_member(&client, "Ada").await);
    let requester = Client::connect(&sandbox.url(), Some(&requester)).await;
    let turn = requester.chat(&document, "tags").await.pause().await;
    let approver = Client::connect(&sandbox.url(), Some(&token)).await;
    let listed = folio_testkit::wait_for("the pending turn", LIMIT, || async {
        let request = v1::ListPendingApprovalsRequest::default();
        let page = approver.conversations.clone().list_pending_approvals(request).await.expect("a list").into_inner();
        page.pending_approvals.into_iter().next()
    })
    .await;
    assert_eq!((listed.calls.len(), listed.document_ids), (turn.pending.len(), vec![document]));

    let mut chat = Chat::start(&sandbox, &sandbox.url(), &[("FOLIO_TOKEN", &token)]);
    chat.until("Waiting for approval (/resume N continues a thread):\n  1  20").await;
    chat.until("  tags  (1 turn)  ● waiting for you").await;
    chat.write_lines(&["/resume 1", "all"]);
    chat.until("Two tags are made.").await;
    chat.end().await;
    assert_eq!(client.tag_names().await.len(), 3);
}

/// Adds a member with the role member. Returns its token.
async fn token_of_new_member(admin: &Client, name: &str) -> String {
    let role = v1::Role::Member.into();
    let member = v1::Member { name: name.to_owned(), role, ..v1::Member::default() };
    let mut organizations = v1::organization_service_client::OrganizationServiceClient::new(admin.channel.clone());
    let request = v1::AddMemberRequest { member: Some(member), ..v1::AddMemberRequest::default() };
    let added = organizations.add_member(request).await.expect("the member is added").into_inner();
    let user_id = added.member.expect("a member").user_id;
    let token = v1::Token { name: name.to_owned(), role, user_id, ..v1::Token::default() };
    let mut tokens = v1::token_service_client::TokenServiceClient::new(admin.channel.clone());
    let request = v1::CreateTokenRequest { token: Some(token), ..v1::CreateTokenRequest::default() };
    tokens.create_token(request).await.expect("the token is created").into_inner().secret
}

#[tokio::test]
async fn a_mention_gives_the_model_the_resource() {
    let sandbox = sandbox_with_file().await;
    let client = sandbox.client().await;
    // A page of a list has fewer tags than those whose name contains the mentioned one, and these are newer.
    let similar = (0..=100).map(|number| (format!("very urgent {number}"), "pay later"));
    for (name, description) in [("very urgent".to_owned(), "pay today")].into_iter().chain(similar) {
        let tag = v1::Tag { name, description: description.to_owned(), ..v1::Tag::default() };
        let request = v1::CreateTagRequest { tag: Some(tag), request_id: String::new() };
        client.tags.clone().create_tag(request).await.expect("the tag is created");
    }
    let mut chat = Chat::start(&sandbox, &sandbox.url(), &[]);
    chat.write_lines(&["hello @tag:missing", "hello \\", "@tag:\"very urgent\""]);
    let output = chat.end().await;
    assert!(output.contains("no tag has the name \"missing\": the message is not sent"), "{output}");
    let bodies = sandbox.sim.chat_requests().await;
    assert_eq!(bodies.len(), 1, "{output}");
    let body = bodies[0].body.to_string();
    assert!(body.contains("pay today") && body.contains(r"hello \n@tag"), "{body}");
}
