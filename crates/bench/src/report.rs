//! Reports of results: tables for a terminal, `results.json`, `report.md` and `report.html`.
//!
//! `document` is a report as blocks: headings, texts, charts and tables. `report_table` chooses the columns of an experiment and fills them,
//! `sentences` has the words around them. The forms only lay these out: [`text_report`] within the width of a terminal, [`markdown_report`], and
//! [`html_report`] with `charts`. What results hold comes from files and servers, so each form makes it harmless: control characters for
//! terminals, signs of markup for pages.

mod charts;
mod compare;
mod document;
mod error;
#[cfg(test)]
mod fixture;
mod headline;
mod html;
mod json;
mod load_text;
mod markdown;
mod quantity;
mod report_table;
mod sentences;
mod terminal;

pub use compare::compare_text;
pub use error::ReportError;
pub use html::html_report;
pub use json::{read_results, write_reports};
pub use load_text::load_text;
pub use markdown::markdown_report;
pub use terminal::text_report;
