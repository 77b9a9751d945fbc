//! Request parameters that models of an endpoint refused.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Entry;
use crate::model::ModelError;

/// Maximum number of parameters of models that are remembered. Beyond it, all are forgotten; each then costs one refused
/// call.
const MODELS_MAX: usize = 1_000;

/// An optional parameter that some models refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Parameter {
    Temperature,
    Dimensions,
}

impl Parameter {
    /// Returns the name of the parameter in requests, which a refusal contains.
    fn name(self) -> &'static str {
        match self {
            Self::Temperature => "temperature",
            Self::Dimensions => "dimensions",
        }
    }
}

/// Parameters with the name of the model at the endpoint. The memory lasts as long as the process uses the endpoint.
#[derive(Debug, Default)]
pub(super) struct RefusedParameters {
    refused: Mutex<BTreeSet<(Parameter, String)>>,
}

impl RefusedParameters {
    /// Returns true if the model refused the parameter.
    fn contains(&self, parameter: Parameter, model: &str) -> bool {
        self.refused().contains(&(parameter, model.to_owned()))
    }

    fn add(&self, parameter: Parameter, model: &str) {
        let mut refused = self.refused();
        if refused.len() >= MODELS_MAX {
            refused.clear();
        }
        refused.insert((parameter, model.to_owned()));
    }

    /// Locks for a few instructions, never over an await.
    fn refused(&self) -> MutexGuard<'_, BTreeSet<(Parameter, String)>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes a call with a parameter. If the endpoint refuses this parameter, makes the call again without it, and remembers
/// that for further calls of the model.
pub(super) async fn call_with<P: Copy, T, F>(
    entry: &Entry,
    (parameter, value): (Parameter, Option<P>),
    make: impl Fn(Option<P>) -> F,
) -> Result<T, ModelError>
where
    F: Future<Output = Result<T, ModelError>>,
{
    let (refused, upstream) = (&entry.endpoint.refused_parameters, entry.info.upstream());
    let mut value = value.filter(|_| !refused.contains(parameter, upstream));
    loop {
        match make(value).await {
            Err(error) if value.is_some() && refuses(&error, parameter) => {
                let (provider, parameter_name) = (&entry.endpoint.name, parameter.name());
                tracing::info!(provider, parameter = parameter_name, "the endpoint refuses a parameter; it is omitted");
                refused.add(parameter, upstream);
                value = None;
            }
            result => return result,
        }
    }
}

/// Returns true if the endpoint refused the request because of the parameter.
fn refuses(error: &ModelError, parameter: Parameter) -> bool {
    let names = |message: &str| message.to_ascii_lowercase().contains(parameter.name());
    matches!(error, ModelError::Refused { status: 400, message } if names(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_remembered_models_is_bounded() {
        let refused = RefusedParameters::default();
        for n in 0..MODELS_MAX {
            refused.add(Parameter::Temperature, &n.to_string());
        }
        let contains = |model: &str| refused.contains(Parameter::Temperature, model);
        assert!(contains("0") && !contains("more") && !refused.contains(Parameter::Dimensions, "0"));
        refused.add(Parameter::Temperature, "more");
        assert!(!contains("0") && contains("more"));
    }
}
