//! Lines of a terminal of some width and height.
//!
//! A line keeps its columns while numbers change. In little space it drops what matters least: first connections, then the amount, the bar,
//! the name, the time left; the percentage last. The last column stays free, since some terminals wrap when it is written.

use console::{measure_text_width, pad_str, truncate_str};

use super::board::{DownloadsProgress, RunningDownload};
use super::text::{bytes_text, fraction_text, speed_text, time_text};

/// Columns of the widest name shown in full, and of the narrowest worth showing; the same of a bar.
const NAME: (usize, usize) = (32, 6);
const BAR: (usize, usize) = (40, 8);

/// Between two fields.
const GAP: usize = 2;

/// A line for each running download; of several, and one for all at the end.
pub(super) fn progress_lines(
    progress: &DownloadsProgress,
    (height, width): (u16, u16),
) -> Vec<String> {
    let room = usize::from(width).saturating_sub(1);
    if progress.jobs <= 1 {
        return progress
            .running
            .values()
            .map(|running| job_line(running, room))
            .collect();
    }
    // One line is kept free for the cursor, one for the total.
    let most = usize::from(height).saturating_sub(2);
    let mut lines: Vec<String> = progress
        .running
        .values()
        .take(most)
        .map(|running| job_line(running, room))
        .collect();
    lines.push(total_line(progress, room));
    lines
}

fn job_line(running: &RunningDownload, room: usize) -> String {
    let RunningDownload {
        done,
        length,
        connections,
        ..
    } = *running;
    let share = length.map(|length| {
        if length == 0 {
            1.0
        } else {
            (done as f64 / length as f64).min(1.0)
        }
    });
    let percent = share.map(|share| format!("{:>3.0}%", (share * 100.0).floor()));
    let rate = if running.is_verifying {
        "verifying".to_owned()
    } else {
        speed_text(running.rate.per_second())
    };
    let left = length.filter(|_| !running.is_verifying).map(|length| {
        let left = running.rate.time_for(length.saturating_sub(done));
        format!("{:>7}", left.map_or_else(|| "-:--".to_owned(), time_text))
    });
    let amount = length.map_or_else(
        || format!("{:>10}", bytes_text(done)),
        |length| fraction_text(done, length),
    );
    let connections = format!("{connections:>2} conn");
    // Most important first; drawn in the order of the second value.
    let fields = [
        (percent, 0),
        (Some(format!("{rate:>11}")), 2),
        (left, 3),
        (Some(amount), 1),
        (Some(connections), 4),
    ];
    compose_line(&running.name, share, &fields, room)
}

fn total_line(progress: &DownloadsProgress, room: usize) -> String {
    let files = format!("{} of {} files", progress.ended, progress.jobs);
    let fields = [
        (
            Some(format!("{:>11}", speed_text(progress.rate.per_second()))),
            1,
        ),
        (
            Some(format!("{:>10}", bytes_text(progress.received_bytes()))),
            0,
        ),
        (Some(format!("{:>2} conn", progress.connections())), 2),
    ];
    compose_line(&files, None, &fields, room)
}

/// Joins name, bar and as many fields as fit into a line. `fields` has the most important first, each with its position.
pub(super) fn compose_line(
    name: &str,
    share: Option<f64>,
    fields: &[(Option<String>, usize)],
    room: usize,
) -> String {
    let mut left = room;
    let mut shown: Vec<(usize, String)> = Vec::new();
    for (field, place) in fields
        .iter()
        .filter_map(|(field, place)| Some((field.clone()?, *place)))
    {
        let wide = measure_text_width(&field) + if shown.is_empty() { 0 } else { GAP };
        // The first field is always shown, cut if necessary.
        if !shown.is_empty() && wide > left {
            break;
        }
        left = left.saturating_sub(wide);
        shown.push((place, field));
    }
    shown.sort_by_key(|(place, _)| *place);
    let mut parts = Vec::new();
    let named = measure_text_width(name).min(NAME.0);
    let (name_room, bar_room) = split_room(left, named, share.is_some());
    if name_room > 0 {
        let name = truncate_str(name, name_room, "…");
        parts.push(pad_str(&name, name_room, console::Alignment::Left, None).into_owned());
    }
    if let Some(share) = share.filter(|_| bar_room > 0) {
        parts.push(bar_text(share, bar_room));
    }
    parts.extend(shown.into_iter().map(|(_, field)| field));
    let line = parts.join(&" ".repeat(GAP));
    truncate_str(&line, room, "").into_owned()
}

/// Splits the remaining width between a name and a bar.
fn split_room(left: usize, named: usize, wants_bar: bool) -> (usize, usize) {
    let smallest = named.min(NAME.1);
    if left < smallest + GAP {
        return (0, 0);
    }
    if !wants_bar || left < smallest + GAP + BAR.1 + GAP {
        return (named.min(left - GAP), 0);
    }
    // The bar gets its smallest width, the name what it needs, the bar the rest.
    let name = named.min(left - GAP - BAR.1 - GAP);
    (name, (left - name - 2 * GAP).min(BAR.0))
}

/// The finished part is thick, the rest thin: visible without colour.
fn bar_text(share: f64, width: usize) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a small number"
    )]
    let halves = (share * (width * 2) as f64) as usize;
    let full = (halves / 2).min(width);
    let half = usize::from(halves % 2 == 1 && full < width);
    format!(
        "{}{}{}",
        "━".repeat(full),
        "╸".repeat(half),
        "─".repeat(width - full - half)
    )
}
