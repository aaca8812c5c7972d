//! `results.json`: what was measured, on what, and how; written after each round, read again to resume and to compare.
//!
//! The schema is what these types say, field by field; a change that an older reader would misread raises [`SCHEMA`].
//! Times are seconds, sizes bytes. Every run stands here by itself: medians and spreads are the reader's to make.

use std::{fs, io::Write, path::Path};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use super::{
    matrix::{Client, Group, Road},
    statistics::Summary,
};

/// The version of this schema.
pub(super) const SCHEMA: u32 = 1;

/// One file of results.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Results {
    pub(super) schema: u32,
    /// As it was typed.
    pub(super) command: String,
    /// When it began: UTC, `2026-01-31 12:00`.
    pub(super) date: String,
    /// The commit of the work tree; ends in `-dirty` when there were changes.
    pub(super) commit: String,
    pub(super) host: Host,
    pub(super) versions: Versions,
    pub(super) settings: Settings,
    /// The links, each with what was measured of it before use.
    pub(super) links: Vec<LinkCheck>,
    /// The ways to servers that others run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) real_links: Vec<RealLink>,
    /// What the machine can do without HTTP, on the same data.
    pub(super) limits: Vec<Limit>,
    pub(super) cells: Vec<Cell>,
}

/// The machine.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub(super) struct Host {
    pub(super) processor: String,
    pub(super) processors: usize,
    pub(super) memory_mb: u64,
    /// Name and release of the kernel.
    pub(super) system: String,
}

/// What was measured with what.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub(super) struct Versions {
    pub(super) rgit: String,
    pub(super) git: String,
    /// Other clients and servers, as they call themselves.
    pub(super) others: Vec<String>,
}

/// What must be the same for a run to be resumed.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub(super) struct Settings {
    /// Measured runs of each cell; one more goes before them as a warm-up and isn't kept.
    pub(super) runs: usize,
    /// Megabytes (10^6 bytes) in the bulk scenarios.
    pub(super) bulk_mb: u32,
    /// After so many seconds a run is killed.
    pub(super) limit_s: f64,
    /// Load average of the last minute when it began.
    pub(super) load: f64,
    /// Whether `--force` let it run on a busy machine.
    pub(super) forced: bool,
}

/// What a link was found to be.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub(super) struct LinkCheck {
    #[serde(flatten)]
    pub(super) road: Road,
    /// How it was made: which model.
    pub(super) kind: String,
    /// There and back of one byte: the median of several.
    pub(super) round_trip_s: f64,
    /// From the beginning of a new connection to the first byte of an answer.
    pub(super) first_answer_s: f64,
    /// What the model allows one connection each way; none is as fast as the machine.
    pub(super) expected_bytes_s: Option<f64>,
    /// What a plain TCP stream moved upwards.
    pub(super) up_bytes_s: f64,
    /// And downwards.
    pub(super) down_bytes_s: f64,
}

/// The way to a server that somebody else runs: as it was found, nothing added.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub(super) struct RealLink {
    /// The URL.
    pub(super) server: String,
    /// TCP's handshake: the median of several.
    pub(super) round_trip_s: f64,
}

/// One thing without HTTP.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub(super) struct Limit {
    /// `git index-pack, bulk`.
    pub(super) name: String,
    pub(super) wall_s: Vec<f64>,
    /// Bytes it moved or read, where that says something.
    pub(super) bytes: Option<u64>,
}

/// One cell of the matrix.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Cell {
    pub(super) name: String,
    #[serde(flatten)]
    pub(super) group: Group,
    pub(super) client: Client,
    /// Bytes of the pack or file data that it moves, where that is what takes its time.
    pub(super) payload: Option<u64>,
    pub(super) outcome: Outcome,
    /// Whether its warm-up took so long that it is the one run that counts.
    #[serde(default)]
    pub(super) once: bool,
    /// The measured runs, in order.
    pub(super) runs: Vec<Run>,
}

/// What became of a cell.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
#[serde(tag = "status", content = "why", rename_all = "kebab-case")]
pub(super) enum Outcome {
    /// The runs are there, and every one was checked; with fewer than asked for it is under way.
    Measured,
    /// This client can't do it, with the reason.
    CannotDo(String),
    /// Not tried: it could not end within the limit.
    LeftOut(String),
    /// Killed when its time was up.
    Killed(String),
    /// It failed, or the check found something wrong: no time counts.
    Failed(String),
}

impl Outcome {
    /// The reason where there are no times.
    pub(super) fn why(&self) -> Option<&str> {
        match self {
            Outcome::Measured => None,
            Outcome::CannotDo(why) | Outcome::LeftOut(why) | Outcome::Killed(why) | Outcome::Failed(why) => Some(why),
        }
    }
}

/// One run.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub(super) struct Run {
    /// From the start of the client to its end.
    pub(super) wall_s: f64,
    /// User and system, with the client's children, and what its daemon spent on it.
    pub(super) client_cpu_s: Option<f64>,
    /// The server's threads and its `git http-backend`; not those of the relay.
    pub(super) server_cpu_s: Option<f64>,
    /// The client's anonymous memory at its highest, with its children and its daemon.
    pub(super) peak_anonymous: Option<u64>,
    /// Bytes of request bodies, by the server's log.
    pub(super) up: Option<u64>,
    /// Bytes of response bodies.
    pub(super) down: Option<u64>,
    /// Bytes on the wire each way, TLS included; known where there is a relay.
    pub(super) wire: Option<(u64, u64)>,
    pub(super) requests: Option<usize>,
    /// New connections.
    pub(super) connections: Option<usize>,
    /// Connections that carried a request, new or not.
    #[serde(default)]
    pub(super) connections_used: Option<usize>,
    /// DATA frames of HTTP/2, both ways together; none over HTTP/1.1.
    #[serde(default)]
    pub(super) frames: Option<Frames>,
    /// Load average of the last minute when it ended.
    pub(super) load: f64,
}

/// DATA frames of HTTP/2, as the server counted them.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq)]
pub(super) struct Frames {
    pub(super) count: u64,
    /// Bytes of their payloads.
    pub(super) bytes: u64,
}

impl Cell {
    /// The wall times, summed up; `None` where none counts.
    pub(super) fn wall(&self) -> Option<Summary> {
        match self.outcome {
            Outcome::Measured => Summary::of(self.runs.iter().map(|run| run.wall_s)),
            _ => None,
        }
    }

    /// The wall times, in order.
    pub(super) fn walls(&self) -> Vec<f64> {
        self.runs.iter().map(|run| run.wall_s).collect()
    }

    /// Bytes a second of its payload at the median.
    pub(super) fn speed(&self) -> Option<f64> {
        Some(self.payload? as f64 / self.wall()?.median)
    }

    /// The median of another figure of its runs.
    pub(super) fn median(&self, figure: impl Fn(&Run) -> Option<f64>) -> Option<f64> {
        Summary::of(self.runs.iter().filter_map(figure)).map(|summary| summary.median)
    }
}

impl Results {
    /// Reads a file of results.
    ///
    /// # Errors
    /// When it can't be read, or is of another schema.
    pub(super) fn read(file: &Path) -> anyhow::Result<Results> {
        let text = fs::read(file).with_context(|| format!("read {}", file.display()))?;
        let results: Results = serde_json::from_slice(&text)
            .with_context(|| format!("{} is no results.json of this bench", file.display()))?;
        if results.schema != SCHEMA {
            bail!(
                "{} has schema {}, and this bench reads {SCHEMA}: measure again",
                file.display(),
                results.schema
            );
        }
        Ok(results)
    }

    /// Writes them so that the file holds either the old results or the new ones, whenever it is interrupted.
    ///
    /// # Errors
    /// When they can't be written.
    pub(super) fn write(&self, file: &Path) -> anyhow::Result<()> {
        let folder = file.parent().context("results without a folder")?;
        let mut part = tempfile::NamedTempFile::new_in(folder).context("write the results")?;
        serde_json::to_writer_pretty(&mut part, self).context("write the results")?;
        part.write_all(b"\n").context("write the results")?;
        part.persist(file)
            .with_context(|| format!("write {}", file.display()))?;
        Ok(())
    }

    /// The groups of the cells, in order of appearance, each with its cells.
    pub(super) fn groups(&self) -> Vec<(&Group, Vec<&Cell>)> {
        let mut groups: Vec<(&Group, Vec<&Cell>)> = Vec::new();
        for cell in &self.cells {
            match groups.iter_mut().find(|(group, _)| **group == cell.group) {
                Some((_, cells)) => cells.push(cell),
                None => groups.push((&cell.group, vec![cell])),
            }
        }
        groups
    }

    /// The cell of this client in this group.
    pub(super) fn cell(&self, group: &Group, client: Client) -> Option<&Cell> {
        self.cells
            .iter()
            .find(|cell| cell.group == *group && cell.client == client)
    }
}

/// Made-up results, for the tests of all that reads them.
#[cfg(test)]
pub(super) mod made_up {
    use super::*;
    use crate::bench::matrix::{Scenario, Server, Window};

    /// A cell with these wall times.
    pub(in crate::bench) fn cell(
        scenario: Scenario,
        client: Client,
        round_trip_ms: u32,
        window: Window,
        walls: &[f64],
    ) -> Cell {
        let group = Group {
            scenario,
            road: Road {
                round_trip_ms,
                ..Road::default()
            },
            server: Server::Testkit(window),
        };
        Cell {
            name: group.cell(client),
            client,
            payload: (scenario == Scenario::PushBulk || scenario == Scenario::CloneBulk).then_some(200_000_000),
            outcome: Outcome::Measured,
            once: false,
            runs: walls.iter().map(|wall| run(*wall)).collect(),
            group,
        }
    }

    fn run(wall_s: f64) -> Run {
        Run {
            wall_s,
            client_cpu_s: Some(0.1),
            server_cpu_s: Some(0.2),
            peak_anonymous: Some(9_000_000),
            up: Some(1000),
            down: Some(2000),
            wire: None,
            requests: Some(2),
            connections: Some(0),
            connections_used: Some(1),
            frames: Some(Frames {
                count: 20,
                bytes: 200_000,
            }),
            load: 0.5,
        }
    }

    /// A link of this round trip.
    pub(in crate::bench) fn link(round_trip_ms: u32) -> LinkCheck {
        let round_trip_s = f64::from(round_trip_ms) / 1000.0;
        LinkCheck {
            road: Road {
                round_trip_ms,
                ..Road::default()
            },
            kind: "made up".to_owned(),
            round_trip_s,
            first_answer_s: 2.0 * round_trip_s,
            expected_bytes_s: None,
            up_bytes_s: 42e6,
            down_bytes_s: 43e6,
        }
    }

    /// Results of these cells.
    pub(in crate::bench) fn results(cells: Vec<Cell>) -> Results {
        Results {
            schema: SCHEMA,
            command: "cargo xtask bench --full".to_owned(),
            date: "2026-01-31 12:00".to_owned(),
            commit: "0123456789ab".to_owned(),
            host: Host {
                processor: "a <made-up> processor".to_owned(),
                processors: 2,
                memory_mb: 8000,
                system: "Linux 6".to_owned(),
            },
            versions: Versions {
                rgit: "rgit 0.1.0".to_owned(),
                git: "git version 2.47.3".to_owned(),
                others: vec![],
            },
            settings: Settings {
                runs: 3,
                bulk_mb: 200,
                limit_s: 60.0,
                load: 0.2,
                forced: false,
            },
            links: vec![],
            real_links: vec![],
            limits: vec![],
            cells,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::matrix::{Scenario, Window},
        *,
    };

    #[test]
    fn what_is_written_is_read_again() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let file = folder.path().join("results.json");
        let mut cells = vec![made_up::cell(
            Scenario::PushBulk,
            Client::PersistentWarm,
            100,
            Window::Medium,
            &[1.0, 2.0],
        )];
        cells.push(Cell {
            outcome: Outcome::LeftOut("too slow".to_owned()),
            runs: vec![],
            ..cells[0].clone()
        });
        let results = made_up::results(cells);
        results.write(&file).expect("write");
        results.write(&file).expect("write over it");
        let again = Results::read(&file).expect("read");
        assert_eq!(again.cells[0].name, "push-bulk/persistent/warm/100ms/1MiB");
        assert_eq!(again.cells[0].group, results.cells[0].group);
        assert_eq!(again.cells[0].runs, results.cells[0].runs);
        assert_eq!(again.cells[1].outcome.why(), Some("too slow"));
        assert_eq!(again.cells[0].speed(), Some(200_000_000.0 / 1.5));
        assert_eq!(again.cells[1].wall(), None);
        assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 1);
    }

    #[test]
    fn another_schema_is_refused() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let file = folder.path().join("results.json");
        let mut results = made_up::results(vec![]);
        results.schema = SCHEMA + 1;
        results.write(&file).expect("write");
        let error = Results::read(&file).expect_err("another schema").to_string();
        assert!(error.contains("measure again"), "{error}");
        fs::write(&file, "{}").expect("write");
        assert!(Results::read(&file).is_err());
    }
}
