//! Request parameters that models of an endpoint refused.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of models that are remembered. Beyond it, all are forgotten; each then costs one refused call.
const MODELS_MAX: usize = 1_000;

/// Models by their name at the endpoint. The memory lasts as long as the process uses the endpoint.
#[derive(Debug, Default)]
pub(super) struct RefusedParameters {
    temperature: Mutex<BTreeSet<String>>,
}

impl RefusedParameters {
    /// Returns true if the model refused a temperature.
    pub(super) fn has_temperature(&self, model: &str) -> bool {
        self.models().contains(model)
    }

    pub(super) fn add_temperature(&self, model: &str) {
        let mut models = self.models();
        if models.len() >= MODELS_MAX {
            models.clear();
        }
        models.insert(model.to_owned());
    }

    /// Locks for a few instructions, never over an await.
    fn models(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.temperature.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_remembered_models_is_bounded() {
        let refused = RefusedParameters::default();
        for n in 0..MODELS_MAX {
            refused.add_temperature(&n.to_string());
        }
        assert!(refused.has_temperature("0") && !refused.has_temperature("more"));
        refused.add_temperature("more");
        assert!(!refused.has_temperature("0") && refused.has_temperature("more"));
    }
}
