//! Parsers of header fields, under fields that are nearly right.

mod hostile_headers;
