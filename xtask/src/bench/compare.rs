//! What moved between two files of results, beyond noise.

use std::fmt::Write as _;

use super::{
    losses::seconds,
    results::{Cell, Outcome, Results},
    statistics::{LIKELY, same},
};

/// Medians nearer than this are the same for all that matters.
const APART: f64 = 0.03;

/// One cell that is in both.
#[derive(Debug, PartialEq)]
enum Moved {
    /// Its medians before and after, and how likely it is that nothing moved.
    Time(f64, f64, f64),
    /// It has a time in one of them only, or fails in another way.
    Outcome(String, String),
    No,
}

fn moved(before: &Cell, after: &Cell) -> Moved {
    let (Some(one), Some(other)) = (before.wall(), after.wall()) else {
        let told = |cell: &Cell| match (&cell.outcome, cell.wall()) {
            (_, Some(wall)) => seconds(wall.median),
            (Outcome::Measured, None) => "not measured".to_owned(),
            (outcome, None) => outcome.why().unwrap_or_default().to_owned(),
        };
        let (one, other) = (told(before), told(after));
        return if one == other {
            Moved::No
        } else {
            Moved::Outcome(one, other)
        };
    };
    let likely = same(&before.walls(), &after.walls());
    if likely <= LIKELY && (other.median / one.median - 1.0).abs() > APART {
        Moved::Time(one.median, other.median, likely)
    } else {
        Moved::No
    }
}

/// What moved, in lines, the greatest change first; and what makes the two hard to compare.
pub(super) fn compare(before: &Results, after: &Results) -> String {
    let mut text = String::new();
    for (what, one, other) in [
        ("machines", &before.host.processor, &after.host.processor),
        ("systems", &before.host.system, &after.host.system),
        ("versions of git", &before.versions.git, &after.versions.git),
    ] {
        if one != other {
            let _ = writeln!(text, "note: the {what} differ: {one} and {other}");
        }
    }
    if before.settings.bulk_mb != after.settings.bulk_mb {
        text += "note: bulk is not of one size: those cells say nothing about each other\n";
    }
    let mut lines: Vec<(f64, String)> = Vec::new();
    let (mut both, mut gone) = (0, 0);
    for one in &before.cells {
        let Some(other) = after.cells.iter().find(|cell| cell.name == one.name) else {
            gone += 1;
            continue;
        };
        both += 1;
        match moved(one, other) {
            Moved::No => {}
            Moved::Outcome(was, is) => lines.push((f64::INFINITY, format!("{}: {was} -> {is}", one.name))),
            Moved::Time(was, is, likely) => lines.push((
                (is / was).ln().abs(),
                format!(
                    "{}: {} -> {}, {:+.1} % (noise would do that with a chance of {likely:.3})",
                    one.name,
                    seconds(was),
                    seconds(is),
                    (is / was - 1.0) * 100.0
                ),
            )),
        }
    }
    lines.sort_by(|one, other| other.0.total_cmp(&one.0));
    lines.iter().for_each(|(_, line)| text += &format!("{line}\n"));
    let new = after.cells.len() - both;
    let _ = writeln!(
        text,
        "{} of {both} cells moved; {gone} are only in the first file, {new} only in the second",
        lines.len()
    );
    text
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            matrix::{Client, Scenario, Window},
            results::made_up,
        },
        *,
    };

    fn cell(client: Client, walls: &[f64]) -> Cell {
        made_up::cell(Scenario::PushOne, client, 0, Window::Small, walls)
    }

    #[test]
    fn only_what_moved_beyond_noise_is_told() {
        let mut killed = cell(Client::H2, &[]);
        killed.outcome = Outcome::Killed("killed after 60 s".to_owned());
        let before = made_up::results(vec![
            cell(Client::H1, &[1.0, 1.1, 1.2]),
            cell(Client::Auto, &[1.0, 1.1, 1.2]),
            cell(Client::GitH1, &[1.0, 1.001, 1.002]),
            cell(Client::H2, &[1.0]),
            cell(Client::GitH2, &[1.0]),
        ]);
        let mut after = made_up::results(vec![
            cell(Client::H1, &[2.0, 2.2, 2.4]),
            cell(Client::Auto, &[1.05, 1.15, 1.16]),
            // Surely another time, and no matter.
            cell(Client::GitH1, &[1.003, 1.004, 1.005]),
            killed,
            cell(Client::Gix, &[1.0]),
        ]);
        let text = compare(&before, &after);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert_eq!(lines[0], "push-one/h2/cold/0ms/64KiB: 1.00 s -> killed after 60 s");
        assert!(
            lines[1].starts_with("push-one/h1/cold/0ms/64KiB: 1.10 s -> 2.20 s, +100.0 %"),
            "{text}"
        );
        assert_eq!(
            lines[2],
            "2 of 4 cells moved; 1 are only in the first file, 1 only in the second"
        );

        after.host.processor = "another".to_owned();
        assert!(compare(&before, &after).starts_with("note: the machines differ"));
        assert_eq!(
            compare(&before, &before),
            "0 of 5 cells moved; 0 are only in the first file, 0 only in the second\n"
        );
    }
}
