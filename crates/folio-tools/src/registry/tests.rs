//! Tests of the registry, with the texts of all tools as a snapshot.

use super::*;
use folio_types::DocumentId;
use folio_types::profile::{DocumentRule, ProfileLimits, ProfileTool};
use serde_json::json;

fn document() -> Arc<ProfileTools> {
    Registry::standard().unwrap().profile(folio_types::profile::DOCUMENT_PROFILE).unwrap()
}

#[test]
fn the_tools_of_the_profile_match_the_snapshot() {
    let document = document();
    let specs: Vec<Value> = document
        .specs()
        .map(|spec| {
            json!({
                "name": spec.name,
                "access": spec.access,
                "description": spec.description,
                "parameters": spec.parameters,
            })
        })
        .collect();
    assert_eq!(specs.len(), document.profile.tools.len());
    insta::assert_json_snapshot!(specs);
}

#[test]
fn a_turn_has_the_recorded_tools_that_the_binary_has() {
    let document = document();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let all = document.turn_profile(Subject::Document(DocumentId::derive(&["a"])));
    assert!(Arc::ptr_eq(&document.of_turn(None), &document));
    assert!(Arc::ptr_eq(&document.of_turn(Some(&all.tools)), &document));
    let recorded = names(&["removed", "list_tags", "create_tag", "find_tools"]);
    let turn = document.of_turn(Some(&recorded));
    assert_eq!(turn.specs().map(|spec| spec.name).collect::<Vec<_>>(), ["find_tools", "create_tag", "list_tags"]);
    assert_eq!(turn.definitions(true, []).len(), 1, "the other tools are sent on request");
    for (tool, is_known) in [("create_tag", true), ("removed", false), ("delete_tag", false)] {
        let problem = turn.check(tool, r#"{"name": "a"}"#).problem;
        assert_eq!(problem.is_none(), is_known, "{tool}: {problem:?}");
    }
    assert!(turn.get("delete_tag").is_none());
}

#[test]
fn a_profile_with_a_value_out_of_its_bounds_is_refused() {
    let list = const { &[ProfileTool::runs("list_tags")] };
    let good = Profile { tools: list, ..document().profile.clone() };
    let limits = |model_calls| ProfileLimits { model_calls, ..good.limits };
    let documents = |min, max| DocumentRule { min, max, media_types: &[] };
    for profile in [
        Profile { limits: limits(0), ..good.clone() },
        Profile { limits: limits(101), ..good.clone() },
        Profile { limits: ProfileLimits { running_time: Some(Duration::ZERO), ..good.limits }, ..good.clone() },
        Profile { documents: documents(2, 1), ..good.clone() },
        Profile { documents: documents(0, 101), subject: SubjectKind::Stack, ..good.clone() },
        Profile { documents: documents(0, 1), ..good.clone() },
        Profile { answer: ProfileAnswer::Json("{"), ..good.clone() },
        Profile { answer: ProfileAnswer::Json(r#"{"type": "no type"}"#), ..good.clone() },
        Profile { tools: const { &[ProfileTool::runs("no_tool")] }, ..good.clone() },
        Profile { tools: const { &[ProfileTool::waits("list_tags")] }, ..good.clone() },
        Profile { tools: const { &[ProfileTool::runs("run_tasks")] }, ..good.clone() },
        Profile { delegates: &["document"], ..good.clone() },
        Profile { delegates: &["no_profile"], tools: const { &[ProfileTool::runs("run_tasks")] }, ..good.clone() },
    ] {
        assert!(Registry::new(tags::tools(), vec![profile.clone()]).is_err(), "{profile:?}");
    }
    Registry::new(tags::tools(), vec![Profile { limits: limits(100), ..good }]).unwrap();
}

#[test]
fn a_call_is_validated_before_it_runs() {
    let document = document();
    let good = document.check("list_tags", r#"{"skip": 0, "name_search": null}"#);
    assert_eq!((good.problem, good.access), (None, Access::ReadOnly));
    assert_eq!(document.check("help_schemas", "").problem, None);
    for (name, arguments, says) in [
        ("list_tags", "{", "invalid JSON"),
        ("list_tags", "[]", "must be a JSON object"),
        ("list_tags", r#"{"skip": -1}"#, "#/skip"),
        ("list_tags", r#"{"page": 1}"#, "page"),
        ("create_tag", "{}", "name"),
        ("drop_table", "{", "Unknown tool"),
    ] {
        let checked = document.check(name, arguments);
        assert!(checked.problem.as_deref().is_some_and(|problem| problem.contains(says)), "{name} {arguments}");
    }
    assert_eq!(document.check("create_tag", "[").arguments, json!({}));
    for lossy in ["123456789012345678901234567890", "-9223372036854775809", "0.12345678901234567890", "1e400"] {
        let arguments = format!(r#"{{"path": "total", "value": {{"amount": [{lossy}]}}}}"#);
        let checked = document.check("update_extraction_field", &arguments);
        let problem = checked.problem.unwrap();
        assert!(problem.contains(lossy) && problem.contains("or a string"), "{problem}");
    }
    let kept = document.check("update_extraction_field", r#"{"path": "a", "value": 9007199254740993}"#);
    assert_eq!((kept.problem, kept.arguments["value"].to_string()), (None, "9007199254740993".to_owned()));
    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    let deep = format!(r#"{{"schema_revid": "x", "data": {deep}}}"#);
    assert!(document.check("validate_against_schema", &deep).problem.is_some());
    let huge = format!(r#"{{"name": "{}"}}"#, "x".repeat(200_000));
    assert!(document.check("create_tag", &huge).problem.is_some());
}

fn names(tools: &Tools) -> Vec<&str> {
    tools.iter().map(|tool| tool.name.as_str()).collect()
}

#[test]
fn tools_on_request_are_sent_last_once_a_call_found_or_called_them() {
    let document = document();
    let first = document.definitions(false, []);
    let always = names(&first);
    assert!(always.contains(&"create_schema") && always.contains(&"find_tools"), "{always:?}");
    assert!(!always.contains(&"delete_tag") && !always.contains(&"list_documents"), "{always:?}");
    let on_request = document.profile.tools.iter().filter(|tool| tool.sending != Sending::Always).count();
    assert_eq!(always.len() + on_request, document.specs().count());
    let (none, tags) = (json!({}), json!({ "query": "delete or update a tag" }));
    let list = json!({ "query": "list_documents" });
    let calls = [
        ("list_documents", &none),
        ("create_schema", &none),
        ("find_tools", &tags),
        ("find_tools", &list),
        ("launch_rocket", &none),
        ("update_schema", &none),
    ];
    let later = document.definitions(false, calls);
    assert_eq!(names(&later)[..always.len()], always);
    assert_eq!(names(&later)[always.len()..], ["list_documents", "update_tag", "delete_tag", "update_schema"]);
    let start = first.json().strip_suffix(']').unwrap();
    assert!(later.json().starts_with(start), "caches of providers keep the start");
    let with_work = document.definitions(true, []);
    let later = document.definitions(true, calls);
    assert_eq!(names(&later)[with_work.len()..], ["list_documents", "update_tag", "delete_tag"], "none twice");
    let sent = json!({ "query": "create schema" });
    assert_eq!(document.definitions(false, [("find_tools", &sent)]), first, "a found tool that is sent already");
}

#[test]
fn tools_for_earlier_work_follow_the_others_in_a_thread_that_has_some() {
    let document = document();
    let (first, with_work) = (document.definitions(false, []), document.definitions(true, []));
    assert_eq!(
        names(&first),
        ["create_schema", "create_prompt", "run_extraction", "get_ocr_text", "list_prompts", "find_tools"]
    );
    assert_eq!(names(&with_work)[..first.len()], names(&first));
    assert_eq!(
        names(&with_work)[first.len()..],
        [
            "get_extraction_result",
            "update_extraction_field",
            "update_schema",
            "validate_schema",
            "update_prompt",
            "help_schemas",
            "help_prompts"
        ]
    );
    let start = first.json().strip_suffix(']').unwrap();
    assert!(with_work.json().starts_with(start), "caches of providers keep the start");
}

#[test]
fn a_tool_that_was_not_sent_may_be_called() {
    let checked = document().check("delete_document", "{}");
    assert_eq!((checked.problem, checked.access), (None, Access::ReadWrite));
}

#[test]
fn no_parameter_is_sent_with_several_types_or_with_null() {
    for profile in Registry::standard().unwrap().profiles() {
        let calls: Vec<(&str, Value)> = profile.specs().map(|spec| (spec.name, json!({}))).collect();
        let all = profile.definitions(false, calls.iter().map(|(name, arguments)| (*name, arguments)));
        assert_eq!(all.len(), profile.specs().count());
        for tool in all.iter() {
            let properties = tool.parameters["properties"].as_object().unwrap();
            assert!(properties.values().all(|property| !property["type"].is_array()), "{}", tool.name);
            assert!(tool.parameters.get("additionalProperties").is_none(), "{}", tool.name);
        }
    }
}

#[test]
fn the_examples_in_descriptions_are_valid_calls() {
    let document = document();
    for name in ["create_schema", "create_prompt"] {
        let description = document.get(name).unwrap().spec.description;
        let example = description.split_once("Complete example: ").unwrap().1.split_once(". Result").unwrap().0;
        let checked = document.check(name, example);
        assert_eq!((checked.problem, checked.repairs), (None, Vec::new()), "{example}");
        if let Some(format) = checked.arguments.get("response_format") {
            let checked = folio_llm::schema::check_response_format(format, folio_llm::schema::Rules::Strict);
            assert!(checked.is_ok(), "{checked:?}");
        }
    }
}

#[test]
fn an_unknown_profile_is_rejected_with_the_available_names() {
    let error = Registry::standard().unwrap().profile("missing").unwrap_err();
    assert_eq!(error.reason, Reason::UnknownProfile);
    assert!(error.message.contains("document"));
}
