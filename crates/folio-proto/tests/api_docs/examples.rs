//! The examples of the reference: one file for each service, with a call of `grpcurl` and its response.

use std::collections::{BTreeMap, BTreeSet};

use folio_proto::FILE_DESCRIPTOR_SET;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, ServiceDescriptor};
use serde_json::Value;

use crate::root;

/// Returns the text of each example by the name of its service.
pub(crate) fn all() -> BTreeMap<String, String> {
    let mut examples = BTreeMap::new();
    for entry in std::fs::read_dir(root().join("docs/api/examples")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        examples.insert(name, std::fs::read_to_string(&path).unwrap());
    }
    examples
}

/// Checks that the example calls the service, and that its messages have the types of the call.
fn check(service: &ServiceDescriptor, text: &str) -> Result<(), String> {
    let blocks: Vec<&str> = text.split("```").skip(1).step_by(2).collect();
    let [request, response] = blocks.as_slice() else {
        return Err(format!("has {} blocks of code instead of a request and a response", blocks.len()));
    };
    let request = request.strip_prefix("sh\n").ok_or("the request is no block `sh`")?;
    let response = response.strip_prefix("json\n").ok_or("the response is no block `json`")?;
    let (_, called) = request.rsplit_once(' ').ok_or("the request calls nothing")?;
    let name = called.trim().strip_prefix(&format!("{}/", service.full_name()));
    let name = name.ok_or_else(|| format!("calls {called:?} instead of the service"))?;
    let method = service.methods().find(|method| method.name() == name).ok_or_else(|| format!("no RPC {name:?}"))?;
    let message = request.split_once("-d '").and_then(|(_, rest)| rest.split_once('\''));
    let message = message.map_or("{}", |(message, _)| message);
    messages(&method.input(), message, method.is_client_streaming())?;
    messages(&method.output(), response, method.is_server_streaming())
}

/// Checks a sequence of messages as JSON: one, or at least one in a stream.
fn messages(of: &MessageDescriptor, json: &str, is_stream: bool) -> Result<(), String> {
    let mut count = 0;
    for message in serde_json::Deserializer::from_str(json).into_iter::<Value>() {
        let message = message.map_err(|error| format!("{error}: {json}"))?;
        DynamicMessage::deserialize(of.clone(), &message).map_err(|error| format!("{error}: {message}"))?;
        count += 1;
    }
    match (count, is_stream) {
        (1, _) | (2.., true) => Ok(()),
        _ => Err(format!("{count} messages of {}", of.full_name())),
    }
}

#[test]
fn each_service_has_an_example_whose_messages_have_the_types_of_its_call() {
    let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap();
    let services = pool.services().filter(|service| service.package_name() == "folio.v1");
    let services: BTreeMap<String, ServiceDescriptor> =
        services.map(|service| (service.name().to_owned(), service)).collect();
    let examples = all();
    let names = |names: Vec<&String>| names.into_iter().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(examples.keys().collect()), names(services.keys().collect()));
    for (name, text) in &examples {
        check(&services[name], text).unwrap_or_else(|problem| panic!("docs/api/examples/{name}.md {problem}"));
    }
}

#[test]
fn an_example_that_differs_from_the_proto_files_is_refused() {
    let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap();
    let service = pool.get_service_by_name("folio.v1.TagService").unwrap();
    let example = |message: &str, call: &str, response: &str| {
        format!("Text.\n\n```sh\ngrpcurl -d '{message}' host:1 {call}\n```\n\n```json\n{response}\n```\n")
    };
    let (get, tag) = ("folio.v1.TagService/GetTag", r#"{"tag": {"tagId": "tag_1"}}"#);
    check(&service, &example(r#"{"tag_id": "tag_1"}"#, get, tag)).unwrap();
    for wrong in [
        example(r#"{"tag": "tag_1"}"#, get, tag),
        example(r#"{"tag_id": "tag_1"}"#, get, r#"{"tags": []}"#),
        example(r#"{"tag_id": "tag_1"} {"tag_id": "tag_2"}"#, get, tag),
        example(r#"{"tag_id": "tag_1"}"#, "folio.v1.TagService/FindTag", tag),
        example(r#"{"tag_id": "tag_1"}"#, "folio.v1.SchemaService/GetTag", tag),
        example("{", get, tag),
        "No block of code.".to_owned(),
    ] {
        check(&service, &wrong).unwrap_err();
    }
}
