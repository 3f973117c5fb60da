//! The report as one page of HTML: no script, and nothing that it loads.

use super::ReportError;
use super::charts::draw_charts;
use super::report_table::{ColumnKind, ReportColumn, ReportTable, TableDetail, ValueTone};
use super::sentences::{
    PARTIAL, baseline_sentence, environment_lines, escape_html, failure_notes, fixed_levels,
    guess_evidence, rounds_sentence, run_sentence, verdict_name,
};
use crate::results::{BenchResults, ExperimentResults, GuessVerdict};

/// Columns of higher priority are left out on paper.
const ON_PAPER: u8 = 7;
const STYLE: &str = include_str!("report.css");

/// The results as a page for screens, phones and paper.
///
/// # Errors
/// A chart cannot be drawn.
pub fn html_report(results: &BenchResults) -> Result<String, ReportError> {
    let links = results
        .experiments
        .iter()
        .enumerate()
        .map(|(number, experiment)| {
            let title = escape_html(&experiment.title);
            format!("<li><a href=\"#e{number}\">{title}</a></li>\n")
        });
    let links: String = links.collect();
    let partial = match results.is_partial {
        true => format!("<p class=\"partial\" role=\"note\"><strong>{PARTIAL}</strong></p>\n"),
        false => String::new(),
    };
    let experiments = results.experiments.iter().enumerate();
    let sections = experiments.map(|(number, experiment)| section(number, experiment));
    let sections = sections.collect::<Result<String, ReportError>>()?;
    let run = escape_html(&run_sentence(results));
    let environment = environment_lines(&results.environment).into_iter();
    let environment: String = environment
        .map(|(name, value)| format!("<dt>{name}</dt><dd>{}</dd>\n", escape_html(&value)))
        .collect();
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>haul bench</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header>\n<h1>haul bench</h1>\n<p class=\"faint\">{run}</p>\n{partial}\
         <nav aria-label=\"Experiments\"><ul>\n{links}</ul></nav>\n</header>\n<main>\n{sections}\
         <section>\n<h2>Environment</h2>\n<dl>\n{environment}</dl>\n</section>\n</main>\n</body>\n</html>\n"
    ))
}

fn section(number: usize, experiment: &ExperimentResults) -> Result<String, ReportError> {
    let charts = draw_charts(experiment).map_err(|error| ReportError::Chart {
        experiment: experiment.name.clone(),
        message: error.to_string(),
    })?;
    let figures: String = charts
        .iter()
        .map(|chart| {
            let caption = match chart.caption.as_str() {
                "" => String::new(),
                caption => format!("<figcaption>{}</figcaption>\n", escape_html(caption)),
            };
            format!("<figure>\n{caption}{}</figure>\n", chart.svg)
        })
        .collect();
    let figures = tagged("div class=\"charts\"", &figures);
    let measured = [
        Some(rounds_sentence(experiment)),
        baseline_sentence(experiment),
    ];
    let measured: Vec<String> = measured.into_iter().flatten().collect();
    let title = escape_html(&experiment.title);
    Ok(format!(
        "<section id=\"e{number}\">\n<h2>{title}</h2>\n<p class=\"faint\">{}</p>\n{}{figures}\
         <div class=\"scroll\" role=\"region\" aria-label=\"Table: {title}\" tabindex=\"0\">\n{}</div>\n{}{}\
         <h3>How it was measured</h3>\n<p>{}</p>\n</section>\n",
        subtitle(experiment),
        tagged("p class=\"lesson\"", &escape_html(&experiment.lesson)),
        html_table(&ReportTable::of_experiment(experiment, TableDetail::Page)),
        failures(experiment),
        guesses(experiment),
        escape_html(&measured.join(" ")),
    ))
}

fn subtitle(experiment: &ExperimentResults) -> String {
    let command = format!("<code>{}</code>", escape_html(&experiment.name));
    match fixed_levels(experiment) {
        fixed if fixed.is_empty() => command,
        fixed => format!("{command} · {}", escape_html(&fixed)),
    }
}

fn failures(experiment: &ExperimentResults) -> String {
    let notes = failure_notes(experiment).into_iter();
    let notes: String = notes
        .map(|note| format!("<li>{}</li>\n", escape_html(&note)))
        .collect();
    let list = tagged("ul", &notes);
    if list.is_empty() {
        list
    } else {
        format!("<h3>Failures</h3>\n{list}")
    }
}

fn guesses(experiment: &ExperimentResults) -> String {
    let items = experiment.guesses.iter().map(|guess| {
        let class = match guess.verdict {
            GuessVerdict::Holds => "faster",
            GuessVerdict::Refuted => "slower",
            GuessVerdict::Open => "warning",
        };
        format!(
            "<li><span class=\"verdict {class}\">{}</span> {}<br><span class=\"faint\">{}</span></li>\n",
            verdict_name(guess.verdict),
            escape_html(&guess.text),
            escape_html(&guess_evidence(guess)),
        )
    });
    let list = tagged("ul class=\"plain\"", &items.collect::<String>());
    if list.is_empty() {
        list
    } else {
        format!("<h3>Guesses of the write-up</h3>\n{list}")
    }
}

/// The content in an element; nothing if there is none.
fn tagged(element: &str, content: &str) -> String {
    let name = element.split(' ').next().unwrap_or(element);
    match content.is_empty() {
        true => String::new(),
        false => format!("<{element}>\n{content}</{name}>\n"),
    }
}

fn html_table(table: &ReportTable) -> String {
    let class = |names: &[&str]| match names.join(" ").trim() {
        "" => String::new(),
        names => format!(" class=\"{names}\""),
    };
    let kind_class = |column: &ReportColumn| match column.kind {
        ColumnKind::Number if column.priority > ON_PAPER => "number screen",
        ColumnKind::Number => "number",
        _ => "",
    };
    let heads = table.columns.iter().map(|column| {
        // A head may be broken, but not at a hyphen.
        let head = escape_html(&column.head()).replace('-', "\u{2011}");
        format!(
            "<th scope=\"col\"{}>{head}</th>",
            class(&[kind_class(column)])
        )
    });
    let rows = table.rows.iter().map(|row| {
        let cells = row.iter().zip(&table.columns).map(|(value, column)| {
            let text = escape_html(&value.text);
            let tone = match value.tone {
                ValueTone::Plain | ValueTone::Heading => "",
                ValueTone::Faint => "quiet",
                ValueTone::Faster => "faster",
                ValueTone::Slower => "slower",
                ValueTone::Warning => "warning",
            };
            let width = if value.text.chars().count() > 48 {
                "wide"
            } else {
                ""
            };
            format!(
                "<td{}>{text}</td>",
                class(&[kind_class(column), tone, width])
            )
        });
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    });
    format!(
        "<table>\n<thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody>\n</table>\n",
        heads.collect::<String>(),
        rows.collect::<String>(),
    )
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
            PARTIAL,
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
        let harmless = html_report(&fixture::with_text("xy")).unwrap();
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
        assert!(!page.contains(PARTIAL));
    }
}
