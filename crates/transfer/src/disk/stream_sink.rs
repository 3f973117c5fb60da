//! Outputs that are written in order and cannot be rewound: standard output, a FIFO, a device.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use super::blocking;

/// A NUL byte shows that, as in curl.
const BINARY_TO_TERMINAL: &str = "the file is binary and standard output is a terminal";

/// An output written front to back.
#[derive(Debug)]
pub(crate) enum StreamSink {
    /// Standard output.
    Stdout {
        /// Binary data could change the terminal's settings, so it is refused then.
        is_terminal: bool,
    },
    /// A FIFO, a device, or another file that is not regular, and its path.
    File(File, PathBuf),
}

impl StreamSink {
    pub(crate) fn stdout() -> Self {
        Self::Stdout {
            is_terminal: io::stdout().is_terminal(),
        }
    }

    /// Opens a FIFO or device for writing. Blocks until a FIFO has a reader, as every Unix tool does.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        // Appends: a name of a descriptor may lead to a regular file that already has content.
        let file = blocking(|| File::options().append(true).open(path))?;
        Ok(Self::File(file, path.to_owned()))
    }

    /// Its path; `None` for standard output.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Stdout { .. } => None,
            Self::File(_, path) => Some(path),
        }
    }

    /// Writes all of it without stalling the reactor. A slow reader of the output slows the download.
    ///
    /// # Errors
    /// [`io::ErrorKind::BrokenPipe`] when the reader has closed it, [`io::ErrorKind::Unsupported`] for binary data to a
    /// terminal; else the error of the system.
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

    /// Flushes buffered bytes.
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

/// Whether a path is a name of an open descriptor: no file can be created next to it or renamed to it, whatever it refers
/// to.
fn is_descriptor(path: &Path) -> bool {
    let within = |dir| path.starts_with(dir);
    within("/dev/fd") || within("/proc/self/fd") || path == Path::new("/dev/stderr")
}

/// Whether a path is to be written directly (row B4): it names neither a regular file nor a directory.
pub(crate) fn is_stream(path: &Path) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|found| !found.is_dir() && (!found.is_file() || is_descriptor(path)))
}
