//! PromptService.

use folio_proto::{fields, json, v1};
use folio_storage::{PromptChange, PromptFilter};
use folio_tools::rules;
use folio_types::prompt::{Prompt, PromptRevision};
use folio_types::{Code, Error, Principal, PromptId, PromptRevId, Result, SchemaRevId, TagId, limits};
use tonic::{Request, Response, Status};
use v1::prompt_service_server::PromptService;

use super::{Api, LARGE_PAGE_MAX, answer, asked, listing, no_filter};
use crate::decide::Op;
use crate::filter;
use crate::page::By;

#[tonic::async_trait]
impl PromptService for Api {
    async fn create_prompt(
        &self,
        request: Request<v1::CreatePromptRequest>,
    ) -> Result<Response<v1::CreatePromptResponse>, Status> {
        answer(request, async |principal, request| {
            let op = self.op(&principal, "CreatePrompt", &request.request_id, &request)?;
            let content = fields::required("prompt", request.prompt)?;
            let write = async {
                let wanted = self.checked_prompt(&principal, content).await?;
                self.create_or_revise_prompt(&op, wanted).await
            };
            let id = op.once::<Prompt>(&self.gateway.stores, write).await?;
            Ok(v1::CreatePromptResponse { prompt: Some((&self.found::<Prompt>(&principal, &id).await?).into()) })
        })
        .await
    }

    async fn get_prompt_revision(
        &self,
        request: Request<v1::GetPromptRevisionRequest>,
    ) -> Result<Response<v1::GetPromptRevisionResponse>, Status> {
        answer(request, async |principal, request| {
            let found = self.prompt_revision(&principal, "prompt_revid", &request.prompt_revid).await?;
            Ok(v1::GetPromptRevisionResponse { prompt_revision: Some((&found).into()) })
        })
        .await
    }

    async fn list_prompts(
        &self,
        request: Request<v1::ListPromptsRequest>,
    ) -> Result<Response<v1::ListPromptsResponse>, Status> {
        answer(request, |principal, request| self.prompts(principal, request)).await
    }

    async fn list_prompt_versions(
        &self,
        request: Request<v1::ListPromptVersionsRequest>,
    ) -> Result<Response<v1::ListPromptVersionsResponse>, Status> {
        answer(request, |principal, request| self.prompt_versions(principal, request)).await
    }

    async fn update_prompt(
        &self,
        request: Request<v1::UpdatePromptRequest>,
    ) -> Result<Response<v1::UpdatePromptResponse>, Status> {
        answer(request, |principal, request| self.changed_prompt(principal, request)).await
    }

    async fn delete_prompt(
        &self,
        request: Request<v1::DeletePromptRequest>,
    ) -> Result<Response<v1::DeletePromptResponse>, Status> {
        answer(request, async |principal, request| {
            let id = fields::id("prompt_id", &request.prompt_id)?;
            let op = self.op(&principal, "DeletePrompt", &request.request_id, &request)?;
            op.delete::<Prompt>(&self.gateway.stores, &id, request.expected_version).await?;
            Ok(v1::DeletePromptResponse {})
        })
        .await
    }

    async fn validate_prompt_data(
        &self,
        request: Request<v1::ValidatePromptDataRequest>,
    ) -> Result<Response<v1::ValidatePromptDataResponse>, Status> {
        answer(request, async |principal, request| {
            let data = json::parse("data_json", &request.data_json, limits::EXTRACTION_BYTES)?;
            let prompt = self.prompt_revision(&principal, "prompt_revid", &request.prompt_revid).await?;
            let violations = match prompt.schema {
                Some(revid) => self.data_violations(&principal, "prompt_revid", &revid.to_string(), &data).await?,
                None if data.is_object() => Vec::new(),
                None => {
                    let message = "must be a JSON object".to_owned();
                    vec![v1::SchemaViolation { path: "#".to_owned(), message }]
                }
            };
            Ok(v1::ValidatePromptDataResponse { valid: violations.is_empty(), violations })
        })
        .await
    }

    async fn validate_prompt(
        &self,
        request: Request<v1::ValidatePromptRequest>,
    ) -> Result<Response<v1::ValidatePromptResponse>, Status> {
        answer(request, async |principal, request| {
            let content = fields::required("prompt", request.prompt)?;
            let violations = self.prompt_violations(&principal, content).await?;
            Ok(v1::ValidatePromptResponse { valid: violations.is_empty(), violations })
        })
        .await
    }
}

/// What a prompt is to be, with everything that it names resolved.
#[derive(Clone)]
struct Wanted {
    name: String,
    content: String,
    schema: Option<SchemaRevId>,
    model: Option<String>,
    tags: Vec<TagId>,
}

impl Api {
    /// The revision of a revid, or the newest one of a prompt's id.
    pub(super) async fn prompt_revision(
        &self,
        principal: &Principal,
        field: &str,
        text: &str,
    ) -> Result<PromptRevision> {
        let prompts = &self.gateway.stores.prompts;
        if text.contains('.') {
            let revid: PromptRevId = fields::id(field, text)?;
            let found = prompts.revision(&principal.org, &revid).await?;
            return found.ok_or_else(|| Error::not_found("prompt revision", revid));
        }
        let id: PromptId = fields::id(field, text)?;
        self.found::<Prompt>(principal, &id).await.map(|prompt| prompt.latest)
    }

    /// The schema that a prompt is to be linked to; none where the text is empty.
    async fn linked(&self, principal: &Principal, field: &str, text: &str) -> Result<Option<SchemaRevId>> {
        if text.is_empty() {
            return Ok(None);
        }
        self.schema_revision(principal, field, text).await.map(|schema| Some(schema.revid))
    }

    async fn checked_tags(&self, principal: &Principal, field: &str, texts: &[String]) -> Result<Vec<TagId>> {
        let tags = fields::tags(field, texts)?;
        let found = self.gateway.stores.tags.get_many(&principal.org, &tags).await?;
        match tags.iter().find(|tag| !found.iter().any(|there| there.id == **tag)) {
            Some(missing) => Err(Error::not_found("tag", missing)),
            None => Ok(tags),
        }
    }

    async fn checked_model(&self, principal: &Principal, field: &str, name: &str) -> Result<Option<String>> {
        let Some(name) = fields::optional_word(field, name)? else { return Ok(None) };
        self.gateway.models.catalogue(&principal.org).await?.for_prompts(Some(&name))?;
        Ok(Some(name))
    }

    async fn checked_prompt(&self, principal: &Principal, content: v1::PromptContent) -> Result<Wanted> {
        rules::check_name("prompt.name", &content.name)?;
        rules::check_content("prompt.content", &content.content)?;
        Ok(Wanted {
            tags: self.checked_tags(principal, "prompt.tag_ids", &content.tag_ids).await?,
            schema: self.linked(principal, "prompt.schema_revid", &content.schema_revid).await?,
            model: self.checked_model(principal, "prompt.model", &content.model).await?,
            name: content.name,
            content: content.content,
        })
    }

    /// What is wrong with a prompt, field by field. A store that cannot be asked is an error of the call.
    async fn prompt_violations(
        &self,
        principal: &Principal,
        content: v1::PromptContent,
    ) -> Result<Vec<v1::FieldViolation>> {
        let checks = [
            ("prompt.name", rules::check_name("prompt.name", &content.name)),
            ("prompt.content", rules::check_content("prompt.content", &content.content)),
            ("prompt.tag_ids", self.checked_tags(principal, "prompt.tag_ids", &content.tag_ids).await.map(drop)),
            (
                "prompt.schema_revid",
                self.linked(principal, "prompt.schema_revid", &content.schema_revid).await.map(drop),
            ),
            ("prompt.model", self.checked_model(principal, "prompt.model", &content.model).await.map(drop)),
        ];
        let mut violations = Vec::new();
        for (field, checked) in checks {
            match checked {
                Ok(()) => {}
                Err(error)
                    if matches!(error.code, Code::InvalidArgument | Code::NotFound | Code::FailedPrecondition) =>
                {
                    violations.push(v1::FieldViolation { field: field.to_owned(), description: error.message });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(violations)
    }

    /// A prompt of a name that is there gets its next version: what the request says, as if it were the first.
    async fn create_or_revise_prompt(&self, op: &Op, wanted: Wanted) -> Result<PromptId> {
        let Wanted { name, content, schema, model, tags } = wanted.clone();
        let revise = PromptChange::Update {
            name: None,
            content: Some(content),
            schema: Some(schema),
            model: Some(model),
            tags: Some(tags),
        };
        let Wanted { content, schema, model, tags, .. } = wanted;
        let create = PromptChange::Create { name: name.clone(), content, schema, model, tags };
        op.create_or_revise::<Prompt>(&self.gateway.stores, &name, create, revise).await
    }

    async fn prompts(&self, principal: Principal, request: v1::ListPromptsRequest) -> Result<v1::ListPromptsResponse> {
        let filter = prompt_filter(&request.filter)?;
        let by = By::Name("name");
        let listing = listing(&principal, "prompts", &request.filter, asked!(request), by, LARGE_PAGE_MAX)?;
        let prompts = &self.gateway.stores.prompts;
        let page = listing.fetch(async |page| prompts.list(&principal.org, &filter, &page).await).await?;
        Ok(v1::ListPromptsResponse {
            prompts: page.items,
            next_page_token: page.next_page_token,
            total_size: page.total_size,
        })
    }

    async fn prompt_versions(
        &self,
        principal: Principal,
        request: v1::ListPromptVersionsRequest,
    ) -> Result<v1::ListPromptVersionsResponse> {
        let id: PromptId = fields::id("prompt_id", &request.prompt_id)?;
        no_filter(&request.filter)?;
        let scope = format!("versions of {id}");
        let listing = listing(&principal, &scope, "", asked!(request), By::Created, LARGE_PAGE_MAX)?;
        let prompts = &self.gateway.stores.prompts;
        self.found::<Prompt>(&principal, &id).await?;
        let page = listing.fetch(async |page| prompts.versions(&principal.org, &id, &page).await).await?;
        Ok(v1::ListPromptVersionsResponse {
            prompt_revisions: page.items,
            next_page_token: page.next_page_token,
            total_size: page.total_size,
        })
    }

    async fn changed_prompt(
        &self,
        principal: Principal,
        request: v1::UpdatePromptRequest,
    ) -> Result<v1::UpdatePromptResponse> {
        let id = fields::id("prompt_id", &request.prompt_id)?;
        let op = self.op(&principal, "UpdatePrompt", &request.request_id, &request)?;
        if let Some(name) = &request.name {
            rules::check_name("name", name)?;
        }
        if let Some(content) = &request.content {
            rules::check_content("content", content)?;
        }
        let change = PromptChange::Update {
            schema: match &request.schema_revid {
                Some(text) => Some(self.linked(&principal, "schema_revid", text).await?),
                None => None,
            },
            model: match request.model.as_deref() {
                Some(name) => Some(self.checked_model(&principal, "model", name).await?),
                None => None,
            },
            tags: match &request.tags {
                Some(tags) => Some(self.checked_tags(&principal, "tags.tag_ids", &tags.tag_ids).await?),
                None => None,
            },
            name: request.name,
            content: request.content,
        };
        let change = async |_: Prompt| Ok(change.clone());
        let revised = op.change(&self.gateway.stores, &id, request.expected_version, change).await?.revised();
        Ok(v1::UpdatePromptResponse { prompt: Some((&self.found::<Prompt>(&principal, &id).await?).into()), revised })
    }
}

fn prompt_filter(text: &str) -> Result<PromptFilter> {
    let mut filter = PromptFilter::default();
    for term in filter::parse(text)? {
        match term.field.as_str() {
            "name" => filter::once(&mut filter.name_search, &term, term.search()?)?,
            "document" => filter::once(&mut filter.document, &term, term.id()?)?,
            "tag" => filter.all_tags.push(term.id()?),
            "any_tag" => filter.any_tag.push(term.id()?),
            _ => return Err(filter::unknown(&term, "name, tag, any_tag and document")),
        }
    }
    if filter.all_tags.len().max(filter.any_tag.len()) > limits::TAGS_MAX {
        return Err(Error::invalid_field("filter", format!("more than {} tags", limits::TAGS_MAX)));
    }
    Ok(filter)
}
