//! Tests of chat sessions.

use super::model_choice::{MODELS_SHOWN, chosen_model};
use super::*;

#[test]
fn a_model_is_chosen_by_its_name_or_by_a_printed_number_and_otherwise_refused() {
    let printed = ["first", "removed"].map(str::to_owned);
    let known = ["7", "first", "second"];
    for (which, expected) in [("second", "second"), ("1", "first"), ("7", "7")] {
        assert_eq!(chosen_model(which, &printed, &known).unwrap(), expected, "{which}");
    }
    for which in ["nosuch", "2", "3", "0", "Second", ""] {
        let refused = chosen_model(which, &printed, &known).unwrap_err().to_string();
        let expected =
            format!("no model for chats is named {which:?}; the models are 7, first, second (/model lists them)");
        assert_eq!(refused, expected);
    }
    let many = vec!["m"; MODELS_SHOWN + 1];
    assert!(chosen_model("x", &[], &many).unwrap_err().to_string().contains("m, m, … (/model"));
}

#[test]
fn a_lost_connection_names_a_command_that_helps() {
    let text = |is_accepted| with_remedy(ConnectionLost { is_accepted }.into()).to_string();
    assert!(text(true).ends_with("continues on the server; /resume shows its state"), "{}", text(true));
    assert!(text(false).ends_with("/threads lists the thread of a received message"), "{}", text(false));
    assert_eq!(with_remedy(anyhow!("another error")).to_string(), "another error");
}
