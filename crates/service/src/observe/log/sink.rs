//! The destinations of a log.

use std::convert::Infallible;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Writes lines, on a thread that may block.
pub trait LogSink: Send {
    /// Writes whole lines, many at once.
    ///
    /// # Errors
    /// When not all of them were written.
    fn write(&mut self, lines: &[u8]) -> io::Result<()>;

    /// Opens the file of the same name again, if there is a file.
    ///
    /// # Errors
    /// When that fails; the old file stays in use.
    fn reopen(&mut self) -> io::Result<()>;
}

/// The destination of lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogTarget {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// The end of a file, which is created if it is missing.
    File(PathBuf),
}

impl FromStr for LogTarget {
    type Err = Infallible;

    /// A hyphen is standard output, any other text a path.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "-" => Self::Stdout,
            path => Self::File(path.into()),
        })
    }
}

impl LogTarget {
    /// Opens it. The error contains the path.
    pub(super) fn open(&self) -> Result<Box<dyn LogSink>, (PathBuf, io::Error)> {
        match self {
            Self::Stdout => Ok(Box::new(StdoutSink)),
            Self::Stderr => Ok(Box::new(StderrSink)),
            Self::File(path) => match AppendFileSink::open(path) {
                Ok(file) => Ok(Box::new(file)),
                Err(error) => Err((path.clone(), error)),
            },
        }
    }
}

/// Standard output.
#[derive(Debug)]
struct StdoutSink;

impl LogSink for StdoutSink {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(lines)?;
        out.flush()
    }

    fn reopen(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Standard error.
#[derive(Debug)]
struct StderrSink;

impl LogSink for StderrSink {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        io::stderr().lock().write_all(lines)
    }

    fn reopen(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file to which lines are appended.
#[derive(Debug)]
struct AppendFileSink {
    /// Another file may have this name by now.
    path: PathBuf,
    file: File,
    /// Whether the last line may be incomplete, since the disk was full: a line break goes before the next.
    is_torn: bool,
}

impl AppendFileSink {
    fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            file: append_to(path)?,
            is_torn: false,
        })
    }
}

impl LogSink for AppendFileSink {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.is_torn {
            self.file.write_all(b"\n")?;
        }
        let written = self.file.write_all(lines);
        self.is_torn = written.is_err();
        written
    }

    fn reopen(&mut self) -> io::Result<()> {
        self.file = append_to(&self.path)?;
        self.is_torn = false;
        Ok(())
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hyphen_is_standard_output_and_any_other_text_a_file() {
        assert_eq!("-".parse(), Ok(LogTarget::Stdout));
        let file = LogTarget::File("/var/log/haul".into());
        assert_eq!("/var/log/haul".parse(), Ok(file));
    }

    #[test]
    fn lines_are_appended_and_after_a_rename_go_to_a_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let (path, moved) = (folder.path().join("log"), folder.path().join("log.1"));
        std::fs::write(&path, "old\n").unwrap();
        let mut sink = AppendFileSink::open(&path).unwrap();
        sink.write(b"one\n").unwrap();
        std::fs::rename(&path, &moved).unwrap();
        sink.write(b"two\n").unwrap();
        sink.reopen().unwrap();
        sink.write(b"three\n").unwrap();
        let read = |path| std::fs::read_to_string(path).unwrap();
        assert_eq!(read(&moved), "old\none\ntwo\n");
        assert_eq!(read(&path), "three\n");
    }

    #[test]
    fn if_reopening_fails_the_old_file_is_used_on() {
        let folder = tempfile::tempdir().unwrap();
        let room = folder.path().join("room");
        std::fs::create_dir(&room).unwrap();
        let mut sink = AppendFileSink::open(&room.join("log")).unwrap();
        let moved = folder.path().join("moved");
        std::fs::rename(&room, &moved).unwrap();
        sink.reopen().unwrap_err();
        sink.write(b"on\n").unwrap();
        assert_eq!(std::fs::read(moved.join("log")).unwrap(), b"on\n");
    }

    #[test]
    fn after_a_full_disk_a_line_break_goes_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let full = OpenOptions::new().append(true).open("/dev/full").unwrap();
        let mut sink = AppendFileSink::open(&path).unwrap();
        sink.write(b"tor").unwrap();
        let disk = std::mem::replace(&mut sink.file, full);
        sink.write(b"n\n").unwrap_err();
        // The disk is still full.
        sink.write(b"lost\n").unwrap_err();
        sink.file = disk;
        sink.write(b"whole\n").unwrap();
        sink.write(b"next\n").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"tor\nwhole\nnext\n");
    }
}
