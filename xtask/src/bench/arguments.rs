//! The flags of `cargo xtask bench`, and the cells they choose from a preset.

use std::{path::PathBuf, time::Duration};

use super::{
    far, front,
    matrix::{Axes, Client, Group, Scenario, Server, Window},
    preset,
};

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
        /// Put the table into README.md too.
        #[arg(long)]
        readme: bool,
    },
}

/// What to measure, and how.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Measure {
    /// Small operations and 10 MB over two links, in less than three minutes on two processors; what a bench is without a preset.
    #[arg(long, group = "preset")]
    pub(super) quick: bool,
    /// Everything, in about an hour on two processors.
    #[arg(long, group = "preset")]
    pub(super) full: bool,
    /// What auto must hold: h1, h2 and auto over three links and three windows, with auto's ratio to the better one.
    #[arg(long, group = "preset")]
    pub(super) roads: bool,
    /// Only these clients: git-h1, git-h2, h1, h2, auto, persistent-cold, persistent-warm, persistent-h1, persistent-h2, gix, grit.
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
    /// Under the kernel's own TCP, packet by packet between two network namespaces, in place of the relay. Needs root, on Linux.
    #[arg(long)]
    pub(super) tun: bool,
    /// Percentages of packets that are lost, in tenths; with --tun, since a relay carries streams, which lose nothing.
    #[arg(long, value_delimiter = ',', value_name = "PERCENT", value_parser = loss, requires = "tun")]
    pub(super) loss: Vec<u32>,
    /// HTTP/2 windows of the server: 64KiB (frames of 16 KiB), 1MiB, 16MiB.
    #[arg(long, value_delimiter = ',', value_name = "SIZE")]
    pub(super) window: Vec<Window>,
    /// Real servers in front, with TLS and HTTP/2 as they ship: nginx, nginx-unbuffered, apache, haproxy. Or one server of your
    /// own, by the URL of a repository, which is only read.
    #[arg(long, value_delimiter = ',', value_name = "NAME|URL", value_parser = server)]
    pub(super) server: Vec<Server>,
    /// With a URL as --server: a scratch repository that may be pushed to. Each push makes the branch rgit-bench-…, and it is
    /// deleted afterwards.
    #[arg(long, value_name = "URL")]
    pub(super) push_to: Option<String>,
    /// With a URL as --server: certificates to trust, as PEM.
    #[arg(long, value_name = "FILE")]
    pub(super) ca: Option<PathBuf>,
    /// Only cells whose names contain one of these words.
    #[arg(long, value_delimiter = ',', value_name = "WORD")]
    pub(super) filter: Vec<String>,
    /// Print the names of the cells and measure nothing.
    #[arg(long)]
    pub(super) list: bool,
    /// Measured runs of each cell, after one warm-up [default: 3, and 5 for --roads].
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) runs: Option<u16>,
    /// Seconds after which a run is killed [default: 180, and 8 for --quick].
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) limit: Option<u32>,
    /// Megabytes (10^6 bytes) in the bulk scenarios.
    #[arg(long, value_name = "MB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) bulk_mb: u32,
    /// Leave out uploads over HTTP/2 that a window makes longer than the limit: window ÷ round trip is known beforehand. Presets
    /// but --roads do so.
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
    /// Measure this gix, not the one on PATH.
    #[arg(long, value_name = "FILE")]
    pub(super) gix: Option<PathBuf>,
    /// Measure this grit, not the one on PATH.
    #[arg(long, value_name = "FILE")]
    pub(super) grit: Option<PathBuf>,
    /// Put the table into README.md.
    #[arg(long)]
    pub(super) readme: bool,
    /// Where results.json, results.md and index.html go [default: target/bench].
    #[arg(long, value_name = "FOLDER")]
    pub(super) output: Option<PathBuf>,
}

/// What `--loss` takes, in thousandths.
fn loss(text: &str) -> Result<u32, String> {
    let per_mille = text.parse::<f64>().ok().map(|percent| percent * 10.0);
    per_mille
        .filter(|per_mille| (0.0..=500.0).contains(per_mille) && (per_mille - per_mille.round()).abs() < 1e-6)
        .map(|per_mille| per_mille.round() as u32)
        .ok_or_else(|| format!("{text} is no percentage from 0 to 50 in tenths"))
}

/// What `--server` takes.
fn server(text: &str) -> Result<Server, String> {
    if text.contains("://") {
        // Looked at in `Measure::far`: an error here would show it, and with it a password that is in it.
        return Ok(Server::Url(text.trim_end_matches('/').to_owned()));
    }
    if front::NAMES.contains(&text) {
        return Ok(Server::Named(text.to_owned()));
    }
    let names = front::NAMES.join(", ");
    Err(format!(
        "{text} is no server: take one of {names}, or the URL of a repository"
    ))
}

impl Measure {
    /// Measured runs of each cell.
    pub(super) fn runs(&self) -> usize {
        self.runs.map_or(if self.roads { 5 } else { 3 }, usize::from)
    }

    /// How long a run may take.
    pub(super) fn limit(&self) -> Duration {
        let preset = if self.is_quick() { 8 } else { 180 };
        Duration::from_secs(self.limit.unwrap_or(preset).into())
    }

    /// Whether to leave out what can't end in time.
    pub(super) fn leaves_out_slow(&self) -> bool {
        self.leave_out_slow || !self.roads
    }

    fn is_quick(&self) -> bool {
        !self.full && !self.roads
    }

    /// The URL, where a server of another is what is measured.
    ///
    /// # Errors
    /// When it may not be used, there is another server beside it, or a flag is given that only such a server has a use for.
    pub(super) fn far(&self) -> Result<Option<&str>, String> {
        let urls: Vec<&str> = self
            .server
            .iter()
            .filter_map(|server| match server {
                Server::Url(url) => Some(&**url),
                _ => None,
            })
            .collect();
        urls.iter()
            .copied()
            .chain(self.push_to.as_deref())
            .try_for_each(far::admit)?;
        match urls[..] {
            [] if self.push_to.is_some() || self.ca.is_some() => {
                Err("--push-to and --ca are for a --server that is a URL".to_owned())
            }
            [] => Ok(None),
            [url] if self.server.len() == 1 && self.window.is_empty() && self.rtt.is_empty() && self.rate.is_empty() && !self.tun => {
                Ok(Some(url))
            }
            _ => Err("a URL is measured by itself, over the way there is to it: without other servers, --window, --rtt, --rate and --tun".to_owned()),
        }
    }

    /// The groups of cells: those of the preset, as the flags change it. The first of its parts takes the values of a flag as they
    /// are; the others, which ask more closely what the first only touches, those of them that they have already.
    pub(super) fn groups(&self) -> Vec<(Group, Vec<Client>)> {
        let far = self.server.iter().any(|server| matches!(server, Server::Url(_)));
        let parts = match (far, self.full, self.roads) {
            (true, ..) => vec![preset::far()],
            (_, true, _) => preset::full(),
            (_, _, true) => vec![preset::roads()],
            _ => vec![preset::quick()],
        };
        let rates: Vec<Option<u32>> = self
            .rate
            .iter()
            .map(|rate| Some(*rate).filter(|rate| *rate > 0))
            .collect();
        let mut servers: Vec<Server> = self.window.iter().copied().map(Server::Testkit).collect();
        servers.extend(self.server.iter().cloned());
        let mut groups: Vec<(Group, Vec<Client>)> = Vec::new();
        for (at, mut axes) in parts.into_iter().enumerate() {
            let first = at == 0;
            restrict(&mut axes.clients, &self.transport, first);
            restrict(&mut axes.scenarios, &self.scenario, first);
            restrict(&mut axes.round_trips_ms, &self.rtt, first);
            restrict(&mut axes.rates_mb_s, &rates, first);
            restrict(&mut axes.losses_per_mille, &self.loss, first);
            axes.tun = self.tun;
            restrict(&mut axes.servers, &servers, first);
            join(&mut groups, axes, &self.filter);
        }
        groups
    }
}

/// Adds the groups of one part; those that are there already get the clients they lack.
fn join(groups: &mut Vec<(Group, Vec<Client>)>, axes: Axes, words: &[String]) {
    for (group, clients) in axes.groups(words) {
        match groups.iter_mut().find(|(other, _)| *other == group) {
            Some((_, there)) => {
                let new: Vec<Client> = clients.into_iter().filter(|client| !there.contains(client)).collect();
                there.extend(new);
            }
            None => groups.push((group, clients)),
        }
    }
}

fn restrict<T: Clone + PartialEq>(axis: &mut Vec<T>, given: &[T], replace: bool) {
    if given.is_empty() {
        return;
    }
    if replace {
        *axis = given.to_vec();
    } else {
        axis.retain(|value| given.contains(value));
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

    fn names(line: &str) -> Vec<String> {
        let groups = measure(line).groups();
        let names = groups
            .iter()
            .flat_map(|(group, clients)| clients.iter().map(|client| group.cell(*client)));
        names.collect()
    }

    #[test]
    fn flags_replace_the_axes_of_a_preset() {
        assert_eq!(
            names("--roads --rtt 0,50 --rate 0,10 --transport h2 --window 1MiB --scenario push-one"),
            [
                "push-one/h2/cold/0ms/1MiB",
                "push-one/h2/cold/0ms/10MBps/1MiB",
                "push-one/h2/cold/50ms/1MiB",
                "push-one/h2/cold/50ms/10MBps/1MiB"
            ]
        );
    }

    #[test]
    fn packets_are_lost_where_there_are_any() {
        assert_eq!(
            names("--tun --loss 0,0.5 --rtt 20 --transport h1 --scenario push-one"),
            [
                "push-one/h1/cold/20ms/tun/64KiB",
                "push-one/h1/cold/20ms/tun/0.5%/64KiB"
            ]
        );
        for line in ["--loss 1", "--tun --loss 0.05", "--tun --loss 51", "--tun --loss x"] {
            let words = std::iter::once("bench").chain(line.split_whitespace());
            assert!(Line::try_parse_from(words).is_err(), "{line}");
        }
    }

    #[test]
    fn a_flag_does_not_widen_what_a_part_of_a_preset_looks_at() {
        let listed = names("--full --scenario ls-remote --transport h1");
        assert!(listed.iter().all(|name| name.ends_with("/64KiB")), "{listed:?}");
        let pushed = names("--full --scenario push-bulk --transport h1 --rtt 100");
        let windows = ["64KiB", "1MiB", "16MiB"].map(|window| format!("push-bulk/h1/cold/100ms/{window}"));
        assert_eq!(pushed, windows);
    }

    #[test]
    fn presets_differ_and_exclude_each_other() {
        let (quick, full) = (measure(""), measure("--full"));
        assert_eq!(
            (quick.runs(), measure("-n 7").runs(), measure("--roads").runs()),
            (3, 7, 5)
        );
        assert!(quick.leaves_out_slow() && full.leaves_out_slow() && !measure("--roads").leaves_out_slow());
        assert!(quick.limit() < full.limit());
        let all = names("--full");
        for expected in [
            "push-bulk/git-h2/cold/100ms/64KiB",
            "ls-remote/persistent/warm/100ms/64KiB",
            "ls-remote-20000/auto/cold/200ms/64KiB",
            "push-bulk/h2/cold/100ms/16MiB",
            "clone-4/persistent-h1/warm/100ms/64KiB",
            "clone-4/persistent-h2/warm/100ms/64KiB",
        ] {
            assert!(all.iter().any(|name| name == expected), "{expected}");
        }
        let mut once = all.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), all.len());
        assert!(Line::try_parse_from(["bench", "--full", "--roads"]).is_err());
        assert!(Line::try_parse_from(["bench", "--scenario", "push-nothing"]).is_err());
        assert!(Line::try_parse_from(["bench", "-n", "0"]).is_err());
    }

    #[test]
    fn a_server_is_a_name_or_the_url_of_a_repository() {
        let one = measure("--server https://git.example/a/b.git/ --push-to https://git.example/scratch.git");
        assert_eq!(one.far(), Ok(Some("https://git.example/a/b.git")));
        let names = names("--server https://git.example/a/b.git --transport h1");
        assert!(
            names.contains(&"ls-remote/h1/cold/real/git.example/a/b.git".to_owned()),
            "{names:?}"
        );
        assert!(measure("--server https://git.example/a,nginx").far().is_err());
        assert!(measure("--server https://git.example/a --rtt 20").far().is_err());
        assert!(measure("--push-to https://git.example/a").far().is_err());
        for wrong in [
            "ftp://git.example/a",
            "https://me:secret@git.example/a",
            "https://git.example/a?b",
            "http:///a",
        ] {
            for flags in [
                format!("--server {wrong}"),
                format!("--server https://a/b --push-to {wrong}"),
            ] {
                let error = measure(&flags).far().expect_err(wrong);
                assert!(!error.contains("secret"), "{error}");
            }
        }
        let error = Line::try_parse_from(["bench", "--server", "iis"]).expect_err("no server");
        assert!(error.to_string().contains("haproxy"), "{error}");
    }
}
