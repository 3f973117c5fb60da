//! Asks for a password on the terminal without showing it.
//!
//! Only the echo is turned off meanwhile: line editing works, and ^C and ^Z send signals. Every end restores the terminal - an answer, ^D,
//! SIGINT, SIGTERM, SIGHUP - since not every shell does so for its programs. Only ^\ is disabled, since it would end the program without
//! that. After a stop and a continue the prompt is shown again.

use std::io;

/// Why there is no password.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PromptError {
    #[error("there is no terminal")]
    NoTerminal(#[source] io::Error),
    /// The terminal failed, or the input is not UTF-8.
    #[error("the password cannot be read")]
    Unreadable(#[source] io::Error),
    /// The user pressed ^D.
    #[error("no password was given")]
    End,
    /// A signal arrived first.
    #[error("interrupted")]
    Interrupted,
}

/// Whether there is a terminal.
pub(crate) fn can_prompt() -> bool {
    terminal::is_there()
}

/// Shows `text` and waits for a line.
pub(crate) fn prompt(text: &str) -> Result<String, PromptError> {
    terminal::ask(text)
}

mod terminal {
    use std::fs::{File, OpenOptions};
    use std::io::{self, BufRead as _, BufReader, Write as _};
    use std::sync::Arc;

    use rustix::process::{Signal, getpgrp};
    use rustix::termios::{
        LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr,
    };
    use tokio::runtime::{Builder, Runtime};
    use tokio::signal::unix::{SignalKind, signal};

    use super::PromptError;
    use crate::signals::StopSignals;

    /// The value of a disabled control character (`_POSIX_VDISABLE`).
    const DISABLED: u8 = 0;

    pub(super) fn is_there() -> bool {
        open().is_ok()
    }

    fn open() -> io::Result<File> {
        OpenOptions::new().read(true).write(true).open("/dev/tty")
    }

    pub(super) fn ask(text: &str) -> Result<String, PromptError> {
        let terminal = Arc::new(open().map_err(PromptError::NoTerminal)?);
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(PromptError::Unreadable)?;
        let line = runtime.block_on(line(&runtime, &terminal, text));
        // After a signal the reading thread still waits for a line.
        runtime.shutdown_background();
        let line = line?;
        let end = line.strip_suffix('\n').ok_or(PromptError::End)?;
        // ^\ sends no signal here, and no password contains it.
        Ok(end.strip_suffix('\r').unwrap_or(end).replace('\x1c', ""))
    }

    /// A line with its line break, which is missing after ^D.
    async fn line(
        runtime: &Runtime,
        terminal: &Arc<File>,
        text: &str,
    ) -> Result<String, PromptError> {
        // Before the echo is off: from then on no signal may end the program by itself.
        let mut signals = StopSignals::listen().map_err(PromptError::Unreadable)?;
        let resumed = SignalKind::from_raw(Signal::CONT.as_raw());
        let mut resumed = signal(resumed).map_err(PromptError::Unreadable)?;
        let hidden = HiddenInput::new(terminal).map_err(PromptError::NoTerminal)?;
        let show = || write!(&**terminal, "{text}").map_err(PromptError::Unreadable);
        show()?;
        let reader = Arc::clone(terminal);
        let mut read = runtime.spawn_blocking(move || {
            let mut line = String::new();
            BufReader::new(&*reader).read_line(&mut line).map(|_| line)
        });
        loop {
            tokio::select! {
                biased;
                _ = signals.next() => return Err(PromptError::Interrupted),
                Some(()) = resumed.recv() => {
                    // The shell has changed the terminal meanwhile.
                    hidden.hide().map_err(PromptError::Unreadable)?;
                    show()?;
                }
                line = &mut read => {
                    return line.map_err(io::Error::other).flatten().map_err(PromptError::Unreadable);
                }
            }
        }
    }

    /// A terminal without echo while this lives.
    struct HiddenInput<'a> {
        terminal: &'a File,
        /// The settings to restore.
        before: Termios,
    }

    impl<'a> HiddenInput<'a> {
        fn new(terminal: &'a File) -> io::Result<Self> {
            let before = tcgetattr(terminal)?;
            let hidden = Self { terminal, before };
            hidden.hide()?;
            Ok(hidden)
        }

        fn hide(&self) -> io::Result<()> {
            let mut settings = self.before.clone();
            settings.local_modes.remove(LocalModes::ECHO);
            settings.special_codes[SpecialCodeIndex::VQUIT] = DISABLED;
            Ok(tcsetattr(self.terminal, OptionalActions::Now, &settings)?)
        }
    }

    impl Drop for HiddenInput<'_> {
        fn drop(&mut self) {
            // In the background the terminal belongs to another process group, and touching it would stop this one.
            if tcgetpgrp(self.terminal).is_ok_and(|group| group == getpgrp()) {
                // The line break was not shown either. A terminal that is gone needs nothing more.
                let _ = tcsetattr(self.terminal, OptionalActions::Now, &self.before);
                let _ = writeln!(self.terminal);
            }
        }
    }
}
