//! The keys that a sync will delete at its end.
//!
//! Nothing may be deleted before both lists have been read without an error, and there may be millions of keys: so they wait in a file
//! without a name.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, Write as _};

/// Keys in a temporary file.
#[derive(Debug)]
pub(super) struct DeletionList {
    file: BufWriter<File>,
    count: u64,
}

impl DeletionList {
    /// An empty list.
    ///
    /// # Errors
    /// There is no room for temporary files.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            file: BufWriter::new(tempfile::tempfile()?),
            count: 0,
        })
    }

    /// Adds a key.
    ///
    /// # Errors
    /// The disk is full.
    pub(super) fn push(&mut self, key: &str) -> io::Result<()> {
        let length = u32::try_from(key.len()).map_err(io::Error::other)?;
        self.file.write_all(&length.to_le_bytes())?;
        self.file.write_all(key.as_bytes())?;
        self.count += 1;
        Ok(())
    }

    /// How many keys there are.
    pub(super) fn len(&self) -> u64 {
        self.count
    }

    /// The keys in the order in which they were added.
    ///
    /// # Errors
    /// The file cannot be written or read.
    pub(super) fn into_keys(self) -> io::Result<impl Iterator<Item = io::Result<String>> + Send> {
        let mut file = self
            .file
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        let mut file = BufReader::new(file);
        Ok((0..self.count).map(move |_| {
            let mut length = [0; 4];
            file.read_exact(&mut length)?;
            let mut key = vec![0; u32::from_le_bytes(length) as usize];
            file.read_exact(&mut key)?;
            String::from_utf8(key).map_err(io::Error::other)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_as_they_were_added() {
        let mut list = DeletionList::new().unwrap();
        assert_eq!(list.len(), 0);
        let keys = ["a", "", "b\0c\n", "é/ü"];
        for key in keys {
            list.push(key).unwrap();
        }
        assert_eq!(list.len(), 4);
        let read: io::Result<Vec<String>> = list.into_keys().unwrap().collect();
        assert_eq!(read.unwrap(), keys);
    }
}
