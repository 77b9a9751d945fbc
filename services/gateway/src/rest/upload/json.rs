//! JSON with files in Base64: `{"documents": [{"name", "content", "tag_ids"?, "metadata"?, "auto_create"?,
//! "credit_budget"?}]}`.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Write as _};
use std::rc::Rc;

use axum::extract::{FromRequest, Request};
use base64::engine::general_purpose::STANDARD;
use base64::read::DecoderReader;
use folio_types::{Error, OrgId};
use futures::TryStreamExt as _;
use serde_json::{Value, json};
use struson::reader::{JsonReader, JsonStreamReader, ReaderError, ReaderSettings, ValueType};

use super::body::{Limits, chunks, too_large};
use super::spool::{SpoolPermit, SpoolWriter, SpooledFile, Spools, create, io_error};
use super::{AUTO_CREATE, CREDIT_BUDGET, FILES_MAX, TEXT_BYTES, UploadedFile};
use crate::rest::endpoint::{Document, DocumentInput};
use crate::rest::extract::{check_json, organization};
use crate::rest::failure::{Failure, InvalidValue};
use crate::services::Api;

/// Maximum length of the prefix of a data URL.
const PREFIX_BYTES: usize = 256;
/// The kind of the error of a value that is no integer.
const INTEGER: &str = "int_type";
/// Maximum nesting of a body.
const DEPTH_MAX: u32 = 16;

/// Files in a JSON body, in their order.
#[derive(Debug)]
pub(crate) struct JsonUpload(pub(crate) Vec<UploadedFile>);

impl FromRequest<Api> for JsonUpload {
    type Rejection = Failure;

    async fn from_request(request: Request, api: &Api) -> Result<Self, Failure> {
        check_json(request.headers())?;
        let organization = organization(request.extensions())?;
        receive(request.into_body(), &organization, api.upload_limits(), api.spools()).await.map(Self)
    }
}

impl DocumentInput for JsonUpload {
    fn document(document: &mut Document) {
        let text = json!({ "type": "string" });
        let file = json!({
            "type": "object",
            "properties": {
                "name": { "type": "string", "description": "The name of the document, with the extension of its type." },
                "content": { "type": "string", "description": "The file in Base64, or as a data URL." },
                "tag_ids": { "type": "array", "items": text, "description": "The ids of existing tags." },
                "metadata": { "type": "object", "additionalProperties": text },
                "auto_create": { "type": "boolean", "description": AUTO_CREATE },
                "credit_budget": { "type": "integer", "description": CREDIT_BUDGET },
            },
            "required": ["name", "content"],
        });
        let files = json!({ "type": "array", "items": file, "maxItems": FILES_MAX });
        let schema = json!({ "type": "object", "properties": { "documents": files }, "required": ["documents"] });
        document.request_body =
            Some(json!({ "required": true, "content": { "application/json": { "schema": schema } } }));
    }
}

/// Buffers the body on disk, so that a slow client occupies no thread, and then parses it.
async fn receive(
    body: axum::body::Body,
    org: &OrgId,
    limits: Limits,
    spools: &Spools,
) -> Result<Vec<UploadedFile>, Failure> {
    let max = limits.json_bytes();
    let announced = http_body::Body::size_hint(&body).exact();
    if announced.is_some_and(|bytes| bytes > max) {
        return Err(too_large(max));
    }
    // The body, and the files that it contains.
    let permit = spools.reserve(org, announced.unwrap_or(max).saturating_mul(2))?;
    let mut writer = SpoolWriter::create(permit.clone()).await?;
    let mut chunks = std::pin::pin!(chunks(body, limits, max));
    while let Some(chunk) = chunks.try_next().await? {
        writer.write(&chunk).await?;
    }
    let (file, _) = writer.finish().await?.into_file();
    let parsing = tokio::task::spawn_blocking(move || parse(file, &permit, limits));
    parsing.await.map_err(|_| Failure::from(Error::internal("the parser of an upload panicked or was cancelled")))?
}

/// Counts the bytes that are not part of a file, because names of members and texts occupy memory.
struct Counted {
    file: BufReader<File>,
    is_in_file: Rc<Cell<bool>>,
    text_bytes: u64,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        if !self.is_in_file.get() {
            self.text_bytes = self.text_bytes.saturating_add(count as u64);
            if self.text_bytes > TEXT_BYTES {
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the texts of the body are too large"));
            }
        }
        Ok(count)
    }
}

type Reader = JsonStreamReader<Counted>;

/// Parses a body. Blocks.
fn parse(file: File, permit: &SpoolPermit, limits: Limits) -> Result<Vec<UploadedFile>, Failure> {
    let is_in_file = Rc::new(Cell::new(false));
    let counted = Counted { file: BufReader::new(file), is_in_file: Rc::clone(&is_in_file), text_bytes: 0 };
    let settings =
        ReaderSettings { track_path: false, max_nesting_depth: Some(DEPTH_MAX), ..ReaderSettings::default() };
    let mut parser = Parser { json: Reader::new_custom(counted, settings), is_in_file, permit, limits };
    let files = parser.body()?;
    parser.json.consume_trailing_whitespace().map_err(|error| refused(&error, &[]))?;
    Ok(files)
}

struct Parser<'a> {
    json: Reader,
    /// True while the content of a file is read.
    is_in_file: Rc<Cell<bool>>,
    permit: &'a SpoolPermit,
    limits: Limits,
}

/// A file while its members are read.
#[derive(Default)]
struct Members {
    name: Option<String>,
    content: Option<SpooledFile>,
    tag_ids: Vec<String>,
    metadata: BTreeMap<String, String>,
    auto_create: Option<bool>,
    credit_budget: Option<u64>,
}

impl Parser<'_> {
    fn body(&mut self) -> Result<Vec<UploadedFile>, Failure> {
        let mut files = None;
        self.json.begin_object().map_err(|error| refused(&error, &[]))?;
        while self.json.has_next().map_err(|error| refused(&error, &[]))? {
            if self.name(&[])? == "documents" {
                files = Some(self.files()?);
            } else {
                self.json.skip_value().map_err(|error| refused(&error, &[]))?;
            }
        }
        self.json.end_object().map_err(|error| refused(&error, &[]))?;
        files.ok_or_else(|| missing(&[json!("documents")]))
    }

    fn name(&mut self, location: &[Value]) -> Result<String, Failure> {
        self.json.next_name_owned().map_err(|error| refused(&error, location))
    }

    fn files(&mut self) -> Result<Vec<UploadedFile>, Failure> {
        let mut location = vec![json!("documents")];
        let mut files = Vec::new();
        self.json.begin_array().map_err(|error| refused(&error, &location))?;
        while self.json.has_next().map_err(|error| refused(&error, &location))? {
            if files.len() >= FILES_MAX {
                return Err(Failure::bad_request(format!("A request has at most {FILES_MAX} documents")));
            }
            location.truncate(1);
            location.push(json!(files.len()));
            files.push(self.file(&location)?);
        }
        self.json.end_array().map_err(|error| refused(&error, &location))?;
        Ok(files)
    }

    fn file(&mut self, location: &[Value]) -> Result<UploadedFile, Failure> {
        let mut members = Members::default();
        self.json.begin_object().map_err(|error| refused(&error, location))?;
        while self.json.has_next().map_err(|error| refused(&error, location))? {
            let name = self.name(location)?;
            let location = [location, &[json!(name)]].concat();
            match name.as_str() {
                "name" => members.name = Some(self.text(&location)?),
                "content" => members.content = Some(self.content(&location)?),
                "tag_ids" if !self.skip_null(&location)? => members.tag_ids = self.texts(&location)?,
                "metadata" if !self.skip_null(&location)? => members.metadata = self.map(&location)?,
                "auto_create" if !self.skip_null(&location)? => members.auto_create = Some(self.boolean(&location)?),
                "credit_budget" if !self.skip_null(&location)? => {
                    members.credit_budget = Some(self.integer(&location)?);
                }
                "tag_ids" | "metadata" | "auto_create" | "credit_budget" => {}
                _ => self.json.skip_value().map_err(|error| refused(&error, &location))?,
            }
        }
        self.json.end_object().map_err(|error| refused(&error, location))?;
        let member = |name: &str| missing(&[location, &[json!(name)]].concat());
        Ok(UploadedFile {
            name: members.name.ok_or_else(|| member("name"))?,
            file: members.content.ok_or_else(|| member("content"))?,
            tag_ids: members.tag_ids,
            metadata: members.metadata,
            auto_create: members.auto_create,
            credit_budget: members.credit_budget,
            password: None,
        })
    }

    /// Reads null, which counts as absent. Returns false for another value.
    fn skip_null(&mut self, location: &[Value]) -> Result<bool, Failure> {
        let is_null = self.json.peek().map_err(|error| refused(&error, location))? == ValueType::Null;
        if is_null {
            self.json.next_null().map_err(|error| refused(&error, location))?;
        }
        Ok(is_null)
    }

    fn text(&mut self, location: &[Value]) -> Result<String, Failure> {
        self.json.next_string().map_err(|error| refused(&error, location))
    }

    fn boolean(&mut self, location: &[Value]) -> Result<bool, Failure> {
        self.json.next_bool().map_err(|error| refused(&error, location))
    }

    fn integer(&mut self, location: &[Value]) -> Result<u64, Failure> {
        let number = self.json.next_number::<u64>().map_err(|error| refused(&error, location))?;
        number.map_err(|_| invalid(INTEGER, location, "Input should be a positive integer".to_owned()))
    }

    fn texts(&mut self, location: &[Value]) -> Result<Vec<String>, Failure> {
        let mut texts = Vec::new();
        self.json.begin_array().map_err(|error| refused(&error, location))?;
        while self.json.has_next().map_err(|error| refused(&error, location))? {
            texts.push(self.text(&[location, &[json!(texts.len())]].concat())?);
        }
        self.json.end_array().map_err(|error| refused(&error, location))?;
        Ok(texts)
    }

    fn map(&mut self, location: &[Value]) -> Result<BTreeMap<String, String>, Failure> {
        let mut map = BTreeMap::new();
        self.json.begin_object().map_err(|error| refused(&error, location))?;
        while self.json.has_next().map_err(|error| refused(&error, location))? {
            let name = self.name(location)?;
            let value = self.text(&[location, &[json!(name)]].concat())?;
            map.insert(name, value);
        }
        self.json.end_object().map_err(|error| refused(&error, location))?;
        Ok(map)
    }

    /// Decodes a file to disk.
    fn content(&mut self, location: &[Value]) -> Result<SpooledFile, Failure> {
        if self.json.peek().map_err(|error| refused(&error, location))? != ValueType::String {
            // The error names the type.
            self.text(location)?;
        }
        self.is_in_file.set(true);
        let text = self.json.next_string_reader().map_err(|error| refused(&error, location))?;
        let mut file = create()?;
        let copied = decode(text, &mut file, self.limits.file_bytes)?;
        self.is_in_file.set(false);
        if copied > self.limits.file_bytes {
            return Err(too_large(self.limits.file_bytes));
        }
        file.flush().map_err(io_error)?;
        Ok(SpooledFile::of(file, self.permit.clone())?)
    }
}

/// Decodes a text to a file. Returns the number of decoded bytes, at most one more than `max`.
fn decode(text: impl Read, file: &mut File, max: u64) -> Result<u64, Failure> {
    let text = without_prefix(text).map_err(|error| invalid_base64(&error))?;
    let mut decoder = DecoderReader::new(text, &STANDARD).take(max.saturating_add(1));
    let mut buffer = vec![0; 64 * 1024];
    let mut copied = 0_u64;
    loop {
        let count = decoder.read(&mut buffer).map_err(|error| invalid_base64(&error))?;
        if count == 0 {
            return Ok(copied);
        }
        file.write_all(buffer.get(..count).unwrap_or_default()).map_err(io_error)?;
        copied = copied.saturating_add(count as u64);
    }
}

fn invalid_base64(error: &io::Error) -> Failure {
    Failure::bad_request(format!("Invalid base64 content: {error}"))
}

/// Decodes a text in Base64, or a data URL with one.
pub(crate) fn decode_base64(text: &str) -> io::Result<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len().div_ceil(4).saturating_mul(3));
    DecoderReader::new(without_prefix(text.as_bytes())?, &STANDARD).read_to_end(&mut decoded)?;
    Ok(decoded)
}

/// Returns the text after the prefix of a data URL: `data:text/plain;base64,`.
fn without_prefix(mut text: impl Read) -> io::Result<impl Read> {
    let mut start = Vec::new();
    let is_complete = |start: &[u8]| match start.first_chunk::<5>() {
        Some(b"data:") => start.ends_with(b",") || start.len() > PREFIX_BYTES,
        Some(_) => true,
        None => false,
    };
    let mut byte = [0];
    while !is_complete(&start) && text.read(&mut byte)? == 1 {
        start.extend_from_slice(&byte);
    }
    if start.starts_with(b"data:") && start.ends_with(b";base64,") {
        start.clear();
    }
    Ok(io::Cursor::new(start).chain(text))
}

fn missing(location: &[Value]) -> Failure {
    invalid("missing", location, "Field required".to_owned())
}

fn invalid(kind: &'static str, location: &[Value], message: String) -> Failure {
    let location = [&[json!("body")][..], location].concat();
    Failure::unprocessable(&[InvalidValue { kind, location, message }])
}

fn refused(error: &ReaderError, location: &[Value]) -> Failure {
    match error {
        ReaderError::UnexpectedValueType { expected, actual, .. } => {
            let kind = match expected {
                ValueType::String => "string_type",
                ValueType::Array => "list_type",
                ValueType::Boolean => "bool_type",
                ValueType::Number => INTEGER,
                _ => "model_attributes_type",
            };
            invalid(kind, location, format!("Input should be a JSON {expected}, not a JSON {actual}"))
        }
        ReaderError::IoError { error, .. } if error.kind() == io::ErrorKind::FileTooLarge => too_large(TEXT_BYTES),
        ReaderError::IoError { error, .. } if error.kind() == io::ErrorKind::InvalidData => {
            invalid("json_invalid", &[], "JSON decode error: the body is not UTF-8".to_owned())
        }
        ReaderError::IoError { error, .. } => {
            Error::internal(format!("a temporary file of an upload failed: {error}")).into()
        }
        error => invalid("json_invalid", &[], format!("JSON decode error: {error}")),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use axum::response::IntoResponse as _;
    use base64::Engine as _;
    use bytes::Bytes;
    use http_body_util::BodyExt as _;

    use super::super::multipart::tests::LIMITS;
    use super::*;
    use crate::options::Options;

    pub(in crate::rest::upload) async fn receive_json(
        body: axum::body::Body,
        org: &OrgId,
        limits: Limits,
        spools: &Spools,
    ) -> Vec<UploadedFile> {
        receive(body, org, limits, spools).await.unwrap()
    }

    async fn upload(body: String) -> Result<Vec<UploadedFile>, Failure> {
        let spools = Spools::new(&Options::default());
        receive(axum::body::Body::from(body), &OrgId::derive(&["a"]), LIMITS, &spools).await
    }

    async fn bytes(file: UploadedFile) -> Vec<u8> {
        let chunks: Vec<Bytes> = file.into_content().into_stream().try_collect().await.unwrap();
        chunks.concat()
    }

    #[tokio::test]
    async fn files_are_decoded_with_their_descriptions_in_any_order() {
        let content = |text: &str| STANDARD.encode(text);
        let body = json!({ "ignored": [{"deep": [1]}], "documents": [
            { "content": content("first"), "name": "a.txt", "unknown": 1, "tag_ids": ["tag_1"], "metadata": {"k": "v"},
                "auto_create": false, "credit_budget": 7 },
            { "name": "b.txt", "metadata": null, "auto_create": null, "credit_budget": null,
                "content": format!("data:text/plain;base64,{}", content("second")) },
        ] });
        let mut files = upload(body.to_string()).await.unwrap().into_iter();
        let (first, second) = (files.next().unwrap(), files.next().unwrap());
        assert_eq!((first.name.as_str(), first.tag_ids.as_slice()), ("a.txt", &["tag_1".to_owned()][..]));
        assert_eq!((first.metadata["k"].as_str(), second.metadata.len(), second.size_bytes()), ("v", 0, 6));
        assert_eq!((first.auto_create, second.auto_create), (Some(false), None));
        assert_eq!((first.credit_budget, second.credit_budget), (Some(7), None));
        assert_eq!((bytes(first).await, bytes(second).await), (b"first".to_vec(), b"second".to_vec()));
        assert!(upload("{\"documents\": []}".to_owned()).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_malformed_body_is_refused() {
        let large = STANDARD.encode("x".repeat(1_001));
        let long = "x".repeat(TEXT_BYTES as usize);
        for (body, status, text) in [
            ("{".to_owned(), 422, "json_invalid"),
            ("{}".to_owned(), 422, "\"documents\""),
            (r#"{"documents": {}}"#.to_owned(), 422, "list_type"),
            (r#"{"documents": [{"name": "a"}]}"#.to_owned(), 422, "\"content\""),
            (r#"{"documents": [{"name": 1}]}"#.to_owned(), 422, "string_type"),
            (r#"{"documents": [{"name": "a", "content": null}]}"#.to_owned(), 422, "string_type"),
            (r#"{"documents": [{"name": "a", "auto_create": "true"}]}"#.to_owned(), 422, "bool_type"),
            (r#"{"documents": [{"name": "a", "credit_budget": "7"}]}"#.to_owned(), 422, "int_type"),
            (r#"{"documents": [{"name": "a", "credit_budget": -7}]}"#.to_owned(), 422, "int_type"),
            (r#"{"documents": [{"name": "a", "content": "%%%"}]}"#.to_owned(), 400, "Invalid base64 content"),
            (r#"{"documents": [{"name": "a", "content": "QQ"}]}"#.to_owned(), 400, "Invalid base64 content"),
            (format!(r#"{{"documents": [{{"name": "a", "content": "{large}"}}]}}"#), 413, "more than"),
            (format!(r#"{{"documents": [{{"name": "{long}"}}]}}"#), 413, "more than"),
            ("[".repeat(100), 422, "model_attributes_type"),
            (format!("{{\"documents\": {}", "[".repeat(100)), 422, "model_attributes_type"),
            (r#"{"documents": []} {}"#.to_owned(), 422, "json_invalid"),
        ] {
            let response = upload(body.clone()).await.unwrap_err().into_response();
            let code = response.status().as_u16();
            let answer = response.into_body().collect().await.unwrap().to_bytes();
            let answer = String::from_utf8_lossy(&answer);
            let body: String = body.chars().take(80).collect();
            assert_eq!(code, status, "{body}: {answer}");
            assert!(answer.contains(text), "{body}: {answer}");
        }
    }
}
