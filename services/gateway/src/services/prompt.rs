//! PromptService.

use folio_operations::prompts::{
    CreatePrompt, DeletePrompt, GetPromptRevision, ListPromptRevisions, ListPrompts, PromptFields, UpdatePrompt,
    ValidatePrompt, ValidatePromptData,
};
use folio_operations::schemas::Revised;
use folio_operations::{Call, ListPage};
use folio_proto::{fields, json, v1};
use folio_resources::{Prompt, PromptRevision};
use folio_types::limits;
use tonic::Request;
use v1::prompt_service_server::PromptService;

use super::schema::violation;
use super::{Api, Reply, list_request, total_size};

#[tonic::async_trait]
impl PromptService for Api {
    async fn create_prompt(&self, request: Request<v1::CreatePromptRequest>) -> Reply<v1::CreatePromptResponse> {
        let call = |request: v1::CreatePromptRequest| {
            let prompt = fields::required("prompt", request.prompt)?;
            let operation = CreatePrompt { prompt: prompt_fields(prompt) };
            Ok(Call::under(fields::request_id(&request.request_id)?, operation))
        };
        self.call(request, call, |created| v1::CreatePromptResponse { prompt: Some((&created).into()) }).await
    }

    async fn get_prompt_revision(
        &self,
        request: Request<v1::GetPromptRevisionRequest>,
    ) -> Reply<v1::GetPromptRevisionResponse> {
        let call = |request: v1::GetPromptRevisionRequest| {
            Ok(Call::new(GetPromptRevision { prompt_revid: fields::id("prompt_revid", &request.prompt_revid)? }))
        };
        self.call(request, call, |found| v1::GetPromptRevisionResponse { prompt_revision: Some((&found).into()) }).await
    }

    async fn list_prompts(&self, request: Request<v1::ListPromptsRequest>) -> Reply<v1::ListPromptsResponse> {
        let call = |request: v1::ListPromptsRequest| Ok(Call::new(ListPrompts { list: list_request!(request) }));
        let response = |page: ListPage<Prompt>| v1::ListPromptsResponse {
            prompts: page.items.iter().map(Into::into).collect(),
            next_page_token: page.next_page_token,
            total_size: total_size(page.total_size),
        };
        self.call(request, call, response).await
    }

    async fn list_prompt_revisions(
        &self,
        request: Request<v1::ListPromptRevisionsRequest>,
    ) -> Reply<v1::ListPromptRevisionsResponse> {
        let call = |request: v1::ListPromptRevisionsRequest| {
            Ok(Call::new(ListPromptRevisions {
                prompt_id: fields::id("prompt_id", &request.prompt_id)?,
                list: list_request!(request),
            }))
        };
        let response = |page: ListPage<PromptRevision>| v1::ListPromptRevisionsResponse {
            prompt_revisions: page.items.iter().map(Into::into).collect(),
            next_page_token: page.next_page_token,
            total_size: total_size(page.total_size),
        };
        self.call(request, call, response).await
    }

    async fn update_prompt(&self, request: Request<v1::UpdatePromptRequest>) -> Reply<v1::UpdatePromptResponse> {
        let call = |request: v1::UpdatePromptRequest| {
            let prompt = fields::required("prompt", request.prompt)?;
            let prompt_id = fields::id("prompt.prompt_id", &prompt.prompt_id)?;
            let set = [
                ("name", !prompt.name.is_empty()),
                ("content", !prompt.content.is_empty()),
                ("schema_revid", !prompt.schema_revid.is_empty()),
                ("model", !prompt.model.is_empty()),
                ("tag_ids", !prompt.tag_ids.is_empty()),
            ];
            let mask = fields::mask(request.update_mask.as_ref(), &set)?;
            let operation = UpdatePrompt {
                prompt_id,
                etag: fields::etag("prompt.etag", &prompt.etag)?,
                name: mask.take("name", prompt.name),
                content: mask.take("content", prompt.content),
                schema_revid: mask.take("schema_revid", prompt.schema_revid),
                model: mask.take("model", prompt.model),
                tag_ids: mask.take("tag_ids", prompt.tag_ids),
            };
            Ok(Call::under(fields::request_id(&request.request_id)?, operation))
        };
        let response = |updated: Revised<Prompt>| v1::UpdatePromptResponse {
            prompt: Some((&updated.resource).into()),
            revised: updated.revised,
        };
        self.call(request, call, response).await
    }

    async fn delete_prompt(&self, request: Request<v1::DeletePromptRequest>) -> Reply<v1::DeletePromptResponse> {
        let call = |request: v1::DeletePromptRequest| {
            let prompt_id = fields::id("prompt_id", &request.prompt_id)?;
            let etag = fields::etag("etag", &request.etag)?;
            Ok(Call::under(fields::request_id(&request.request_id)?, DeletePrompt { prompt_id, etag }))
        };
        self.call(request, call, |()| v1::DeletePromptResponse {}).await
    }

    async fn validate_prompt(&self, request: Request<v1::ValidatePromptRequest>) -> Reply<v1::ValidatePromptResponse> {
        let call = |request: v1::ValidatePromptRequest| {
            let prompt = fields::required("prompt", request.prompt)?;
            Ok(Call::new(ValidatePrompt { prompt: prompt_fields(prompt) }))
        };
        let response = |violations: Vec<_>| v1::ValidatePromptResponse {
            valid: violations.is_empty(),
            violations: violations.into_iter().map(Into::into).collect(),
        };
        self.call(request, call, response).await
    }

    async fn validate_prompt_data(
        &self,
        request: Request<v1::ValidatePromptDataRequest>,
    ) -> Reply<v1::ValidatePromptDataResponse> {
        let call = |request: v1::ValidatePromptDataRequest| {
            let data = json::parse("data_json", &request.data_json, limits::EXTRACTION_BYTES)?;
            let prompt_revid = fields::id("prompt_revid", &request.prompt_revid)?;
            Ok(Call::new(ValidatePromptData { prompt_revid, data }))
        };
        let response = |violations: Vec<_>| v1::ValidatePromptDataResponse {
            valid: violations.is_empty(),
            violations: violations.into_iter().map(violation).collect(),
        };
        self.call(request, call, response).await
    }
}

fn prompt_fields(prompt: v1::Prompt) -> PromptFields {
    let v1::Prompt { name, content, schema_revid, model, tag_ids, .. } = prompt;
    PromptFields { name, content, schema_revid, model, tag_ids }
}
