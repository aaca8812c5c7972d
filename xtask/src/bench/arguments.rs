//! The flags of `cargo xtask bench`, and the three presets they start from.

use std::{path::PathBuf, time::Duration};

use super::front;
use super::matrix::{Axes, Client, Scenario, Server, Window};

/// Flags of `cargo xtask bench`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(super) verb: Option<Verb>,
    #[command(flatten)]
    pub(super) measure: Measure,
}

/// What can be done with results.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Verb {
    /// Print what moved beyond noise from one results.json to another.
    Compare {
        /// The earlier results.
        before: PathBuf,
        /// The later results.
        after: PathBuf,
    },
    /// Write table, Markdown and HTML page again from a results.json.
    Render {
        /// The results.
        results: PathBuf,
    },
}

/// What to measure, and how.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Measure {
    /// Small operations and 10 MB over two links, in less than three minutes on two processors; what a bench is without a preset.
    #[arg(long, group = "preset")]
    pub(super) quick: bool,
    /// Everything. Hours.
    #[arg(long, group = "preset")]
    pub(super) full: bool,
    /// What auto must hold: h1, h2 and auto over three links and three windows, with auto's ratio to the better one.
    #[arg(long, group = "preset")]
    pub(super) roads: bool,
    /// Only these clients: git-h1, git-h2, h1, h2, auto, persistent-cold, persistent-warm, gix, grit.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub(super) transport: Vec<Client>,
    /// Only these scenarios.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub(super) scenario: Vec<Scenario>,
    /// Round trips of the link, in milliseconds; 0 is loopback itself.
    #[arg(long, value_delimiter = ',', value_name = "MS")]
    pub(super) rtt: Vec<u32>,
    /// Rates of the link each way, in megabytes (10^6 bytes) a second; 0 is as fast as the machine.
    #[arg(long, value_delimiter = ',', value_name = "MB/S")]
    pub(super) rate: Vec<u32>,
    /// HTTP/2 windows of the server: 64KiB (frames of 16 KiB), 1MiB, 16MiB.
    #[arg(long, value_delimiter = ',', value_name = "SIZE")]
    pub(super) window: Vec<Window>,
    /// Real servers in front, with TLS and HTTP/2 as they ship: nginx, nginx-unbuffered, apache, haproxy.
    #[arg(long, value_delimiter = ',', value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(front::NAMES))]
    pub(super) server: Vec<String>,
    /// Only cells whose names contain one of these words.
    #[arg(long, value_delimiter = ',', value_name = "WORD")]
    pub(super) filter: Vec<String>,
    /// Print the names of the cells and measure nothing.
    #[arg(long)]
    pub(super) list: bool,
    /// Measured runs of each cell, after one warm-up [default: 5].
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) runs: Option<u16>,
    /// Seconds after which a run is killed [default: 120, and 8 for --quick].
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) limit: Option<u32>,
    /// Megabytes (10^6 bytes) in the bulk scenarios.
    #[arg(long, value_name = "MB", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) bulk_mb: u32,
    /// Leave out uploads over HTTP/2 that a window makes longer than the limit: window ÷ round trip is known beforehand.
    #[arg(long)]
    pub(super) leave_out_slow: bool,
    /// Go on where an interrupted bench with the same settings stopped.
    #[arg(long)]
    pub(super) resume: bool,
    /// Measure although the machine is busy, or a link is not what it should be.
    #[arg(long)]
    pub(super) force: bool,
    /// Measure this rgit in place of building one.
    #[arg(long, value_name = "FILE")]
    pub(super) rgit: Option<PathBuf>,
    /// Where results.json, results.md and index.html go [default: target/bench].
    #[arg(long, value_name = "FOLDER")]
    pub(super) output: Option<PathBuf>,
}

impl Measure {
    /// Measured runs of each cell.
    pub(super) fn runs(&self) -> usize {
        self.runs.map_or(5, usize::from)
    }

    /// How long a run may take.
    pub(super) fn limit(&self) -> Duration {
        let preset = if self.is_quick() { 8 } else { 120 };
        Duration::from_secs(self.limit.unwrap_or(preset).into())
    }

    /// Whether to leave out what can't end in time.
    pub(super) fn leaves_out_slow(&self) -> bool {
        self.leave_out_slow || self.is_quick()
    }

    fn is_quick(&self) -> bool {
        !self.full && !self.roads
    }

    /// The preset's axes, each replaced where a flag names it.
    pub(super) fn axes(&self) -> Axes {
        let mut axes = self.preset();
        replace(&mut axes.clients, &self.transport);
        replace(&mut axes.scenarios, &self.scenario);
        replace(&mut axes.round_trips_ms, &self.rtt);
        let rates: Vec<Option<u32>> = self
            .rate
            .iter()
            .map(|rate| Some(*rate).filter(|rate| *rate > 0))
            .collect();
        replace(&mut axes.rates_mb_s, &rates);
        let mut servers: Vec<Server> = self.window.iter().copied().map(Server::Testkit).collect();
        servers.extend(self.server.iter().cloned().map(Server::Named));
        replace(&mut axes.servers, &servers);
        axes
    }

    fn preset(&self) -> Axes {
        let all_windows = || Window::ALL.iter().copied().map(Server::Testkit).collect();
        if self.full {
            return Axes {
                clients: Client::ALL.to_vec(),
                scenarios: Scenario::ALL.to_vec(),
                round_trips_ms: vec![0, 20, 100, 200],
                rates_mb_s: vec![None],
                servers: all_windows(),
            };
        }
        if self.roads {
            return Axes {
                clients: vec![Client::H1, Client::H2, Client::Auto],
                scenarios: vec![
                    Scenario::LsRemote,
                    Scenario::PushOne,
                    Scenario::Push10Mb,
                    Scenario::PushBulk,
                    Scenario::CloneBulk,
                ],
                round_trips_ms: vec![0, 20, 100],
                rates_mb_s: vec![None],
                servers: all_windows(),
            };
        }
        Axes {
            clients: vec![Client::GitH1, Client::GitH2, Client::H1, Client::H2, Client::Auto],
            scenarios: vec![
                Scenario::LsRemote,
                Scenario::CloneSmall,
                Scenario::FetchFew,
                Scenario::PushOne,
                Scenario::Push10Mb,
            ],
            round_trips_ms: vec![0, 100],
            rates_mb_s: vec![None],
            servers: vec![Server::Testkit(Window::Small)],
        }
    }
}

fn replace<T: Clone>(axis: &mut Vec<T>, given: &[T]) {
    if !given.is_empty() {
        *axis = given.to_vec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn measure(line: &str) -> Measure {
        let words = std::iter::once("bench").chain(line.split_whitespace());
        Line::try_parse_from(words).expect("a command line").arguments.measure
    }

    #[test]
    fn flags_replace_the_axes_of_a_preset() {
        let axes = measure("--roads --rtt 0,50 --rate 0,10 --transport h2 --window 1MiB").axes();
        assert_eq!(axes.round_trips_ms, [0, 50]);
        assert_eq!(axes.rates_mb_s, [None, Some(10)]);
        assert_eq!(axes.clients, [Client::H2]);
        assert_eq!(axes.servers, [Server::Testkit(Window::Medium)]);
        assert_eq!(axes.scenarios.len(), 5);
    }

    #[test]
    fn presets_differ_and_exclude_each_other() {
        let (quick, full) = (measure(""), measure("--full"));
        assert_eq!((quick.runs(), measure("-n 7").runs()), (5, 7));
        assert!(quick.leaves_out_slow() && !full.leaves_out_slow());
        assert!(quick.limit() < full.limit());
        let count = |measure: &Measure| measure.axes().groups(&[]).len();
        assert_eq!((count(&quick), count(&full)), (5 * 2, 9 * 4 * 3));
        assert!(Line::try_parse_from(["bench", "--full", "--roads"]).is_err());
        assert!(Line::try_parse_from(["bench", "--scenario", "push-nothing"]).is_err());
        assert!(Line::try_parse_from(["bench", "-n", "0"]).is_err());
    }
}
