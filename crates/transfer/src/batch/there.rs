//! A file that is there already, where its list says what digest it must have.

use std::fs::File;
use std::io::{self, Read};

use super::clerk::Delivery;
use super::errand::Errand;
use crate::checksum::Hashers;
use crate::error::GetError;
use crate::get::finish::Wanted;
use crate::manifest::{Row, State};

/// Bytes that are read at once.
const READ: usize = 256 << 10;

/// Reads it back, which may take long, and tells whether it is the file meant.
pub(super) fn verify(errand: &Errand) -> Delivery {
    let wanted = Wanted {
        given: errand.job.checksums.clone(),
        announced: Vec::new(),
        pieces: false,
    };
    let path = || errand.path.clone();
    let (bytes, digests) = match read(errand, &wanted) {
        Ok(read) => read,
        Err(error) => return Delivery::failed(errand, GetError::local("read", path(), error)),
    };
    if wanted.check(&errand.job.url, &digests).is_err() {
        // It is somebody's, and stays.
        return Delivery::failed(errand, GetError::Exists { path: path() });
    }
    Delivery::ended(Row {
        bytes,
        checksums: wanted.report(&digests),
        ..errand.row(State::Done)
    })
}

fn read(errand: &Errand, wanted: &Wanted) -> io::Result<(u64, Vec<crate::checksum::Digested>)> {
    let mut file = File::open(&errand.path)?;
    let mut hashers = Hashers::new(wanted.algorithms());
    let (mut buffer, mut bytes) = (vec![0; READ], 0);
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok((bytes, hashers.finish()));
        }
        hashers.update(&buffer[..read]);
        bytes += read as u64;
    }
}
