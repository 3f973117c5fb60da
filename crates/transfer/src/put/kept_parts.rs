//! Which parts of an earlier run count (row F11).
//!
//! A part is kept only if the store has it as our journal has it: number, size and entity tag are the same, and so is the checksum where the
//! store tells one. Anything else may be another program's, or another file's.

use std::collections::BTreeMap;

use haul_plan::Checksum;

use super::part_plan::PartPlan;

/// A part as the journal or the store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownPart {
    /// The number, from 1.
    pub number: u32,
    /// Bytes.
    pub size: u64,
    /// The entity tag without its quotes.
    pub etag: String,
    /// The CRC-64/NVME, where it is known.
    pub crc64nvme: Option<u64>,
    /// The checksum that the user wants instead, which S3 asks for again at the end of the upload. Only ours counts.
    pub wanted: Option<Checksum>,
}

/// The parts that need not be sent again, by number. The journal's last word on a part counts.
#[must_use]
pub fn kept_parts(
    plan: &PartPlan,
    journal: Vec<KnownPart>,
    listed: &[KnownPart],
) -> BTreeMap<u32, KnownPart> {
    let ours: BTreeMap<u32, KnownPart> = journal
        .into_iter()
        .map(|part| (part.number, part))
        .collect();
    let is_kept = |own: &KnownPart, theirs: &KnownPart| {
        let range = plan.range(own.number);
        let is_checksum = match (own.crc64nvme, theirs.crc64nvme) {
            (Some(own), Some(theirs)) => own == theirs,
            // Without one of ours the whole cannot be checked.
            (None, _) => false,
            (Some(_), None) => true,
        };
        (1..=plan.count()).contains(&own.number)
            && own.size == range.end - range.start
            && theirs.size == own.size
            && theirs.etag == own.etag
            && is_checksum
    };
    listed
        .iter()
        .filter_map(|theirs| {
            let own = ours.get(&theirs.number)?;
            is_kept(own, theirs).then(|| (own.number, own.clone()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn part(number: u32) -> KnownPart {
        KnownPart {
            number,
            size: 5 * MIB,
            etag: format!("tag{number}"),
            crc64nvme: Some(u64::from(number)),
            wanted: None,
        }
    }

    fn kept(journal: &[KnownPart], listed: &[KnownPart]) -> Vec<u32> {
        let plan = PartPlan::new(20 * MIB + 1, None).unwrap();
        kept_parts(&plan, journal.to_vec(), listed)
            .into_keys()
            .collect()
    }

    #[test]
    fn f11_a_part_counts_only_as_the_journal_has_it() {
        assert_eq!(kept(&[part(1), part(2)], &[part(1), part(2)]), [1, 2]);
        assert_eq!(kept(&[part(1)], &[part(1), part(2)]), [1]);
        assert_eq!(kept(&[part(1), part(2)], &[part(2)]), [2]);
        let no_checksum = KnownPart {
            crc64nvme: None,
            ..part(1)
        };
        assert_eq!(kept(&[part(1)], std::slice::from_ref(&no_checksum)), [1]);
        assert_eq!(kept(&[no_checksum], &[part(1)]), [0; 0]);
        for other in [
            KnownPart { size: 1, ..part(1) },
            KnownPart {
                etag: "x".into(),
                ..part(1)
            },
            KnownPart {
                crc64nvme: Some(9),
                ..part(1)
            },
        ] {
            assert_eq!(
                kept(&[part(1)], std::slice::from_ref(&other)),
                [0; 0],
                "{other:?}"
            );
            assert_eq!(
                kept(std::slice::from_ref(&other), &[part(1)]),
                [0; 0],
                "{other:?}"
            );
        }
    }

    #[test]
    fn f11_the_last_row_of_a_part_counts_and_numbers_beyond_the_file_do_not() {
        let sent_again = KnownPart {
            etag: "new".into(),
            ..part(1)
        };
        let listed = [sent_again.clone(), part(6), part(0)];
        assert_eq!(kept(&[part(1), sent_again, part(6), part(0)], &listed), [1]);
    }
}
