//! Outputs that take bytes in order and can never be taken back: standard output, a FIFO, a device.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use super::blocking;

/// Told by a NUL, as curl does.
const BINARY_TO_TERMINAL: &str = "the file is binary and standard output is a terminal";

/// An output written front to back.
#[derive(Debug)]
pub(crate) enum StreamSink {
    /// Standard output.
    Stdout {
        /// Binary data would change the terminal's state.
        is_terminal: bool,
    },
    /// A FIFO, a device, anything that is not a regular file; and its name.
    File(File, PathBuf),
}

impl StreamSink {
    pub(crate) fn stdout() -> Self {
        Self::Stdout {
            is_terminal: io::stdout().is_terminal(),
        }
    }

    /// Opens a FIFO or device for writing. Blocks until a FIFO has a reader, as every Unix tool does.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        // At its end, where another name of a descriptor leads to a regular file that something may stand in already.
        let file = blocking(|| File::options().append(true).open(path))?;
        Ok(Self::File(file, path.to_owned()))
    }

    /// Its name; standard output has none.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Stdout { .. } => None,
            Self::File(_, path) => Some(path),
        }
    }

    /// Writes all of it without stalling the reactor; the reader's pace is the sockets' pace.
    ///
    /// # Errors
    /// [`io::ErrorKind::BrokenPipe`] when the reader is gone, [`io::ErrorKind::Unsupported`] for binary data to a terminal; else what the
    /// system says.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        blocking(|| match self {
            Self::Stdout { is_terminal: true } if bytes.contains(&0) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                BINARY_TO_TERMINAL,
            )),
            Self::Stdout { .. } => io::stdout().write_all(bytes),
            Self::File(file, _) => file.write_all(bytes),
        })
    }

    /// Hands on what is buffered.
    ///
    /// # Errors
    /// As [`StreamSink::write`].
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        blocking(|| match self {
            Self::Stdout { .. } => io::stdout().flush(),
            Self::File(file, _) => file.flush(),
        })
    }
}

/// Whether a path is another name of standard output.
pub(crate) fn is_stdout(path: &Path) -> bool {
    ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"]
        .iter()
        .any(|name| path == Path::new(name))
}

/// Whether a path is a name of an open descriptor: nothing can be laid beside it or renamed to it, whatever it leads to.
fn is_descriptor(path: &Path) -> bool {
    let within = |dir| path.starts_with(dir);
    within("/dev/fd") || within("/proc/self/fd") || path == Path::new("/dev/stderr")
}

/// Whether a path names something that is no regular file and no directory: it is written as it is (row B4).
pub(crate) fn is_stream(path: &Path) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|found| !found.is_dir() && (!found.is_file() || is_descriptor(path)))
}
