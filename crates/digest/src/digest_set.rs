//! Several digests over one pass of the bytes.

use haul_plan::DigestAlgorithm;
use sha2::Digest as _;

use crate::{Crc32, Crc32c, Crc64Nvme};

/// One algorithm at work.
enum Hasher {
    Sha256(sha2::Sha256),
    Sha512(sha2::Sha512),
    Sha1(sha1::Sha1),
    Md5(md5::Md5),
    Blake3(Box<blake3::Hasher>),
    Crc32c(Crc32c),
    Crc32(Crc32),
    Crc64Nvme(Crc64Nvme),
}

impl Hasher {
    fn new(algorithm: DigestAlgorithm) -> Self {
        match algorithm {
            DigestAlgorithm::Sha256 => Self::Sha256(sha2::Sha256::new()),
            DigestAlgorithm::Sha512 => Self::Sha512(sha2::Sha512::new()),
            DigestAlgorithm::Sha1 => Self::Sha1(sha1::Sha1::new()),
            DigestAlgorithm::Md5 => Self::Md5(md5::Md5::new()),
            DigestAlgorithm::Blake3 => Self::Blake3(Box::default()),
            DigestAlgorithm::Crc32c => Self::Crc32c(Crc32c::new()),
            DigestAlgorithm::Crc32 => Self::Crc32(Crc32::new()),
            DigestAlgorithm::Crc64Nvme => Self::Crc64Nvme(Crc64Nvme::new()),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(h) => h.update(bytes),
            Self::Sha512(h) => h.update(bytes),
            Self::Sha1(h) => h.update(bytes),
            Self::Md5(h) => h.update(bytes),
            Self::Blake3(h) => {
                h.update(bytes);
            }
            Self::Crc32c(h) => h.update(bytes),
            Self::Crc32(h) => h.update(bytes),
            Self::Crc64Nvme(h) => h.update(bytes),
        }
    }

    fn finish(self) -> Vec<u8> {
        match self {
            Self::Sha256(h) => h.finalize().to_vec(),
            Self::Sha512(h) => h.finalize().to_vec(),
            Self::Sha1(h) => h.finalize().to_vec(),
            Self::Md5(h) => h.finalize().to_vec(),
            Self::Blake3(h) => h.finalize().as_bytes().to_vec(),
            Self::Crc32c(h) => h.finish().to_be_bytes().to_vec(),
            Self::Crc32(h) => h.finish().to_be_bytes().to_vec(),
            Self::Crc64Nvme(h) => h.finish().to_be_bytes().to_vec(),
        }
    }
}

/// A finished digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComputedDigest {
    /// Which one.
    pub algorithm: DigestAlgorithm,
    /// Its bytes, most significant first.
    pub digest: Vec<u8>,
}

/// Several digests over one pass of the bytes; by default none.
#[derive(Default)]
pub struct DigestSet(Vec<(DigestAlgorithm, Hasher)>);

impl std::fmt::Debug for DigestSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|(algorithm, _)| algorithm))
            .finish()
    }
}

impl DigestSet {
    /// Begins a digest of each algorithm, each once.
    pub fn new(algorithms: impl IntoIterator<Item = DigestAlgorithm>) -> Self {
        let mut hashers: Vec<(DigestAlgorithm, Hasher)> = Vec::new();
        for algorithm in algorithms {
            if hashers.iter().all(|(known, _)| *known != algorithm) {
                hashers.push((algorithm, Hasher::new(algorithm)));
            }
        }
        Self(hashers)
    }

    /// Whether nothing is to be computed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Which digests are computed.
    #[must_use]
    pub fn algorithms(&self) -> Vec<DigestAlgorithm> {
        self.0.iter().map(|(algorithm, _)| *algorithm).collect()
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        for (_, hasher) in &mut self.0 {
            hasher.update(bytes);
        }
    }

    /// The digests of all bytes taken.
    #[must_use]
    pub fn finish(self) -> Vec<ComputedDigest> {
        let finish = |(algorithm, hasher): (DigestAlgorithm, Hasher)| ComputedDigest {
            algorithm,
            digest: hasher.finish(),
        };
        self.0.into_iter().map(finish).collect()
    }
}

#[cfg(test)]
mod tests {
    use haul_plan::hex;

    use super::*;

    #[test]
    fn each_algorithm_gives_its_published_digest_of_abc() {
        use DigestAlgorithm::{Blake3, Crc32, Crc32c, Crc64Nvme, Md5, Sha1, Sha256, Sha512};
        let mut hashers = DigestSet::new([
            Sha256, Sha512, Sha1, Md5, Blake3, Crc32c, Crc32, Crc64Nvme, Sha256,
        ]);
        hashers.update(b"a");
        hashers.update(b"bc");
        let found: Vec<String> = hashers
            .finish()
            .iter()
            .map(|d| hex(&d.digest)[..8].to_owned())
            .collect();
        assert_eq!(
            found,
            [
                "ba7816bf", "ddaf35a1", "a9993e36", "90015098", "6437b3ac", "364b3fb7", "352441c2",
                "05e5cabb"
            ]
        );
    }
}
