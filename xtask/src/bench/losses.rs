//! Where rgit is slower than the fastest of git and its peers, or `auto` than the better of the two it chooses from: what
//! a reader must see first.

use super::{
    matrix::Client,
    results::{Cell, Outcome, Results},
    statistics::{LIKELY, same},
};

/// From this ratio on it is a loss: what differs less is told by no one.
const WORTH_TELLING: f64 = 1.05;

/// One cell that lost.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Loss {
    pub(super) name: String,
    pub(super) ours: f64,
    pub(super) rival: Client,
    pub(super) theirs: f64,
    /// How likely it is that the two don't differ: see [`same`]. One run alone can't say.
    pub(super) chance: Option<f64>,
}

impl Loss {
    /// How many times as long it took.
    pub(super) fn ratio(&self) -> f64 {
        self.ours / self.theirs
    }

    /// In a sentence.
    pub(super) fn sentence(&self) -> String {
        format!(
            "{}: {} against {} of {}, {:.2} times as long{}",
            self.name,
            seconds(self.ours),
            seconds(self.theirs),
            self.rival,
            self.ratio(),
            match self.chance {
                None => " (one run)",
                Some(chance) if chance > LIKELY => " (within noise)",
                Some(_) => "",
            }
        )
    }
}

/// A time as reports show it: three figures that count, never less than a millisecond.
pub(super) fn seconds(time: f64) -> String {
    match time {
        _ if time < 1.0 => format!("{time:.3} s"),
        _ if time < 10.0 => format!("{time:.2} s"),
        _ => format!("{time:.1} s"),
    }
}

/// Every cell of rgit that took longer by more than a twentieth than the fastest of its rivals, the worst first.
pub(super) fn losses(results: &Results) -> Vec<Loss> {
    let mut losses = Vec::new();
    for (_, cells) in results.groups() {
        let rivals = fastest(&cells, |client| !client.is_ours());
        let roads = fastest(&cells, |client| matches!(client, Client::H1 | Client::H2));
        for cell in cells.iter().filter(|cell| cell.client.is_ours()) {
            let Some(ours) = cell.wall() else { continue };
            let among_ourselves = roads.filter(|_| cell.client == Client::Auto);
            let worst = [rivals, among_ourselves]
                .into_iter()
                .flatten()
                .filter(|(_, theirs)| ours.median > theirs * WORTH_TELLING)
                .min_by(|one, other| one.1.total_cmp(&other.1));
            losses.extend(worst.map(|(rival, theirs)| {
                Loss {
                    name: cell.name.clone(),
                    ours: ours.median,
                    rival: rival.client,
                    theirs,
                    chance: [cell, rival]
                        .iter()
                        .all(|cell| cell.walls().len() > 1)
                        .then(|| same(&cell.walls(), &rival.walls())),
                }
            }));
        }
    }
    losses.sort_by(|one, other| other.ratio().total_cmp(&one.ratio()));
    losses
}

/// Cells of rgit without a time although a rival has one: killed or failed.
pub(super) fn defaults(results: &Results) -> Vec<String> {
    let mut defaults = Vec::new();
    for (_, cells) in results.groups() {
        for cell in cells.iter().filter(|cell| cell.client.is_ours()) {
            if let Outcome::Killed(why) | Outcome::Failed(why) = &cell.outcome {
                defaults.push(format!("{}: {why}", cell.name));
            }
        }
    }
    defaults
}

fn fastest<'a>(cells: &[&'a Cell], of: impl Fn(Client) -> bool) -> Option<(&'a Cell, f64)> {
    cells
        .iter()
        .filter(|cell| of(cell.client))
        .filter_map(|cell| Some((*cell, cell.wall()?.median)))
        .min_by(|one, other| one.1.total_cmp(&other.1))
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

    #[test]
    fn losses_are_told_from_one_twentieth_on_and_the_worst_first() {
        let cell = |client, scenario, wall: f64| made_up::cell(scenario, client, 20, Window::Small, &[wall; 3]);
        let mut killed = cell(Client::H2, Scenario::PushBulk, 1.0);
        killed.outcome = Outcome::Killed("killed after 60 s".to_owned());
        let results = made_up::results(vec![
            cell(Client::GitH1, Scenario::PushOne, 1.0),
            cell(Client::GitH2, Scenario::PushOne, 2.0),
            cell(Client::H1, Scenario::PushOne, 1.04),
            cell(Client::H2, Scenario::PushOne, 1.5),
            // 1.11 is 7 % behind h1 and 11 % behind git.
            cell(Client::Auto, Scenario::PushOne, 1.11),
            cell(Client::GitH1, Scenario::LsRemote, 5.0),
            cell(Client::H1, Scenario::LsRemote, 1.0),
            cell(Client::Auto, Scenario::LsRemote, 3.0),
            // A daemon is rgit too; how it fares against rgit without one is no loss.
            cell(Client::GitH1, Scenario::FetchFew, 1.0),
            cell(Client::Grit, Scenario::FetchFew, 0.8),
            cell(Client::H1, Scenario::FetchFew, 0.2),
            cell(Client::PersistentWarm, Scenario::FetchFew, 0.82),
            cell(Client::PersistentCold, Scenario::FetchFew, 0.88),
            killed.clone(),
        ]);
        let losses = losses(&results);
        let told: Vec<(&str, Client)> = losses.iter().map(|loss| (&*loss.name, loss.rival)).collect();
        assert_eq!(
            told,
            [
                ("ls-remote/auto/cold/20ms/64KiB", Client::H1),
                ("push-one/h2/cold/20ms/64KiB", Client::GitH1),
                ("push-one/auto/cold/20ms/64KiB", Client::GitH1),
                ("fetch-few/persistent/cold/20ms/64KiB", Client::Grit),
            ]
        );
        assert_eq!(
            losses[1].sentence(),
            "push-one/h2/cold/20ms/64KiB: 1.50 s against 1.00 s of git-h1, 1.50 times as long"
        );
        let alone = Loss {
            chance: Some(0.4),
            ..losses[1].clone()
        };
        assert!(alone.sentence().ends_with("1.50 times as long (within noise)"));
        let results = made_up::results(vec![
            cell(Client::GitH1, Scenario::PushOne, 1.0),
            made_up::cell(Scenario::PushOne, Client::H2, 20, Window::Small, &[40.0]),
        ]);
        let once = super::losses(&results);
        assert!(
            once[0].sentence().ends_with("40.00 times as long (one run)"),
            "{once:?}"
        );
        let results = made_up::results(vec![killed]);
        assert_eq!(defaults(&results), ["push-bulk/h2/cold/20ms/64KiB: killed after 60 s"]);
    }
}
