//! A process as an operator sees it: its health port, a public listener, its shutdown.

use folio_testkit::invoice::sample_invoice;

use crate::command_line::{files_below, folio, text};
use crate::process::Process;
use crate::{LIMIT, within};

#[tokio::test]
async fn the_health_port_serves_probes_and_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--data", "data", "--health-listen", "127.0.0.1:0"];
    let server = Process::start("folio", folder.path(), &arguments, &[]);
    let health = format!("http://{}", server.printed_after("health on ").expect("a health port"));
    for arguments in [&["health", &health][..], &["health", &health, "--service", "live"], &["health", &server.url()]] {
        let output = folio(folder.path(), arguments, &[], "");
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        assert_eq!(text(&output.stdout), "SERVING\n");
    }
    let metrics = within("metrics", async { reqwest::get(format!("{health}/metrics")).await?.text().await }).await;
    let metrics = metrics.expect("the metrics are served");
    for metric in [
        "folio_draining 0",
        "folio_conversations 0",
        "folio_exports 0",
        "folio_page_images 0",
        "# TYPE folio_conversations_failed_total counter",
    ] {
        assert!(metrics.lines().any(|line| line == metric), "{metric} is missing in:\n{metrics}");
    }
    drop(server);
    let output = folio(folder.path(), &["health", &health], &[], "");
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("cannot connect to"), "{}", text(&output.stderr));
}

#[tokio::test]
async fn the_values_of_an_extraction_are_counted_by_their_evidence() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--data", "data", "--health-listen", "127.0.0.1:0"];
    // Without a model endpoint, the offline model answers.
    let server = Process::start("folio", folder.path(), &arguments, &[]);
    let health = format!("http://{}", server.printed_after("health on ").expect("a health port"));
    std::fs::write(folder.path().join("invoice.pdf"), sample_invoice()).unwrap();
    let (url, token) = (server.url(), std::fs::read_to_string(folder.path().join("data/admin.token")).unwrap());
    let variables = [("FOLIO_SERVER", url.as_str()), ("FOLIO_TOKEN", token.trim())];
    let output = folio(folder.path(), &["extract", "invoice.pdf", "--output", "json"], &variables, "");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let counted = async || {
        let page = reqwest::get(format!("{health}/metrics")).await.ok()?.text().await.ok()?;
        let value = |name: &str| page.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        // The offline model states no quotes.
        let [cited, located, inferred] =
            ["cited", "located", "inferred"].map(|kind| value(&format!("folio_values_{kind}_total ")));
        (cited == Some(0) && located > Some(5) && inferred.is_some()).then_some(())
    };
    folio_testkit::wait_for("counted values", LIMIT, counted).await;
}

#[tokio::test]
async fn commands_reach_a_server_with_tls_by_its_authority() {
    let folder = tempfile::tempdir().unwrap();
    let created = folio(folder.path(), &["dev-certs", "--out", "certs", "--name", "localhost"], &[], "");
    assert!(created.status.success(), "{}", text(&created.stderr));
    let again = text(&folio(folder.path(), &["dev-certs", "--out", "certs"], &[], "").stderr);
    assert!(again.contains("already exists") && again.contains("NAME_TAKEN"), "{again}");
    let tls = ["--tls-cert", "certs/node.pem", "--tls-key", "certs/node-key.pem"];
    let server =
        Process::start("folio", folder.path(), &[&["serve", "--listen", "127.0.0.1:0"][..], &tls].concat(), &[]);
    let url = server.url().replace("http://127.0.0.1", "https://localhost");
    std::fs::write(folder.path().join("note.txt"), "total: 5").unwrap();
    for line in [&["health", &url][..], &["chat", "note.txt", "--server", &url]] {
        let output = folio(folder.path(), &[line, &["--tls-ca", "certs/ca.pem"]].concat(), &[], "/quit\n");
        assert!(output.status.success(), "{line:?}: {}", text(&output.stderr));
        let refused = folio(folder.path(), line, &[], "/quit\n");
        assert!(!refused.status.success(), "{line:?} trusts an authority that is not configured");
    }
    let plain = folio(folder.path(), &["health", &server.url(), "--tls-ca", "certs/ca.pem"], &[], "");
    assert!(text(&plain.stderr).contains("--tls-ca requires an https:// address"), "{}", text(&plain.stderr));
}

#[test]
fn a_check_of_health_states_the_cause_of_its_failure_once() {
    let folder = tempfile::tempdir().unwrap();
    let output = folio(folder.path(), &["health", "http://127.0.0.1:1"], &[], "");
    assert!(!output.status.success());
    let expected = "folio: cannot connect to http://127.0.0.1:1: Connection refused (os error 111)\n";
    assert_eq!(text(&output.stderr), expected);
}

#[test]
fn a_public_listener_without_tls_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let output = folio(folder.path(), &["serve", "--listen", "0.0.0.0:0", "--data", "data"], &[], "");
    assert!(!output.status.success());
    let printed = text(&output.stderr);
    assert!(printed.contains("--insecure") && !printed.contains("INTERNAL"), "{printed}");
    assert!(!folder.path().join("data").exists(), "nothing is created before the refusal");

    let half = folio(folder.path(), &["serve", "--tls-cert", "cert.pem"], &[], "");
    assert!(text(&half.stderr).contains("--tls-key"), "{}", text(&half.stderr));
}

#[test]
fn unusable_files_of_the_listener_are_refused_before_a_token_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let created = folio(folder.path(), &["dev-certs", "--out", "certs", "--name", "localhost"], &[], "");
    assert!(created.status.success(), "{}", text(&created.stderr));
    let serve = ["serve", "--listen", "127.0.0.1:0", "--data", "data", "--tls-cert", "certs/node.pem", "--tls-key"];
    let issuer =
        "[gateway.jwt.own]\nissuer = \"https://issuer.test\"\naudiences = [\"folio\"]\njwks_file = \"missing.json\"\n";
    for (key, settings, problem) in [
        ("missing.pem", "", "missing.pem cannot be read"),
        ("certs/node.pem", "", "certs/node.pem cannot be used"),
        ("certs/node-key.pem", issuer, "jwks_file is unusable"),
    ] {
        std::fs::write(folder.path().join("folio.toml"), settings).unwrap();
        let output = folio(folder.path(), &[&serve[..], &[key]].concat(), &[], "");
        assert!(!output.status.success(), "{problem}");
        assert_eq!(text(&output.stdout), "", "{problem}");
        assert!(text(&output.stderr).contains(problem), "{problem}: {}", text(&output.stderr));
        assert!(!folder.path().join("data").exists(), "nothing is created before the refusal: {problem}");
    }
}

#[test]
fn a_start_that_fails_creates_no_token() {
    let folder = tempfile::tempdir().unwrap();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--data", "data"];
    let output = folio(folder.path(), &[&serve[..], &["--model", "nosuch", "--no-detect"]].concat(), &[], "");
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("--model"), "{}", text(&output.stderr));
    assert!(!folder.path().join("data/admin.token").exists(), "the next start would not print the token");
    let server = Process::start("folio", folder.path(), &serve, &[]);
    assert!(server.printed_after("admin token, shown once").is_some(), "{}", server.printed());
}

#[test]
fn an_invalid_blob_address_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = [("FOLIO_STORAGE__S3__ENDPOINT", "http://127.0.0.1:9"), ("AWS_ACCESS_KEY_ID", "")];
    for (address, problem) in
        [("ftp://somewhere", "s3://BUCKET"), ("s3://", "no bucket"), ("s3://bucket", "AWS_ACCESS_KEY_ID")]
    {
        let output = folio(folder.path(), &["serve", "--listen", "127.0.0.1:0", "--blobs", address], &endpoint, "");
        assert!(!output.status.success(), "{address}");
        assert!(text(&output.stderr).contains(problem), "{address}: {}", text(&output.stderr));
    }
}

#[tokio::test]
async fn documents_are_stored_in_the_folder_of_blobs() {
    let folder = tempfile::tempdir().unwrap();
    let shared = folder.path().join("shared");
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--data", "data", "--blobs", &shared.to_string_lossy()];
    let server = Process::start("folio", folder.path(), &arguments, &[]);
    std::fs::write(folder.path().join("note.txt"), "total: 5").unwrap();
    let (url, token) = (server.url(), folder.path().join("data/admin.token"));
    let token = std::fs::read_to_string(token).unwrap();
    let chat = ["chat", "note.txt", "--server", &url, "--token", token.trim()];
    let output = folio(folder.path(), &chat, &[], "/quit\n");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let stored = files_below(&shared);
    assert!(stored.iter().any(|(_, bytes)| bytes == b"total: 5"), "the document is not in the folder");
}
