//! What a scenario is made of: what must be there before it, the command, and what git must find after it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    data::{Data, remove},
    far::{self, Far},
    matrix::{Client, Scenario},
};

/// Commands at once in the scenarios of those names.
const LISTINGS_AT_ONCE: usize = 8;
const CLONES_AT_ONCE: usize = 4;

/// One run, prepared.
#[derive(Debug)]
pub(super) struct Job {
    /// Where the clients run.
    pub(super) directory: PathBuf,
    /// In git's words, for each of the clients that run at once.
    pub(super) arguments: Vec<Vec<String>>,
    proof: Proof,
}

/// What must hold after a run.
#[derive(Debug)]
enum Proof {
    /// Every client has listed what this repository has.
    Listed(PathBuf),
    /// Each of `changed` has the refs of `like`, and is whole.
    Same { changed: Vec<PathBuf>, like: PathBuf },
    /// The server is another's.
    Far(far::Proof),
}

impl Job {
    /// Makes everything as it must be before the run. `base` is the server's URL without a slash at the end.
    ///
    /// # Errors
    /// When files can't be made, or the client has no such command.
    pub(super) fn prepare(data: &Data, scenario: Scenario, client: Client, base: &str) -> anyhow::Result<Job> {
        let (target, copy) = (data.served.join("target.git"), data.work.join(COPY));
        let copies = if scenario == Scenario::Clone4 {
            CLONES_AT_ONCE
        } else {
            1
        };
        let copies: Vec<PathBuf> = (0..copies).map(|at| data.work.join(nth(COPY, at))).collect();
        let (name, directory) = match scenario {
            Scenario::LsRemote | Scenario::Concurrent8 => ("small", data.work.clone()),
            Scenario::LsRemote20000 => ("refs", data.work.clone()),
            Scenario::CloneSmall | Scenario::CloneBulk | Scenario::Clone4 => {
                copies.iter().try_for_each(|copy| remove(copy))?;
                let name = if scenario == Scenario::CloneSmall {
                    "small"
                } else {
                    "bulk"
                };
                (name, data.work.clone())
            }
            Scenario::FetchFew => {
                data.copy("small-5", &copy)?;
                ("small", copy)
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
            Scenario::CloneUrl => anyhow::bail!("clone-url needs --server with a URL"),
        };
        let served = if name == "target" {
            target
        } else {
            data.repository(name)?
        };
        let url = format!("{base}/{name}.git");
        let at_once = match scenario {
            Scenario::Concurrent8 => LISTINGS_AT_ONCE,
            Scenario::Clone4 => CLONES_AT_ONCE,
            _ => 1,
        };
        let proof = if scenario.is_listing() {
            Proof::Listed(served)
        } else if scenario.is_push() {
            Proof::Same {
                changed: vec![served],
                like: directory.clone(),
            }
        } else {
            Proof::Same {
                changed: copies,
                like: served,
            }
        };
        let arguments = |at| arguments(scenario, client, &url, &nth(COPY, at), "main:main");
        Ok(Job {
            directory,
            arguments: (0..at_once).map(arguments).collect::<anyhow::Result<_>>()?,
            proof,
        })
    }

    /// A run against a server that is another's.
    ///
    /// # Errors
    /// When it can't be prepared, or must not be: see [`Far::prepare`].
    pub(super) fn far(data: &Data, scenario: Scenario, client: Client, far: &Far) -> anyhow::Result<Job> {
        let prepared = far.prepare(data, scenario)?;
        let at_once = if scenario == Scenario::Concurrent8 {
            LISTINGS_AT_ONCE
        } else {
            1
        };
        let words = arguments(scenario, client, &prepared.url, COPY, &prepared.refspec)?;
        Ok(Job {
            directory: prepared.directory,
            arguments: vec![words; at_once],
            proof: Proof::Far(prepared.proof),
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
        match &self.proof {
            Proof::Listed(served) => all_listed(client, &text(data, served, &["ls-remote", "."])?, listings),
            Proof::Same { changed, like } => {
                let refs = |path: &Path| text(data, path, &["for-each-ref", "--format=%(objectname) %(refname)"]);
                let expected = refs(like)?;
                for path in changed {
                    if expected.is_empty() || refs(path)? != expected {
                        return Err("refs differ between client and server".to_owned());
                    }
                    if thorough {
                        text(data, path, &FSCK)?;
                    }
                }
                Ok(())
            }
            Proof::Far(proof) => proof.check(data, client, listings, thorough),
        }
    }
}

/// The arguments that look at every object of a repository.
pub(super) const FSCK: [&str; 4] = ["fsck", "--strict", "--no-dangling", "--no-progress"];
/// The repository that a client makes, or fetches into.
pub(super) const COPY: &str = "copy.git";

/// The name of the nth copy at once.
fn nth(name: &str, at: usize) -> String {
    if at == 0 {
        name.to_owned()
    } else {
        format!("{at}-{name}")
    }
}

/// Whether each client has listed what there is.
pub(super) fn all_listed(client: Client, expected: &str, listings: &[Vec<u8>]) -> Result<(), String> {
    let mut listings = listings.iter().map(|listing| String::from_utf8_lossy(listing));
    listings
        .all(|listing| same_listing(client, expected, &listing))
        .then_some(())
        .ok_or_else(|| "what it listed differs from the server's refs".to_owned())
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

fn arguments(scenario: Scenario, client: Client, url: &str, copy: &str, refspec: &str) -> anyhow::Result<Vec<String>> {
    let words: &[&str] = match (client, scenario) {
        (Client::Gix, scenario) if scenario.is_push() => anyhow::bail!("gix has no push"),
        (Client::Gix, scenario) if scenario.is_listing() => {
            anyhow::bail!("gix lists refs only inside of a repository")
        }
        (Client::Gix, Scenario::FetchFew) => &["fetch", "--remote", url, refspec],
        (Client::Gix, _) => &["clone", "--bare", url, copy],
        (_, Scenario::FetchFew) => &["fetch", "-q", url, refspec],
        (_, scenario) if scenario.is_listing() => &["ls-remote", url],
        (_, scenario) if scenario.is_push() => &["push", "-q", url, refspec],
        _ => &["clone", "-q", "--bare", url, copy],
    };
    Ok(words.iter().map(|word| (*word).to_owned()).collect())
}

/// What git says, or why it says nothing.
pub(super) fn text(data: &Data, path: &Path, arguments: &[&str]) -> Result<String, String> {
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
        for scenario in Scenario::ALL.iter().filter(|scenario| **scenario != Scenario::CloneUrl) {
            let job = Job::prepare(&data, *scenario, Client::GitH1, &base).expect("a job");
            assert!(
                job.check(&data, Client::GitH1, &[b"".to_vec()], true).is_err(),
                "{scenario}"
            );
            let run = |words| data.git.git(&job.directory, words).stdout;
            let listings: Vec<Vec<u8>> = job.arguments.iter().map(run).collect();
            assert_eq!(job.check(&data, Client::GitH1, &listings, true), Ok(()), "{scenario}");
        }
    }

    #[test]
    fn gix_says_what_it_cannot_do() {
        let error = arguments(Scenario::PushOne, Client::Gix, "x", "y", "z").expect_err("no push");
        assert_eq!(error.to_string(), "gix has no push");
    }
}
