//! Calls of any operation over gRPC-Web and Connect, with requests and responses as JSON.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use bytes::{Buf as _, Bytes, BytesMut};
use folio_gateway::rpc_path;
use folio_operations::Declaration;
use folio_proto::status;
use folio_types::Error;
use futures::StreamExt as _;
use http::{HeaderMap, HeaderName, Method};
use prost::Message as _;
use serde_json::Value;
use tonic::{Code, Status};

use super::Http;
use crate::calls::{decode, encode, is_server_streaming};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Face {
    GrpcWeb,
    /// The same with messages in Base64.
    GrpcWebText,
    Connect,
}

impl Face {
    pub(crate) const ALL: [Self; 3] = [Self::GrpcWeb, Self::GrpcWebText, Self::Connect];
}

/// Calls an operation. The request of a client stream is an array of messages. Returns the first response of a server stream.
pub(crate) async fn call_over(
    face: Face,
    http: &Http,
    operation: &Declaration,
    request: &Value,
) -> Result<Value, Error> {
    let answered = match face {
        Face::Connect => connect(http, operation, request).await,
        Face::GrpcWeb | Face::GrpcWebText => {
            let frames = encode(operation, request).into_iter().map(|message| framed(&message)).collect::<Vec<_>>();
            let message = grpc_web(face, http, operation, frames.concat()).await;
            message.map(|message| decode(operation, &message, true))
        }
    };
    answered.map_err(|status| status::to_error(&status))
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&[0], u32::try_from(message.len()).unwrap().to_be_bytes().as_slice(), message].concat()
}

/// Returns the first message of the response, or an empty one.
async fn grpc_web(face: Face, http: &Http, operation: &Declaration, body: Vec<u8>) -> Result<Vec<u8>, Status> {
    let is_text = face == Face::GrpcWebText;
    let (content_type, body) = if is_text {
        ("application/grpc-web-text+proto", STANDARD.encode(body).into_bytes())
    } else {
        ("application/grpc-web+proto", body)
    };
    let request = http.request(Method::POST, &rpc_path(operation)).header("content-type", content_type);
    let response = request.header("accept", content_type).body(body).send().await.unwrap();
    assert_eq!(response.status(), 200, "{}", operation.name);
    if let Some(status) = Status::from_header_map(response.headers()) {
        return if status.code() == Code::Ok { Ok(Vec::new()) } else { Err(status) };
    }
    let (mut chunks, mut received, mut text) = (response.bytes_stream(), BytesMut::new(), BytesMut::new());
    loop {
        if let Some((flags, frame)) = take_frame(&mut received) {
            if flags & 0x80 == 0 {
                return Ok(frame.to_vec());
            }
            let status = Status::from_header_map(&trailers(&frame)).unwrap();
            return if status.code() == Code::Ok { Ok(Vec::new()) } else { Err(status) };
        }
        let chunk = chunks.next().await.unwrap_or_else(|| panic!("{} ended early", operation.name)).unwrap();
        if is_text {
            // Each frame is encoded by itself, so that padding may occur within the body.
            text.extend_from_slice(&chunk);
            while text.len() >= 4 {
                received.extend_from_slice(&STANDARD.decode(text.split_to(4)).unwrap());
            }
        } else {
            received.extend_from_slice(&chunk);
        }
    }
}

fn take_frame(received: &mut BytesMut) -> Option<(u8, Bytes)> {
    let [flags, a, b, c, d] = received.first_chunk::<5>().copied()?;
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    (received.len() >= 5 + length).then(|| {
        received.advance(5);
        (flags, received.split_to(length).freeze())
    })
}

fn trailers(frame: &[u8]) -> HeaderMap {
    let text = String::from_utf8(frame.to_vec()).unwrap();
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.trim().parse().unwrap())).collect()
}

async fn connect(http: &Http, operation: &Declaration, request: &Value) -> Result<Value, Status> {
    let request = http.request(Method::POST, &rpc_path(operation)).json(request);
    let response = request.send().await.unwrap();
    let is_success = response.status().is_success();
    if !is_success || !is_server_streaming(operation) {
        let body: Value = response.json().await.unwrap();
        return if is_success { Ok(body) } else { Err(status_of(&body)) };
    }
    let (mut chunks, mut received) = (response.bytes_stream(), String::new());
    loop {
        // A line that starts with a colon is a comment.
        let event = received.split_inclusive("\n\n").find(|event| event.ends_with("\n\n") && !event.starts_with(':'));
        if let Some(event) = event {
            let data = event.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
            let data: Value = serde_json::from_str(data).unwrap();
            return if event.starts_with("event: error") { Err(status_of(&data)) } else { Ok(data) };
        }
        let chunk = chunks.next().await.unwrap_or_else(|| panic!("{} ended early", operation.name)).unwrap();
        received += std::str::from_utf8(&chunk).unwrap();
    }
}

/// Restores a status from the JSON of the Connect protocol.
fn status_of(body: &Value) -> Status {
    let name = body["code"].as_str().unwrap_or_else(|| panic!("no code in {body}"));
    let code = (0..=16).map(Code::from_i32).find(|code| connect_name(*code) == name).unwrap();
    let detail = |detail: &Value| prost_types::Any {
        type_url: format!("type.googleapis.com/{}", detail["type"].as_str().unwrap()),
        value: STANDARD_NO_PAD.decode(detail["value"].as_str().unwrap()).unwrap(),
    };
    let message = body["message"].as_str().unwrap().to_owned();
    let details = tonic_types::pb::Status {
        code: code as i32,
        message: message.clone(),
        details: body["details"].as_array().unwrap().iter().map(detail).collect(),
    };
    Status::with_details(code, message, details.encode_to_vec().into())
}

fn connect_name(code: Code) -> String {
    let camel = if code == Code::Cancelled { "Canceled".to_owned() } else { format!("{code:?}") };
    let letters = camel.chars().enumerate().map(|(at, letter)| match letter {
        'A'..='Z' if at > 0 => format!("_{}", letter.to_lowercase()),
        letter => letter.to_lowercase().to_string(),
    });
    letters.collect()
}
