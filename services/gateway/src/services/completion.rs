//! Serves `CompletionService`.

use folio_operations::Call;
use folio_operations::completions::{
    Completion, CompletionEvent, CompletionMessage, CompletionRequest, CompletionRole, CompletionStream,
    CreateCompletion, StreamCompletion,
};
use folio_proto::{fields, time, v1};
use folio_types::{Error, Result};
use futures::TryStreamExt as _;
use tonic::Request;
use v1::completion_service_server::CompletionService;
use v1::stream_completion_response::Event;

use super::handler::change;
use super::{Api, ResponseStream, RpcResult, bounded_stream};

#[tonic::async_trait]
impl CompletionService for Api {
    type StreamCompletionStream = ResponseStream<v1::StreamCompletionResponse>;

    change!(create_completion, CreateCompletionRequest, CreateCompletionResponse { completion: encode }, |request| {
        CreateCompletion { request: parse(request.parameters)? }
    });

    async fn stream_completion(
        &self,
        request: Request<v1::StreamCompletionRequest>,
    ) -> RpcResult<Self::StreamCompletionStream> {
        let call = |request: v1::StreamCompletionRequest| {
            let operation = StreamCompletion { request: parse(request.parameters)? };
            Ok(Call::with_request_id(fields::request_id(&request.request_id)?, operation))
        };
        let (limits, drain_ended) = (self.event_limits(), self.drain_ended.clone());
        let response = |events: CompletionStream| {
            let events = events.map_ok(|event| v1::StreamCompletionResponse {
                event: Some(match event {
                    CompletionEvent::Text(text) => Event::Text(text),
                    // The events before it contain the text.
                    CompletionEvent::Done(completion) => {
                        Event::Completion(v1::Completion { text: String::new(), ..encode(&completion) })
                    }
                }),
            });
            bounded_stream(events, limits, drain_ended)
        };
        self.call(request, call, response).await
    }
}

fn parse(parameters: Option<v1::CompletionParameters>) -> Result<CompletionRequest> {
    let parameters = fields::required("parameters", parameters)?;
    let message = |(at, message): (usize, v1::CompletionMessage)| {
        let role = match message.role() {
            v1::CompletionRole::System => CompletionRole::System,
            v1::CompletionRole::User => CompletionRole::User,
            v1::CompletionRole::Assistant => CompletionRole::Assistant,
            v1::CompletionRole::Unspecified => {
                let path = format!("parameters.messages[{at}].role");
                return Err(Error::invalid_field(path, "is missing or unknown"));
            }
        };
        Ok(CompletionMessage { role, text: message.text })
    };
    Ok(CompletionRequest {
        model: fields::optional_word("parameters.model", &parameters.model)?,
        messages: parameters.messages.into_iter().enumerate().map(message).collect::<Result<_>>()?,
        max_output_tokens: parameters.max_output_tokens,
        temperature: parameters.temperature,
    })
}

fn encode(completion: &Completion) -> v1::Completion {
    v1::Completion {
        completion_id: completion.id.clone(),
        model: completion.model.clone(),
        text: completion.text.clone(),
        finish_reason: completion.finish.map_or(v1::FinishReason::Unspecified, Into::into).into(),
        usage: Some(completion.usage.into()),
        create_time: Some(time::to_proto(completion.created_at)),
    }
}
