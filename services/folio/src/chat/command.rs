//! Input lines of the chat.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum InputLine {
    Empty,
    Message(String),
    Command(Command),
    /// A text that starts with a slash but is not a command.
    Unknown(String),
}

/// A command. Its text starts with a slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    Help,
    Threads,
    /// Resumes a thread: a number of the last list, or a thread id.
    Resume(String),
    /// The next message starts a new thread.
    New,
    /// Cancels the running or waiting turn.
    Cancel,
    Retry,
    /// Some: selects a model by a number of the last list or by its name. None: lists the models.
    Model(Option<String>),
    /// Some: shows or folds thinking as it arrives. None: shows the last thinking.
    Thinking(Option<bool>),
    Quit,
}

/// A user's reply to a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    Approve,
    /// Approves the call and all other undecided calls of the round.
    ApproveAll,
    /// Rejects the call with a reason, which may be empty.
    Reject(String),
    /// Opens the arguments in an editor before the decision.
    Edit,
    Show,
    /// A line that is not a decision.
    Other(InputLine),
}

pub(super) const HELP: &str = "\
/threads          the document's threads
/resume N         continue thread N of that list (or a thread id)
/new              start a new thread with the next message
/cancel           cancel the turn that runs or waits (Ctrl-C while it runs)
/retry            retry a failed turn
/model [N|NAME]   list the models, or use one from the next message on
/thinking [on|off]  show the last thinking, or show thinking as it is generated
/quit             quit; calls that wait for approval continue to wait";

/// The replies that a card accepts.
pub(super) const CHOICES: &str = "[a]pprove, [r]eject and why, [e]dit the arguments, [s]how them all, or approve a[l]l";

pub(super) fn parse(line: &str) -> InputLine {
    let line = line.trim();
    if line.is_empty() {
        return InputLine::Empty;
    }
    // Two slashes escape a message that starts with a slash.
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

pub(super) fn parse_reply(line: &str) -> Reply {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match word.to_lowercase().as_str() {
        "a" | "approve" | "y" | "yes" if rest.is_empty() => Reply::Approve,
        "l" | "all" if rest.is_empty() => Reply::ApproveAll,
        "e" | "edit" if rest.is_empty() => Reply::Edit,
        "s" | "show" if rest.is_empty() => Reply::Show,
        "r" | "reject" | "n" | "no" => Reply::Reject(rest.trim().to_owned()),
        _ => Reply::Other(parse(line)),
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
        assert_eq!(parse_reply("a"), Reply::Approve);
        assert_eq!(parse_reply(" Yes "), Reply::Approve);
        assert_eq!(parse_reply("r the name is taken"), Reply::Reject("the name is taken".to_owned()));
        assert_eq!(parse_reply("no"), Reply::Reject(String::new()));
        assert_eq!(parse_reply("e"), Reply::Edit);
        assert_eq!(parse_reply("s"), Reply::Show);
        assert_eq!(parse_reply("all"), Reply::ApproveAll);
        assert_eq!(parse_reply("/cancel"), Reply::Other(InputLine::Command(Command::Cancel)));
        // A line that may be a message must not approve a call.
        assert_eq!(
            parse_reply("a better name please"),
            Reply::Other(InputLine::Message("a better name please".to_owned()))
        );
        assert_eq!(parse_reply("yes but"), Reply::Other(InputLine::Message("yes but".to_owned())));
    }

    #[test]
    fn every_command_is_explained() {
        for name in ["/threads", "/resume", "/new", "/cancel", "/retry", "/model", "/thinking", "/quit"] {
            assert!(HELP.contains(name), "{name}");
        }
    }
}
