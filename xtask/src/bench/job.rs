//! What a scenario is made of: what must be there before it, the command, and what git must find after it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    data::{Data, remove},
    matrix::{Client, Scenario},
};

/// Commands at once in the scenario of that name.
const AT_ONCE: usize = 8;

/// One run, prepared.
#[derive(Debug)]
pub(super) struct Job {
    scenario: Scenario,
    /// Where the client runs.
    pub(super) directory: PathBuf,
    /// In git's words.
    pub(super) arguments: Vec<String>,
    /// How many clients run this at once.
    pub(super) copies: usize,
    /// The repository on the server.
    served: PathBuf,
    /// What should be like it in the end, where there is one.
    counterpart: Option<PathBuf>,
}

impl Job {
    /// Makes everything as it must be before the run. `base` is the server's URL without a slash at the end.
    ///
    /// # Errors
    /// When files can't be made, or the client has no such command.
    pub(super) fn prepare(data: &Data, scenario: Scenario, client: Client, base: &str) -> anyhow::Result<Job> {
        let (target, copy) = (data.served.join("target.git"), data.work.join("copy.git"));
        let (name, work) = match scenario {
            Scenario::LsRemote | Scenario::Concurrent8 => ("small", data.work.clone()),
            Scenario::LsRemote20000 => ("refs", data.work.clone()),
            Scenario::CloneSmall | Scenario::CloneBulk => {
                remove(&copy)?;
                let name = if scenario == Scenario::CloneSmall {
                    "small"
                } else {
                    "bulk"
                };
                (name, data.work.clone())
            }
            Scenario::FetchFew => {
                data.copy("small-5", &copy)?;
                ("small", copy.clone())
            }
            Scenario::PushOne => {
                data.copy("small-1", &target)?;
                ("target", data.repository("small")?)
            }
            Scenario::Push10Mb => {
                data.empty(&target)?;
                ("target", data.repository("mid")?)
            }
            Scenario::PushBulk => {
                data.empty(&target)?;
                ("target", data.repository("bulk")?)
            }
        };
        let served = if name == "target" {
            target
        } else {
            data.repository(name)?
        };
        let url = format!("{base}/{name}.git");
        let counterpart = match scenario {
            Scenario::LsRemote | Scenario::LsRemote20000 | Scenario::Concurrent8 => None,
            Scenario::CloneSmall | Scenario::CloneBulk | Scenario::FetchFew => Some(copy),
            Scenario::PushOne | Scenario::Push10Mb | Scenario::PushBulk => Some(work.clone()),
        };
        Ok(Job {
            scenario,
            directory: work,
            arguments: arguments(scenario, client, &url)?,
            copies: if scenario == Scenario::Concurrent8 { AT_ONCE } else { 1 },
            served,
            counterpart,
        })
    }

    /// Whether all is as it must be after the run: refs in any case, with `thorough` every object too.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub(super) fn check(
        &self,
        data: &Data,
        client: Client,
        listings: &[Vec<u8>],
        thorough: bool,
    ) -> Result<(), String> {
        let Some(counterpart) = &self.counterpart else {
            let expected = text(data, &self.served, &["ls-remote", "."])?;
            return listings
                .iter()
                .all(|listing| same_listing(client, &expected, &String::from_utf8_lossy(listing)))
                .then_some(())
                .ok_or_else(|| "what it listed differs from the server's refs".to_owned());
        };
        let refs = |path: &Path| text(data, path, &["for-each-ref", "--format=%(objectname) %(refname)"]);
        let (there, here) = (refs(&self.served)?, refs(counterpart)?);
        if there != here || there.is_empty() {
            return Err("refs differ between client and server".to_owned());
        }
        if thorough {
            let changed = if self.scenario.is_push() {
                &self.served
            } else {
                counterpart
            };
            text(data, changed, &["fsck", "--strict", "--no-dangling", "--no-progress"])?;
        }
        Ok(())
    }
}

/// gix lists in words of its own: name and id are there in any order.
fn same_listing(client: Client, expected: &str, found: &str) -> bool {
    if client != Client::Gix {
        return found.trim() == expected;
    }
    expected.lines().all(|line| {
        line.split_once('\t')
            .is_some_and(|(id, name)| found.lines().any(|line| line.contains(id) && line.contains(name)))
    })
}

fn arguments(scenario: Scenario, client: Client, url: &str) -> anyhow::Result<Vec<String>> {
    let words: &[&str] = match (client, scenario) {
        (Client::Gix, scenario) if scenario.is_push() => anyhow::bail!("gix has no push"),
        (Client::Gix, Scenario::CloneSmall | Scenario::CloneBulk) => &["clone", "--bare", url, "copy.git"],
        (Client::Gix, Scenario::FetchFew) => &["fetch", "--remote", url, "main:main"],
        (Client::Gix, _) => anyhow::bail!("gix lists refs only inside of a repository"),
        (_, Scenario::LsRemote | Scenario::LsRemote20000 | Scenario::Concurrent8) => &["ls-remote", url],
        (_, Scenario::CloneSmall | Scenario::CloneBulk) => &["clone", "-q", "--bare", url, "copy.git"],
        (_, Scenario::FetchFew) => &["fetch", "-q", url, "main:main"],
        (_, Scenario::PushOne | Scenario::Push10Mb | Scenario::PushBulk) => &["push", "-q", url, "main:main"],
    };
    Ok(words.iter().map(|word| (*word).to_owned()).collect())
}

/// What git says, or why it says nothing.
fn text(data: &Data, path: &Path, arguments: &[&str]) -> Result<String, String> {
    if fs::metadata(path).is_err() {
        return Err("there is no repository where it should be".to_owned());
    }
    let output = data.git.run(path, arguments);
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "git {}: {}: {}",
        arguments.join(" "),
        output.status,
        said.trim()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rgit_testkit::repository::Git;

    #[test]
    fn a_job_that_did_nothing_is_found_out_and_one_done_is_not() {
        let files = tempfile::tempdir().expect("a temporary directory");
        let data = Data::new(files.path(), Git::new(), 1).expect("folders");
        // With a folder as the base, git does the same work without a server.
        let base = data.served.display().to_string();
        for scenario in Scenario::ALL {
            let job = Job::prepare(&data, *scenario, Client::GitH1, &base).expect("a job");
            assert!(
                job.check(&data, Client::GitH1, &[b"".to_vec()], true).is_err(),
                "{scenario}"
            );
            let output = data.git.git(&job.directory, &job.arguments);
            assert_eq!(
                job.check(&data, Client::GitH1, &[output.stdout], true),
                Ok(()),
                "{scenario}"
            );
        }
    }

    #[test]
    fn gix_says_what_it_cannot_do() {
        let error = arguments(Scenario::PushOne, Client::Gix, "x").expect_err("no push");
        assert_eq!(error.to_string(), "gix has no push");
    }
}
