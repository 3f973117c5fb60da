//! The report as one page of HTML: no script, and nothing that it loads.

use super::ReportError;
use super::charts::chart_figures;
use super::document::{ReportBlock, report_blocks};
use super::report_table::{ColumnKind, ReportColumn, TableDetail, TextTone, TonedText};
use super::sentences::escape_html;
use crate::results::BenchResults;

/// Columns of higher priority are left out on paper.
const ON_PAPER: u8 = 7;
const STYLE: &str = include_str!("report.css");

/// The results as a page for screens, phones and paper.
///
/// # Errors
/// A chart cannot be drawn.
pub fn html_report(results: &BenchResults) -> Result<String, ReportError> {
    let mut links = Vec::new();
    let mut body = String::new();
    for block in report_blocks(results, TableDetail::Page) {
        let part = match block {
            ReportBlock::Heading(title) => {
                let (title, number) = (escape_html(&title), links.len());
                links.push(format!("<li><a href=\"#s{number}\">{title}</a></li>\n"));
                format!("</section>\n<section id=\"s{number}\">\n<h2>{title}</h2>\n")
            }
            ReportBlock::Text(TonedText { text, tone }) => {
                let text = escape_html(&text);
                format!("<p class=\"{}\">{text}</p>\n", tone_class(tone))
            }
            ReportBlock::Charts(experiment) => {
                format!(
                    "<div class=\"charts\">\n{}</div>\n",
                    chart_figures(experiment)?
                )
            }
            ReportBlock::Table(columns) => html_table(&columns),
        };
        body.push_str(&part);
    }
    let links = links.concat();
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>haul bench</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <section>\n<h1>haul bench</h1>\n<nav aria-label=\"Sections\"><ul>\n{links}</ul></nav>\n\
         {body}</section>\n</main>\n</body>\n</html>\n"
    ))
}

fn html_table(columns: &[ReportColumn]) -> String {
    let rows = columns.first().map_or(0, |column| column.values.len());
    let shown = || {
        columns
            .iter()
            .filter(|column| column.kind != ColumnKind::Bar)
    };
    let kind_class = |column: &ReportColumn| match column.kind {
        ColumnKind::Number if column.priority > ON_PAPER => "number screen",
        ColumnKind::Number => "number",
        ColumnKind::Text => "text",
        ColumnKind::Level | ColumnKind::Bar => "level",
    };
    let heads = shown().map(|column| {
        // A head may be broken, but not at a hyphen.
        let head = escape_html(&column.head()).replace('-', "\u{2011}");
        format!(
            "<th scope=\"col\" class=\"{}\">{head}</th>",
            kind_class(column)
        )
    });
    let rows = (0..rows).map(|row| {
        let cells = shown().map(|column| {
            let TonedText { text, tone } = &column.values[row];
            let (kind, tone) = (kind_class(column), tone_class(*tone));
            format!("<td class=\"{kind} {tone}\">{}</td>", escape_html(text))
        });
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    });
    format!(
        "<div class=\"scroll\" role=\"region\" aria-label=\"Table\" tabindex=\"0\">\n\
         <table>\n<thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody>\n</table>\n</div>\n",
        heads.collect::<String>(),
        rows.collect::<String>(),
    )
}

const fn tone_class(tone: TextTone) -> &'static str {
    match tone {
        TextTone::Plain | TextTone::Heading => "plain",
        TextTone::Faint => "faint",
        TextTone::Good => "good",
        TextTone::Bad => "bad",
        TextTone::Warning => "warning",
        TextTone::Headline => "headline",
        TextTone::Lesson => "lesson",
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    /// Fails unless all elements are closed in the order in which they were opened.
    fn check_elements(page: &str) {
        let mut open: Vec<&str> = Vec::new();
        for tag in page.split('<').skip(1) {
            let (tag, _) = tag.split_once('>').expect("a tag ends");
            let name = tag
                .split([' ', '\n', '/'])
                .find(|part| !part.is_empty())
                .expect("a name");
            match tag {
                _ if tag.starts_with('/') => assert_eq!(open.pop(), Some(name), "{tag}"),
                _ if tag.ends_with('/') || ["!DOCTYPE", "meta", "br"].contains(&name) => {}
                _ => open.push(name),
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn the_page_is_well_formed_and_loads_nothing() {
        let page = html_report(&fixture::bench_results()).unwrap();
        // A look at it cannot be tested: `HAUL_BENCH_PAGE=/tmp/report.html cargo test -p haul-bench the_page`.
        if let Some(path) = std::env::var_os("HAUL_BENCH_PAGE") {
            std::fs::write(path, &page).unwrap();
        }
        check_elements(&page);
        for loading in [
            "<script", "src=", "url(", "@import", "<link", "xmlns", "href=\"h", "http://",
        ] {
            assert!(!page.contains(loading), "{loading}");
        }
        for part in [
            "Partial: ",
            "Linux 6.12.9",
            "4ded777c",
            "✗ refuted",
            "0.436 s",
            "baseline",
            "@media print",
        ] {
            assert!(page.contains(part), "{part}");
        }
    }

    #[test]
    fn results_are_no_markup() {
        let harmless = html_report(&fixture::with_text("x yzabcd")).unwrap();
        let harmful = html_report(&fixture::with_text("<i \"'>&\u{7}")).unwrap();
        check_elements(&harmful);
        assert!(!harmful.contains("<i") && !harmful.contains('\u{7}'));
        assert_eq!(harmful.matches('<').count(), harmless.matches('<').count());
        assert!(!harmful.contains("'>&") && harmful.contains("&lt;i &quot;"));
    }

    #[test]
    fn a_run_without_experiments_is_a_page() {
        let mut results = fixture::bench_results();
        results.experiments.clear();
        results.is_partial = false;
        let page = html_report(&results).unwrap();
        check_elements(&page);
        assert!(!page.contains("Partial: "));
    }
}
