//! Splits a table's records into their fields.
//!
//! By the csv crate's core and not by its reader, which takes a stream: here a record is at most what some lines hold, and which lines
//! those are has to be known when it turns out to be none.

use csv_core::{ReadRecordResult as Read, Reader};

/// The fields of one record.
pub(super) enum CsvFields<'a> {
    /// All of them.
    Complete(Vec<&'a str>),
    /// The record does not end with these bytes.
    Incomplete,
    /// Not one record, or not text.
    Invalid,
}

/// What splits records, kept since it is dear to make.
pub(super) struct CsvRecordParser {
    reader: Reader,
    /// The fields of the last record without their quotation marks, one after the other.
    text: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

impl CsvRecordParser {
    pub(super) fn new() -> Self {
        Self {
            reader: Reader::new(),
            text: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Splits bytes that end with a line's end.
    pub(super) fn parse(&mut self, bytes: &[u8]) -> CsvFields<'_> {
        self.reader.reset();
        // There are at most as many fields as separators, and one more; the other one is for the reader's own count.
        let most = bytes.iter().filter(|byte| **byte == b',').count() + 2;
        self.ends.resize(most.max(self.ends.len()), 0);
        self.text.resize(bytes.len().max(self.text.len()), 0);
        let (result, taken, _, count) =
            self.reader
                .read_record(bytes, &mut self.text, &mut self.ends);
        match result {
            Read::InputEmpty => return CsvFields::Incomplete,
            Read::Record if bytes[taken..].iter().all(|byte| *byte == b'\n') => {}
            _ => return CsvFields::Invalid,
        }
        let mut begin = 0;
        let field = |end: &usize| {
            let field = &self.text[begin..*end];
            begin = *end;
            str::from_utf8(field).ok()
        };
        let fields: Option<Vec<&str>> = self.ends[..count].iter().map(field).collect();
        fields.map_or(CsvFields::Invalid, CsvFields::Complete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_record_is_split_and_less_or_more_is_not() {
        let mut splitter = CsvRecordParser::new();
        let mut fields = |text: &str| match splitter.parse(text.as_bytes()) {
            CsvFields::Complete(fields) => Ok(fields.join("|")),
            CsvFields::Incomplete => Err("open"),
            CsvFields::Invalid => Err("bad"),
        };
        assert_eq!(fields("a,b,\n"), Ok("a|b|".into()));
        assert_eq!(fields("a\r\n"), Ok("a".into()));
        assert_eq!(fields("\"a\"\"\n,\",b\n"), Ok("a\"\n,|b".into()));
        assert_eq!(fields("a,\"b\n"), Err("open"));
        assert_eq!(fields("a\nb\n"), Err("bad"));
        assert_eq!(fields("a\rb\n"), Err("bad"));
        assert!(matches!(splitter.parse(b"\xff,\n"), CsvFields::Invalid));
        assert!(matches!(
            splitter.parse(&b",".repeat(5000)),
            CsvFields::Incomplete
        ));
    }
}
