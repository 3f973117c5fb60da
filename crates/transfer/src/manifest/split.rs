//! Splits a table's records into their fields.
//!
//! By the csv crate's core and not by its reader, which takes a stream: here a record is at most what some lines hold, and which lines
//! those are has to be known when it turns out to be none.

use csv_core::{ReadRecordResult as Read, Reader};

/// The fields of one record.
pub(super) enum RecordFields<'a> {
    /// All of them.
    Whole(Vec<&'a str>),
    /// The record does not end with these bytes.
    Open,
    /// Not one record, or not text.
    Bad,
}

/// What splits records, kept since it is dear to make.
pub(super) struct RecordSplitter {
    reader: Reader,
    /// The fields of the last record without their quotation marks, one after the other.
    text: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

impl RecordSplitter {
    pub(super) fn new() -> Self {
        Self {
            reader: Reader::new(),
            text: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Splits bytes that end with a line's end.
    pub(super) fn split(&mut self, bytes: &[u8]) -> RecordFields<'_> {
        self.reader.reset();
        // There are at most as many fields as separators, and one more; the other one is for the reader's own count.
        let most = bytes.iter().filter(|byte| **byte == b',').count() + 2;
        self.ends.resize(most.max(self.ends.len()), 0);
        self.text.resize(bytes.len().max(self.text.len()), 0);
        let (result, taken, _, count) =
            self.reader
                .read_record(bytes, &mut self.text, &mut self.ends);
        match result {
            Read::InputEmpty => return RecordFields::Open,
            Read::Record if bytes[taken..].iter().all(|byte| *byte == b'\n') => {}
            _ => return RecordFields::Bad,
        }
        let mut begin = 0;
        let field = |end: &usize| {
            let field = &self.text[begin..*end];
            begin = *end;
            str::from_utf8(field).ok()
        };
        let fields: Option<Vec<&str>> = self.ends[..count].iter().map(field).collect();
        fields.map_or(RecordFields::Bad, RecordFields::Whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_record_is_split_and_less_or_more_is_not() {
        let mut splitter = RecordSplitter::new();
        let mut fields = |text: &str| match splitter.split(text.as_bytes()) {
            RecordFields::Whole(fields) => Ok(fields.join("|")),
            RecordFields::Open => Err("open"),
            RecordFields::Bad => Err("bad"),
        };
        assert_eq!(fields("a,b,\n"), Ok("a|b|".into()));
        assert_eq!(fields("a\r\n"), Ok("a".into()));
        assert_eq!(fields("\"a\"\"\n,\",b\n"), Ok("a\"\n,|b".into()));
        assert_eq!(fields("a,\"b\n"), Err("open"));
        assert_eq!(fields("a\nb\n"), Err("bad"));
        assert_eq!(fields("a\rb\n"), Err("bad"));
        assert!(matches!(splitter.split(b"\xff,\n"), RecordFields::Bad));
        assert!(matches!(
            splitter.split(&b",".repeat(5000)),
            RecordFields::Open
        ));
    }
}
