//! `folio completions` and `folio man`: files that are generated from the declaration of the command line.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::terminal::write_stdout;

#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell.
    shell: Shell,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Man {
    /// The folder of the man pages. It is created if missing, and pages of an earlier version in it are replaced.
    folder: PathBuf,
}

pub(crate) fn print_completions(arguments: &Completions) -> Result<()> {
    Ok(write_stdout(&completions(arguments.shell)?)?)
}

fn completions(shell: Shell) -> Result<String> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "folio", &mut script);
    Ok(String::from_utf8(script)?)
}

pub(crate) fn write_man_pages(Man { folder }: &Man) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("{} cannot be created", folder.display()))?;
    clap_mangen::generate_to(Arguments::command(), folder)
        .with_context(|| format!("the man pages cannot be written to {}", folder.display()))?;
    Ok(write_stdout(&format!("wrote the man pages to {}\n", folder.display()))?)
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_shell_completes_the_data_commands() {
        for shell in Shell::value_variants() {
            let script = completions(*shell).unwrap();
            for word in ["document", "extraction", "webhook", "--output"] {
                let word = if *shell == Shell::Fish { word.trim_start_matches("--") } else { word };
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
    }

    #[test]
    fn each_command_has_a_man_page() {
        let folder = tempfile::tempdir().unwrap();
        write_man_pages(&Man { folder: folder.path().join("man1") }).unwrap();
        for page in ["folio.1", "folio-document-add.1", "folio-extraction-export.1", "folio-webhook-redeliver.1"] {
            let text = std::fs::read_to_string(folder.path().join("man1").join(page)).unwrap();
            assert!(text.contains(".TH"), "{page}: {text}");
        }
    }

    #[test]
    fn help_lists_server_flags_only_where_they_have_an_effect() {
        let mut line = Arguments::command();
        line.build();
        let has = |path: &[&str], flag: &str| {
            let command = path.iter().try_fold(&line, |command, name| command.find_subcommand(name));
            let command = command.unwrap_or_else(|| panic!("{path:?} is no command"));
            command.get_arguments().any(|argument| argument.get_long() == Some(flag))
        };
        assert!(has(&["serve"], "listen") && has(&["serve"], "data") && has(&["serve"], "config"));
        assert!(has(&["document", "list"], "data") && has(&["document", "list"], "server"));
        for (path, flag) in [
            (&["health"][..], "config"),
            (&["dev-certs"], "data"),
            (&["completions"], "config"),
            (&["login"], "listen"),
            (&["demo"], "data"),
            (&["chat"], "listen"),
            (&["document", "list"], "listen"),
        ] {
            assert!(!has(path, flag), "{path:?} has --{flag}");
        }
    }
}
