//! The axes of the matrix, and the names of its cells: `push-bulk/h2/cold/100ms/64KiB`.
//!
//! Owns what can be crossed with what, and how it is spelled on the command line, in results and in reports. Runs nothing.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Spells a closed set of names both ways.
macro_rules! names {
    ($kind:ident, $what:literal: $($variant:ident = $name:literal),+ $(,)?) => {
        impl $kind {
            /// All of them, in the order of reports.
            pub(super) const ALL: &[$kind] = &[$($kind::$variant),+];

            /// As flags and results spell it.
            pub(super) fn name(self) -> &'static str {
                match self {
                    $($kind::$variant => $name),+
                }
            }
        }

        impl FromStr for $kind {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                Self::ALL
                    .iter()
                    .copied()
                    .find(|one| one.name() == text)
                    .ok_or_else(|| format!("{text} is no {}: take one of {}", $what, [$($name),+].join(", ")))
            }
        }

        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl TryFrom<String> for $kind {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }

        impl From<$kind> for String {
            fn from(one: $kind) -> String {
                one.name().to_owned()
            }
        }
    };
}

/// Who does it, and over what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) enum Client {
    GitH1,
    GitH2,
    H1,
    H2,
    Auto,
    PersistentCold,
    PersistentWarm,
    PersistentH1,
    PersistentH2,
    Gix,
    Grit,
}

names!(Client, "client":
    GitH1 = "git-h1",
    GitH2 = "git-h2",
    H1 = "h1",
    H2 = "h2",
    Auto = "auto",
    PersistentCold = "persistent-cold",
    PersistentWarm = "persistent-warm",
    PersistentH1 = "persistent-h1",
    PersistentH2 = "persistent-h2",
    Gix = "gix",
    Grit = "grit",
);

impl Client {
    /// Whether it is rgit by one of its transports.
    pub(super) fn is_ours(self) -> bool {
        self.transport().is_some()
    }

    /// What `rgit --transport` is told.
    pub(super) fn transport(self) -> Option<&'static str> {
        match self {
            Client::H1 => Some("h1"),
            Client::H2 => Some("h2"),
            Client::Auto => Some("auto"),
            persistent if persistent.has_daemon() => Some("persistent"),
            _ => None,
        }
    }

    /// Whether a daemon carries its requests.
    pub(super) fn has_daemon(self) -> bool {
        matches!(
            self,
            Client::PersistentCold | Client::PersistentWarm | Client::PersistentH1 | Client::PersistentH2
        )
    }

    /// What its daemon speaks to servers, where that isn't left to the daemon.
    pub(super) fn upstream(self) -> Option<&'static str> {
        match self {
            Client::PersistentH1 => Some("h1"),
            Client::PersistentH2 => Some("h2"),
            _ => None,
        }
    }

    /// Whether it is neither rgit nor git.
    pub(super) fn is_peer(self) -> bool {
        matches!(self, Client::Gix | Client::Grit)
    }

    /// Whether an upload of it goes through the window of one HTTP/2 stream.
    pub(super) fn uploads_through_a_window(self) -> bool {
        matches!(self, Client::GitH2 | Client::H2 | Client::PersistentH2)
    }

    /// Its place in a cell's name.
    fn parts(self) -> (&'static str, &'static str) {
        match self {
            Client::PersistentCold => ("persistent", "cold"),
            Client::PersistentWarm => ("persistent", "warm"),
            Client::PersistentH1 | Client::PersistentH2 => (self.name(), "warm"),
            other => (other.name(), "cold"),
        }
    }
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) enum Scenario {
    LsRemote,
    LsRemote20000,
    CloneSmall,
    CloneBulk,
    FetchFew,
    PushOne,
    Push10Mb,
    PushBulk,
    Concurrent8,
    Clone4,
    CloneUrl,
}

names!(Scenario, "scenario":
    LsRemote = "ls-remote",
    LsRemote20000 = "ls-remote-20000",
    CloneSmall = "clone-small",
    CloneBulk = "clone-bulk",
    FetchFew = "fetch-few",
    PushOne = "push-one",
    Push10Mb = "push-10mb",
    PushBulk = "push-bulk",
    Concurrent8 = "concurrent-8",
    Clone4 = "clone-4",
    CloneUrl = "clone-url",
);

impl Scenario {
    /// Whether the client sends the pack.
    pub(super) fn is_push(self) -> bool {
        matches!(self, Scenario::PushOne | Scenario::Push10Mb | Scenario::PushBulk)
    }

    /// Whether the client only lists refs.
    pub(super) fn is_listing(self) -> bool {
        matches!(
            self,
            Scenario::LsRemote | Scenario::LsRemote20000 | Scenario::Concurrent8
        )
    }

    /// What it does, in a few words for a reader of reports.
    pub(super) fn meaning(self) -> &'static str {
        match self {
            Scenario::LsRemote => "list the refs of a small repository",
            Scenario::LsRemote20000 => "list 20,000 refs",
            Scenario::CloneSmall => "clone a small repository (bare)",
            Scenario::CloneBulk => "clone incompressible data (bare)",
            Scenario::FetchFew => "fetch five commits",
            Scenario::PushOne => "push one commit",
            Scenario::Push10Mb => "push 10 MB to an empty repository",
            Scenario::PushBulk => "push incompressible data to an empty repository",
            Scenario::Concurrent8 => "eight ls-remote at once",
            Scenario::Clone4 => "clone incompressible data four times at once (bare)",
            Scenario::CloneUrl => "clone the repository at the URL (bare)",
        }
    }
}

/// What a server of the testkit lets a client send ahead on one HTTP/2 stream: its SETTINGS_INITIAL_WINDOW_SIZE. Frames
/// are as large as servers with such a window take them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) enum Window {
    Small,
    Medium,
    Large,
}

names!(Window, "window": Small = "64KiB", Medium = "1MiB", Large = "16MiB");

impl Window {
    /// The window in bytes. The small one is the protocol's default, a byte less than its name.
    pub(super) fn bytes(self) -> u32 {
        match self {
            Window::Small => 65_535,
            Window::Medium => 1 << 20,
            Window::Large => 16 << 20,
        }
    }

    /// SETTINGS_MAX_FRAME_SIZE: the default, Go's, nginx's.
    pub(super) fn frame(self) -> u32 {
        match self {
            Window::Small => 16_384,
            Window::Medium => 1 << 20,
            Window::Large => (16 << 20) - 1,
        }
    }
}

/// Who answers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) enum Server {
    /// The testkit's, with this window.
    Testkit(Window),
    /// A real one, by the name that `--server` takes.
    Named(String),
    /// One that somebody else runs, by the URL of a repository.
    Url(String),
}

impl Server {
    /// The HTTP/2 window of one upload's stream, where it is known and holds the upload back.
    pub(super) fn window(&self) -> Option<u32> {
        match self {
            Server::Testkit(window) => Some(window.bytes()),
            Server::Named(_) | Server::Url(_) => None,
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Server::Testkit(window) => window.fmt(f),
            Server::Named(name) => f.write_str(name),
            Server::Url(url) => f.write_str(url.split_once("://").map_or(url, |(_, rest)| rest)),
        }
    }
}

impl TryFrom<String> for Server {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.contains("://") {
            return Ok(Server::Url(text));
        }
        Ok(text.parse().map_or(Server::Named(text), Server::Testkit))
    }
}

impl From<Server> for String {
    fn from(server: Server) -> String {
        match server {
            Server::Url(url) => url,
            other => other.to_string(),
        }
    }
}

/// The link between them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Road {
    /// There and back, in milliseconds.
    pub(super) round_trip_ms: u32,
    /// Megabytes (10^6 bytes) a second each way; none is as fast as the machine.
    pub(super) rate_mb_s: Option<u32>,
    /// Whether the kernel's TCP crosses it, packet by packet, and not the relay's streams of bytes.
    #[serde(default)]
    pub(super) tun: bool,
    /// Of a thousand packets, how many are lost.
    #[serde(default)]
    pub(super) loss_per_mille: u32,
}

impl fmt::Display for Road {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.round_trip_ms)?;
        if let Some(rate) = self.rate_mb_s {
            write!(f, "/{rate}MBps")?;
        }
        if self.tun {
            f.write_str("/tun")?;
        }
        match self.loss_per_mille {
            0 => Ok(()),
            loss => write!(f, "/{}%", f64::from(loss) / 10.0),
        }
    }
}

/// Cells that differ in the client only: what is run in turn and compared.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Group {
    pub(super) scenario: Scenario,
    #[serde(flatten)]
    pub(super) road: Road,
    pub(super) server: Server,
}

impl Group {
    /// One cell of it.
    pub(super) fn cell(&self, client: Client) -> String {
        let (transport, warmth) = client.parts();
        format!("{}/{transport}/{warmth}/{}/{}", self.scenario, self.link(), self.server)
    }

    /// Its link, as names spell it.
    pub(super) fn link(&self) -> String {
        match self.server {
            Server::Url(_) => "real".to_owned(),
            _ => self.road.to_string(),
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.scenario, self.link(), self.server)
    }
}

/// What is crossed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Axes {
    pub(super) clients: Vec<Client>,
    pub(super) scenarios: Vec<Scenario>,
    pub(super) round_trips_ms: Vec<u32>,
    pub(super) rates_mb_s: Vec<Option<u32>>,
    pub(super) tun: bool,
    pub(super) losses_per_mille: Vec<u32>,
    pub(super) servers: Vec<Server>,
}

impl Axes {
    /// Every group, with those of its clients whose cells' names contain one of `words`; all where there are none.
    pub(super) fn groups(&self, words: &[String]) -> Vec<(Group, Vec<Client>)> {
        let mut groups = Vec::new();
        for server in &self.servers {
            for road in self.roads() {
                for &scenario in &self.scenarios {
                    let server = server.clone();
                    let group = Group { scenario, road, server };
                    let chosen = |client: &Client| {
                        let name = group.cell(*client);
                        words.is_empty() || words.iter().any(|word| name.contains(word))
                    };
                    let clients: Vec<Client> = self.clients.iter().copied().filter(chosen).collect();
                    if !clients.is_empty() {
                        groups.push((group, clients));
                    }
                }
            }
        }
        groups
    }

    fn roads(&self) -> Vec<Road> {
        let mut roads = Vec::new();
        for &round_trip_ms in &self.round_trips_ms {
            for &rate_mb_s in &self.rates_mb_s {
                roads.extend(self.losses_per_mille.iter().map(|&loss_per_mille| Road {
                    round_trip_ms,
                    rate_mb_s,
                    tun: self.tun,
                    loss_per_mille,
                }));
            }
        }
        roads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes() -> Axes {
        Axes {
            clients: vec![Client::GitH1, Client::H2, Client::PersistentWarm],
            scenarios: vec![Scenario::PushBulk, Scenario::LsRemote],
            round_trips_ms: vec![0, 100],
            rates_mb_s: vec![None, Some(10)],
            tun: false,
            losses_per_mille: vec![0],
            servers: vec![Server::Testkit(Window::Small)],
        }
    }

    #[test]
    fn names_are_composed_of_parameters() {
        let groups = axes().groups(&[]);
        assert_eq!(groups.len(), 2 * 2 * 2);
        let names: Vec<String> = groups
            .iter()
            .flat_map(|(group, clients)| clients.iter().map(|client| group.cell(*client)))
            .collect();
        for name in [
            "push-bulk/h2/cold/100ms/64KiB",
            "push-bulk/git-h1/cold/0ms/64KiB",
            "ls-remote/persistent/warm/100ms/10MBps/64KiB",
        ] {
            assert!(names.iter().any(|one| one == name), "{name} is not among {names:?}");
        }
        let mut unique = names.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), names.len());
    }

    #[test]
    fn a_link_is_named_by_what_it_does() {
        let axes = Axes {
            tun: true,
            losses_per_mille: vec![0, 5],
            ..axes()
        };
        let roads: Vec<String> = axes.roads().iter().map(Road::to_string).collect();
        assert_eq!(roads[..2], ["0ms/tun", "0ms/tun/0.5%"]);
        assert_eq!(roads[6..], ["100ms/10MBps/tun", "100ms/10MBps/tun/0.5%"]);
    }

    #[test]
    fn a_filter_keeps_the_cells_that_contain_a_word() {
        let groups = axes().groups(&["/h2/cold/100ms/64".to_owned(), "warm/0ms/64".to_owned()]);
        let names: Vec<String> = groups
            .iter()
            .flat_map(|(group, clients)| clients.iter().map(|client| group.cell(*client)))
            .collect();
        assert_eq!(
            names,
            [
                "push-bulk/persistent/warm/0ms/64KiB",
                "ls-remote/persistent/warm/0ms/64KiB",
                "push-bulk/h2/cold/100ms/64KiB",
                "ls-remote/h2/cold/100ms/64KiB",
            ]
        );
    }

    #[test]
    fn every_name_is_read_as_it_is_written() {
        for client in Client::ALL {
            assert_eq!(client.name().parse(), Ok(*client));
        }
        for scenario in Scenario::ALL {
            assert_eq!(scenario.name().parse(), Ok(*scenario));
        }
        let error = "push-huge".parse::<Scenario>().expect_err("no scenario");
        assert!(error.contains("push-huge") && error.contains("push-bulk"), "{error}");
        assert_eq!(Server::try_from("1MiB".to_owned()), Ok(Server::Testkit(Window::Medium)));
        assert_eq!(
            Server::try_from("apache".to_owned()),
            Ok(Server::Named("apache".to_owned()))
        );
        let far = Server::try_from("https://example.com/a.git".to_owned()).expect("a server");
        assert_eq!(far.to_string(), "example.com/a.git");
        assert_eq!(String::from(far), "https://example.com/a.git");
    }
}
