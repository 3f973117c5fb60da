//! Tar shards as the batch sees them: entries go in, and come back with their place.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::entry_header::{entry_header, entry_name, padding};
use super::error::ArchiveError;
use super::shard_names::ShardNames;
use super::shard_set::ShardSet;
use super::stream::ArchiveStream;
use crate::disk::{StorageLayer, is_stdout, is_stream};

/// Bytes of a long entry that are held at a time.
const CHUNK: u64 = 256 * 1024;

/// What rows call an archive that is no file.
const STREAM: &str = "-";

/// Where an archive goes.
pub enum ArchiveDestination {
    /// A file, or what takes its place when there may be several. A FIFO or device is written as a stream.
    File(PathBuf),
    /// Standard output.
    Stdout,
    /// Whatever takes bytes in order.
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
    /// Whether somebody takes entries in order as they come: nothing can be taken back, divided, or gone on with.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        match self {
            Self::File(path) => is_stdout(path) || is_stream(path),
            Self::Stdout | Self::Writer(_) => true,
        }
    }
}

/// What archive is to be written.
#[derive(Debug)]
pub struct ArchiveOptions {
    /// Where it goes.
    pub destination: ArchiveDestination,
    /// The largest that a shard may be, in bytes; `None` is one archive, however large. A stream is never divided.
    pub shard_size: Option<u64>,
    /// Put between the engine and each shard; nothing, unless somebody tests or embeds it.
    pub layer: StorageLayer,
}

/// Where in which archive an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardEntryLocation {
    /// The archive's name without its directory; `-` for a stream.
    pub shard: String,
    /// Where the entry's first header begins.
    pub offset: u64,
    /// The byte after its padding. The contents end before that, filled up to a multiple of 512.
    pub end: u64,
}

impl ShardEntryLocation {
    /// Whether it is in no file, but went to whoever read it as it came.
    pub(crate) fn is_streamed(&self) -> bool {
        self.shard == STREAM
    }
}

/// An entry's contents.
pub enum ShardEntryContent<'a> {
    /// All of it, in memory.
    Pieces(&'a [Bytes]),
    /// This many bytes from a reader; what it has beyond them is left.
    Reader {
        /// Where they come from.
        reader: &'a mut dyn Read,
        /// How many.
        length: u64,
    },
}

impl fmt::Debug for ShardEntryContent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Content({} bytes)", self.length())
    }
}

impl ShardEntryContent<'_> {
    /// Bytes in it.
    fn length(&self) -> u64 {
        match self {
            Self::Pieces(pieces) => pieces.iter().map(|piece| piece.len() as u64).sum(),
            Self::Reader { length, .. } => *length,
        }
    }
}

/// An archive that is being written.
///
/// The order of calls: [`append`](Self::append) for each entry of a group, [`sync`](Self::sync), then the caller makes rows of all
/// those entries durable, then [`publish_full`](Self::settle); at the end, after a last round of these, [`finish`](Self::finish). Dropped
/// without that, the unfinished shards keep their temporary names for the next run. Every method blocks.
#[derive(Debug)]
pub struct ShardWriter(ShardOutput);

#[derive(Debug)]
enum ShardOutput {
    Files(Box<ShardSet>),
    Stream(ArchiveStream),
}

impl ShardWriter {
    /// Opens an archive; goes on with one of an earlier run where `durable` says, for each shard that rows speak of, the largest end
    /// of an entry in it. What lies behind that is cut off, a shard that nothing is known of is begun anew. Of several a finished one
    /// is left as it is; a single one that ends where `durable` says, and one of nothing, is opened again when an entry comes for it. A
    /// stream has no earlier run.
    ///
    /// # Errors
    /// [`ArchiveError::Exists`], [`ArchiveError::InTheWay`], [`ArchiveError::IsDirectory`], [`ArchiveError::Locked`],
    /// [`ArchiveError::Lost`], [`ArchiveError::OtherArchive`], [`ArchiveError::Local`].
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
        let files = ShardSet::open(names, options.shard_size, options.layer, &ends)?;
        Ok(Self(ShardOutput::Files(Box::new(files))))
    }

    /// Appends an entry under a relative path. `mtime` is in seconds since 1970.
    ///
    /// # Errors
    /// [`ArchiveError::Name`], [`ArchiveError::Content`], [`ArchiveError::Local`] (and what [`ShardWriter::open`] gives, when the next shard
    /// cannot be begun): nothing of the entry is in the archive then. [`ArchiveError::Stream`]; a stream is of no more use after that,
    /// nor after [`ArchiveError::Content`].
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
                let part = files.shard_for(bytes)?;
                let (offset, mut at) = (part.end(), part.end());
                let written = write_entry(head, &mut content, |pieces| {
                    part.write(at, pieces)?;
                    at += pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
                    Ok(())
                });
                written.inspect_err(|_| part.discard_entry())?;
                part.complete_entry(offset + bytes);
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

    /// Makes durable what was appended: only then may rows speak of it. To a stream it is handed on, which is all that can be done.
    ///
    /// # Errors
    /// [`ArchiveError::Local`]: nothing that was appended since the last sync may be relied on, now or by a later call;
    /// [`ArchiveError::Stream`].
    pub fn sync(&mut self) -> Result<(), ArchiveError> {
        match &mut self.0 {
            ShardOutput::Files(files) => files.sync(),
            ShardOutput::Stream(stream) => stream.flush(),
        }
    }

    /// Gives full shards their names. Called when rows of everything up to the last sync are durable.
    ///
    /// # Errors
    /// [`ArchiveError::Exists`] when such a name was taken meanwhile; [`ArchiveError::Local`].
    pub fn publish_full(&mut self) -> Result<(), ArchiveError> {
        match &mut self.0 {
            ShardOutput::Files(files) => files.publish_full(),
            ShardOutput::Stream(_) => Ok(()),
        }
    }

    /// The same, but where nothing was put into the archive, now or by an earlier run, there is none: a file of that name would look
    /// like what was asked for. A stream is ended in any case, for it has a reader.
    ///
    /// # Errors
    /// As [`ShardWriter::finish`].
    pub fn finish_unless_empty(self) -> Result<(), ArchiveError> {
        match self.0 {
            ShardOutput::Files(files) => files.finish_unless_empty(),
            ShardOutput::Stream(mut stream) => stream.finish(),
        }
    }

    /// Ends the archive: the last shard gets its end and its name. Called when rows of everything that was appended are durable.
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

/// Writes an entry as few runs of pieces, one after the other: a small one in a single call.
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
