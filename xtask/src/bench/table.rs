//! The results as tables: on the terminal, and as Markdown.

use std::fmt::Write as _;

use super::{
    losses::{defaults, losses, seconds},
    matrix::Client,
    results::{Cell, Results, Run},
    roads,
    statistics::Summary,
};

const HEADINGS: [&str; 12] = [
    "cell",
    "wall (least to most)",
    "to git",
    "MB/s",
    "client CPU s",
    "server CPU s",
    "memory MB",
    "up",
    "down",
    "requests",
    "connections",
    "DATA frames",
];

/// All cells, a heading first. A cell without a time has its reason in place of figures.
pub(super) fn cells(results: &Results) -> Vec<Vec<String>> {
    let mut rows = vec![HEADINGS.map(str::to_owned).to_vec()];
    for (group, cells) in results.groups() {
        let git = git(results, group);
        rows.extend(cells.iter().map(|cell| row(cell, git, results.settings.runs)));
    }
    rows
}

/// The faster of git's two, which ratios are to.
pub(super) fn git(results: &Results, group: &super::matrix::Group) -> Option<f64> {
    [Client::GitH1, Client::GitH2]
        .into_iter()
        .filter_map(|client| Some(results.cell(group, client)?.wall()?.median))
        .min_by(f64::total_cmp)
}

fn row(cell: &Cell, git: Option<f64>, runs: usize) -> Vec<String> {
    let mut row = vec![cell.name.clone()];
    let Some(wall) = cell.wall() else {
        row.push(cell.outcome.why().unwrap_or("not yet").to_owned());
        return row;
    };
    let mut told = format!("{} ({:.3} to {:.3})", seconds(wall.median), wall.least, wall.most);
    if cell.once {
        told += ", one run, which was slow";
    } else if wall.count < runs {
        let _ = write!(told, ", {} of {runs} runs", wall.count);
    }
    row.push(told);
    let or_nothing = |figure: Option<String>| figure.unwrap_or_default();
    row.push(or_nothing(git.map(|git| format!("{:.2}", wall.median / git))));
    row.push(or_nothing(cell.speed().map(|speed| format!("{:.1}", speed / 1e6))));
    let hundredths = |figure: Option<f64>| or_nothing(figure.map(|figure| format!("{figure:.2}")));
    row.push(hundredths(cell.median(|run| run.client_cpu_s)));
    row.push(hundredths(cell.median(|run| run.server_cpu_s)));
    let memory = cell.median(|run| run.peak_anonymous.map(|bytes| bytes as f64 / 1e6));
    row.push(or_nothing(memory.map(|memory| format!("{memory:.1}"))));
    let whole = |figure: Option<f64>| or_nothing(figure.map(|figure| format!("{figure:.0}")));
    row.push(whole(cell.median(|run| run.up.map(|up| up as f64))));
    row.push(whole(cell.median(|run| run.down.map(|down| down as f64))));
    row.push(whole(cell.median(|run| run.requests.map(|requests| requests as f64))));
    let count = |figure: fn(&Run) -> Option<usize>| cell.median(|run| figure(run).map(|count| count as f64));
    let connections = count(|run| run.connections_used).zip(count(|run| run.connections));
    row.push(or_nothing(
        connections.map(|(used, new)| format!("{used:.0} ({new:.0} new)")),
    ));
    row.push(or_nothing(frames(cell)));
    row
}

/// How many frames, and how large they are in the middle; nothing over HTTP/1.1, which has none.
fn frames(cell: &Cell) -> Option<String> {
    let count = cell
        .median(|run| Some(run.frames?.count as f64))
        .filter(|count| *count > 0.0)?;
    let bytes = cell.median(|run| Some(run.frames?.bytes as f64))?;
    let mean = bytes / count;
    Some(if mean < 1000.0 {
        format!("{count:.0} × {mean:.0} B")
    } else {
        format!("{count:.0} × {:.1} kB", mean / 1e3)
    })
}

/// Columns that line up, for the terminal. A row shorter than the first may be as wide as it likes.
pub(super) fn plain(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let full = rows.iter().filter(|row| row.len() == columns);
        full.map(|row| row[column].chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let first = rows.iter().map(|row| row[0].chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = if column == 0 { first } else { widths[column] };
            let _ = write!(line, "{cell:<width$}  ");
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// A table as GitHub reads it.
pub(super) fn markdown_table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let mut text = String::new();
    for (at, row) in rows.iter().enumerate() {
        let cells = (0..columns).map(|column| row.get(column).map_or("", String::as_str).replace('|', "\\|"));
        let _ = writeln!(text, "| {} |", cells.collect::<Vec<_>>().join(" | "));
        if at == 0 {
            let _ = writeln!(text, "|{}", "---|".repeat(columns));
        }
    }
    text
}

/// The machine, in a line.
pub(super) fn machine(results: &Results) -> String {
    let (host, settings) = (&results.host, &results.settings);
    format!(
        "{}, {} processors, {:.0} GB, {}; load {:.2} at the start{}",
        host.processor,
        host.processors,
        host.memory_mb as f64 / 1000.0,
        host.system,
        settings.load,
        if settings.forced {
            ", measured all the same (--force)"
        } else {
            ""
        }
    )
}

/// Where it was measured, and how, in lines.
pub(super) fn provenance(results: &Results) -> Vec<String> {
    let (versions, settings) = (&results.versions, &results.settings);
    let mut lines = vec![
        format!("{} UTC, commit {}, `{}`", results.date, results.commit, results.command),
        machine(results),
        format!(
            "{}, {}{}; medians of {} runs in turn after a warm-up; bulk is {} MB",
            versions.rgit,
            versions.git,
            versions
                .others
                .iter()
                .map(|other| format!(", {other}"))
                .collect::<String>(),
            settings.runs,
            settings.bulk_mb
        ),
    ];
    lines.extend(results.links.iter().map(|link| {
        format!(
            "link {}: {}; measured {:.2} ms there and back, first answer after {:.2} ms, {:.0} MB/s up, {:.0} MB/s down",
            link.road,
            link.kind,
            link.round_trip_s * 1000.0,
            link.first_answer_s * 1000.0,
            link.up_bytes_s / 1e6,
            link.down_bytes_s / 1e6
        )
    }));
    lines.extend(results.real_links.iter().map(|link| {
        format!(
            "the real link to {}: TCP's handshake takes {:.2} ms; its rate is not known, nor what the server sees and spends",
            link.server,
            link.round_trip_s * 1000.0
        )
    }));
    lines
}

/// What nothing can be faster than, measured in the same run: a plain TCP stream over each link, and the same data without HTTP.
/// No rows where nothing was measured.
pub(super) fn limits(results: &Results) -> Vec<Vec<String>> {
    let mut rows = vec![["limit", "wall", "MB/s"].map(str::to_owned).to_vec()];
    for link in &results.links {
        for (way, speed) in [("up", link.up_bytes_s), ("down", link.down_bytes_s)] {
            let name = format!("plain TCP stream, {}, {way}", link.road);
            rows.push(vec![name, String::new(), format!("{:.1}", speed / 1e6)]);
        }
    }
    for limit in &results.limits {
        let Some(wall) = Summary::of(limit.wall_s.iter().copied()) else {
            continue;
        };
        let speed = limit
            .bytes
            .map(|bytes| format!("{:.1}", bytes as f64 / 1e6 / wall.median));
        rows.push(vec![
            limit.name.clone(),
            seconds(wall.median),
            speed.unwrap_or_default(),
        ]);
    }
    if rows.len() == 1 {
        rows.clear();
    }
    rows
}

/// What a reader must see first: every loss, or that there is none.
pub(super) fn verdict(results: &Results) -> Vec<String> {
    let mut lines = defaults(results);
    lines.extend(losses(results).iter().map(super::losses::Loss::sentence));
    lines
}

/// Everything, for the terminal.
pub(super) fn terminal(results: &Results) -> String {
    let mut text = plain(&cells(results));
    let roads = roads::table(results);
    if !roads.is_empty() {
        let _ = write!(text, "\nauto against the better of h1 and h2:\n{}", plain(&roads));
    }
    let limits = limits(results);
    if !limits.is_empty() {
        let _ = write!(text, "\nlimits:\n{}", plain(&limits));
    }
    let verdict = verdict(results);
    if verdict.is_empty() {
        text += "\nrgit loses nowhere to git or a peer by more than 5 %, nor auto to h1 or h2.\n";
    } else {
        text += "\nWhere rgit loses to git or a peer by more than 5 %, or auto to h1 or h2:\n";
        verdict.iter().for_each(|line| text += &format!("  {line}\n"));
    }
    text
}

/// Everything, as Markdown.
pub(super) fn markdown(results: &Results) -> String {
    let mut text = "## Where rgit loses by more than 5 %\n\n".to_owned();
    let verdict = verdict(results);
    if verdict.is_empty() {
        text += "Nowhere in this run.\n";
    }
    verdict.iter().for_each(|line| text += &format!("- {line}\n"));
    let _ = write!(text, "\n## Cells\n\n{}", markdown_table(&cells(results)));
    let roads = roads::table(results);
    if !roads.is_empty() {
        let _ = write!(
            text,
            "\n## auto against the better of h1 and h2\n\n{}",
            markdown_table(&roads)
        );
    }
    let limits = limits(results);
    if !limits.is_empty() {
        let _ = write!(text, "\n## Limits\n\n{}", markdown_table(&limits));
    }
    text += "\n## How it was measured\n\n";
    provenance(results)
        .iter()
        .for_each(|line| text += &format!("- {line}\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            matrix::{Scenario, Window},
            results::{Limit, Outcome, made_up},
        },
        *,
    };

    fn results() -> Results {
        let cell = |client, walls: &[f64]| made_up::cell(Scenario::PushBulk, client, 20, Window::Large, walls);
        let mut killed = cell(Client::H2, &[]);
        killed.outcome = Outcome::Killed("killed after 60 s".to_owned());
        made_up::results(vec![
            cell(Client::GitH1, &[4.0, 3.9, 4.1]),
            cell(Client::H1, &[2.0, 1.9]),
            killed,
            cell(Client::Auto, &[2.0, 2.1, 2.2]),
        ])
    }

    #[test]
    fn figures_and_reasons_stand_in_their_cells() {
        let rows = cells(&results());
        assert_eq!(rows[1][1..4], ["4.00 s (3.900 to 4.100)", "1.00", "50.0"]);
        assert_eq!(rows[2][1..3], ["1.95 s (1.900 to 2.000), 2 of 3 runs", "0.49"]);
        assert_eq!(rows[3], ["push-bulk/h2/cold/20ms/16MiB", "killed after 60 s"]);
        assert_eq!(
            rows[4][4..],
            ["0.10", "0.20", "9.0", "1000", "2000", "2", "1 (0 new)", "20 × 10.0 kB"]
        );
    }

    #[test]
    fn every_output_tells_the_losses() {
        for text in [terminal(&results()), markdown(&results())] {
            assert!(
                text.contains("push-bulk/h2/cold/20ms/16MiB: killed after 60 s"),
                "{text}"
            );
            assert!(
                text.contains("push-bulk/auto/cold/20ms/16MiB: 2.10 s against 1.95 s of h1"),
                "{text}"
            );
        }
        let mut fine = results();
        fine.cells.truncate(2);
        assert!(terminal(&fine).contains("loses nowhere"));
        assert!(markdown(&fine).contains("Nowhere in this run."));
    }

    #[test]
    fn markdown_has_one_width_and_says_how_it_was_made() {
        let text = markdown(&results());
        let bars: Vec<usize> = text
            .lines()
            .filter(|line| line.starts_with("| push-bulk/"))
            .map(|line| line.matches('|').count())
            .collect();
        assert_eq!(bars, [HEADINGS.len() + 1; 4]);
        assert!(text.contains("`cargo xtask bench --full`") && text.contains("commit 0123456789ab"));
    }

    #[test]
    fn limits_of_the_link_and_of_the_data_stand_together() {
        let mut results = results();
        assert_eq!(limits(&results), [[""; 0]; 0]);
        results.links.push(made_up::link(20));
        results.limits.push(Limit {
            name: "git index-pack, bulk".to_owned(),
            wall_s: vec![0.5, 0.4, 0.6],
            bytes: Some(64_000_000),
        });
        let rows = limits(&results);
        assert_eq!(rows[1], ["plain TCP stream, 20ms, up", "", "42.0"]);
        assert_eq!(rows[3], ["git index-pack, bulk", "0.500 s", "128.0"]);
        for text in [terminal(&results), markdown(&results)] {
            assert!(text.contains("plain TCP stream, 20ms, down"), "{text}");
        }
    }

    #[test]
    fn columns_line_up_and_long_reasons_do_not_widen_them() {
        let rows = [
            vec!["a", "b", "c"],
            vec!["long", "x", "y"],
            vec!["d", "a very long reason"],
        ];
        let rows = rows.map(|row| row.into_iter().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(plain(&rows), "a     b  c\nlong  x  y\nd     a very long reason\n");
    }
}
