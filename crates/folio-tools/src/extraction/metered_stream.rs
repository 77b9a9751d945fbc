//! A metered model call that streams its answer.

use std::sync::Arc;

use folio_llm::{ModelError, ModelEvent, ModelRequest, ModelStream, count_tokens};
use folio_metering::{AbandonedCalls, MeteredCall, Settlement};
use folio_types::Result;
use folio_types::message::Usage;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use tokio::sync::mpsc;

use crate::tool::ToolResources;

/// Maximum number of events that wait for the reader. Reading of the model's stream pauses meanwhile.
const EVENTS_WAITING: usize = 64;

/// Makes one streaming model call, which a task reads. If the reader drops the stream, the task aborts the call, or reads the answer
/// to its end, as the organization has set for abandoned calls. The call is settled before its last event is sent,
/// whose usage contains the charged credits.
///
/// # Errors
/// The meter issued no permit. A failure of the model call is an item of the stream, the last one.
pub async fn stream_metered(
    resources: &ToolResources,
    call: MeteredCall,
    mut request: ModelRequest,
) -> Result<ModelStream> {
    let counted = call.input_tokens;
    request.call_id.clone_from(&call.key);
    let permit = resources.meter.request_permit(call).await?;
    let (sender, receiver) = mpsc::channel(EVENTS_WAITING);
    let (meter, progress) = (Arc::clone(&resources.meter), request.progress.clone());
    let models = Arc::clone(&resources.models);
    let events = stream::once(async move { models.stream(request).await }).try_flatten().boxed();
    resources.tasks.spawn(async move {
        let is_drained = permit.abandoned_calls == AbandonedCalls::Drain;
        let Read { mut last, output } = read(events, &sender, is_drained).await;
        let settlement = match &last {
            Some(Ok(ModelEvent::Done(reply))) => Settlement::Completed(reply.usage),
            _ if !progress.is_sent() => Settlement::NotSent,
            _ => Settlement::Partial(Usage {
                input_tokens: counted,
                output_tokens: output,
                model_calls: 1,
                ..Usage::default()
            }),
        };
        match (meter.settle(permit, settlement).await, &mut last) {
            (Ok(credits), Some(Ok(ModelEvent::Done(reply)))) => reply.usage.credits = credits,
            (Ok(_), _) => {}
            (Err(error), _) => tracing::error!(%error, "model call not settled"),
        }
        if let Some(last) = last {
            // The reader may have left.
            let _ = sender.send(last).await;
        }
    });
    let next = |mut receiver: mpsc::Receiver<Item>| async move { receiver.recv().await.map(|item| (item, receiver)) };
    Ok(stream::unfold(receiver, next).boxed())
}

type Item = std::result::Result<ModelEvent, ModelError>;

/// The end of a stream.
struct Read {
    /// The complete answer, or the error. None: the reader left, and the call was aborted.
    last: Option<Item>,
    /// Tokens of the received text and thinking.
    output: u64,
}

/// Forwards all events except the last one.
async fn read(mut events: ModelStream, sender: &mpsc::Sender<Item>, is_drained: bool) -> Read {
    let mut output = 0_u64;
    loop {
        let item = tokio::select! {
            biased;
            () = sender.closed(), if !is_drained => return Read { last: None, output },
            item = events.next() => item,
        };
        let event = match item {
            Some(Ok(event @ (ModelEvent::Text(_) | ModelEvent::Thinking(_)))) => event,
            None => {
                let error = ModelError::Failed("the stream ended without an answer".to_owned());
                return Read { last: Some(Err(error)), output };
            }
            last => return Read { last, output },
        };
        if let ModelEvent::Text(text) | ModelEvent::Thinking(text) = &event {
            output = output.saturating_add(count_tokens(text));
        }
        if sender.send(Ok(event)).await.is_err() && !is_drained {
            return Read { last: None, output };
        }
    }
}

#[cfg(test)]
mod tests {
    use folio_llm::ModelReply;

    use super::*;

    fn text(text: &str) -> Item {
        Ok(ModelEvent::Text(text.to_owned()))
    }

    fn done() -> Item {
        Ok(ModelEvent::Done(Box::default()))
    }

    #[tokio::test]
    async fn events_are_forwarded_in_order_and_the_last_one_is_returned() {
        let (sender, mut receiver) = mpsc::channel(EVENTS_WAITING);
        let events =
            stream::iter([text("one "), Ok(ModelEvent::Thinking("hm".to_owned())), text("two"), done()]).boxed();
        let Read { last, output } = read(events, &sender, false).await;
        assert_eq!(last, Some(Ok(ModelEvent::Done(Box::<ModelReply>::default()))));
        assert!(output >= 3, "{output}");
        drop(sender);
        let mut received = Vec::new();
        while let Some(item) = receiver.recv().await {
            received.push(item);
        }
        assert_eq!(received, [text("one "), Ok(ModelEvent::Thinking("hm".to_owned())), text("two")]);
    }

    #[tokio::test]
    async fn an_error_and_a_missing_end_are_the_last_items() {
        let failed = ModelError::Failed("x".to_owned());
        for (events, problem) in [
            (vec![text("a"), Err(failed.clone()), text("b")], "x"),
            (vec![text("a")], "the stream ended without an answer"),
        ] {
            let (sender, _receiver) = mpsc::channel(EVENTS_WAITING);
            let Read { last, .. } = read(stream::iter(events).boxed(), &sender, false).await;
            assert_eq!(last, Some(Err(ModelError::Failed(problem.to_owned()))));
        }
    }

    #[tokio::test]
    async fn a_call_whose_reader_left_is_aborted_or_read_to_its_end() {
        for (is_drained, expected) in [(false, None), (true, Some(done()))] {
            let (sender, receiver) = mpsc::channel(EVENTS_WAITING);
            drop(receiver);
            let events = stream::iter([text("a"), text("b"), done()]).boxed();
            assert_eq!(read(events, &sender, is_drained).await.last, expected);
        }
        // A stream that waits for the model is aborted at once.
        let (sender, receiver) = mpsc::channel(EVENTS_WAITING);
        let waiting = stream::iter([text("a")]).chain(stream::pending()).boxed();
        let (found, ()) = tokio::join!(read(waiting, &sender, false), async move { drop(receiver) });
        assert!(found.last.is_none());
    }
}
