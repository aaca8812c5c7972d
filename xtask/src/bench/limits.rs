//! What the same data costs without HTTP: `git pack-objects`, `git index-pack`, a push to a path.
//!
//! No client can be faster than these by more than doing the work another way. The link's own limit is in its check.

use std::{fs::File, process::Command, time::Instant};

use anyhow::{Context, bail};

use super::{data::Data, matrix::Scenario, results::Limit};

/// Adds the limits of this scenario's data, each timed `runs` times in turn, unless they are there already or it has none.
///
/// # Errors
/// When git fails or files can't be made.
pub(super) fn add(limits: &mut Vec<Limit>, data: &Data, scenario: Scenario, runs: usize) -> anyhow::Result<()> {
    let name = match scenario {
        Scenario::PushBulk | Scenario::CloneBulk | Scenario::Clone4 => "bulk",
        Scenario::Push10Mb => "mid",
        _ => return Ok(()),
    };
    let suffix = format!(", {name}");
    if !limits.iter().any(|limit| limit.name.ends_with(&suffix)) {
        limits.extend(measure(data, scenario, name, runs)?);
    }
    Ok(())
}

fn measure(data: &Data, scenario: Scenario, name: &str, runs: usize) -> anyhow::Result<Vec<Limit>> {
    let repository = data.repository(name)?;
    let (pack, target) = (data.work.join("limit.pack"), data.served.join("target.git"));
    let mut walls: [Vec<f64>; 3] = Default::default();
    for _ in 0..runs {
        let mut packing = data.git.command(&repository);
        packing.args(["pack-objects", "-q", "--all", "--stdout", "--delta-base-offset"]);
        packing.stdout(File::create(&pack).context("make a pack")?);
        walls[0].push(timed(packing)?);

        data.empty(&target)?;
        let mut indexing = data.git.command(&target);
        indexing.args(["index-pack", "--stdin"]);
        indexing.stdin(File::open(&pack).context("read the pack")?);
        walls[1].push(timed(indexing)?);

        data.empty(&target)?;
        let mut pushing = data.git.command(&repository);
        pushing.args(["push", "-q"]).arg(&target).arg("main:main");
        walls[2].push(timed(pushing)?);
    }
    let names = ["git pack-objects", "git index-pack", "git push to a path"];
    Ok(names
        .into_iter()
        .zip(walls)
        .map(|(limit, wall_s)| Limit {
            name: format!("{limit}, {name}"),
            wall_s,
            bytes: data.payload(if name == "bulk" { Scenario::PushBulk } else { scenario }),
        })
        .collect())
}

fn timed(mut command: Command) -> anyhow::Result<f64> {
    let begun = Instant::now();
    let output = command.output().context("start git")?;
    let wall = begun.elapsed().as_secs_f64();
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(wall)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rgit_testkit::repository::Git;

    #[test]
    fn limits_are_measured_where_bytes_are_what_takes_time() {
        let files = tempfile::tempdir().expect("a temporary directory");
        let data = Data::new(files.path(), Git::new(), 1).expect("folders");
        let mut limits = Vec::new();
        add(&mut limits, &data, Scenario::PushOne, 1).expect("nothing");
        assert_eq!(limits, []);
        add(&mut limits, &data, Scenario::PushBulk, 2).expect("limits");
        add(&mut limits, &data, Scenario::CloneBulk, 2).expect("the same data");
        let names: Vec<&str> = limits.iter().map(|limit| &*limit.name).collect();
        assert_eq!(
            names,
            [
                "git pack-objects, bulk",
                "git index-pack, bulk",
                "git push to a path, bulk"
            ]
        );
        assert!(
            limits
                .iter()
                .all(|limit| limit.wall_s.len() == 2 && limit.bytes == Some(1_000_000))
        );
        // What was timed was really done.
        let (there, here) = (data.served.join("target.git"), data.repository("bulk").expect("bulk"));
        data.git.assert_same(&there, &here);
    }
}
