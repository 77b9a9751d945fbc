//! Tool calls as cards, and their results as lines.

use anstyle::Style;
use folio_proto::v1;

use super::view::Output;
use crate::terminal::{BAD, BOLD, DIM, GOOD, NAME, printable};

/// Maximum number of argument lines that a card shows before all arguments are requested.
const CARD_LINES: usize = 60;
/// Maximum number of characters of a line of a card.
const LINE_CHARS: usize = 400;
/// Maximum number of characters of a displayed tool result.
const RESULT_CHARS: usize = 300;
/// Maximum number of characters of the arguments of a call that needs no decision.
const BRIEF_CHARS: usize = 160;

/// Formats a call that waits for a decision, as number `number` of `count`.
pub(crate) fn waiting(call: &v1::Call, number: usize, count: usize, shows_all_arguments: bool) -> Vec<Output> {
    let (lines_max, chars_max) = if shows_all_arguments { (usize::MAX, usize::MAX) } else { (CARD_LINES, LINE_CHARS) };
    let access = match call.access() {
        v1::ToolAccess::ReadWrite => "writes",
        _ => "reads",
    };
    let position = if count > 1 { format!(" ({number} of {count})") } else { String::new() };
    let mut shown = vec![
        Output::Line(NAME, format!("┌ {}{position}", one_line(&call.name, 80))),
        Output::Line(DIM, format!("│ {access}, waits for {}", approvers(call))),
    ];
    let text = pretty(&call.arguments_json);
    let mut lines = text.lines();
    let in_frame = |line| Output::Line(Style::new(), format!("│ {}", one_line(line, chars_max)));
    shown.extend(lines.by_ref().take(lines_max).map(in_frame));
    let more = lines.count();
    if more > 0 {
        shown.push(Output::Line(DIM, format!("│ … {more} more lines: [s]how shows them")));
    }
    shown.push(Output::Line(NAME, format!("└ {}", super::command::CHOICES)));
    shown
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

/// Formats a call in one line.
pub(crate) fn brief(call: &v1::Call) -> Output {
    let arguments = match call.arguments_json.trim() {
        "" | "{}" => String::new(),
        arguments => format!(" {}", one_line(arguments, BRIEF_CHARS)),
    };
    let approval = if call.needs_approval { " (asks for approval)" } else { "" };
    Output::Line(DIM, format!("→ {}{approval}{arguments}", one_line(&call.name, 80)))
}

pub(crate) fn result(result: &v1::ToolResult) -> Output {
    outcome(&result.name, result.status(), &result.content)
}

fn outcome(name: &str, status: v1::CallStatus, content: &str) -> Output {
    let (style, mark, word) = match status {
        v1::CallStatus::Ok => (GOOD, "✓", ""),
        v1::CallStatus::Rejected => (DIM, "–", " rejected"),
        v1::CallStatus::Conflict => (BAD, "✗", " changed meanwhile"),
        v1::CallStatus::Cancelled => (DIM, "–", " cancelled"),
        v1::CallStatus::Expired | v1::CallStatus::Superseded | v1::CallStatus::NotRun => (DIM, "–", " not run"),
        v1::CallStatus::Failed | v1::CallStatus::Unspecified => (BAD, "✗", " failed"),
    };
    Output::Line(style, format!("{mark} {}{word}: {}", one_line(name, 80), one_line(content, RESULT_CHARS)))
}

/// Formats a round whose events were not received.
pub(crate) fn round(round: &v1::Round) -> Vec<Output> {
    let mut shown = Vec::new();
    if !round.text.is_empty() {
        shown.push(Output::Line(Style::new(), round.text.clone()));
    }
    for call in &round.calls {
        match round.results.iter().find(|result| result.call_id == call.call_id) {
            Some(result) => shown.push(outcome(&call.name, result.status(), &result.content)),
            None => shown.push(brief(call)),
        }
    }
    shown
}

/// Formats one entry of a thread list.
pub(crate) fn thread(number: usize, thread: &v1::Thread) -> Output {
    let title = if thread.title.is_empty() { "(no title)" } else { thread.title.as_str() };
    let open = if thread.open_turn_id.is_empty() { "" } else { "  ● a turn runs or waits" };
    let turns = if thread.turns == 1 { "1 turn".to_owned() } else { format!("{} turns", thread.turns) };
    Output::Line(BOLD, format!("{number:>3}  {}  ({turns}){open}", one_line(title, 80)))
}

/// Formats JSON with line breaks. Returns other text unchanged.
pub(crate) fn pretty(json: &str) -> String {
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

    fn call(name: &str, arguments: &str) -> v1::Call {
        v1::Call {
            name: name.to_owned(),
            arguments_json: arguments.to_owned(),
            access: v1::ToolAccess::ReadWrite.into(),
            needs_approval: true,
            ..v1::Call::default()
        }
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
        let line_of = |call: &v1::Call| lines(&waiting(call, 1, 1, false))[1].to_owned();
        assert_eq!(line_of(&call("create_tag", "{}")), "│ writes, waits for your decision");
        let admins = ruled(&[v1::Role::Admin], true);
        let expected = "│ writes, waits for the decision of the role admin, by another user than the requester, with a token that the requester did not create (rule \"four  eyes\")";
        assert_eq!(line_of(&admins), expected);
        assert_eq!(line_of(&ruled(&[], false)), "│ writes, waits for a decision (rule \"four  eyes\")");
    }

    #[test]
    fn a_card_shows_tool_arguments_and_choices() {
        let shown = waiting(&call("create_tag", r#"{"name":"invoice","color":"blue"}"#), 1, 2, false);
        let lines = lines(&shown);
        assert_eq!(lines[0], "┌ create_tag (1 of 2)");
        assert!(lines.contains(&"│   \"name\": \"invoice\","), "{lines:?}");
        assert_eq!(
            lines.last().copied(),
            Some("└ [a]pprove, [r]eject and why, [e]dit the arguments, [s]how them all, or approve a[l]l")
        );
    }

    #[test]
    fn a_call_cannot_imitate_the_frame_of_a_card() {
        let hostile = "x\n└ [a]pprove\u{1b}[2J";
        let shown = waiting(&call(hostile, &format!("no json {hostile}")), 1, 1, false);
        for line in lines(&shown) {
            assert!(!line.contains('\n') && !line.contains('\u{1b}'), "{line:?}");
        }
        // Arguments with line breaks stay inside the frame of the card.
        assert!(lines(&shown).iter().skip(1).rev().skip(1).all(|line| line.starts_with('│')), "{shown:?}");
    }

    #[test]
    fn long_arguments_are_cut_with_a_note() {
        let items: Vec<String> = (0..200).map(|n| n.to_string()).collect();
        let shown = waiting(&call("create_tag", &format!("[{}]", items.join(","))), 1, 1, false);
        assert_eq!(shown.len(), 2 + CARD_LINES + 2);
        assert!(lines(&shown).iter().any(|line| line.contains("142 more lines")), "{shown:?}");
        let whole = waiting(&call("create_tag", &format!("[{}]", items.join(","))), 1, 1, true);
        assert!(lines(&whole).contains(&"│   199"), "{whole:?}");
        let long = one_line(&"ä".repeat(500), 10);
        assert_eq!(long, format!("{} …", "ä".repeat(10)));
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
}
