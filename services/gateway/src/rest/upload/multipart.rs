//! Forms: `multipart/form-data` with one file.

use std::collections::BTreeMap;

use axum::extract::{FromRequest, Request};
use folio_types::{OrgId, Secret};
use futures::StreamExt as _;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use multer::{Constraints, Field, Multipart, SizeLimit};
use serde_json::json;

use super::body::{Limits, chunks, too_large};
use super::spool::{SpoolPermit, SpoolWriter, SpooledFile, Spools};
use super::{AUTO_CREATE, CREDIT_BUDGET, UploadedFile};
use crate::rest::endpoint::{Document, DocumentInput};
use crate::rest::extract::organization;
use crate::rest::failure::Failure;
use crate::services::Api;

/// A form with one file: `file` (with a name), and optionally `name`, `tag_ids` (a JSON array of texts), `metadata` (a JSON
/// object of texts), `auto_create` (`true` or `false`), `credit_budget` (an integer) and `password` (of a protected PDF), in any
/// order.
#[derive(Debug)]
pub(crate) struct MultipartUpload(pub(crate) UploadedFile);

impl FromRequest<Api> for MultipartUpload {
    type Rejection = Failure;

    async fn from_request(request: Request, api: &Api) -> Result<Self, Failure> {
        let organization = organization(request.extensions())?;
        let (limits, spools) = (api.upload_limits(), api.spools());
        receive(request, &organization, limits, spools).await.map(Self)
    }
}

impl DocumentInput for MultipartUpload {
    fn document(document: &mut Document) {
        let text = |description: &str| json!({ "type": "string", "description": description });
        let schema = json!({
            "type": "object",
            "properties": {
                "file": { "type": "string", "format": "binary", "description": "The file, with its name." },
                "name": text("The name of the document. Default: the name of the file."),
                "tag_ids": text("The ids of tags, as a JSON array of texts."),
                "metadata": text("The metadata, as a JSON object of texts."),
                "auto_create": { "type": "boolean", "description": AUTO_CREATE },
                "credit_budget": { "type": "integer", "description": CREDIT_BUDGET },
                "password": text("The password of a protected PDF, which is neither stored nor logged. Default: none."),
            },
            "required": ["file"],
        });
        document.request_body =
            Some(json!({ "required": true, "content": { "multipart/form-data": { "schema": schema } } }));
    }
}

/// The parts of a form that were received.
#[derive(Default)]
struct Parts {
    file: Option<SpooledFile>,
    file_name: Option<String>,
    name: Option<String>,
    tag_ids: Option<String>,
    metadata: Option<String>,
    auto_create: Option<String>,
    credit_budget: Option<String>,
    password: Option<Secret>,
}

async fn receive(request: Request, org: &OrgId, limits: Limits, spools: &Spools) -> Result<UploadedFile, Failure> {
    let boundary = boundary(request.headers())?;
    let permit = spools.reserve(org, limits.form_bytes())?;
    let sizes = SizeLimit::new().whole_stream(limits.form_bytes()).per_field(super::TEXT_BYTES);
    let sizes = sizes.for_field("file", limits.file_bytes);
    let body = chunks(request.into_body(), limits, limits.form_bytes()).map(|chunk| chunk.map_err(BodyFailed));
    let mut form = Multipart::with_constraints(body, boundary, Constraints::new().size_limit(sizes));
    let mut parts = Parts::default();
    while let Some(field) = form.next_field().await.map_err(|error| refused(error, limits))? {
        let name = field.name().unwrap_or_default().to_owned();
        match name.as_str() {
            "file" => {
                parts.file_name = field.file_name().map(str::to_owned);
                parts.file = Some(spool(field, permit.clone(), limits).await?);
            }
            "name" => parts.name = Some(text(field, limits).await?),
            "tag_ids" => parts.tag_ids = Some(text(field, limits).await?),
            "metadata" => parts.metadata = Some(text(field, limits).await?),
            "auto_create" => parts.auto_create = Some(text(field, limits).await?),
            "credit_budget" => parts.credit_budget = Some(text(field, limits).await?),
            "password" => parts.password = Some(Secret::new(&text(field, limits).await?)),
            // Unknown parts are ignored, within the limit of the whole form.
            _ => {}
        }
    }
    parts.into_file()
}

fn boundary(headers: &HeaderMap) -> Result<String, Failure> {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    multer::parse_boundary(content_type).map_err(|_| {
        let detail = "The content type of the body must be multipart/form-data with a boundary";
        Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail)
    })
}

async fn spool(mut field: Field<'_>, permit: SpoolPermit, limits: Limits) -> Result<SpooledFile, Failure> {
    let mut writer = SpoolWriter::create(permit).await?;
    while let Some(chunk) = field.chunk().await.map_err(|error| refused(error, limits))? {
        writer.write(&chunk).await?;
    }
    Ok(writer.finish().await?)
}

async fn text(field: Field<'_>, limits: Limits) -> Result<String, Failure> {
    let bytes = field.bytes().await.map_err(|error| refused(error, limits))?;
    String::from_utf8(bytes.to_vec()).map_err(|_| Failure::bad_request("A part of the form is not UTF-8"))
}

/// The error of a body, which the parser of forms returns.
#[derive(Debug)]
struct BodyFailed(Failure);

impl std::fmt::Display for BodyFailed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the body failed")
    }
}

impl std::error::Error for BodyFailed {}

fn refused(error: multer::Error, limits: Limits) -> Failure {
    match error {
        multer::Error::StreamReadFailed(error) => match error.downcast::<BodyFailed>() {
            Ok(failed) => failed.0,
            Err(_) => Failure::bad_request("The body cannot be read"),
        },
        multer::Error::FieldSizeExceeded { limit, .. } => too_large(limit),
        multer::Error::StreamSizeExceeded { .. } => too_large(limits.form_bytes()),
        error => Failure::bad_request(format!("The form cannot be read: {error}")),
    }
}

impl Parts {
    fn into_file(self) -> Result<UploadedFile, Failure> {
        let given = |name: Option<String>| name.filter(|name| !name.is_empty());
        let file = self.file.ok_or_else(|| Failure::bad_request("File is required"))?;
        let name = given(self.name).or(given(self.file_name));
        let name = name.ok_or_else(|| Failure::bad_request("File name is required"))?;
        Ok(UploadedFile {
            name,
            tag_ids: tag_ids(self.tag_ids)?,
            metadata: metadata(self.metadata)?,
            auto_create: auto_create(self.auto_create.as_deref())?,
            credit_budget: credit_budget(self.credit_budget.as_deref())?,
            password: self.password.filter(|password| !password.is_empty()),
            file,
        })
    }
}

fn tag_ids(text: Option<String>) -> Result<Vec<String>, Failure> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(Vec::new()) };
    let value: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| Failure::bad_request(format!("Invalid tag_ids JSON: {error}")))?;
    serde_json::from_value(value).map_err(|_| Failure::bad_request("tag_ids must be a JSON array of strings"))
}

fn metadata(text: Option<String>) -> Result<BTreeMap<String, String>, Failure> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(BTreeMap::new()) };
    let value: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| Failure::bad_request(format!("Invalid metadata JSON: {error}")))?;
    serde_json::from_value(value).map_err(|_| Failure::bad_request("metadata must be a JSON object of strings"))
}

fn auto_create(text: Option<&str>) -> Result<Option<bool>, Failure> {
    match text {
        None | Some("") => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(_) => Err(Failure::bad_request("auto_create must be true or false")),
    }
}

fn credit_budget(text: Option<&str>) -> Result<Option<u64>, Failure> {
    let number = text.filter(|text| !text.is_empty()).map(str::parse).transpose();
    number.map_err(|_| Failure::bad_request("credit_budget must be a positive integer"))
}

#[cfg(test)]
pub(super) mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use axum::body::Body;
    use axum::response::IntoResponse as _;
    use bytes::Bytes;
    use futures::TryStreamExt as _;

    use super::*;
    use crate::options::Options;

    pub(in crate::rest::upload) const LIMITS: Limits =
        Limits { file_bytes: 1_000, idle: Duration::from_secs(5), lifetime: Duration::from_secs(60) };

    /// Returns a form with the boundary `B`.
    fn form(parts: &[(&str, &str)]) -> String {
        let part =
            |(head, body): &(&str, &str)| format!("--B\r\nContent-Disposition: form-data; {head}\r\n\r\n{body}\r\n");
        parts.iter().map(part).collect::<String>() + "--B--\r\n"
    }

    /// Receives a form with the boundary `B`.
    pub(in crate::rest::upload) async fn receive_form(
        body: Body,
        org: &OrgId,
        limits: Limits,
        spools: &Spools,
    ) -> UploadedFile {
        let request = http::Request::builder().header(CONTENT_TYPE, "multipart/form-data; boundary=B");
        receive(request.body(body).unwrap(), org, limits, spools).await.unwrap()
    }

    async fn upload(form: String) -> Result<UploadedFile, Failure> {
        let chunks = form
            .into_bytes()
            .chunks(7)
            .map(|chunk| Ok::<_, Infallible>(Bytes::copy_from_slice(chunk)))
            .collect::<Vec<_>>();
        let body = Body::from_stream(futures::stream::iter(chunks));
        let request =
            http::Request::builder().header(CONTENT_TYPE, "multipart/form-data; boundary=B").body(body).unwrap();
        receive(request, &OrgId::derive(&["a"]), LIMITS, &Spools::new(&Options::default())).await
    }

    #[tokio::test]
    async fn a_form_is_read_with_its_parts_in_any_order() {
        let file = ("name=\"file\"; filename=\"a.txt\"", "Total 12.50");
        let tags = ("name=\"tag_ids\"", "[\"tag_1\"]");
        let metadata = ("name=\"metadata\"", "{\"a\": \"b\"}");
        let unknown = ("name=\"unknown\"", "x");
        for parts in [[file, tags, metadata, unknown], [unknown, metadata, tags, file]] {
            let uploaded = upload(form(&parts)).await.unwrap();
            assert_eq!((uploaded.name.as_str(), uploaded.size_bytes()), ("a.txt", 11));
            assert_eq!(uploaded.tag_ids, ["tag_1"]);
            assert_eq!(uploaded.metadata["a"], "b");
            let content: Vec<Bytes> = uploaded.into_content().into_stream().try_collect().await.unwrap();
            assert_eq!(content.concat(), b"Total 12.50");
        }
        let named = upload(form(&[file, ("name=\"name\"", "b.txt")])).await.unwrap();
        assert_eq!((named.name.as_str(), named.auto_create), ("b.txt", None));
        for (text, expected) in [("true", Some(true)), ("false", Some(false)), ("", None)] {
            let uploaded = upload(form(&[("name=\"auto_create\"", text), file])).await.unwrap();
            assert_eq!(uploaded.auto_create, expected, "{text}");
        }
        for (text, expected) in [("7", Some(7)), ("", None)] {
            let uploaded = upload(form(&[("name=\"credit_budget\"", text), file])).await.unwrap();
            assert_eq!(uploaded.credit_budget, expected, "{text}");
        }
        for (text, expected) in [("hunter2", Some("hunter2")), ("", None)] {
            let uploaded = upload(form(&[("name=\"password\"", text), file])).await.unwrap();
            assert_eq!(uploaded.password.as_ref().map(Secret::reveal), expected);
            assert!(!format!("{uploaded:?}").contains("hunter2"), "logs may contain the debug output");
        }
    }

    #[tokio::test]
    async fn a_malformed_form_is_refused() {
        let file = ("name=\"file\"; filename=\"a.txt\"", "x");
        let large = "x".repeat(1_001);
        for (form, status) in [
            (form(&[("name=\"name\"", "a.txt")]), 400),
            (form(&[("name=\"file\"", "x")]), 400),
            (form(&[file, ("name=\"tag_ids\"", "tag_1")]), 400),
            (form(&[file, ("name=\"tag_ids\"", "[1]")]), 400),
            (form(&[file, ("name=\"metadata\"", "[]")]), 400),
            (form(&[file, ("name=\"auto_create\"", "yes")]), 400),
            (form(&[file, ("name=\"credit_budget\"", "-7")]), 400),
            (form(&[("name=\"file\"; filename=\"a.txt\"", &large)]), 413),
            ("--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\ncut".to_owned(), 400),
            ("no form".to_owned(), 400),
        ] {
            let refused = upload(form.clone()).await.unwrap_err().into_response();
            assert_eq!(refused.status().as_u16(), status, "{form}");
        }
    }
}
