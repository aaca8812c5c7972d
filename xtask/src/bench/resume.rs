//! What an interrupted bench has left: which of it may stand.

use anyhow::bail;

use super::{
    matrix::Group,
    results::{Cell, Outcome, Results},
};

/// Keeps what an earlier bench has finished, when it was made the same way.
///
/// # Errors
/// When it was made another way.
pub(super) fn take_over(results: &mut Results, earlier: Results) -> anyhow::Result<()> {
    let way = |results: &Results| {
        let settings = &results.settings;
        let same = (settings.runs, settings.bulk_mb, settings.limit_s);
        (
            same,
            results.commit.clone(),
            results.host.clone(),
            results.versions.clone(),
        )
    };
    if way(results) != way(&earlier) {
        bail!(
            "the earlier results were made another way (runs, sizes, limit, commit, machine or versions differ): \
             measure again without --resume"
        );
    }
    // A group that is under way has lost its turns: its clients would not have run side by side.
    results.cells = earlier.cells;
    let runs = results.settings.runs;
    let whole = |cell: &Cell| cell.outcome != Outcome::Measured || cell.once || cell.runs.len() >= runs;
    let unfinished: Vec<Group> = results
        .cells
        .iter()
        .filter(|cell| !whole(cell))
        .map(|cell| cell.group.clone())
        .collect();
    results.cells.retain(|cell| !unfinished.contains(&cell.group));
    (results.links, results.real_links) = (earlier.links, earlier.real_links);
    results.limits = earlier.limits;
    Ok(())
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

    #[test]
    fn what_is_finished_is_taken_over_and_a_broken_round_is_not() {
        let cell = |scenario, client, walls: &[f64]| made_up::cell(scenario, client, 0, Window::Small, walls);
        let mut slow = cell(Scenario::PushBulk, Client::GitH2, &[97.0]);
        slow.once = true;
        let earlier = made_up::results(vec![
            cell(Scenario::LsRemote, Client::H1, &[1.0, 1.0, 1.0]),
            cell(Scenario::PushOne, Client::GitH1, &[1.0, 1.0, 1.0]),
            cell(Scenario::PushOne, Client::H1, &[1.0, 1.0]),
            slow,
        ]);
        let mut results = made_up::results(vec![]);
        take_over(&mut results, earlier.clone()).expect("the same settings");
        let names: Vec<&str> = results.cells.iter().map(|cell| &*cell.name).collect();
        assert_eq!(
            names,
            ["ls-remote/h1/cold/0ms/64KiB", "push-bulk/git-h2/cold/0ms/64KiB"]
        );

        results.settings.bulk_mb = 5;
        let error = take_over(&mut results, earlier).expect_err("another size").to_string();
        assert!(error.contains("without --resume"), "{error}");
    }
}
