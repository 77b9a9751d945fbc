//! Checks that the temporary files of each pod, at their maximum size, fit into the volume of the pod.

use anyhow::{Context as _, Result, bail, ensure};

const MIB: u64 = 1024 * 1024;
const GIB: u64 = 1024 * MIB;
/// Maximum bytes of the temporary files of a document that is being read: its file, and the parts of a mail, an archive or a
/// PDF.
const DOCUMENT: u64 = GIB;
/// Documents that a node reads at a time: `documents.concurrency` + `documents.slow_concurrency`.
const NODE_DOCUMENTS: u64 = 4;
/// Files that a gateway reads or splits at a time: `documents.protected_uploads`.
const GATEWAY_DOCUMENTS: u64 = 1;
/// Maximum bytes of exports: 512 MiB for each of 4 exports that are written at a time, and 2,048 MiB for the complete files
/// that callers download.
const EXPORTS: u64 = 4 * 512 * MIB + 2_048 * MIB;

/// Checks each pod with the role gateway or node in the rendered chart. Returns the number of these pods.
pub(super) fn check(rendered: &str) -> Result<usize> {
    let mut checked = 0;
    for manifest in rendered.split("\n---\n") {
        let has_role = |role: &str| manifest.contains(&format!("- --roles={role}\n"));
        let (role, files) = if has_role("gateway") {
            let spool = bytes_of(manifest, "FOLIO_GATEWAY__UPLOAD_SPOOL_BYTES")?;
            ("gateway", spool.context("the upload spool has no bound")? + EXPORTS + GATEWAY_DOCUMENTS * DOCUMENT)
        } else if has_role("node") {
            let index = match manifest.contains("FOLIO_INDEX__QDRANT_URL\n") {
                true => 0,
                false => bytes_of(manifest, "FOLIO_INDEX__DISK_BYTES")?.context("the index has no bound")?,
            };
            ("node", index + NODE_DOCUMENTS * DOCUMENT)
        } else {
            continue;
        };
        let limit = manifest.lines().find_map(|line| line.trim().strip_prefix("sizeLimit: "));
        let limit = limit.with_context(|| format!("the temporary files of a {role} have no limit"))?;
        let (files, bytes) = (files / MIB, quantity(limit)? / MIB);
        ensure!(
            files <= bytes,
            "a {role} may need {files} MiB for temporary files, and scratch.sizeLimit is {bytes} MiB"
        );
        checked += 1;
    }
    Ok(checked)
}

/// Returns the value of an environment variable, a number of bytes. None: the manifest does not set the variable.
fn bytes_of(manifest: &str, variable: &str) -> Result<Option<u64>> {
    let name = format!("- name: {variable}");
    let mut lines = manifest.lines().skip_while(|line| line.trim() != name).skip(1);
    let Some(line) = lines.next() else { return Ok(None) };
    let value = line.trim().strip_prefix("value: ").with_context(|| format!("{variable} has no value"))?;
    let invalid = || format!("invalid {variable} {value}: expected a number of bytes");
    Ok(Some(value.trim_matches('"').parse::<u64>().with_context(invalid)?))
}

/// Returns the number of bytes that a Kubernetes quantity states: a whole number with the unit Mi, Gi or Ti, or without a unit.
fn quantity(text: &str) -> Result<u64> {
    for (unit, bytes) in [("Gi", GIB), ("Mi", MIB), ("Ti", 1024 * GIB), ("", 1)] {
        if let Some(number) = text.strip_suffix(unit)
            && let Ok(number) = number.parse::<u64>()
        {
            return number.checked_mul(bytes).with_context(|| format!("{text} is too large"));
        }
    }
    bail!("{text} is not supported: expected a whole number of bytes, Mi, Gi or Ti")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(role: &str, variables: &str, limit: &str) -> String {
        format!("args:\n  - --roles={role}\nenv:\n{variables}emptyDir:\n  sizeLimit: {limit}\n")
    }

    fn variable(name: &str, value: u64) -> String {
        format!("  - name: {name}\n    value: \"{value}\"\n")
    }

    #[test]
    fn files_that_exceed_the_volume_are_refused() {
        let index = variable("FOLIO_INDEX__DISK_BYTES", 5 * GIB);
        let spool = variable("FOLIO_GATEWAY__UPLOAD_SPOOL_BYTES", 4 * GIB);
        let both =
            format!("kind: Service\n---\n{}\n---\n{}", pod("node", &index, "9Gi"), pod("gateway", &spool, "9Gi"));
        assert_eq!(check(&both).unwrap(), 2);
        for (pod, problem) in [
            (pod("node", &index, "8Gi"), "a node may need 9216 MiB"),
            (pod("gateway", &spool, "4Gi"), "a gateway may need 9216 MiB"),
            (pod("node", "", "9Gi"), "the index has no bound"),
            (pod("gateway", &spool, "7G"), "7G is not supported"),
        ] {
            assert!(check(&pod).unwrap_err().to_string().contains(problem), "{problem}");
        }
        let qdrant = "  - name: FOLIO_INDEX__QDRANT_URL\n    value: \"https://host\"\n";
        assert_eq!(check(&pod("node", qdrant, "4096Mi")).unwrap(), 1);
    }
}
