//! Several digests over one pass of the bytes.

use haul_plan::DigestAlgorithm;
use sha2::Digest as _;

use crate::{Crc32, Crc32c, Crc64Nvme};

/// One algorithm at work.
trait Hasher: Send + Sync {
    /// Takes the next bytes.
    fn update(&mut self, bytes: &[u8]);

    /// The digest, most significant byte first.
    fn finish(self: Box<Self>) -> Vec<u8>;
}

/// Begins a digest.
fn hasher(algorithm: DigestAlgorithm) -> Box<dyn Hasher> {
    match algorithm {
        DigestAlgorithm::Sha256 => Box::new(sha2::Sha256::new()),
        DigestAlgorithm::Sha512 => Box::new(sha2::Sha512::new()),
        DigestAlgorithm::Sha1 => Box::new(sha1::Sha1::new()),
        DigestAlgorithm::Md5 => Box::new(md5::Md5::new()),
        DigestAlgorithm::Blake3 => Box::<Blake3>::default(),
        DigestAlgorithm::Crc32c => Box::new(Crc32c::new()),
        DigestAlgorithm::Crc32 => Box::new(Crc32::new()),
        DigestAlgorithm::Crc64Nvme => Box::new(Crc64Nvme::new()),
    }
}

impl<D: sha2::Digest + Send + Sync> Hasher for D {
    fn update(&mut self, bytes: &[u8]) {
        sha2::Digest::update(self, bytes);
    }

    fn finish(self: Box<Self>) -> Vec<u8> {
        self.finalize().to_vec()
    }
}

#[derive(Default)]
struct Blake3(blake3::Hasher);

impl Hasher for Blake3 {
    fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(self: Box<Self>) -> Vec<u8> {
        self.0.finalize().as_bytes().to_vec()
    }
}

macro_rules! crc_hashers {
    ($($crc:ty),*) => {$(
        impl Hasher for $crc {
            fn update(&mut self, bytes: &[u8]) {
                self.update(bytes);
            }

            fn finish(self: Box<Self>) -> Vec<u8> {
                <$crc>::finish(&self).to_be_bytes().to_vec()
            }
        }
    )*};
}

crc_hashers!(Crc32c, Crc32, Crc64Nvme);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComputedDigest {
    pub algorithm: DigestAlgorithm,
    /// Its bytes, most significant first.
    pub digest: Vec<u8>,
}

/// Several digests over one pass of the bytes; by default none.
#[derive(Default)]
pub struct DigestSet(Vec<(DigestAlgorithm, Box<dyn Hasher>)>);

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
        let mut hashers: Vec<(DigestAlgorithm, Box<dyn Hasher>)> = Vec::new();
        for algorithm in algorithms {
            if hashers.iter().all(|(known, _)| *known != algorithm) {
                hashers.push((algorithm, hasher(algorithm)));
            }
        }
        Self(hashers)
    }

    /// Whether nothing is to be computed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

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
        let finish = |(algorithm, hasher): (DigestAlgorithm, Box<dyn Hasher>)| ComputedDigest {
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
        let all = DigestAlgorithm::ALL.into_iter();
        let mut hashers = DigestSet::new(all.chain([DigestAlgorithm::Sha256]));
        hashers.update(b"a");
        hashers.update(b"bc");
        let digests = hashers.finish();
        for computed in &digests {
            assert_eq!(computed.digest.len(), computed.algorithm.digest_len());
        }
        let found: Vec<String> = digests
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
