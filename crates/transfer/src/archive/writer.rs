//! [`ShardWriter`]: the batch appends entries and gets their locations.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::entry_header::{END, entry_header, entry_name, padding};
use super::error::ArchiveError;
use super::shard_names::ShardNames;
use super::shard_set::ShardSet;
use crate::disk::{StorageWrapping, is_stdout, is_stream};

/// Bytes of a long entry that are in memory at a time.
const CHUNK: u64 = 256 * 1024;

/// Bytes that are buffered before they are written.
const STREAM_BUFFER: usize = 256 * 1024;

/// The name of a stream in manifest rows.
const STREAM: &str = "-";

/// Where an archive goes.
pub enum ArchiveDestination {
    /// A file, or the name from which shard names are made. A FIFO or device is written as a stream.
    File(PathBuf),
    /// Standard output.
    Stdout,
    Writer(Box<dyn Write + Send>),
}

impl fmt::Debug for ArchiveDestination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Stdout => f.write_str("Stdout"),
            Self::Writer(_) => f.write_str("Writer"),
        }
    }
}

impl ArchiveDestination {
    /// Whether entries are read while they are written. Such an archive cannot be taken back, split or continued.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        match self {
            Self::File(path) => is_stdout(path) || is_stream(path),
            Self::Stdout | Self::Writer(_) => true,
        }
    }
}

#[derive(Debug)]
pub struct ArchiveOptions {
    /// Where the archive goes.
    pub destination: ArchiveDestination,
    /// The size limit of a shard, in bytes; `None` for a single archive. A stream is never split.
    pub shard_size: Option<u64>,
    /// A wrapper of each shard file, for tests and embedding.
    pub wrapping: StorageWrapping,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardEntryLocation {
    /// The archive's name without its directory; `-` for a stream.
    pub shard: String,
    /// Offset of the entry's first header.
    pub offset: u64,
    /// End of the entry's padding. The content ends before, padded to a multiple of 512 bytes.
    pub end: u64,
}

impl ShardEntryLocation {
    /// Whether the entry went to a stream and is in no file.
    pub(crate) fn is_streamed(&self) -> bool {
        self.shard == STREAM
    }
}

pub enum ShardEntryContent<'a> {
    /// Everything, in memory.
    Pieces(&'a [Bytes]),
    /// `length` bytes from a reader. Further bytes are not read.
    Reader {
        reader: &'a mut dyn Read,
        /// The length in bytes.
        length: u64,
    },
}

impl fmt::Debug for ShardEntryContent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Content({} bytes)", self.length())
    }
}

impl ShardEntryContent<'_> {
    fn length(&self) -> u64 {
        match self {
            Self::Pieces(pieces) => pieces.iter().map(|piece| piece.len() as u64).sum(),
            Self::Reader { length, .. } => *length,
        }
    }
}

/// An archive that is being written.
///
/// The order of calls: [`append`](Self::append) for each entry of a group, then [`sync`](Self::sync), then the caller
/// makes the rows of these entries durable, then [`publish_full`](Self::publish_full). After the last group,
/// [`finish`](Self::finish). A writer that is dropped before leaves unfinished shards under their temporary names for
/// the next run. Every method blocks.
#[derive(Debug)]
pub struct ShardWriter(ShardOutput);

#[derive(Debug)]
enum ShardOutput {
    Files(Box<ShardSet>),
    Stream(ArchiveStream),
}

impl ShardWriter {
    /// Opens an archive, or continues that of an earlier run. `durable` has, for each shard that rows record, the
    /// largest end of an entry in it. The shard is cut off there; a shard without rows is emptied. In a series, a
    /// finished shard stays as it is. A single archive that ends where `durable` says, or an empty one, is reopened
    /// when the first entry comes. A stream has no earlier run.
    ///
    /// # Errors
    /// [`ArchiveError::Exists`], [`ArchiveError::InTheWay`], [`ArchiveError::IsDirectory`], [`ArchiveError::Locked`],
    /// [`ArchiveError::MissingEntries`], [`ArchiveError::OtherArchive`], [`ArchiveError::Local`].
    pub fn open<'a>(
        options: ArchiveOptions,
        durable: impl IntoIterator<Item = (&'a str, u64)>,
    ) -> Result<Self, ArchiveError> {
        let stream = |writer| Ok(Self(ShardOutput::Stream(ArchiveStream::new(writer))));
        let path = match options.destination {
            ArchiveDestination::Stdout => return stream(Box::new(io::stdout())),
            ArchiveDestination::Writer(writer) => return stream(writer),
            ArchiveDestination::File(path) if is_stdout(&path) => {
                return stream(Box::new(io::stdout()));
            }
            ArchiveDestination::File(path) if is_stream(&path) => {
                return match File::options().append(true).open(&path) {
                    Ok(file) => stream(Box::new(file)),
                    Err(source) => Err(ArchiveError::Local {
                        action: "open",
                        path,
                        source,
                    }),
                };
            }
            ArchiveDestination::File(path) if path.is_dir() => {
                return Err(ArchiveError::IsDirectory { path });
            }
            ArchiveDestination::File(path) => path,
        };
        let names = ShardNames::new(path, options.shard_size.is_some());
        let mut ends = BTreeMap::new();
        for (shard, end) in durable {
            let Some(index) = names.index_of(shard) else {
                let (path, shard) = (names.path(0), shard.to_owned());
                return Err(ArchiveError::OtherArchive { path, shard });
            };
            ends.entry(index)
                .and_modify(|last: &mut u64| *last = end.max(*last))
                .or_insert(end);
        }
        let files = ShardSet::open(names, options.shard_size, options.wrapping, &ends)?;
        Ok(Self(ShardOutput::Files(Box::new(files))))
    }

    /// Appends an entry under a relative path. `mtime` is in seconds since 1970.
    ///
    /// # Errors
    /// [`ArchiveError::InvalidName`], [`ArchiveError::Content`], [`ArchiveError::Local`] (and, when the next shard
    /// cannot be created, the errors of [`ShardWriter::open`]): then the archive holds nothing of the entry.
    /// [`ArchiveError::Stream`]: a stream is of no more use after that, nor after [`ArchiveError::Content`].
    pub fn append(
        &mut self,
        path: &Path,
        mut content: ShardEntryContent<'_>,
        mtime: u64,
    ) -> Result<ShardEntryLocation, ArchiveError> {
        let name = entry_name(path)?;
        let length = content.length();
        let head = Bytes::from(entry_header(&name, length, mtime));
        let bytes = (head.len() as u64)
            .saturating_add(length)
            .saturating_add(padding(length).len() as u64);
        match &mut self.0 {
            ShardOutput::Files(files) => {
                let shard = files.shard_for(bytes)?;
                let (offset, mut at) = (shard.end(), shard.end());
                let written = write_entry(head, &mut content, |pieces| {
                    shard.write(at, pieces)?;
                    at += pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
                    Ok(())
                });
                written.inspect_err(|_| shard.discard_entry())?;
                shard.complete_entry(offset + bytes);
                Ok(ShardEntryLocation {
                    shard: files.current_name(),
                    offset,
                    end: offset + bytes,
                })
            }
            ShardOutput::Stream(stream) => {
                let offset = stream.end();
                let written = write_entry(head, &mut content, |pieces| stream.write(pieces));
                written.inspect_err(|_| stream.mark_broken())?;
                stream.complete_entry(offset + bytes);
                Ok(ShardEntryLocation {
                    shard: STREAM.to_owned(),
                    offset,
                    end: offset + bytes,
                })
            }
        }
    }

    /// Makes the appended entries durable. Only then may rows record them. For a stream this writes the buffered bytes,
    /// which is all that can be done.
    ///
    /// # Errors
    /// [`ArchiveError::Local`]: no entry that was appended since the last sync may be relied on, now or after a later
    /// call; [`ArchiveError::Stream`].
    pub fn sync(&mut self) -> Result<(), ArchiveError> {
        match &mut self.0 {
            ShardOutput::Files(files) => files.sync(),
            ShardOutput::Stream(stream) => stream.flush(),
        }
    }

    /// Renames full shards. Call this when the rows of all synced entries are durable.
    ///
    /// # Errors
    /// [`ArchiveError::Exists`] when such a name was taken meanwhile; [`ArchiveError::Local`].
    pub fn publish_full(&mut self) -> Result<(), ArchiveError> {
        match &mut self.0 {
            ShardOutput::Files(files) => files.publish_full(),
            ShardOutput::Stream(_) => Ok(()),
        }
    }

    /// Like [`finish`](Self::finish), but removes an archive without entries: a file of that name would look like the
    /// result that was requested. A stream gets its end in any case, because it has a reader.
    ///
    /// # Errors
    /// As [`ShardWriter::finish`].
    pub fn finish_unless_empty(self) -> Result<(), ArchiveError> {
        match self.0 {
            ShardOutput::Files(files) => files.finish_unless_empty(),
            ShardOutput::Stream(mut stream) => stream.finish(),
        }
    }

    /// Writes the end of the last shard and renames all shards. Call this when the rows of all entries are durable.
    ///
    /// # Errors
    /// [`ArchiveError::Exists`], [`ArchiveError::Local`], [`ArchiveError::Stream`].
    pub fn finish(self) -> Result<(), ArchiveError> {
        match self.0 {
            ShardOutput::Files(files) => files.finish(),
            ShardOutput::Stream(mut stream) => stream.finish(),
        }
    }
}

/// An archive on a pipe or a device. Nothing can be taken back, so one failure ends it.
struct ArchiveStream {
    writer: BufWriter<Box<dyn Write + Send>>,
    /// End of the last complete entry.
    end: u64,
    /// Whether a partial entry was written.
    broken: bool,
}

impl fmt::Debug for ArchiveStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { end, broken, .. } = self;
        write!(f, "Stream {{ end: {end}, broken: {broken} }}")
    }
}

impl ArchiveStream {
    fn new(writer: Box<dyn Write + Send>) -> Self {
        Self {
            writer: BufWriter::with_capacity(STREAM_BUFFER, writer),
            end: 0,
            broken: false,
        }
    }

    fn end(&self) -> u64 {
        self.end
    }

    fn write(&mut self, pieces: &[Bytes]) -> Result<(), ArchiveError> {
        if self.broken {
            // Not `BrokenPipe`: the reader may be well and wait for more.
            let why = io::Error::other("an earlier entry is incomplete");
            return Err(ArchiveError::Stream(why));
        }
        pieces
            .iter()
            .try_for_each(|piece| self.writer.write_all(piece))
            .map_err(ArchiveError::Stream)
    }

    /// Marks everything up to `end` as complete entries.
    fn complete_entry(&mut self, end: u64) {
        self.end = end;
    }

    /// An entry failed half way.
    fn mark_broken(&mut self) {
        self.broken = true;
    }

    /// Writes the buffered bytes, so that manifest rows may record them.
    fn flush(&mut self) -> Result<(), ArchiveError> {
        let flushed = self
            .write(&[])
            .and_then(|()| self.writer.flush().map_err(ArchiveError::Stream));
        self.broken |= flushed.is_err();
        flushed
    }

    /// Writes the end of the archive.
    fn finish(&mut self) -> Result<(), ArchiveError> {
        self.write(&[Bytes::from_static(&END)])?;
        self.flush()
    }
}

/// Writes an entry in as few calls as possible: a small entry in one.
fn write_entry(
    head: Bytes,
    content: &mut ShardEntryContent<'_>,
    mut write: impl FnMut(&[Bytes]) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    let pad = Bytes::from_static(padding(content.length()));
    let (reader, length) = match content {
        ShardEntryContent::Pieces(pieces) => {
            let all: Vec<Bytes> = std::iter::once(head)
                .chain(pieces.iter().cloned())
                .chain([pad])
                .collect();
            return write(&all);
        }
        ShardEntryContent::Reader { reader, length } => (reader, *length),
    };
    let (mut left, mut run) = (length, vec![head]);
    while left > 0 {
        let mut chunk = Vec::new();
        let wanted = left.min(CHUNK);
        reader
            .by_ref()
            .take(wanted)
            .read_to_end(&mut chunk)
            .map_err(ArchiveError::Content)?;
        if (chunk.len() as u64) < wanted {
            return Err(ArchiveError::Content(io::ErrorKind::UnexpectedEof.into()));
        }
        left -= wanted;
        run.push(Bytes::from(chunk));
        if left > 0 {
            write(&run)?;
            run.clear();
        }
    }
    run.push(pad);
    write(&run)
}
