//! The confinement of child processes: a program that replaces Tesseract attacks the machine.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use folio_documents::worker::sandbox::Layer;
use folio_documents::{Isolation, check_machine};

use super::*;

/// The attacks, each a function of the program. Each succeeds without the confinement.
const ATTACKS: [&str; 7] = ["environment", "memory", "tenant", "data", "connect", "write", "signal_parent"];

/// Writes a program that reports for each attack whether it succeeded.
fn attacker(program: &Path, tenant: &Path, data: &Path, port: u16) {
    let (tenant, data) = (tenant.display(), data.display());
    let text = format!(
        r#"environment() {{ IFS= read -r -d '' variable <"/proc/$PPID/environ"; }}
memory() {{ read -r line <"/proc/$PPID/maps"; }}
tenant() {{ read -r line <"{tenant}"; }}
data() {{ read -r line <"{data}/folio.db"; }}
connect() {{ : <>/dev/tcp/127.0.0.1/{port}; }}
write() {{ : >"{data}/written"; }}
signal_parent() {{ kill -0 "$PPID"; }}
for attack in {attacks}; do
  if "$attack" 2>/dev/null; then say "$attack: succeeded"; else say "$attack: refused"; fi
done
say recognized text
"#,
        attacks = ATTACKS.join(" ")
    );
    recognizer(program, &text);
}

#[tokio::test]
async fn a_hostile_program_reaches_no_secret_no_other_tenant_and_no_network() {
    let folder = tempfile::tempdir().unwrap();
    let (data, scratch) = (folder.path().join("data"), folder.path().join("data/scratch/folio-read-other"));
    std::fs::create_dir_all(&scratch).unwrap();
    let (program, tenant) = (folder.path().join("tesseract"), scratch.join("document"));
    std::fs::write(&tenant, "another tenant\n").unwrap();
    std::fs::write(data.join("folio.db"), "data\n").unwrap();
    // The stand-in for Redis.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    attacker(&program, &tenant, &data, listener.local_addr().unwrap().port());

    // Without the confinement each attack succeeds.
    let unconfined = Command::new(&program).output().unwrap();
    let unconfined = String::from_utf8(unconfined.stdout).unwrap();
    for attack in ATTACKS {
        assert!(unconfined.contains(&format!("{attack}: succeeded")), "{unconfined}");
    }

    let options = Options { tesseract: program, ..options() };
    // The kernel of this machine decides which layers take part.
    let refused = check_machine(&options, &[]).await.unwrap();
    let enforced: Vec<Layer> =
        Layer::ALL.into_iter().filter(|layer| !refused.iter().any(|refused| refused.layer == *layer)).collect();
    // The output macros would be captured.
    writeln!(std::io::stderr(), "layers of this kernel: {enforced:?}; refused: {refused:?}").unwrap();
    assert!(enforced.contains(&Layer::Landlock) || enforced.contains(&Layer::Seccomp), "no layer works: {refused:?}");

    let reading = read_with(options, "a.png", PNG).await;
    assert_eq!(reading.state, TextState::Ready, "{reading:?}");
    let seen = text(&reading);
    for attack in ATTACKS {
        assert!(seen.contains(&format!("{attack}: refused")), "{seen}");
    }
    assert!(seen.ends_with("recognized text"), "{seen}");
}

#[tokio::test]
async fn a_program_starts_no_further_process() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("tesseract");
    recognizer(&program, "/bin/true; say recognized text");
    let reading = read_with(Options { tesseract: program, ..options() }, "a.png", PNG).await;
    assert!(matches!(&reading.state, TextState::Failed(reason) if reason.contains("fork")), "{reading:?}");
}

#[tokio::test]
async fn required_isolation_names_the_missing_layer() {
    let folder = tempfile::tempdir().unwrap();
    let (old_kernel, broken) = (folder.path().join("old"), folder.path().join("broken"));
    script(&old_kernel, r#"echo '{"refused_layers":[{"layer":"landlock","reason":"no such call"}]}'"#);
    script(&broken, "exit 1");
    let required =
        |worker: &Path| Options { isolation: Isolation::Required, worker: Some(worker.to_owned()), ..options() };
    let error = check_machine(&required(&old_kernel), &[]).await.unwrap_err().to_string();
    assert!(error.contains("documents.isolation: is \"required\", but the kernel refuses Landlock"), "{error}");
    let error = check_machine(&required(&broken), &[]).await.unwrap_err().to_string();
    assert!(error.contains("documents.isolation: is \"required\", but the check of the kernel failed"), "{error}");
    let best_effort = Options { isolation: Isolation::BestEffort, ..required(&old_kernel) };
    assert_eq!(check_machine(&best_effort, &[]).await.unwrap().len(), 1);
    let best_effort = Options { isolation: Isolation::BestEffort, ..required(&broken) };
    assert_eq!(check_machine(&best_effort, &[]).await.unwrap().len(), Layer::ALL.len());
}

#[tokio::test]
async fn required_isolation_reads_files_only_under_every_required_layer() {
    let required = Options { isolation: Isolation::Required, ..options() };
    let reading = read_with(required.clone(), "invoice.pdf", &sample_invoice()).await;
    // The kernel of this machine decides.
    match check_machine(&required, &[]).await {
        Ok(_) => assert_eq!(reading.state, TextState::Ready),
        Err(error) => {
            writeln!(std::io::stderr(), "{error}").unwrap();
            assert!(matches!(reading.state, TextState::Failed(_)), "{reading:?}");
        }
    }
}
