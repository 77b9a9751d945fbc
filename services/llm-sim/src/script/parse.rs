//! Parsing of scripts, with positions in errors.

use serde::Deserialize;
use serde_saphyr::Spanned;

use super::template::Template;
use super::{Rule, Script};
use crate::answer::Answer;
use crate::faults::FaultPlan;

/// An invalid script: the problem, with line and column if known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptError(String);

impl std::fmt::Display for ScriptError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "malformed script: {}", self.0)
    }
}

impl std::error::Error for ScriptError {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScript {
    #[serde(default)]
    models: Vec<String>,
    #[serde(default)]
    faults: FaultPlan,
    rules: Vec<Spanned<Rule>>,
}

pub(super) fn parse(yaml: &str) -> Result<Script, ScriptError> {
    let raw: RawScript = serde_saphyr::from_str(yaml).map_err(|error| ScriptError(error.to_string()))?;
    raw.faults.check().map_err(ScriptError)?;
    let mut rules = Vec::with_capacity(raw.rules.len());
    for (index, rule) in raw.rules.into_iter().enumerate() {
        let line = rule.referenced.line();
        check(&rule.value).map_err(|problem| ScriptError(format!("line {line}: rules[{index}]{problem}")))?;
        rules.push(rule.value);
    }
    Ok(Script { models: raw.models, faults: raw.faults, rules })
}

fn check(rule: &Rule) -> Result<(), String> {
    match (&rule.answer, rule.rounds.is_empty(), &rule.fault) {
        (Some(_), false, _) => return Err(": has both answer and rounds".to_owned()),
        (None, true, None) => return Err(": has neither answer nor rounds nor fault".to_owned()),
        _ => {}
    }
    rule.fault.as_ref().map_or(Ok(()), crate::faults::Fault::check).map_err(|problem| format!(".fault.{problem}"))?;
    if rule.when.round == Some(0) {
        return Err(".when: rounds count from 1".to_owned());
    }
    let answers = rule.answer.iter().map(|answer| ("answer".to_owned(), answer));
    let rounds = rule.rounds.iter().enumerate().map(|(index, answer)| (format!("rounds[{index}]"), answer));
    for (path, answer) in answers.chain(rounds) {
        check_answer(answer).map_err(|problem| format!(".{path}.{problem}"))?;
    }
    Ok(())
}

fn check_answer(answer: &Answer) -> Result<(), String> {
    Template::check_text(&answer.text).map_err(|problem| format!("text: {problem}"))?;
    for (index, call) in answer.calls.iter().enumerate() {
        if call.name.is_empty() {
            return Err(format!("calls[{index}].name: missing"));
        }
        if call.raw_arguments.is_some() && !call.arguments.is_null() {
            return Err(format!("calls[{index}]: has both arguments and raw_arguments"));
        }
        Template::check_value(&call.arguments).map_err(|problem| format!("calls[{index}].arguments: {problem}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::TextMatch;

    fn error(yaml: &str) -> String {
        parse(yaml).unwrap_err().to_string()
    }

    #[test]
    fn a_script_is_parsed() {
        let script = parse(
            r#"
models: [small, large]
faults:
  - {nth: 2, fault: {status: {code: 429, retry_after: 1}}}
  - {fault: no_finish}
rules:
  - when: {user: hello, system: {contains: [invoice, total]}, response_format: false}
    answer: {text: Hi., thinking: [{text: hm, signature: s}], thinking_form: reasoning_content}
  - when: {user: {contains: schema}, round: 2}
    rounds:
      - calls: [{id: call_0, name: get_schema, arguments: {schema_revid: "{{last.create_schema.schema_revid}}"}}]
      - calls: [{name: x, raw_arguments: "{not json"}]
        no_usage: true
"#,
        )
        .unwrap();
        assert_eq!(script.rules.len(), 2);
        assert_eq!(script.faults.rules.len(), 2);
        assert!(script.rules[1].rounds[1].no_usage);
    }

    #[test]
    fn the_script_of_the_readme_is_parsed() {
        let readme = include_str!("../../README.md");
        let (_, after) = readme.split_once("```yaml\n").unwrap();
        let (yaml, _) = after.split_once("```").unwrap();
        assert_eq!(parse(yaml).unwrap().rules.len(), 3);
    }

    #[test]
    fn json_is_parsed_too() {
        let script = parse(r#"{"rules": [{"when": {"user": {"prefix": "a"}}, "answer": {"text": "b"}}]}"#).unwrap();
        assert!(matches!(script.rules[0].when.user, Some(TextMatch::Prefix(_))));
    }

    #[test]
    fn an_unknown_field_is_reported_with_its_line() {
        let text = error("rules:\n  - when: {}\n    anwser: {text: x}\n");
        assert!(text.contains("anwser") && text.contains("line 3"), "{text}");
        let text = error("rules:\n  - answer: {text: x}\n    when:\n      user: {contain: x}\n");
        assert!(text.contains("contains or prefix") && text.contains("line 4"), "{text}");
    }

    #[test]
    fn an_invalid_rule_is_reported_with_its_line() {
        let text = error("rules:\n  - answer: {text: x}\n  - when: {user: x}\n");
        assert!(text.contains("line 3: rules[1]: has neither answer"), "{text}");
        let text = error("rules:\n  - answer: {text: '{{nonsense.x}}'}\n");
        assert!(text.contains("rules[0].answer.text") && text.contains("nonsense"), "{text}");
        let text = error("faults: [{nth: 0, fault: no_finish}]\nrules: []\n");
        assert!(text.contains("faults[0].nth"), "{text}");
    }

    #[test]
    fn a_wrong_type_is_reported_with_its_line() {
        let text = error("rules:\n  - when: {round: many}\n    answer: {text: x}\n");
        assert!(text.contains("line 2"), "{text}");
    }
}
