//! Calls of any operation by its name, with requests and responses as JSON.

use std::sync::LazyLock;

use bytes::{Buf as _, BufMut as _};
use folio_gateway::rpc_path;
use folio_operations::{Declaration, operations};
use folio_proto::{FILE_DESCRIPTOR_SET, status};
use folio_types::Error;
use futures::{StreamExt as _, TryStreamExt as _};
use http::uri::PathAndQuery;
use prost::Message as _;
use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, MethodDescriptor, SerializeOptions,
};
use serde_json::Value;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Request, Status};

use crate::harness::Client;

pub(crate) fn operation(name: &str) -> &'static Declaration {
    operations().find(|operation| operation.name == name).unwrap_or_else(|| panic!("no operation is named {name}"))
}

fn method(operation: &Declaration) -> MethodDescriptor {
    static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap());
    let service = POOL.get_service_by_name(&format!("folio.v1.{}", operation.service.name)).unwrap();
    service.methods().find(|method| method.name() == operation.name).unwrap()
}

pub(crate) fn is_server_streaming(operation: &Declaration) -> bool {
    method(operation).is_server_streaming()
}

/// Returns the paths of the fields of a request that contain ids of resources, such as `decisions.call_id`. Output-only
/// fields are excluded, except the identity that the comment of the field with the resource names.
pub(crate) fn id_fields(operation: &Declaration) -> Vec<String> {
    let is_id = |field: &FieldDescriptor, comment: &str| {
        let name = field.name();
        let has_id = name != "request_id" && ["_id", "_ids", "_revid"].iter().any(|end| name.ends_with(end));
        has_id && (!comment_of(field).contains("Output only") || comment.contains(&format!("`{name}`")))
    };
    let mut found = Vec::new();
    add_fields(&method(operation).input(), "", "", &is_id, &mut found);
    found
}

/// Returns the paths of the fields of a request that contain a filter: texts whose names end in `filter`, such as
/// `document_filter`.
pub(crate) fn filter_fields(operation: &Declaration) -> Vec<String> {
    let is_filter = |field: &FieldDescriptor, _: &str| {
        matches!(field.kind(), Kind::String) && !field.is_list() && field.name().ends_with("filter")
    };
    let mut found = Vec::new();
    add_fields(&method(operation).input(), "", "", &is_filter, &mut found);
    found
}

/// Adds the paths of the fields of a message, and of the messages in it, for which `is_wanted` returns true. `comment` is the
/// comment of the field that contains the message; `is_wanted` receives it with each field of the message.
fn add_fields(
    message: &MessageDescriptor,
    prefix: &str,
    comment: &str,
    is_wanted: &impl Fn(&FieldDescriptor, &str) -> bool,
    found: &mut Vec<String>,
) {
    for field in message.fields() {
        let path = format!("{prefix}{}", field.name());
        match field.kind() {
            Kind::Message(inner) if inner.package_name() == "folio.v1" => {
                add_fields(&inner, &format!("{path}."), &comment_of(&field), is_wanted, found);
            }
            _ if is_wanted(&field, comment) => found.push(path),
            _ => {}
        }
    }
}

fn comment_of(field: &FieldDescriptor) -> String {
    let file = field.parent_file();
    let info = file.file_descriptor_proto().source_code_info.as_ref().expect("the descriptors contain the comments");
    let location = info.location.iter().find(|location| location.path == field.path());
    location.map(|location| location.leading_comments().to_owned()).unwrap_or_default()
}

/// Returns true if the request of an operation has any field.
pub(crate) fn has_fields(operation: &Declaration) -> bool {
    method(operation).input().fields().len() > 0
}

/// Calls an operation. The request of a client stream is an array of messages. Returns the first response of a server
/// stream.
pub(crate) async fn call(client: &Client, operation: &Declaration, request: &Value) -> Result<Value, Error> {
    let responses = exchange(client, operation, encode(operation, request), 1).await;
    let first = responses.map_err(|status| status::to_error(&status))?.into_iter().next().unwrap_or_default();
    Ok(decode(operation, &first, true))
}

/// Calls an operation and returns the whole response: fields without a value are null, other fields with their default
/// value are present, and a stream of responses is an array.
pub(crate) async fn call_fully(client: &Client, operation: &Declaration, request: &Value) -> Result<Value, Error> {
    let responses = exchange(client, operation, encode(operation, request), usize::MAX).await;
    let responses = responses.map_err(|status| status::to_error(&status))?;
    let mut responses = responses.iter().map(|response| {
        let mut decoded = decode(operation, response, false);
        add_nulls(&method(operation).output(), &mut decoded);
        decoded
    });
    let is_stream = method(operation).is_server_streaming();
    Ok(if is_stream { responses.collect() } else { responses.next().unwrap() })
}

pub(crate) fn encode(operation: &Declaration, request: &Value) -> Vec<Vec<u8>> {
    let encode = |message: &Value| {
        let message = DynamicMessage::deserialize(method(operation).input(), message);
        message.unwrap_or_else(|error| panic!("a request of {}: {error}: {request}", operation.name)).encode_to_vec()
    };
    match request {
        Value::Array(messages) => messages.iter().map(encode).collect(),
        message => vec![encode(message)],
    }
}

pub(crate) fn decode(operation: &Declaration, response: &[u8], skip_default_fields: bool) -> Value {
    let response = DynamicMessage::decode(method(operation).output(), response).unwrap();
    let options = SerializeOptions::new().use_proto_field_name(true).skip_default_fields(skip_default_fields);
    response.serialize_with_options(serde_json::value::Serializer, &options).unwrap()
}

/// Adds the fields of a message that are not set, as null.
fn add_nulls(message: &MessageDescriptor, value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| add_nulls(message, item)),
        Value::Object(fields) => {
            for field in message.fields() {
                let value = fields.entry(field.name()).or_insert(Value::Null);
                if let (Kind::Message(message), false) = (field.kind(), field.is_map()) {
                    add_nulls(&message, value);
                }
            }
        }
        _ => {}
    }
}

/// Sends encoded messages and returns the first encoded message of the response, or an empty one if the response is an
/// empty stream.
pub(crate) async fn send(client: &Client, operation: &Declaration, messages: Vec<Vec<u8>>) -> Result<Vec<u8>, Status> {
    let responses = exchange(client, operation, messages, 1).await?;
    Ok(responses.into_iter().next().unwrap_or_default())
}

/// Sends encoded messages and returns at most `limit` encoded messages of the response.
async fn exchange(
    client: &Client,
    operation: &Declaration,
    messages: Vec<Vec<u8>>,
    limit: usize,
) -> Result<Vec<Vec<u8>>, Status> {
    let path: PathAndQuery = rpc_path(operation).parse().unwrap();
    let method = method(operation);
    let mut grpc = tonic::client::Grpc::new(client.authorized()).max_decoding_message_size(64 * 1024 * 1024);
    grpc.ready().await.unwrap();
    if method.is_server_streaming() {
        let message = Request::new(messages.into_iter().next().unwrap_or_default());
        let responses = grpc.server_streaming(message, path, Encoded).await?.into_inner();
        return responses.take(limit).try_collect().await;
    }
    let messages = Request::new(tokio_stream::iter(messages));
    Ok(vec![grpc.client_streaming(messages, path, Encoded).await?.into_inner()])
}

/// A codec of encoded messages.
#[derive(Clone, Copy, Default)]
pub(crate) struct Encoded;

impl Codec for Encoded {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Encoded {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&message);
        Ok(())
    }
}

impl Decoder for Encoded {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining()).into()))
    }
}
