//! What proves that the content of an object is that of a file, or of another object (row F7).

use haul_plan::{Checksum, DigestAlgorithm, decode_hex};

/// What a store says about the content of an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ObjectDigests {
    /// Checksums of all its bytes.
    pub checksums: Vec<Checksum>,
    /// The entity tag without its quotes.
    pub entity_tag: String,
    /// Whether the store keeps it encrypted with a key of its own for this object: the tag is not an MD5 then.
    pub is_encrypted: bool,
}

impl ObjectDigests {
    /// A digest of the whole content to compare a file with; `None` if the store says nothing that would follow from the bytes.
    ///
    /// The tag of an upload in parts (`...-3`) follows from the bytes and the sizes of the parts, which nobody knows any more.
    #[must_use]
    pub(crate) fn content_checksum(&self) -> Option<Checksum> {
        if let Some(checksum) = self.known_checksums().next() {
            return Some(checksum.clone());
        }
        // A tag of that length is an MD5, unless the object is encrypted.
        let digest = decode_hex(&self.entity_tag);
        let digest = digest.filter(|digest| digest.len() == 16 && !self.is_encrypted)?;
        Some(Checksum {
            algorithm: DigestAlgorithm::Md5,
            digest: Some(digest),
        })
    }

    /// Whether two objects have the same content; `None` if what is known of them cannot be compared.
    #[must_use]
    pub(crate) fn is_same_content(&self, other: &Self) -> Option<bool> {
        let common = self.known_checksums().find_map(|checksum| {
            let same = |theirs: &&Checksum| theirs.algorithm == checksum.algorithm;
            other
                .known_checksums()
                .find(same)
                .map(|theirs| theirs == checksum)
        });
        common.or_else(|| {
            let (one, other) = (self.content_checksum()?, other.content_checksum()?);
            (one.algorithm == other.algorithm).then(|| one == other)
        })
    }

    fn known_checksums(&self) -> impl Iterator<Item = &Checksum> {
        self.checksums
            .iter()
            .filter(|checksum| checksum.digest.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MD5: &str = "9e107d9d372bb6826bd81d3542a419d6";

    fn digests(tag: &str) -> ObjectDigests {
        ObjectDigests {
            entity_tag: tag.to_owned(),
            ..ObjectDigests::default()
        }
    }

    fn crc(byte: u8) -> Checksum {
        Checksum {
            algorithm: DigestAlgorithm::Crc64Nvme,
            digest: Some(vec![byte; 8]),
        }
    }

    #[test]
    fn f7_only_a_plain_tag_is_an_md5() {
        let plain = digests(MD5).content_checksum().unwrap();
        assert_eq!(plain.algorithm, DigestAlgorithm::Md5);
        assert_eq!(plain.digest.unwrap()[..2], [0x9e, 0x10]);
        for tag in [
            &format!("{MD5}-2"),
            &MD5[..31],
            "",
            "x107d9d372bb6826bd81d3542a419d6e",
        ] {
            assert_eq!(digests(tag).content_checksum(), None, "{tag}");
        }
        let encrypted = ObjectDigests {
            is_encrypted: true,
            ..digests(MD5)
        };
        assert_eq!(encrypted.content_checksum(), None);
    }

    #[test]
    fn f7_checksums_go_before_tags() {
        let with = |tag: &str, byte| ObjectDigests {
            checksums: vec![crc(byte)],
            ..digests(tag)
        };
        assert_eq!(with(MD5, 1).content_checksum(), Some(crc(1)));
        assert_eq!(with("a-1", 1).is_same_content(&with("b-2", 1)), Some(true));
        assert_eq!(with("a", 1).is_same_content(&with("a", 2)), Some(false));
        assert_eq!(digests(MD5).is_same_content(&digests(MD5)), Some(true));
        assert_eq!(digests(MD5).is_same_content(&digests("a-1")), None);
        assert_eq!(digests(MD5).is_same_content(&with("a-1", 1)), None);
    }
}
