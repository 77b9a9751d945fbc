//! The model list of an endpoint (`GET models`).

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::endpoint::{Endpoint, read_bounded};
use super::failure::Failure;
use crate::model::ModelError;
use crate::stream::StreamError;

/// How long the list is waited for.
const WITHIN: Duration = Duration::from_secs(15);
/// Bytes of a list: some endpoints describe hundreds of models.
const BODY_BYTES: usize = 4 << 20;
/// Names that are kept, and characters of one.
const MODELS_MAX: usize = 1_000;
const NAME_CHARS: usize = 200;

/// The names, in order.
pub(super) async fn models(endpoint: &Endpoint) -> Result<Vec<String>, ModelError> {
    let end = Instant::now() + WITHIN;
    read(endpoint, end).await.map_err(|failure| failure.error)
}

async fn read(endpoint: &Endpoint, end: Instant) -> Result<Vec<String>, Failure> {
    let response = endpoint.get(&endpoint.models_url, (end, "model list")).await?;
    let mut answer = Vec::new();
    let whole = timeout_at(end, read_bounded(response, BODY_BYTES, &mut answer))
        .await
        .map_err(|_| Failure::sick(ModelError::Timeout("model list")))?
        .map_err(|error| Failure::connection(&endpoint.name, error, &endpoint.key))?;
    let names = if whole { names(&answer) } else { Err(StreamError::TooLarge("body")) };
    names.map_err(|error| Failure::answer(error, &endpoint.key))
}

/// `{"data": [{"id": …}]}`, as OpenAI's endpoint answers; also a bare list, and `models` with a `name`, as others do.
fn names(answer: &[u8]) -> Result<Vec<String>, StreamError> {
    let malformed = || StreamError::Malformed("a model list of another shape".to_owned());
    let answer: Value = serde_json::from_slice(answer).map_err(|_| malformed())?;
    let list = answer.get("data").or_else(|| answer.get("models")).unwrap_or(&answer);
    let named = list.as_array().ok_or_else(malformed)?.iter();
    let named = named.filter_map(|model| model.get("id").or_else(|| model.get("name"))?.as_str());
    let good = |name: &&str| {
        let visible = name.chars().all(|c| !c.is_control() && !c.is_whitespace());
        !name.is_empty() && visible && name.chars().count() <= NAME_CHARS
    };
    let mut names: Vec<String> = named.filter(good).take(MODELS_MAX).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_a_list_are_read_in_order_and_once() {
        for list in [
            r#"{"object": "list", "data": [{"id": "b"}, {"id": "a"}, {"id": "b"}, {"id": "no name"}, {"object": 1}]}"#,
            r#"[{"id": "b"}, {"id": "a"}]"#,
            r#"{"models": [{"name": "a"}, {"name": "b"}, {"name": ""}]}"#,
        ] {
            assert_eq!(names(list.as_bytes()).unwrap(), ["a", "b"], "{list}");
        }
        assert_eq!(names(br#"{"data": []}"#).unwrap(), Vec::<String>::new());
        for bad in ["", "{}", r#"{"data": {}}"#, "nonsense"] {
            assert!(names(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
