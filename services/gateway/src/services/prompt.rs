//! Serves `PromptService`.

use folio_operations::prompts::{
    ChangedPrompt, CreatePrompt, DeletePrompt, GetPromptRevision, ListPromptRevisions, ListPrompts, PromptFields,
    UpdatePrompt, ValidatePrompt, ValidatePromptData,
};
use folio_operations::proposals::Listed;
use folio_operations::tag_runs::TagRunPlan;
use folio_proto::{fields, json, v1};
use folio_resources::Prompt;
use folio_types::limits;
use v1::prompt_service_server::PromptService;

use super::handler::{change, delete, get, grid_list, list, read};
use super::schema::violation;
use super::{Api, job};

#[tonic::async_trait]
impl PromptService for Api {
    change!(
        create_prompt,
        CreatePromptRequest,
        CreatePromptResponse,
        |request| {
            let prompt = fields::required("prompt", request.prompt)?;
            CreatePrompt { prompt: prompt_fields(prompt) }
        },
        |changed: ChangedPrompt| v1::CreatePromptResponse {
            prompt: Some((&changed.prompt).into()),
            tag_run_plan: changed.tag_runs.as_ref().map(tag_run_plan),
        }
    );

    get!(
        get_prompt_revision,
        GetPromptRevisionRequest,
        GetPromptRevision { prompt_revid },
        GetPromptRevisionResponse { prompt_revision }
    );

    grid_list!(list_prompts, ListPromptsRequest, ListPrompts, ListPromptsResponse { prompts: listed });

    list!(
        list_prompt_revisions,
        ListPromptRevisionsRequest,
        ListPromptRevisions { prompt_id },
        ListPromptRevisionsResponse { prompt_revisions }
    );

    change!(
        update_prompt,
        UpdatePromptRequest,
        UpdatePromptResponse,
        |request| {
            let prompt = fields::required("prompt", request.prompt)?;
            let prompt_id = fields::id("prompt.prompt_id", &prompt.prompt_id)?;
            let set = [
                ("name", !prompt.name.is_empty()),
                ("content", !prompt.content.is_empty()),
                ("schema_revid", !prompt.schema_revid.is_empty()),
                ("model", !prompt.model.is_empty()),
                ("temperature", prompt.temperature.is_some()),
                ("agent", prompt.agent),
                ("tag_ids", !prompt.tag_ids.is_empty()),
            ];
            let mask = fields::mask(request.update_mask.as_ref(), &set)?;
            UpdatePrompt {
                prompt_id,
                etag: fields::etag("prompt.etag", &prompt.etag)?,
                name: mask.take("name", prompt.name),
                content: mask.take("content", prompt.content),
                schema_revid: mask.take("schema_revid", prompt.schema_revid),
                model: mask.take("model", prompt.model),
                temperature: mask.take("temperature", prompt.temperature),
                is_run_by_agent: mask.take("agent", prompt.agent),
                tag_ids: mask.take("tag_ids", prompt.tag_ids),
            }
        },
        |changed: ChangedPrompt| v1::UpdatePromptResponse {
            prompt: Some((&changed.prompt).into()),
            revised: changed.revised,
            tag_run_plan: changed.tag_runs.as_ref().map(tag_run_plan),
        }
    );

    delete!(delete_prompt, DeletePromptRequest, DeletePrompt { prompt_id }, DeletePromptResponse);

    read!(
        validate_prompt,
        ValidatePromptRequest,
        ValidatePromptResponse,
        |request| {
            let prompt = fields::required("prompt", request.prompt)?;
            ValidatePrompt { prompt: prompt_fields(prompt) }
        },
        |violations: Vec<_>| v1::ValidatePromptResponse {
            valid: violations.is_empty(),
            violations: violations.into_iter().map(Into::into).collect(),
        }
    );

    read!(
        validate_prompt_data,
        ValidatePromptDataRequest,
        ValidatePromptDataResponse,
        |request| {
            let data = json::parse("data_json", &request.data_json, limits::EXTRACTION_BYTES)?;
            let prompt_revid = fields::id("prompt_revid", &request.prompt_revid)?;
            ValidatePromptData { prompt_revid, data }
        },
        |violations: Vec<_>| v1::ValidatePromptDataResponse {
            valid: violations.is_empty(),
            violations: violations.into_iter().map(violation).collect(),
        }
    );
}

fn listed(listed: &Listed<Prompt>) -> v1::Prompt {
    let pending_proposal_id = fields::text_of(listed.pending_proposal.as_ref());
    v1::Prompt { pending_proposal_id, ..(&listed.resource).into() }
}

fn prompt_fields(prompt: v1::Prompt) -> PromptFields {
    let v1::Prompt { name, content, schema_revid, model, temperature, agent: is_run_by_agent, tag_ids, .. } = prompt;
    PromptFields { name, content, schema_revid, model, temperature, is_run_by_agent, tag_ids }
}

pub(super) fn tag_run_plan(plan: &TagRunPlan) -> v1::TagRunPlan {
    v1::TagRunPlan {
        document_ids: plan.document_ids.iter().map(ToString::to_string).collect(),
        has_more: plan.has_more,
        pages: plan.estimate.pages,
        credits: plan.estimate.credits,
        job: plan.job.as_ref().map(job::to_proto),
    }
}
