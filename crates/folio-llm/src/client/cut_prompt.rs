//! Detection of endpoints that cut a prompt to their context without an error, as Ollama does.

use folio_types::message::Message;

use crate::model::{ModelError, ModelRequest};
use crate::tokens::{fewest_tokens, fewest_tokens_max};

/// Minimum of the lower estimate from which a prompt is checked. Every known server has a context of at least 2,048 tokens by
/// default, so it does not cut a shorter prompt to less than half.
const CHECKED_TOKENS_MIN: u64 = 4_000;

/// Returns a lower estimate of the tokens of the messages. 0: the estimate is below [`CHECKED_TOKENS_MIN`], so the prompt is
/// not checked, and its tokens need not be counted.
pub(super) fn fewest_prompt_tokens(request: &ModelRequest) -> u64 {
    let most = texts(request).map(fewest_tokens_max).fold(0, u64::saturating_add);
    if most < CHECKED_TOKENS_MIN { 0 } else { counted(request) }
}

fn counted(request: &ModelRequest) -> u64 {
    texts(request).map(fewest_tokens).fold(0, u64::saturating_add)
}

/// Returns the texts that count. Tools and the response format do not count, because an endpoint may omit them from the
/// prompt.
fn texts(request: &ModelRequest) -> impl Iterator<Item = &str> {
    let texts = request.messages.iter().map(|message| match message {
        Message::User { text, .. } | Message::Assistant { text, .. } => text.as_str(),
        Message::Tool { content, .. } => content.as_str(),
    });
    std::iter::once(request.system.as_str()).chain(texts)
}

/// Fails if the endpoint read less than half of `fewest`, the lower estimate of the tokens of the prompt. Half of this estimate
/// is about a third of the tokens that Folio counts. `read`: number of tokens that the endpoint reports, including tokens from
/// its cache. None or 0: the endpoint reports no number.
pub(super) fn check(fewest: u64, read: Option<u64>) -> Result<(), ModelError> {
    match read.filter(|read| *read > 0) {
        Some(read) if fewest >= CHECKED_TOKENS_MIN && read.saturating_mul(2) < fewest => {
            Err(ModelError::PromptCut { read, fewest })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use folio_types::OrgId;

    use super::*;

    #[test]
    fn less_than_a_half_of_the_fewest_tokens_is_a_cut_prompt() {
        for (fewest, read, is_cut) in [
            (10_000, Some(4_999), true),
            (10_000, Some(5_000), false),
            (10_000, Some(0), false),
            (10_000, None, false),
            (4_000, Some(1), true),
            (3_999, Some(1), false),
            (u64::MAX, Some(u64::MAX), false),
        ] {
            assert_eq!(check(fewest, read).is_err(), is_cut, "{fewest} {read:?}");
        }
        let error = check(10_000, Some(4_096)).unwrap_err();
        assert!(error.to_string().contains("context_tokens") && !error.is_retriable(), "{error}");
    }

    #[test]
    fn the_system_message_and_all_messages_count() {
        let user = |text: &str| Message::user(text.to_owned());
        let request = ModelRequest {
            system: "be brief".to_owned(),
            ..ModelRequest::new(OrgId::derive(&["acme"]), "model", vec![user("one"), user("two three, 4.")])
        };
        assert_eq!(counted(&request), 6);
        assert_eq!(fewest_prompt_tokens(&request), 0, "a short prompt is not checked");
    }

    #[test]
    fn a_prompt_that_is_checked_is_counted() {
        let words = |count: usize| {
            let message = Message::user("a ".repeat(count));
            ModelRequest::new(OrgId::derive(&["acme"]), "model", vec![message])
        };
        for count in [3_999, 4_000, 5_000] {
            let expected = if count < 4_000 { 0 } else { count as u64 };
            assert_eq!(fewest_prompt_tokens(&words(count)), expected);
        }
    }
}
