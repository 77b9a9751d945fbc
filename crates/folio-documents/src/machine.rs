//! Checks of the machine at the start of a node: the memory for child processes, and their confinement.

use std::path::PathBuf;

use folio_types::settings::{InvalidSettings, Problems};

use crate::isolate::{ChildProcesses, Files};
use crate::memory::{self, Limit, MemoryPart};
use crate::options::{Isolation, Options};
use crate::reader::task;
use crate::worker::sandbox::{Layer, RefusedLayer};
use crate::worker::{Job, Line};

/// Maximum size of the report of a child process.
const REPORT_BYTES: u64 = 64 * 1024;

/// Checks the memory for child processes and the layers of their confinement. Logs the layers that the kernel refuses,
/// and returns them: every layer if the check fails. `parts`: the bounded parts of the memory of this process.
///
/// # Errors
/// The child processes together may use more memory than their budget, or the budget exceeds the machine, or the budget and the
/// parts of the process exceed the memory limit of the container. The setting `documents.isolation` is `required`, and a required
/// layer is refused or no child process can run.
pub async fn check_machine(options: &Options, parts: &[MemoryPart]) -> Result<Vec<RefusedLayer>, InvalidSettings> {
    let mut problems = Problems::of("documents");
    let limit = memory::limit();
    memory::check(options, limit, parts, &mut problems);
    if let (Limit::Machine(_), Some(excess)) = (limit, memory::excess(options, limit, parts)) {
        tracing::warn!("the bounds exceed the memory: {excess}");
    }
    let is_required = options.isolation == Isolation::Required;
    let refused = match probe(options, parts).await {
        Ok(refused) => refused,
        Err(error) => {
            let problem = format!("is \"required\", but the check of the kernel failed: {error}");
            problems.check(!is_required, "isolation", problem);
            tracing::warn!(error, "cannot check the confinement of child processes");
            let unknown = Layer::ALL.map(|layer| RefusedLayer { layer, reason: error.clone() });
            return problems.into_result().map(|()| unknown.into());
        }
    };
    for RefusedLayer { layer, reason } in &refused {
        let name = layer.name();
        if !layer.is_required() {
            tracing::info!(reason, "the kernel refuses {name} to child processes; the other layers replace them");
        } else if is_required {
            problems.add("isolation", format_args!("is \"required\", but the kernel refuses {name}: {reason}"));
        } else {
            tracing::warn!(reason, "the kernel refuses {name}: a hostile document may reach more of this machine");
        }
    }
    problems.into_result().map(|()| refused)
}

async fn probe(options: &Options, parts: &[MemoryPart]) -> Result<Vec<RefusedLayer>, String> {
    let children = ChildProcesses::new(options.worker.clone(), PathBuf::from("/"));
    let child_memory_bytes = memory::child_bytes(options, memory::limit(), parts);
    let probed = Options { isolation: Isolation::BestEffort, child_memory_bytes, ..options.clone() };
    let output =
        children.run(&task(&probed, Job::Probe), Files::default(), options.child_timeout(), REPORT_BYTES).await;
    match serde_json::from_slice(&output.map_err(|error| error.to_string())?) {
        Ok(Line::RefusedLayers(refused)) => Ok(refused),
        _ => Err("the child process returned no report".to_owned()),
    }
}
