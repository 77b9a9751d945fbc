//! A secret that the user types without echo, or the first line of standard input. No argument contains a secret, because
//! every user of the machine can read the arguments of a process.

use std::io::{BufRead, IsTerminal as _, Write as _};

use anyhow::{Context as _, Result, bail};
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use tokio::sync::oneshot;

/// Maximum size of a line with a secret, in bytes.
const LINE_BYTES: usize = 16 * 1024;

/// Reads a secret without surrounding whitespace. `prompt` is shown on a terminal only.
pub(crate) async fn read(prompt: &str) -> Result<String> {
    Ok(read_line(prompt).await?.trim().to_owned())
}

/// Reads a secret in which whitespace counts. `prompt` is shown on a terminal only.
pub(crate) async fn read_line(prompt: &str) -> Result<String> {
    let hidden = std::io::stdin().is_terminal().then(HiddenInput::start).transpose()?;
    if hidden.is_some() {
        let mut err = std::io::stderr();
        write!(err, "{prompt}")?;
        err.flush()?;
    }
    let (send, line) = oneshot::channel();
    // A blocking read cannot be interrupted, so it has a thread of its own.
    std::thread::Builder::new().name("secret".to_owned()).spawn(move || {
        // The command may have ended.
        let _ = send.send(first_line(std::io::stdin().lock()));
    })?;
    let shutdown = folio_process::signals::shutdown_on_signal()?;
    let secret = tokio::select! {
        line = line => line.context("standard input ended")??,
        // The terminal is restored before the command ends.
        () = shutdown.cancelled() => bail!("stopped by a signal"),
    };
    Ok(secret.strip_suffix('\r').unwrap_or(&secret).to_owned())
}

/// Returns the text before the first line end, at most [`LINE_BYTES`] bytes. Further lines remain in the input.
fn first_line(input: impl BufRead) -> Result<String> {
    let mut line = Vec::new();
    input.take(LINE_BYTES as u64 + 1).read_until(b'\n', &mut line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() > LINE_BYTES {
        bail!("the line has more than {LINE_BYTES} bytes");
    }
    String::from_utf8(line).ok().context("the line is not UTF-8")
}

/// A terminal that does not echo. Dropping it restores the mode of the terminal and ends the line.
struct HiddenInput(Termios);

impl HiddenInput {
    fn start() -> Result<Self> {
        let before = tcgetattr(std::io::stdin())?;
        let mut hidden = before.clone();
        hidden.local_flags.remove(LocalFlags::ECHO);
        tcsetattr(std::io::stdin(), SetArg::TCSADRAIN, &hidden)?;
        Ok(Self(before))
    }
}

impl Drop for HiddenInput {
    fn drop(&mut self) {
        // The terminal may be closed.
        let _ = tcsetattr(std::io::stdin(), SetArg::TCSADRAIN, &self.0);
        let _ = writeln!(std::io::stderr());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_the_first_line_within_its_bound() {
        assert_eq!(first_line(&b"secret\nfurther"[..]).unwrap(), "secret");
        assert_eq!(first_line(&b"secret"[..]).unwrap(), "secret");
        assert_eq!(first_line(&b""[..]).unwrap(), "");
        assert!(first_line(&b"\xff\n"[..]).is_err());
        let longest = "x".repeat(LINE_BYTES);
        assert_eq!(first_line(longest.as_bytes()).unwrap(), longest);
        let too_long = longest + "x";
        assert!(first_line(too_long.as_bytes()).is_err());
        let mut two = &b"first\nsecond\n"[..];
        assert_eq!([first_line(&mut two).unwrap(), first_line(&mut two).unwrap()], ["first", "second"]);
    }
}
