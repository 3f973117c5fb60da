//! Splits CSV records into their fields.
//!
//! Uses the core of the `csv` crate, not its reader: the reader takes a stream, but here a record has at most as many
//! bytes as a few lines, and those lines must be known when they turn out not to be a record.

use csv_core::{ReadRecordResult as Read, Reader};

/// The fields of one record.
pub(super) enum CsvFields<'a> {
    /// All fields.
    Complete(Vec<&'a str>),
    /// The record goes on behind these bytes.
    Incomplete,
    /// Not exactly one record, or not UTF-8.
    Invalid,
}

/// Splits records. Kept between records, because it is expensive to create.
pub(super) struct CsvRecordParser {
    reader: Reader,
    /// The unquoted fields of the last record, one after another.
    text: Vec<u8>,
    /// The end of each field.
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

    /// Splits bytes that end with a newline.
    pub(super) fn parse(&mut self, bytes: &[u8]) -> CsvFields<'_> {
        self.reader.reset();
        // A record has at most one field more than it has commas. The other extra one is for the reader's own count.
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
    fn exactly_one_record_is_split() {
        let mut parser = CsvRecordParser::new();
        let mut fields = |text: &str| match parser.parse(text.as_bytes()) {
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
        assert!(matches!(parser.parse(b"\xff,\n"), CsvFields::Invalid));
        assert!(matches!(
            parser.parse(&b",".repeat(5000)),
            CsvFields::Incomplete
        ));
    }
}
