//! What `auto` must hold, in one table: against h1 and h2 over every link and window, and its ratio to the better one.

use super::{
    losses::seconds,
    matrix::{Client, Group},
    results::Results,
};

const HEADINGS: [&str; 7] = ["scenario", "link", "window", "h1", "h2", "auto", "auto ÷ better"];

/// The table, without cells where none of the groups has an `auto`.
pub(super) fn table(results: &Results) -> Vec<Vec<String>> {
    let groups: Vec<&Group> = results
        .groups()
        .into_iter()
        .filter(|(group, _)| results.cell(group, Client::Auto).is_some())
        .map(|(group, _)| group)
        .collect();
    if groups.is_empty() {
        return Vec::new();
    }
    let mut rows = vec![HEADINGS.map(str::to_owned).to_vec()];
    for group in groups {
        let mut row = vec![group.scenario.to_string(), group.link(), group.server.to_string()];
        row.extend([Client::H1, Client::H2, Client::Auto].map(|client| told(results, group, client)));
        row.push(ratio(results, group).map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")));
        rows.push(row);
    }
    rows
}

/// How many times as long `auto` takes as the better of those it chooses from.
pub(super) fn ratio(results: &Results, group: &Group) -> Option<f64> {
    let median = |client| Some(results.cell(group, client)?.wall()?.median);
    let better = [Client::H1, Client::H2]
        .into_iter()
        .filter_map(median)
        .min_by(f64::total_cmp)?;
    Some(median(Client::Auto)? / better)
}

fn told(results: &Results, group: &Group, client: Client) -> String {
    let Some(cell) = results.cell(group, client) else {
        return "-".to_owned();
    };
    match (cell.outcome.why(), cell.wall()) {
        // What stands in brackets is in the table of cells.
        (Some(why), _) => why.split(" (").next().unwrap_or(why).to_owned(),
        (None, Some(wall)) => seconds(wall.median),
        (None, None) => "not yet".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            matrix::{Scenario, Window},
            results::{Outcome, made_up},
        },
        *,
    };

    #[test]
    fn auto_is_held_against_the_better_one() {
        let cell = |client, wall: f64| made_up::cell(Scenario::PushBulk, client, 100, Window::Small, &[wall]);
        let mut slow = cell(Client::H2, 1.0);
        (slow.outcome, slow.runs) = (
            Outcome::LeftOut("left out: at least 305 s (a window)".to_owned()),
            Vec::new(),
        );
        let results = made_up::results(vec![cell(Client::H1, 10.0), slow, cell(Client::Auto, 10.4)]);
        let table = table(&results);
        assert_eq!(
            table[1],
            [
                "push-bulk",
                "100ms",
                "64KiB",
                "10.0 s",
                "left out: at least 305 s",
                "10.4 s",
                "1.04"
            ]
        );
        assert_eq!(
            super::table(&made_up::results(vec![cell(Client::H1, 1.0)])),
            [[""; 0]; 0]
        );
    }
}
