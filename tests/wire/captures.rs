//! The document docs/terminal.md contains captures of the terminal in its main states. The test drives the program on a
//! pseudo-terminal and compares the document with the rendered screens.
//! `FOLIO_WRITE_DOCS=1 cargo test -p folio-tests --test wire captures` writes the document.

use std::path::{Path, PathBuf};

use crate::command_line::{folio, text};
use crate::process::binary;
use crate::sandbox::Sandbox;
use crate::screen::render;
use crate::terminal::{CTRL_D, DECISION, Terminal, YOU};

/// The generated text follows this line.
const MARKER: &str = "<!-- The test `captures` writes the text below this line. -->\n";
/// The width of the captures.
const COLUMNS: u16 = 100;
/// The width at which no line of a start of a server is broken, whatever the names of its folders.
const WIDE: u16 = 1_000;
/// Digits of ids, dates and times in the captures, which differ in each run.
const ID_DIGITS: &str = "0123456789abcdef";
const DATE: &str = "2026-05-04 09:30";
const TIME: &str = "2026-05-04T09:30:00Z";

const SCRIPT: &str = "
rules:
  - when: {user: 'what is the total?'}
    answer:
      text: \"The **total** is 957.00 EUR:\\n\\n| Field | Value |\\n|---|---|\\n| Invoice number | A-17 |\\n| Total | 957.00 EUR |\\n\"
      usage: {prompt_tokens: 1800, completion_tokens: 40}
  - when: {user: make a schema}
    rounds:
      - text: I create a schema for invoices.
        calls: [{name: create_schema, arguments: {name: Invoice, response_format: {type: json_schema, json_schema: {name: invoice, strict: true, schema: {type: object, properties: {number: {type: string, description: The number as printed}, total: {type: number}, due: {type: [string, 'null']}}, required: [number, total, due], additionalProperties: false}}}}}]
        usage: {prompt_tokens: 1800, completion_tokens: 90}
      - text: The schema is created.
        usage: {prompt_tokens: 2000, completion_tokens: 10}
  - when: {user: {prefix: label it}}
    rounds:
      - text: I create a tag.
        calls: [{name: create_tag, arguments: {name: urgent, color: '#cc2200'}}]
        usage: {prompt_tokens: 1800, completion_tokens: 30}
      - text: I created no tag.
        usage: {prompt_tokens: 1900, completion_tokens: 10}
  - answer: {text: '{\"number\": \"A-17\", \"date\": \"2026-03-17\", \"total\": 957.0, \"paid\": false}'}
";

/// A state of the terminal.
struct Capture {
    title: &'static str,
    text: &'static str,
    command: String,
    screen: String,
}

#[tokio::test]
async fn docs_terminal_md_contains_the_captures() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let mut captures = vec![start_of_a_server().await];
    captures.extend(chats(&sandbox).await);
    captures.extend(commands(&sandbox).await);
    captures.extend(extractions(&sandbox).await);
    let rendered: String = captures.iter().map(section).collect();
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/terminal.md");
    let text = std::fs::read_to_string(&path).expect("docs/terminal.md is readable");
    let (introduction, written) = text.split_once(MARKER).expect("docs/terminal.md contains the marker");
    if std::env::var_os("FOLIO_WRITE_DOCS").is_some() {
        return std::fs::write(&path, [introduction, MARKER, &rendered].concat()).expect("docs/terminal.md is written");
    }
    let difference = written.lines().zip(rendered.lines()).find(|(written, rendered)| written != rendered);
    assert!(
        written == rendered,
        "docs/terminal.md differs from the terminal; run the test with FOLIO_WRITE_DOCS=1. First difference: {difference:?}"
    );
}

fn section(Capture { title, text, command, screen }: &Capture) -> String {
    format!("\n## {title}\n\n{text}\n\n```text\n$ {command}\n{screen}\n```\n")
}

async fn start_of_a_server() -> Capture {
    let folder = tempfile::tempdir().expect("a folder for the server");
    let quiet = [("FOLIO_LOG__FILTER", "off")];
    let arguments = ["serve", "--listen", "127.0.0.1:0"];
    let mut server = Terminal::start_in(WIDE, folder.path(), &arguments, &quiet);
    server.until(" chat folio-sample.txt").await;
    let screen = screen(&server, folder.path(), WIDE);
    server.press("\u{3}");
    assert!(server.ended().await.success(), "{}", server.shown());
    Capture {
        title: "The start of a server",
        text: "The first start prints the token of the administrator, and the commands for another terminal.",
        command: "folio serve".to_owned(),
        screen,
    }
}

/// Ends a chat at a prompt, and returns its screen.
async fn end_of(mut chat: Terminal, prompt: &str, last: &str, sandbox: &Sandbox) -> String {
    chat.asks(prompt).await;
    chat.press(CTRL_D);
    chat.until(last).await;
    assert!(chat.ended().await.success(), "{}", chat.shown());
    screen(&chat, sandbox.folder(), COLUMNS)
}

async fn chats(sandbox: &Sandbox) -> Vec<Capture> {
    const ENDED: &str = "(Ctrl-D ends the chat;";
    let start = || Terminal::chat_in(COLUMNS, sandbox, &[("PAGER", "cat")]);
    let capture = |title, text, screen| Capture { title, text, command: "folio chat invoice.txt".to_owned(), screen };

    let mut chat = start();
    chat.answer(YOU, "what is the total?").await;
    chat.until("1 model call").await;
    let answer = end_of(chat, YOU, ENDED, sandbox).await;

    let mut chat = start();
    chat.answer(YOU, "make a schema").await;
    chat.answer(DECISION, "a").await;
    chat.until("2 model calls").await;
    let approval = end_of(chat, YOU, ENDED, sandbox).await;

    let mut chat = start();
    chat.answer(YOU, "label it").await;
    chat.answer(DECISION, "s").await;
    chat.answer(DECISION, "r").await;
    chat.answer("reason (Enter: none)> ", "not this document").await;
    chat.until("2 model calls").await;
    let rejection = end_of(chat, YOU, ENDED, sandbox).await;

    let mut chat = start();
    chat.answer(YOU, "label it again").await;
    let left = end_of(chat, DECISION, "folio chat doc_", sandbox).await;

    let mut chat = start();
    chat.answer(YOU, "/threads").await;
    chat.answer(YOU, "/resume 1").await;
    chat.answer(DECISION, "/cancel").await;
    chat.until("The turn was cancelled.").await;
    chat.answer(YOU, "/help").await;
    let resumed = end_of(chat, YOU, ENDED, sandbox).await;

    vec![
        capture("An answer", "Markdown is formatted, and the last line states the usage of the turn.", answer),
        capture(
            "An approval",
            "A card shows the change. For a schema, it lists the fields with their types.",
            approval,
        ),
        capture(
            "A rejection",
            "`s` shows the full JSON, and `r` requests the reason, which the model receives.",
            rejection,
        ),
        capture("The end of a chat with a waiting turn", "The turn continues to wait.", left),
        capture("A waiting turn", "Waiting turns are listed when the document is opened.", resumed),
    ]
}

async fn commands(sandbox: &Sandbox) -> Vec<Capture> {
    let (url, token) = (sandbox.url(), sandbox.token());
    let variables = [("FOLIO_SERVER", url.as_str()), ("FOLIO_TOKEN", token.as_str())];
    let wrong = [("FOLIO_SERVER", url.as_str()), ("FOLIO_TOKEN", "wrong")];
    let mut captures = Vec::new();
    for (title, text, arguments, variables, last) in [
        (
            "Server and token",
            "`folio status` names the source of the server and of the token.",
            &["status"][..],
            &variables,
            "accepts the token",
        ),
        ("A list", "Other formats: `--output json`, `jsonl` and `csv`.", &["document", "list"], &variables, "Z\n"),
        ("A refused token", "The error names the source of the token.", &["tag", "list"], &wrong, "from FOLIO_TOKEN"),
        (
            "A wrong argument",
            "The error names the argument.",
            &["tag", "create", "urgent", "--color", "red"],
            &variables,
            "INVALID_FIELD)",
        ),
    ] {
        let mut command = Terminal::start_in(COLUMNS, sandbox.folder(), arguments, variables);
        command.until(last).await;
        command.ended().await;
        let screen = screen(&command, sandbox.folder(), COLUMNS);
        captures.push(Capture { title, text, command: format!("folio {}", arguments.join(" ")), screen });
    }
    captures
}

async fn extractions(sandbox: &Sandbox) -> Vec<Capture> {
    const REVIEW: &str = "review> ";
    let (url, token) = (sandbox.url(), sandbox.token());
    let variables = [("FOLIO_SERVER", url.as_str()), ("FOLIO_TOKEN", token.as_str())];
    let prompt = ["prompt", "create", "Totals", "-"];
    let created = folio(sandbox.folder(), &prompt, &variables, "Read the number, the date and the total.");
    assert!(created.status.success(), "{}", text(&created.stderr));
    let extract = ["extract", "invoice.txt", "--prompt", "Totals"];
    let mut command = Terminal::start_in(COLUMNS, sandbox.folder(), &extract, &variables);
    assert!(command.ended().await.success(), "{}", command.shown());
    let extracted = screen(&command, sandbox.folder(), COLUMNS);

    let mut review = Terminal::start_in(COLUMNS, sandbox.folder(), &["review"], &variables);
    for reply in ["a", "r", "a", "a", "R", "e 2026-03-18"] {
        review.answer(REVIEW, reply).await;
    }
    review.until("true\n").await;
    assert!(review.ended().await.success(), "{}", review.shown());
    vec![
        Capture {
            title: "An extraction",
            text: "Each value has its page and the quote that contains it. While files are uploaded, read and extracted, \
                   a line shows the step of each.",
            command: format!("folio {}", extract.join(" ")),
            screen: extracted,
        },
        Capture {
            title: "A review",
            text: "Each value is shown with the line that contains it. `R` shows rejected values again.",
            command: "folio review".to_owned(),
            screen: screen(&review, sandbox.folder(), COLUMNS),
        },
    ]
}

/// Returns the screen of a program, with values that do not differ between runs.
fn screen(terminal: &Terminal, folder: &Path, columns: u16) -> String {
    let program = binary("folio").to_string_lossy().into_owned();
    let output = terminal.raw().replace(&program, "folio").replace(&*folder.to_string_lossy(), "/home/me");
    render(&normalized(&output), columns.into())
}

/// Replaces ids, tokens, ports, dates and times.
fn normalized(output: &str) -> String {
    let mut normal = String::new();
    let mut rest = output;
    while let Some(c) = rest.chars().next() {
        let (replacement, length) = token(rest)
            .or_else(|| id(rest))
            .or_else(|| port(rest))
            .or_else(|| time(rest))
            .unwrap_or_else(|| (c.to_string(), c.len_utf8()));
        normal.push_str(&replacement);
        rest = &rest[length..];
    }
    normal
}

/// A replacement of the start of a text, and the length of the replaced part.
type Replacement = Option<(String, usize)>;

/// An access token, with or without its secret.
fn token(text: &str) -> Replacement {
    let rest = text.strip_prefix("folio_")?;
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '…')).unwrap_or(rest.len());
    Some(("folio_…".to_owned(), "folio_".len() + end))
}

/// At least 16 hexadecimal digits. The length remains, because tables are aligned.
fn id(text: &str) -> Replacement {
    let length = text.find(|c: char| !matches!(c, '0'..='9' | 'a'..='f')).unwrap_or(text.len());
    (length >= 16).then(|| (ID_DIGITS.chars().cycle().take(length).collect(), length))
}

fn port(text: &str) -> Replacement {
    let rest = text.strip_prefix("127.0.0.1:")?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    Some(("127.0.0.1:8080".to_owned(), "127.0.0.1:".len() + end))
}

/// A date with a time: `2026-05-04 09:30`, or with seconds in UTC.
fn time(text: &str) -> Replacement {
    let has_form = |form: &str| {
        text.len() >= form.len()
            && text.bytes().zip(form.bytes()).all(|(byte, model)| match model.is_ascii_digit() {
                true => byte.is_ascii_digit(),
                false => byte == model,
            })
    };
    if has_form(DATE) {
        return Some((DATE.to_owned(), DATE.len()));
    }
    // The fraction of the second may be missing.
    let seconds = TIME.trim_end_matches('Z');
    let end = has_form(seconds).then(|| text.find('Z')).flatten()?;
    Some((TIME.to_owned(), end + 1))
}

#[test]
fn values_of_a_run_are_replaced() {
    let shown = normalized(
        "folio_00ff_1a2b_secret doc_930c534d385380939dcda0a360b3a31d face at http://127.0.0.1:40123 2026-11-26 07:42 \
         2026-11-26T07:42:19.123456Z 2026-03-17 │",
    );
    let expected = "folio_… doc_0123456789abcdef0123456789abcdef face at http://127.0.0.1:8080 2026-05-04 09:30 \
                    2026-05-04T09:30:00Z 2026-03-17 │";
    assert_eq!(shown, expected);
}
