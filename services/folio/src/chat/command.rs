//! Input lines of the chat.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum InputLine {
    Empty,
    Message(String),
    Command(Command),
    /// A text that starts with a slash but is not a command.
    Unknown(String),
}

/// A command. Its text starts with a slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    Threads,
    /// Some: resumes a thread, by a number of the last list or by its id. None: shows the state of the current thread.
    Resume(Option<String>),
    /// The next message starts a new thread.
    New,
    /// Cancels the running or waiting turn.
    Cancel,
    Retry,
    /// Some: uploads the image of a file for the next message. None: states the number of these images.
    Image(Option<String>),
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
    /// Rejects the call. None: the reason is requested.
    Reject(Option<String>),
    /// Leaves the call to other users.
    Leave,
    /// Opens the arguments in an editor before the decision.
    Edit,
    /// Shows all arguments as JSON.
    Show,
    /// A line that is not a decision.
    Other(InputLine),
}

/// The commands: name, arguments, description.
pub(super) const COMMANDS: [(&str, &str, &str); 10] = [
    ("/help", "", "list the commands"),
    ("/threads", "", "list the threads of the document"),
    ("/resume", "[N]", "continue thread N of that list (or a thread id); without N: show the current thread"),
    ("/new", "", "start a new thread with the next message; a turn of this thread continues to run or wait"),
    ("/cancel", "", "cancel the turn that waits for approval"),
    ("/retry", "", "retry a failed turn"),
    ("/image", "[FILE]", "send an image (PNG, JPEG or WebP) with the next message"),
    ("/model", "[N|NAME]", "list the models, or use one from the next message on"),
    ("/thinking", "[on|off]", "show the last thinking, or show thinking as it is generated"),
    ("/quit", "", "quit; calls that wait for approval continue to wait"),
];

/// Returns the text of `/help`.
pub(super) fn help() -> String {
    let commands = COMMANDS.iter().map(|(name, arguments, text)| {
        let usage = format!("{name} {arguments}");
        format!("{usage:<20}{text}")
    });
    let keys = [
        "Tab completes commands and mentions: @schema:NAME, @prompt:NAME and @tag:NAME.",
        "A backslash at the end of a line, or Ctrl-V Ctrl-J, continues the message in the next line.",
        "Ctrl-C cancels the turn that runs; at the prompt it discards the line. Ctrl-D quits.",
        "Text that is typed while a turn runs is kept for the next message.",
    ];
    commands.chain(keys.map(str::to_owned)).collect::<Vec<_>>().join("\n")
}

/// Returns the replies that a card accepts. `may_approve_all`: the user may approve all undecided calls of the round.
pub(super) fn choices(may_approve: bool, may_approve_all: bool) -> String {
    let mut choices = vec!["[r]eject", "[s]how the full JSON"];
    if may_approve {
        choices.insert(0, "[a]pprove");
        choices.insert(2, "[e]dit");
    } else {
        choices.push("[w]ait for others");
    }
    if may_approve_all {
        choices.push("approve a[l]l");
    }
    choices.join(", ")
}

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
        ("/resume", which) => Some(Command::Resume(which)),
        ("/new", None) => Some(Command::New),
        ("/cancel", None) => Some(Command::Cancel),
        ("/retry", None) => Some(Command::Retry),
        ("/image", file) => Some(Command::Image(file)),
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
        "w" | "wait" if rest.is_empty() => Reply::Leave,
        "r" | "reject" | "n" | "no" => {
            Reply::Reject(Some(rest.trim()).filter(|reason| !reason.is_empty()).map(str::to_owned))
        }
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
        assert_eq!(parse("/resume  3 "), InputLine::Command(Command::Resume(Some("3".to_owned()))));
        assert_eq!(parse("/resume"), InputLine::Command(Command::Resume(None)));
        assert_eq!(parse("/model"), InputLine::Command(Command::Model(None)));
        assert_eq!(parse("/thinking on"), InputLine::Command(Command::Thinking(Some(true))));
        assert_eq!(parse("//usr/bin is a path"), InputLine::Message("/usr/bin is a path".to_owned()));
        for unknown in ["/nonsense", "/thinking maybe", "/new thread"] {
            assert_eq!(parse(unknown), InputLine::Unknown(unknown.to_owned()));
        }
    }

    #[test]
    fn cards_are_answered_by_a_letter_or_a_word() {
        assert_eq!(parse_reply("a"), Reply::Approve);
        assert_eq!(parse_reply(" Yes "), Reply::Approve);
        assert_eq!(parse_reply("r the name is taken"), Reply::Reject(Some("the name is taken".to_owned())));
        assert_eq!(parse_reply("no"), Reply::Reject(None));
        assert_eq!(parse_reply("w"), Reply::Leave);
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
    fn every_listed_command_exists() {
        for (name, arguments, _) in COMMANDS {
            assert!(matches!(parse(name), InputLine::Command(_)), "{name}");
            let with_argument = parse(&format!("{name} on"));
            assert_eq!(arguments.is_empty(), matches!(with_argument, InputLine::Unknown(_)), "{name}");
            assert!(help().contains(name), "{name}");
        }
    }

    #[test]
    fn approval_is_offered_only_to_a_user_that_may_approve() {
        assert_eq!(choices(true, false), "[a]pprove, [r]eject, [e]dit, [s]how the full JSON");
        assert_eq!(choices(true, true), "[a]pprove, [r]eject, [e]dit, [s]how the full JSON, approve a[l]l");
        assert_eq!(choices(false, false), "[r]eject, [s]how the full JSON, [w]ait for others");
    }
}
