//! Conversions of threads.

use folio_history::thread::ThreadView;
use folio_types::{Error, Result};

use super::time;
use crate::{fields, v1};

impl From<&ThreadView> for v1::Thread {
    fn from(thread: &ThreadView) -> Self {
        Self {
            thread_id: thread.id.to_string(),
            user_id: thread.user.to_string(),
            profile: thread.profile.clone(),
            document_ids: thread.documents.iter().map(ToString::to_string).collect(),
            title: thread.title.clone(),
            model: thread.model.clone().unwrap_or_default(),
            ephemeral: thread.ephemeral,
            expire_time: thread.expires_at.map(time::to_proto),
            create_time: Some(time::to_proto(thread.created_at)),
            update_time: Some(time::to_proto(thread.updated_at)),
            working_state: Some((&thread.working).into()),
            turns: thread.turns,
            open_turn_id: fields::text_of(thread.open_turn.as_ref()),
            task: thread.task.as_deref().map(Into::into),
        }
    }
}

impl TryFrom<v1::Thread> for ThreadView {
    type Error = Error;
    fn try_from(thread: v1::Thread) -> Result<Self> {
        Ok(Self {
            id: fields::id("thread_id", &thread.thread_id)?,
            user: fields::id("user_id", &thread.user_id)?,
            profile: thread.profile,
            documents: thread.document_ids.iter().map(|id| fields::id("document_ids", id)).collect::<Result<_>>()?,
            title: thread.title,
            model: Some(thread.model).filter(|model| !model.is_empty()),
            ephemeral: thread.ephemeral,
            expires_at: time::optional_from_proto("expire_time", thread.expire_time.as_ref())?,
            created_at: time::from_proto("create_time", &fields::required("create_time", thread.create_time)?)?,
            updated_at: time::from_proto("update_time", &fields::required("update_time", thread.update_time)?)?,
            working: thread.working_state.unwrap_or_default().try_into()?,
            turns: thread.turns,
            open_turn: fields::optional_id("open_turn_id", &thread.open_turn_id)?,
            task: thread.task.map(|task| task.try_into().map(Box::new)).transpose()?,
        })
    }
}
