//! Opens the arguments of a call in the user's editor, and validates them before they are sent.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use folio_llm::schema::Validator;
use folio_types::{json, limits};
use serde_json::Value;

/// Opens the text in `$VISUAL` or `$EDITOR` (`vi` at a terminal) and returns the saved text.
pub(super) async fn in_editor(text: &str, is_terminal: bool) -> Result<String> {
    let editor = editor(is_terminal)?;
    let mut file = tempfile::Builder::new().prefix("folio-arguments-").suffix(".json").tempfile()?;
    file.write_all(text.as_bytes())?;
    file.flush()?;
    let path = file.into_temp_path();
    // The variable may contain arguments, so a shell splits it.
    let status = tokio::process::Command::new("sh")
        .arg("-c")
        .arg("exec $FOLIO_EDITOR \"$1\"")
        .arg("sh")
        .arg(&path)
        .env("FOLIO_EDITOR", &editor)
        .stdin(if is_terminal { Stdio::inherit() } else { Stdio::null() })
        .kill_on_drop(true)
        .status()
        .await
        .context("the editor cannot be started")?;
    if !status.success() {
        bail!("the editor {} ended with {status}; nothing is changed", editor.display());
    }
    std::fs::read_to_string(&path).context("the edited file cannot be read")
}

fn editor(is_terminal: bool) -> Result<OsString> {
    let set = ["VISUAL", "EDITOR"].iter().filter_map(std::env::var_os).find(|editor| !editor.is_empty());
    match set {
        Some(editor) => Ok(editor),
        None if is_terminal => Ok("vi".into()),
        None => bail!("no editor: set EDITOR"),
    }
}

/// Validates edited arguments against the tool's JSON Schema. Returns compact JSON, or the problem.
pub(super) async fn check(text: &str, schema_json: &str) -> Result<String, String> {
    let value = json::read(text).map_err(|error| error.to_string())?;
    if !value.is_object() {
        return Err("the arguments must be a JSON object".to_owned());
    }
    let compact = value.to_string();
    if compact.len() > limits::ARGUMENTS_BYTES {
        return Err(format!("the arguments must have at most {} bytes", limits::ARGUMENTS_BYTES));
    }
    let Ok(schema) = serde_json::from_str::<Value>(schema_json) else {
        // Without a valid schema, only the server validates the arguments.
        return Ok(compact);
    };
    let validator = Validator::cached(&schema).await.map_err(|problems| folio_llm::schema::describe(&problems))?;
    let problems = validator.check(&value);
    if problems.is_empty() { Ok(compact) } else { Err(folio_llm::schema::describe(&problems)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str =
        r#"{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false}"#;

    #[tokio::test]
    async fn edited_arguments_are_checked_before_they_are_sent() {
        assert_eq!(check("{\n  \"name\": \"a\"\n}\n", SCHEMA).await.as_deref(), Ok(r#"{"name":"a"}"#));
        for (text, problem) in [
            ("{\"name\": ", "invalid JSON"),
            ("[1]", "a JSON object"),
            ("{\"name\": 3}", "name"),
            ("{}", "name"),
            ("{\"name\": 0.12345678901234567890}", "cannot be represented exactly"),
            ("{\"name\": \"a\", \"other\": 1}", "other"),
        ] {
            let refused = check(text, SCHEMA).await.unwrap_err();
            assert!(refused.contains(problem), "{text}: {refused}");
        }
    }
}
