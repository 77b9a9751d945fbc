//! Input lines of the chat.

/// A line at the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum InputLine {
    /// An empty line.
    Empty,
    /// A message to the agent.
    Message(String),
    /// A command.
    Command(Command),
    /// A text that begins like a command and is not one.
    Unknown(String),
}

/// A command, which begins with a slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    /// Explains the commands.
    Help,
    /// Lists the document's threads.
    Threads,
    /// Resumes a thread: a number of the last list, or an id.
    Resume(String),
    /// Starts a new thread with the next message.
    New,
    /// Ends the turn that runs or waits.
    Cancel,
    /// Resumes a turn that failed.
    Retry,
    /// Lists the models, or selects one: a number of the last list, or a name.
    Model(Option<String>),
    /// Shows the last thinking, or sets whether thinking is shown as it arrives.
    Thinking(Option<bool>),
    /// Leaves.
    Quit,
}

/// An answer to a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// Approves the call.
    Approve,
    /// Approves the call and all other undecided calls of the round.
    ApproveAll,
    /// Rejects the call, with a reason.
    Reject(String),
    /// Edits the arguments before the decision.
    Edit,
    /// Shows all arguments.
    Show,
    /// Any other line: a command, or unknown text.
    Other(InputLine),
}

/// The text of `/help`.
pub(super) const HELP: &str = "\
/threads          the document's threads
/resume N         continue thread N of that list (or a thread id)
/new              start a new thread with the next message
/cancel           cancel the turn that runs or waits (Ctrl-C while it runs)
/retry            retry a failed turn
/model [N|NAME]   list the models, or use one from the next message on
/thinking [on|off]  show the last thinking, or show thinking as it is generated
/quit             quit; calls that wait for approval continue to wait";

/// The answers that a card accepts.
pub(super) const ANSWERS: &str = "[a]pprove, [r]eject and why, [e]dit the arguments, [s]how them all, or approve a[l]l";

/// Parses a line at the prompt.
pub(super) fn parse(line: &str) -> InputLine {
    let line = line.trim();
    if line.is_empty() {
        return InputLine::Empty;
    }
    // Two slashes: a message that begins with one slash.
    if let Some(message) = line.strip_prefix('/').filter(|rest| rest.starts_with('/')) {
        return InputLine::Message(message.to_owned());
    }
    if !line.starts_with('/') {
        return InputLine::Message(line.to_owned());
    }
    let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let argument = Some(argument.trim()).filter(|argument| !argument.is_empty()).map(str::to_owned);
    command(name, argument).map_or_else(|| InputLine::Unknown(line.to_owned()), InputLine::Command)
}

fn command(name: &str, argument: Option<String>) -> Option<Command> {
    match (name, argument) {
        ("/help" | "/?", None) => Some(Command::Help),
        ("/threads", None) => Some(Command::Threads),
        ("/resume", Some(which)) => Some(Command::Resume(which)),
        ("/new", None) => Some(Command::New),
        ("/cancel", None) => Some(Command::Cancel),
        ("/retry", None) => Some(Command::Retry),
        ("/model", which) => Some(Command::Model(which)),
        ("/thinking", None) => Some(Command::Thinking(None)),
        ("/thinking", Some(on)) if on == "on" => Some(Command::Thinking(Some(true))),
        ("/thinking", Some(off)) if off == "off" => Some(Command::Thinking(Some(false))),
        ("/quit" | "/exit", None) => Some(Command::Quit),
        _ => None,
    }
}

/// Parses a line at a card.
pub(super) fn answer(line: &str) -> Answer {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match word.to_lowercase().as_str() {
        "a" | "approve" | "y" | "yes" if rest.is_empty() => Answer::Approve,
        "l" | "all" if rest.is_empty() => Answer::ApproveAll,
        "e" | "edit" if rest.is_empty() => Answer::Edit,
        "s" | "show" if rest.is_empty() => Answer::Show,
        "r" | "reject" | "n" | "no" => Answer::Reject(rest.trim().to_owned()),
        _ => Answer::Other(parse(line)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_begin_with_a_slash() {
        assert_eq!(parse("  hello /quit "), InputLine::Message("hello /quit".to_owned()));
        assert_eq!(parse(""), InputLine::Empty);
        assert_eq!(parse("/resume  3 "), InputLine::Command(Command::Resume("3".to_owned())));
        assert_eq!(parse("/model"), InputLine::Command(Command::Model(None)));
        assert_eq!(parse("/thinking on"), InputLine::Command(Command::Thinking(Some(true))));
        assert_eq!(parse("//usr/bin is a path"), InputLine::Message("/usr/bin is a path".to_owned()));
        for unknown in ["/nonsense", "/resume", "/thinking maybe", "/new thread"] {
            assert_eq!(parse(unknown), InputLine::Unknown(unknown.to_owned()));
        }
    }

    #[test]
    fn cards_are_answered_by_a_letter_or_a_word() {
        assert_eq!(answer("a"), Answer::Approve);
        assert_eq!(answer(" Yes "), Answer::Approve);
        assert_eq!(answer("r the name is taken"), Answer::Reject("the name is taken".to_owned()));
        assert_eq!(answer("no"), Answer::Reject(String::new()));
        assert_eq!(answer("e"), Answer::Edit);
        assert_eq!(answer("s"), Answer::Show);
        assert_eq!(answer("all"), Answer::ApproveAll);
        assert_eq!(answer("/cancel"), Answer::Other(InputLine::Command(Command::Cancel)));
        // What could be meant as a message approves nothing.
        assert_eq!(
            answer("a better name please"),
            Answer::Other(InputLine::Message("a better name please".to_owned()))
        );
        assert_eq!(answer("yes but"), Answer::Other(InputLine::Message("yes but".to_owned())));
    }

    #[test]
    fn every_command_is_explained() {
        for name in ["/threads", "/resume", "/new", "/cancel", "/retry", "/model", "/thinking", "/quit"] {
            assert!(HELP.contains(name), "{name}");
        }
    }
}
