//! A question on the terminal whose answer is not shown.
//!
//! Only the echo is turned off while it is asked: lines are edited, and ^C and ^Z are signals, as everywhere. Every way out puts
//! the terminal right again - an answer, ^D, SIGINT, SIGTERM, SIGHUP -, for not every shell does so for what it ran. Only ^\
//! is taken from the keyboard, since it would end the program without that. One that is stopped and goes on asks again.

use std::io;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PromptError {
    /// Nobody can be asked.
    #[error("there is no terminal to ask on")]
    NoTerminal(#[source] io::Error),
    /// The terminal failed, or what was typed is no text.
    #[error("the answer cannot be read")]
    Unreadable(#[source] io::Error),
    /// ^D, where an answer was expected.
    #[error("there was no answer")]
    End,
    /// A signal came first.
    #[error("interrupted")]
    Interrupted,
}

/// Whether there is a terminal to ask on.
pub(crate) fn can_prompt() -> bool {
    terminal::is_there()
}

/// Asks, and waits for a line.
///
/// # Errors
/// See [`PromptError`].
pub(crate) fn prompt(question: &str) -> Result<String, PromptError> {
    terminal::ask(question)
}

#[cfg(unix)]
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

    /// A control character that is none (`_POSIX_VDISABLE`).
    const DISABLED: u8 = if cfg!(target_os = "linux") { 0 } else { 0xff };

    pub(super) fn is_there() -> bool {
        open().is_ok()
    }

    fn open() -> io::Result<File> {
        OpenOptions::new().read(true).write(true).open("/dev/tty")
    }

    pub(super) fn ask(question: &str) -> Result<String, PromptError> {
        let terminal = Arc::new(open().map_err(PromptError::NoTerminal)?);
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(PromptError::Unreadable)?;
        let line = runtime.block_on(line(&runtime, &terminal, question));
        // After a signal the thread that reads still waits for a line.
        runtime.shutdown_background();
        let line = line?;
        let end = line.strip_suffix('\n').ok_or(PromptError::End)?;
        // ^\ is no signal here, and nobody has it in a password.
        Ok(end.strip_suffix('\r').unwrap_or(end).replace('\x1c', ""))
    }

    /// A line with its end, which is missing after ^D.
    async fn line(
        runtime: &Runtime,
        terminal: &Arc<File>,
        question: &str,
    ) -> Result<String, PromptError> {
        // Before the echo is turned off: from then on no signal may end the program on its own.
        let mut signals = StopSignals::listen().map_err(PromptError::Unreadable)?;
        let resumed = SignalKind::from_raw(Signal::CONT.as_raw());
        let mut resumed = signal(resumed).map_err(PromptError::Unreadable)?;
        let hidden = HiddenInput::new(terminal).map_err(PromptError::NoTerminal)?;
        let show = || write!(&**terminal, "{question}").map_err(PromptError::Unreadable);
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
                    // The shell in between had the terminal as it likes it.
                    hidden.hide().map_err(PromptError::Unreadable)?;
                    show()?;
                }
                line = &mut read => {
                    return line.map_err(io::Error::other).flatten().map_err(PromptError::Unreadable);
                }
            }
        }
    }

    /// A terminal that does not show what is typed, for as long as this lives.
    struct HiddenInput<'a> {
        terminal: &'a File,
        /// As it was.
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
            // In the background the terminal is another's, and touching it would stop us.
            if tcgetpgrp(self.terminal).is_ok_and(|group| group == getpgrp()) {
                // The end of the line was not shown either. A terminal that is gone needs nothing more.
                let _ = tcsetattr(self.terminal, OptionalActions::Now, &self.before);
                let _ = writeln!(self.terminal);
            }
        }
    }
}

#[cfg(not(unix))]
mod terminal {
    use super::PromptError;

    /// Known when it is asked.
    pub(super) fn is_there() -> bool {
        true
    }

    pub(super) fn ask(question: &str) -> Result<String, PromptError> {
        rpassword::prompt_password(question).map_err(PromptError::NoTerminal)
    }
}
