//! The table in README.md: what stands between two marks there is what a run has shown, with the run's command, date, commit and
//! machine. Nothing else is ever written there, and without a run there are no marks.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::{Context, bail};

use super::{
    losses::seconds,
    matrix::Client,
    results::{Cell, Results},
    table::{machine, markdown_table, verdict},
};

const BEGIN: &str = "<!-- bench:begin -->";
const END: &str = "<!-- bench:end -->";
/// Where the marks go when there are none: before this heading.
const BEFORE: &str = "## From Rust";
const HEADING: &str = "## Measured";
/// Lines that every block has.
const FIELDS: [&str; 4] = ["- command: `", "- date: ", "- commit: ", "- machine: "];

/// Puts the table of these results into a README, in place of the one that is there.
///
/// # Errors
/// When the file can't be read or written, its marks are broken, or there is no time to show.
pub(super) fn write(results: &Results, file: &Path) -> anyhow::Result<()> {
    let text = fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    if results.cells.iter().all(|cell| cell.wall().is_none()) {
        bail!("there is no time to show in {}", file.display());
    }
    let text = with(&text, &block(results)).with_context(|| format!("find the place in {}", file.display()))?;
    fs::write(file, text).with_context(|| format!("write {}", file.display()))
}

/// What stands between the marks, the line ends beside them included.
fn between(text: &str) -> anyhow::Result<Option<(usize, usize)>> {
    let places = |mark: &str| text.match_indices(mark).map(|(at, _)| at).collect::<Vec<_>>();
    match (&places(BEGIN)[..], &places(END)[..]) {
        ([], []) => Ok(None),
        ([begin], [end]) if begin < end => Ok(Some((begin + BEGIN.len(), *end))),
        _ => bail!("there must be one {BEGIN} and one {END} after it, or neither"),
    }
}

fn with(text: &str, block: &str) -> anyhow::Result<String> {
    if let Some((begin, end)) = between(text)? {
        return Ok(format!("{}\n{block}{}", &text[..begin], &text[end..]));
    }
    let place = text.find(&format!("\n{BEFORE}\n")).map_or(text.len(), |at| at + 1);
    let gap = if place == text.len() { "\n" } else { "" };
    Ok(format!(
        "{}{gap}{HEADING}\n\n{BEGIN}\n{block}{END}\n{}{}",
        &text[..place],
        if gap.is_empty() { "\n" } else { "" },
        &text[place..]
    ))
}

/// The generated text.
fn block(results: &Results) -> String {
    let mut text = format!(
        "Medians of {} runs, in seconds; bulk is {} MB. [CONTRIBUTING.md](CONTRIBUTING.md#measuring) tells how they are made and read.\n\n{}\n",
        results.settings.runs,
        results.settings.bulk_mb,
        markdown_table(&rows(results))
    );
    for (client, why) in absent(results) {
        let _ = writeln!(text, "No figures of {client}: {why}.\n");
    }
    let verdict = verdict(results);
    if verdict.is_empty() {
        text += "rgit loses nowhere in this run by more than 5 % to git or a peer, nor auto to h1 or h2.\n";
    } else {
        text += "Where rgit loses by more than 5 % to git or a peer, or auto to h1 or h2:\n\n";
        verdict.iter().for_each(|line| text += &format!("- {line}\n"));
    }
    let values = [
        format!("{}`", results.command),
        format!("{} UTC", results.date),
        results.commit.clone(),
        machine(results),
    ];
    // Words between two lists, else they would be shown as one.
    text += "\nMeasured by:\n\n";
    for (field, value) in FIELDS.iter().zip(values) {
        let _ = writeln!(text, "{field}{value}");
    }
    text
}

/// One row a group, one column a client.
fn rows(results: &Results) -> Vec<Vec<String>> {
    let is_measured = |client: &&Client| {
        let mut cells = results.cells.iter().filter(|cell| cell.client == **client);
        cells.any(|cell| cell.wall().is_some())
    };
    let clients: Vec<Client> = Client::ALL.iter().filter(is_measured).copied().collect();
    let mut heading = ["scenario", "link", "window"].map(str::to_owned).to_vec();
    heading.extend(clients.iter().map(ToString::to_string));
    let mut rows = vec![heading];
    for (group, _) in results.groups() {
        let mut row = vec![group.scenario.to_string(), group.link(), group.server.to_string()];
        row.extend(clients.iter().map(|client| told(results.cell(group, *client))));
        rows.push(row);
    }
    rows
}

/// Clients without a single time, and what the first of their cells says of it.
fn absent(results: &Results) -> Vec<(Client, String)> {
    let clients = Client::ALL.iter().filter_map(|client| {
        let cells: Vec<&Cell> = results.cells.iter().filter(|cell| cell.client == *client).collect();
        let first = cells
            .first()
            .filter(|_| cells.iter().all(|cell| cell.wall().is_none()))?;
        let why = first.outcome.why().unwrap_or("it was not run");
        Some((*client, why.trim_end_matches('.').to_owned()))
    });
    clients.collect()
}

fn told(cell: Option<&Cell>) -> String {
    let Some(cell) = cell else { return String::new() };
    match (cell.wall(), cell.outcome.why()) {
        (Some(wall), _) => seconds(wall.median).trim_end_matches(" s").to_owned(),
        (None, Some(why)) => why.split(" (").next().unwrap_or(why).to_owned(),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            matrix::{Scenario, Window},
            results::made_up,
        },
        *,
    };

    fn results() -> Results {
        made_up::results(vec![
            made_up::cell(Scenario::PushBulk, Client::GitH1, 20, Window::Small, &[4.0; 3]),
            made_up::cell(Scenario::PushBulk, Client::Auto, 20, Window::Small, &[2.0; 3]),
            made_up::cell(Scenario::LsRemote, Client::GitH1, 20, Window::Small, &[0.1; 3]),
        ])
    }

    #[test]
    fn a_table_goes_between_the_marks_and_the_same_one_changes_nothing() {
        let readme = "# a\n\n## From Rust\n\ntext\n";
        let once = with(readme, &block(&results())).expect("a place");
        assert!(
            once.starts_with("# a\n\n## Measured\n\n<!-- bench:begin -->\n"),
            "{once}"
        );
        assert!(once.ends_with("<!-- bench:end -->\n\n## From Rust\n\ntext\n"), "{once}");
        assert!(once.contains("| push-bulk | 20ms | 64KiB | 4.00 | 2.00 |"), "{once}");
        assert!(once.contains("| ls-remote | 20ms | 64KiB | 0.100 |  |"), "{once}");
        assert_eq!(with(&once, &block(&results())).expect("a place"), once);
        assert!(!once.contains("No figures"), "{once}");
        let mut lacking = results();
        let mut gix = made_up::cell(Scenario::LsRemote, Client::Gix, 20, Window::Small, &[]);
        gix.outcome = super::super::results::Outcome::CannotDo("no gix on PATH".to_owned());
        lacking.cells.push(gix);
        let lacking = block(&lacking);
        assert!(lacking.contains("\nNo figures of gix: no gix on PATH.\n"), "{lacking}");
        assert!(!lacking.contains("| gix |"), "{lacking}");
        let mut later = results();
        later.date = "2027-01-01 00:00".to_owned();
        let twice = with(&once, &block(&later)).expect("a place");
        assert!(twice.contains("2027-01-01") && !twice.contains("2026-01-31"), "{twice}");
        assert_eq!(with(&twice, &block(&results())).expect("a place"), once);
        assert!(
            with("# a\n", "b\n")
                .expect("a place")
                .ends_with("<!-- bench:begin -->\nb\n<!-- bench:end -->\n")
        );
        for broken in ["<!-- bench:begin -->", "<!-- bench:end --> <!-- bench:begin -->"] {
            assert!(with(broken, "b").is_err(), "{broken}");
        }
    }

    #[test]
    fn nothing_is_written_of_results_without_a_time() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let file = folder.path().join("README.md");
        fs::write(&file, "# a\n").expect("a file");
        assert!(write(&made_up::results(vec![]), &file).is_err());
        assert_eq!(fs::read_to_string(&file).expect("the file"), "# a\n");
        write(&results(), &file).expect("a table");
        assert!(
            fs::read_to_string(&file)
                .expect("the file")
                .contains("- commit: 0123456789ab\n")
        );
    }

    /// Figures by hand would have no run behind them.
    #[test]
    fn what_stands_in_the_readme_was_generated() {
        let file = crate::cargo::workspace().join("README.md");
        let text = fs::read_to_string(file).expect("the README");
        let Some((begin, end)) = between(&text).expect("whole marks") else {
            return;
        };
        for field in FIELDS {
            let mut lines = text[begin..end].lines();
            assert!(
                lines.any(|line| line.len() > field.len() && line.starts_with(field)),
                "{field}"
            );
        }
    }
}
