//! Formats names, sizes and times for display.
//!
//! Names are hostile: they hold any bytes, markup, and characters that reverse the direction so
//! that `exe.txt` reads as something else. [`DisplayName`] makes invisible characters visible;
//! [`HtmlEscaped`] escapes everything that is written through it.

use std::fmt::{self, Write};
use std::time::SystemTime;

use haul_service::observe::UtcTimestamp;

/// A name as text: invalid UTF-8, control characters and direction changes are written as escapes.
#[derive(Debug, Clone, Copy)]
pub(super) struct DisplayName<'a>(pub(super) &'a [u8]);

impl fmt::Display for DisplayName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            let text = chunk.valid();
            let mut start = 0;
            for (at, letter) in text
                .char_indices()
                .filter(|(_, letter)| is_invisible(*letter))
            {
                write!(f, "{}{}", &text[start..at], letter.escape_unicode())?;
                start = at + letter.len_utf8();
            }
            f.write_str(&text[start..])?;
            chunk
                .invalid()
                .iter()
                .try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
        }
        Ok(())
    }
}

/// Whether a character is invisible but may change how others are shown. Joiners are kept, as
/// scripts and emoji need them.
fn is_invisible(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

/// Any value, escaped for HTML: for text and for attribute values in either kind of quotes.
#[derive(Debug, Clone, Copy)]
pub(super) struct HtmlEscaped<T>(pub(super) T);

impl<T: fmt::Display> fmt::Display for HtmlEscaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(HtmlEscaper(f), "{}", self.0)
    }
}

/// Escapes what is written through it.
struct HtmlEscaper<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Write for HtmlEscaper<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut start = 0;
        for (at, byte) in text.bytes().enumerate() {
            let escaped = match byte {
                b'<' => "&lt;",
                b'>' => "&gt;",
                b'&' => "&amp;",
                b'"' => "&quot;",
                b'\'' => "&#39;",
                _ => continue,
            };
            self.0.write_str(&text[start..at])?;
            self.0.write_str(escaped)?;
            start = at + 1;
        }
        self.0.write_str(&text[start..])
    }
}

/// Bytes in binary units.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DisplaySize(pub(crate) u64);

impl fmt::Display for DisplaySize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        // In tenths of the unit, rounded; a value that rounds up to 1024 of one unit is 1.0 of the
        // next.
        let mut bits = 10;
        let tenths = |bits: u32| (u128::from(self.0) * 10 + (1 << (bits - 1))) >> bits;
        let mut index = 0;
        while tenths(bits) >= 10_240 && index + 1 < UNITS.len() {
            (bits, index) = (bits + 10, index + 1);
        }
        let tenths = tenths(bits);
        write!(f, "{}.{} {}", tenths / 10, tenths % 10, UNITS[index])
    }
}

/// A number with thousands separators.
#[derive(Debug, Clone, Copy)]
pub(super) struct GroupedDigits(pub(super) u64);

impl fmt::Display for GroupedDigits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (at, digit) in digits.chars().enumerate() {
            if at > 0 && (digits.len() - at).is_multiple_of(3) {
                f.write_char(',')?;
            }
            f.write_char(digit)?;
        }
        Ok(())
    }
}

/// A time in UTC, to the second, as RFC 3339 has it; the alternate form (`{:#}`) is for people, to
/// the minute.
#[derive(Debug, Clone, Copy)]
pub(super) struct DisplayUtc(pub(super) SystemTime);

impl fmt::Display for DisplayUtc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = UtcTimestamp::from(self.0).rfc3339();
        let text = std::str::from_utf8(&text).unwrap_or_default();
        if f.alternate() {
            f.write_str(&text[..10])?;
            f.write_char(' ')?;
            f.write_str(&text[11..16])
        } else {
            f.write_str(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn invisible_characters_are_escaped() {
        let shown = |name: &[u8]| DisplayName(name).to_string();
        assert_eq!(
            shown("plain žluťoučký 写真".as_bytes()),
            "plain žluťoučký 写真"
        );
        assert_eq!(shown("a\u{202e}txt.exe".as_bytes()), "a\\u{202e}txt.exe");
        assert_eq!(shown(b"a\nb\x7f\xff\xc3"), "a\\u{a}b\\u{7f}\\xff\\xc3");
        assert_eq!(shown("👩\u{200d}💻".as_bytes()), "👩\u{200d}💻");
    }

    #[test]
    fn sizes_are_rounded() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (1_048_575, "1.0 MiB"),
            (10 << 30, "10.0 GiB"),
            (u64::MAX, "16.0 EiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(DisplaySize(bytes).to_string(), text);
        }
        assert_eq!(GroupedDigits(999).to_string(), "999");
        assert_eq!(GroupedDigits(1_234_567).to_string(), "1,234,567");
    }

    #[test]
    fn times_are_in_utc() {
        let at = |seconds: i64| {
            let span = Duration::from_secs(seconds.unsigned_abs());
            let time = if seconds < 0 {
                SystemTime::UNIX_EPOCH - span
            } else {
                SystemTime::UNIX_EPOCH + span
            };
            DisplayUtc(time).to_string()
        };
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_826_154), "2000-02-29T12:09:14Z");
        assert_eq!(at(-1), "1969-12-31T23:59:59Z");
        assert_eq!(at(i64::from(i32::MAX) + 1), "2038-01-19T03:14:08Z");
        assert_eq!(at(1_000_000_000_000), "9999-12-31T23:59:59Z");
        let before = SystemTime::UNIX_EPOCH - Duration::from_millis(1);
        assert_eq!(DisplayUtc(before).to_string(), "1969-12-31T23:59:59Z");
        assert_eq!(
            format!("{:#}", DisplayUtc(SystemTime::UNIX_EPOCH)),
            "1970-01-01 00:00"
        );
    }

    proptest! {
        #[test]
        fn dates_match_httpdate(seconds in 0..253_402_300_799_u64) {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            let other = httpdate::fmt_http_date(time);
            let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
            let month = months.iter().position(|month| *month == &other[8..11]).map_or(0, |at| at + 1);
            let expected = format!("{}-{month:02}-{}T{}Z", &other[12..16], &other[5..7], &other[17..25]);
            prop_assert_eq!(DisplayUtc(time).to_string(), expected);
        }

        #[test]
        fn escaping_is_complete_and_reversible(name in prop::collection::vec(any::<u8>(), 0..40)) {
            let html = HtmlEscaped(DisplayName(&name)).to_string();
            prop_assert!(!html.contains(['<', '>', '"', '\'']));
            let mut back = html;
            for (escaped, plain) in [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")] {
                back = back.replace(escaped, plain);
            }
            prop_assert_eq!(back, DisplayName(&name).to_string());
        }
    }
}
