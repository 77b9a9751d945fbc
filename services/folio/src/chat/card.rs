//! Tool calls as cards, and their results as lines.

use anstyle::Style;
use folio_proto::v1;
use folio_types::{Coverage, JobId};
use serde::Deserialize as _;
use serde_json::Value;

use super::change::{self, Row};
use super::view::{Output, answer};
use crate::layout::{self, Span};
use crate::terminal::{BAD, DIM, GOOD, NAME, NOTE, printable};

/// Prefix of the names of the tools that return guides. Their results are not shown.
const HELP_TOOLS: &str = "help_";
/// Maximum number of lines of a card that show the proposed change.
const CARD_LINES: usize = 60;
/// Maximum number of characters of a line of a card.
const LINE_CHARS: usize = 2_000;
/// Maximum number of characters of a displayed tool result.
const RESULT_CHARS: usize = 300;
/// Maximum number of characters of the arguments of a call that needs no decision.
const BRIEF_CHARS: usize = 160;

/// A call that waits for a decision, as number `number` of `count`.
pub(crate) struct Card<'a> {
    pub(crate) call: &'a v1::Call,
    pub(crate) number: usize,
    pub(crate) count: usize,
    pub(crate) may_approve: bool,
    /// If true, the user may approve this and all further calls of the round.
    pub(crate) may_approve_all: bool,
    /// The current values of the arguments. None: the call creates a resource, or the values are unknown.
    pub(crate) current: Option<&'a Value>,
    /// Number of columns. None: unlimited.
    pub(crate) width: Option<usize>,
}

/// Formats a card: the approvers, the proposed change and the possible replies.
pub(crate) fn waiting(card: &Card<'_>) -> Vec<Output> {
    let Card { call, number, count, .. } = card;
    let access = match call.access() {
        v1::ToolAccess::ReadWrite => "writes",
        _ => "reads",
    };
    let position = if *count > 1 { format!(" ({number} of {count})") } else { String::new() };
    let mut lines = vec![Output::Line(NAME, format!("┌ {}{position}", one_line(&call.name, 80)))];
    lines.extend(framed(&line(DIM, format!("{access}, waits for {}", approvers(call))), card.width));
    let arguments: Value =
        serde_json::from_str(&call.arguments_json).unwrap_or_else(|_| call.arguments_json.clone().into());
    let rows: Vec<Output> =
        change::rows(&arguments, card.current).iter().flat_map(|row| framed(row, card.width)).collect();
    let more = rows.len().saturating_sub(CARD_LINES);
    lines.extend(rows.into_iter().take(CARD_LINES));
    if more > 0 {
        lines.extend(framed(&line(DIM, format!("… {more} more lines: [s]how shows them")), card.width));
    }
    if !card.may_approve {
        lines.extend(framed(&line(NOTE, "you may not approve this call".to_owned()), card.width));
    }
    let choices = super::command::choices(card.may_approve, card.may_approve_all);
    lines.push(Output::Line(NAME, format!("└ {choices}")));
    lines
}

fn line(style: Style, text: String) -> Row {
    Row { style, mark: "", text }
}

/// Puts a row into the frame of a card and breaks it into lines. The indentation of the row is kept in each line.
fn framed(row: &Row, width: Option<usize>) -> Vec<Output> {
    let text = one_line(&row.text, LINE_CHARS);
    let indent = " ".repeat(text.len() - text.trim_start_matches(' ').len());
    let first = format!("│ {}{indent}", row.mark);
    let rest = format!("{first}  ");
    let lines = layout::wrap(&[Span::new(row.style, text)], &first, &rest, width.unwrap_or(usize::MAX));
    lines.into_iter().map(Output::Spans).collect()
}

/// Returns all arguments of a call as JSON with line breaks.
pub(crate) fn json(call: &v1::Call) -> String {
    pretty(&call.arguments_json)
}

/// Describes the required approvers and the rule that requires the decision.
fn approvers(call: &v1::Call) -> String {
    let requirement = call.approval_requirement.clone().unwrap_or_default();
    let role = |role: v1::Role| role.as_str_name().trim_start_matches("ROLE_").to_lowercase();
    let roles: Vec<String> = requirement.roles().map(role).collect();
    let mut decision = match roles.is_empty() {
        true => "a decision".to_owned(),
        false => format!("the decision of the role {}", roles.join(" or ")),
    };
    if requirement.not_by_requester {
        decision.push_str(", by another user than the requester, with a token that the requester did not create");
    }
    match requirement.rule.as_str() {
        "" if roles.is_empty() && !requirement.not_by_requester => "your decision".to_owned(),
        "" => decision,
        rule => format!("{decision} (rule {:?})", one_line(rule, 80)),
    }
}

/// Returns true for a call that reads a guide. Such a call is folded: only its name is shown, when it has its result.
pub(crate) fn is_help(name: &str) -> bool {
    name.starts_with(HELP_TOOLS)
}

/// Formats a call in one line.
pub(crate) fn brief(call: &v1::Call) -> Output {
    let arguments = match call.arguments_json.trim() {
        "" | "{}" => String::new(),
        arguments => format!(" {}", one_line(arguments, BRIEF_CHARS)),
    };
    let approval = if call.needs_approval { " (waits for approval)" } else { "" };
    Output::Line(DIM, format!("→ {}{approval}{arguments}", one_line(&call.name, 80)))
}

pub(crate) fn result(result: &v1::ToolResult) -> Output {
    outcome(&result.name, result.status(), &result.content)
}

/// Formats the tasks that a call starts, one line for each.
pub(crate) fn tasks(group: &v1::TaskGroup) -> Vec<Output> {
    group.tasks.iter().map(|task| Output::Line(DIM, format!("⇉ {}", task_name(task)))).collect()
}

/// Formats the end of a task, with the thread that contains its log.
pub(crate) fn task_ended(ended: &v1::TaskEnded) -> Option<Output> {
    let task = ended.task.as_ref()?;
    let (style, mark, word) = match ended.status() {
        v1::TaskStatus::Completed => (GOOD, "✓", "completed"),
        v1::TaskStatus::Failed | v1::TaskStatus::Unspecified => (BAD, "✗", "failed"),
        v1::TaskStatus::Cancelled => (DIM, "–", "cancelled"),
        v1::TaskStatus::Expired => (DIM, "–", "expired"),
        v1::TaskStatus::Superseded => (DIM, "–", "superseded"),
        v1::TaskStatus::NotStarted => (DIM, "–", "not started"),
    };
    let log = one_line(&task.thread_id, 80);
    Some(Output::Line(style, format!("{mark} {} {word} (log: {log})", task_name(task))))
}

fn task_name(task: &v1::Task) -> String {
    let performer = match task.tool.as_str() {
        "" => format!("agent {}", one_line(&task.agent, 80)),
        tool => one_line(tool, 80),
    };
    format!("task {}: {performer}", task.number)
}

fn outcome(name: &str, status: v1::CallStatus, content: &str) -> Output {
    if is_help(name) && status == v1::CallStatus::Ok {
        return Output::Line(DIM, format!("▸ read {}", one_line(name, 80)));
    }
    let (style, mark, word) = match status {
        v1::CallStatus::Ok => (GOOD, "✓", ""),
        v1::CallStatus::Rejected => (DIM, "–", " rejected"),
        v1::CallStatus::Conflict => (BAD, "✗", " changed meanwhile"),
        v1::CallStatus::Unknown => (BAD, "?", " has an unknown outcome"),
        v1::CallStatus::Cancelled => (DIM, "–", " cancelled"),
        v1::CallStatus::Expired | v1::CallStatus::Superseded | v1::CallStatus::NotRun => (DIM, "–", " not run"),
        v1::CallStatus::Failed | v1::CallStatus::Unspecified => (BAD, "✗", " failed"),
    };
    let summary = summary(content).map(|summary| format!(" ({summary})")).unwrap_or_default();
    Output::Line(style, format!("{mark} {}{word}{summary}: {}", one_line(name, 80), one_line(content, RESULT_CHARS)))
}

/// Returns the parts of the document that an extraction read, or the job that extracts. None: the result of another tool.
fn summary(content: &str) -> Option<String> {
    let result: Value = serde_json::from_str(content).ok()?;
    if let Some(coverage) = result.get("coverage") {
        return Coverage::deserialize(coverage).ok().map(|coverage| coverage.to_string());
    }
    let job: JobId = result.get("job_id")?.as_str()?.parse().ok()?;
    Some(format!("in the background, as job {job}"))
}

/// Formats a round whose events were not received. `width`: number of columns; None: the text remains Markdown.
pub(crate) fn round(round: &v1::Round, width: Option<usize>) -> Vec<Output> {
    let mut lines = Vec::new();
    if !round.text.is_empty() {
        lines.extend(answer(&round.text, width));
    }
    for call in &round.calls {
        match round.results.iter().find(|result| result.call_id == call.call_id) {
            Some(result) => lines.push(outcome(&call.name, result.status(), &result.content)),
            None => lines.push(brief(call)),
        }
    }
    lines
}

/// Formats JSON with line breaks. Returns other text unchanged.
fn pretty(json: &str) -> String {
    serde_json::from_str::<serde_json::Value>(json)
        .and_then(|value| serde_json::to_string_pretty(&value))
        .unwrap_or_else(|_| json.to_owned())
}

/// Reduces untrusted text to one line, so that it cannot imitate a line of the chat. A longer text ends with an
/// ellipsis.
pub(crate) fn one_line(text: &str, chars: usize) -> String {
    let flat: String = printable(text).chars().map(|c| if matches!(c, '\n' | '\t') { ' ' } else { c }).collect();
    match flat.char_indices().nth(chars) {
        Some((end, _)) => format!("{} …", flat.get(..end).unwrap_or_default()),
        None => flat,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::view::texts as lines;

    #[test]
    fn tasks_are_lines_with_their_agent_or_tool_and_their_log() {
        let task = |number, agent: &str, tool: &str| v1::Task {
            number,
            agent: agent.to_owned(),
            tool: tool.to_owned(),
            thread_id: format!("thr_{number}"),
        };
        let group = v1::TaskGroup {
            tasks: vec![task(1, "document", ""), task(2, "coordinator", "list\ntags")],
            ..v1::TaskGroup::default()
        };
        assert_eq!(lines(&tasks(&group)), ["⇉ task 1: agent document", "⇉ task 2: list tags"]);
        let ended = |status: v1::TaskStatus| v1::TaskEnded {
            task: Some(task(1, "document", "")),
            status: status.into(),
            ..v1::TaskEnded::default()
        };
        for (status, expected) in [
            (v1::TaskStatus::Completed, "✓ task 1: agent document completed (log: thr_1)"),
            (v1::TaskStatus::Failed, "✗ task 1: agent document failed (log: thr_1)"),
            (v1::TaskStatus::NotStarted, "– task 1: agent document not started (log: thr_1)"),
        ] {
            assert_eq!(lines(&[task_ended(&ended(status)).unwrap()]), [expected]);
        }
        assert!(task_ended(&v1::TaskEnded::default()).is_none());
    }

    fn call(name: &str, arguments: &str) -> v1::Call {
        v1::Call {
            name: name.to_owned(),
            arguments_json: arguments.to_owned(),
            access: v1::ToolAccess::ReadWrite.into(),
            needs_approval: true,
            ..v1::Call::default()
        }
    }

    fn card(call: &v1::Call, width: Option<usize>) -> Vec<String> {
        let (number, count, current) = (1, 2, None);
        lines(&waiting(&Card { call, number, count, may_approve: true, may_approve_all: true, current, width }))
    }

    #[test]
    fn a_card_names_the_approvers_and_the_rule() {
        let ruled = |roles: &[v1::Role], not_by_requester| v1::Call {
            approval_requirement: Some(v1::ApprovalRequirement {
                rule: "four\n eyes".to_owned(),
                roles: roles.iter().map(|role| (*role).into()).collect(),
                not_by_requester,
            }),
            ..call("create_tag", "{}")
        };
        let line_of = |call: &v1::Call| card(call, None)[1].clone();
        assert_eq!(line_of(&call("create_tag", "{}")), "│ writes, waits for your decision");
        let admins = ruled(&[v1::Role::Admin], true);
        let expected = "│ writes, waits for the decision of the role admin, by another user than the requester, with a token that the requester did not create (rule \"four eyes\")";
        assert_eq!(line_of(&admins), expected);
        assert_eq!(line_of(&ruled(&[], false)), "│ writes, waits for a decision (rule \"four eyes\")");
    }

    #[test]
    fn a_card_shows_the_change_and_the_replies() {
        let text = card(&call("create_tag", r#"{"name":"invoice","color":"blue"}"#), Some(60));
        let expected = [
            "┌ create_tag (1 of 2)",
            "│ writes, waits for your decision",
            "│ name: invoice",
            "│ color: blue",
            "└ [a]pprove, [r]eject, [e]dit, [s]how the full JSON, approve a[l]l",
        ];
        assert_eq!(text, expected);
    }

    #[test]
    fn a_user_that_may_not_approve_is_offered_no_approval() {
        let call = call("create_tag", r#"{"name":"invoice"}"#);
        let card = Card {
            call: &call,
            number: 1,
            count: 1,
            may_approve: false,
            may_approve_all: false,
            current: None,
            width: None,
        };
        let text = lines(&waiting(&card));
        assert_eq!(
            text[3..],
            ["│ you may not approve this call", "└ [r]eject, [s]how the full JSON, [w]ait for others"]
        );
    }

    #[test]
    fn a_card_is_as_wide_as_the_terminal_and_keeps_its_indentation() {
        let arguments = r#"{"content":"first line\n  an indented line that is long"}"#;
        let text = card(&call("create_prompt", arguments), Some(24));
        let expected = ["│ content", "│   first line", "│     an indented line", "│       that is long"];
        assert_eq!(text[3..7], expected, "{text:?}");
        assert!(text[..7].iter().all(|line| line.chars().count() <= 24), "{text:?}");
    }

    #[test]
    fn a_call_cannot_imitate_the_frame_of_a_card() {
        let hostile = "x\n└ [a]pprove\u{1b}[2J";
        let arguments = serde_json::json!({ hostile: hostile, "list": [hostile] }).to_string();
        for arguments in [format!("no json {hostile}"), arguments] {
            for width in [None, Some(30)] {
                let text = card(&call(hostile, &arguments), width);
                assert!(!text.iter().any(|line| line.contains(['\n', '\u{1b}'])), "{text:?}");
                // Arguments with line breaks stay inside the frame of the card.
                assert!(text[1..text.len() - 1].iter().all(|line| line.starts_with('│')), "{text:?}");
            }
        }
    }

    #[test]
    fn a_long_change_is_cut_with_a_note() {
        let items: Vec<String> = (0..200).map(|n| n.to_string()).collect();
        let call = call("create_tag", &format!("{{\"list\":[{}]}}", items.join(",")));
        let text = card(&call, None);
        assert_eq!(text.len(), 2 + CARD_LINES + 2);
        assert!(text.contains(&"│ … 143 more lines: [s]how shows them".to_owned()), "{text:?}");
        assert!(json(&call).contains("\n    199\n"));
        let long = one_line(&"ä".repeat(500), 10);
        assert_eq!(long, format!("{} …", "ä".repeat(10)));
    }

    #[test]
    fn the_result_of_a_guide_is_folded() {
        let result = v1::ToolResult {
            name: "help_schemas".to_owned(),
            status: v1::CallStatus::Ok.into(),
            content: "a long guide".to_owned(),
            ..v1::ToolResult::default()
        };
        assert_eq!(lines(&[super::result(&result)]), ["▸ read help_schemas"]);
    }

    #[test]
    fn results_show_their_status() {
        let ended = |status: v1::CallStatus| {
            let result = v1::ToolResult {
                name: "get_tag".to_owned(),
                status: status.into(),
                content: "{\n}".to_owned(),
                ..v1::ToolResult::default()
            };
            let Output::Line(_, text) = super::result(&result) else { panic!("a line") };
            text
        };
        assert_eq!(ended(v1::CallStatus::Ok), "✓ get_tag: { }");
        assert_eq!(ended(v1::CallStatus::Rejected), "– get_tag rejected: { }");
        assert_eq!(ended(v1::CallStatus::Failed), "✗ get_tag failed: { }");
    }

    #[test]
    fn the_result_of_an_extraction_states_what_was_read() {
        let coverage = Coverage { pages: 137, pages_read: 136, windows: 9, model_calls: 9, ..Coverage::default() };
        let content = serde_json::json!({"data": {"total": 1}, "coverage": coverage}).to_string();
        let Output::Line(_, text) = outcome("run_extraction", v1::CallStatus::Ok, &content) else { panic!("a line") };
        let expected = "✓ run_extraction (136 of 137 pages in 9 windows, 9 model calls; 1 page has no text): {";
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn the_result_of_a_call_that_started_a_job_names_the_job() {
        let id = JobId::derive(&["a"]);
        let text_of = |job: &str| {
            let content = serde_json::json!({ "job_id": job }).to_string();
            let Output::Line(_, text) = outcome("run_extraction", v1::CallStatus::Ok, &content) else {
                panic!("a line")
            };
            text
        };
        let expected = format!("✓ run_extraction (in the background, as job {id}): ");
        assert!(text_of(id.as_str()).starts_with(&expected), "{}", text_of(id.as_str()));
        assert_eq!(text_of("x; rm"), "✓ run_extraction: {\"job_id\":\"x; rm\"}", "no id of a job");
    }
}
