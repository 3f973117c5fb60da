//! Reports of results: tables for a terminal, `results.json`, `report.md` and `report.html`.
//!
//! `report_table` chooses the columns of an experiment and fills them; `sentences` has the words around them; `chart_plan` says which pictures
//! there are. The forms only lay these out: [`text_report`] within the width of a terminal, [`markdown_report`], and [`html_report`] with
//! `charts`. What results hold comes from files and servers, so each form makes it harmless: control characters for terminals, signs of
//! markup for pages.

mod chart_plan;
mod charts;
mod compare;
mod error;
#[cfg(test)]
mod fixture;
mod html;
mod json;
mod markdown;
mod quantity;
mod report_table;
mod sentences;
mod table;
mod text_layout;

pub use compare::compare_text;
pub use error::ReportError;
pub use html::html_report;
pub use json::{read_results, write_reports, write_results};
pub use markdown::markdown_report;
pub use table::text_report;
