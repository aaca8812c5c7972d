//! What every command needs: the repository, its configuration, a session with a URL.

use std::{ffi::OsString, path::PathBuf};

use anyhow::{Context as _, Result, bail};
use bstr::{BStr, BString, ByteSlice};
use rgit_porcelain::bridge::{Local, Peer};
use rgit_porcelain::config::{HttpConfig, Proxy, is_allowed};
use rgit_smart_http::{GitCredentials, Session};
#[cfg(unix)]
use rgit_transport_auto::DaemonChoice;
use rgit_transport_auto::{Choice, Name};

use crate::{args::Global, parameters, ui};

/// The options that hold for the whole run.
pub(crate) struct Context {
    pub(crate) ui: ui::Settings,
    overrides: Vec<BString>,
    /// How many of these are no news to programs that we run: our fallbacks, and what `GIT_CONFIG_PARAMETERS` holds.
    inherited: usize,
    git_dir: Option<PathBuf>,
    transport: Option<Name>,
}

impl Context {
    pub(crate) fn new(global: &Global) -> Result<Self> {
        for directory in &global.directory {
            std::env::set_current_dir(directory)
                .with_context(|| format!("cannot change to '{}'", directory.display()))?;
        }
        let mut overrides: Vec<BString> = FALLBACK_COMMITTER.map(Into::into).into();
        if let Some(text) = std::env::var_os("GIT_CONFIG_PARAMETERS") {
            overrides.extend(parameters::read(&gix::path::os_string_into_bstring(text)?)?);
        }
        let inherited = overrides.len();
        overrides.extend(global.config.iter().map(|setting| BString::from(setting.as_str())));
        let transport = global.transport.as_deref().map(str::parse).transpose()?;
        Ok(Context {
            ui: ui::Settings::new(global),
            overrides,
            inherited,
            git_dir: global.git_dir.clone(),
            transport,
        })
    }

    /// `-c` settings, ours and those of the git that runs us, as gix takes them.
    pub(crate) fn overrides(&self) -> &[BString] {
        &self.overrides
    }

    /// The repository of `--git-dir`, the environment, or the current directory.
    pub(crate) fn repository(&self) -> Result<gix::Repository> {
        self.find_repository()
    }

    /// As [`repository`](Self::repository), for commands that work without one.
    pub(crate) fn repository_if_any(&self) -> Result<Option<gix::Repository>> {
        if self.git_dir.is_some() || std::env::var_os("GIT_DIR").is_some() {
            return self.repository().map(Some);
        }
        Ok(self.find_repository().ok())
    }

    fn find_repository(&self) -> Result<gix::Repository> {
        let options = self.open_options();
        if let Some(directory) = &self.git_dir {
            return gix::open_opts(directory, options)
                .map_err(|err| ui::error::chain(&err).context(not_a_repository(directory)));
        }
        let trust = gix::sec::trust::Mapping {
            full: options.clone(),
            reduced: options,
        };
        let here = std::env::current_dir().context("cannot find the current directory")?;
        gix::ThreadSafeRepository::discover_with_environment_overrides_opts(&here, Default::default(), trust)
            .map(Into::into)
            .map_err(|err| {
                ui::error::chain(&err).context("not a git repository (or any of the parent directories): .git")
            })
    }

    fn open_options(&self) -> gix::open::Options {
        gix::open::Options::default().cli_overrides(self.overrides.iter().cloned())
    }

    /// The configuration of `repo`, or what holds without a repository.
    pub(crate) fn config(&self, repo: Option<&gix::Repository>) -> Result<gix::config::File> {
        match repo {
            Some(repo) => Ok(repo.config_snapshot().plumbing().clone()),
            None => gix::config(None, &self.open_options())
                .map_err(|err| ui::error::chain(&err).context("cannot read git's configuration")),
        }
    }

    /// Whom to speak to at `url` of the remote called `remote`: a repository on this machine, or a server.
    pub(crate) fn peer(&self, url: &BStr, remote: Option<&BStr>, config: &gix::config::File) -> Result<Peer> {
        let Some(local) = Local::parse(url) else {
            return Ok(self.session(url, remote, config)?.into());
        };
        let environment = |name: &str| -> Option<OsString> { std::env::var_os(name) };
        // A path is spoken to as a URL would be.
        if !is_allowed(config, "file://".into(), &environment)? {
            bail!("transport 'file' not allowed");
        }
        Ok(local.into())
    }

    /// A session with `url` of the remote called `remote` over the chosen transport, with the settings that hold for that URL.
    pub(crate) fn session(&self, url: &BStr, remote: Option<&BStr>, config: &gix::config::File) -> Result<Session> {
        Ok(self.session_and_choice(url, remote, config)?.0)
    }

    /// The same, and what its transport was chosen by.
    pub(crate) fn session_and_choice(
        &self,
        url: &BStr,
        remote: Option<&BStr>,
        config: &gix::config::File,
    ) -> Result<(Session, Choice)> {
        let environment = |name: &str| -> Option<OsString> { std::env::var_os(name) };
        if !is_allowed(config, url, &environment)? {
            let scheme = url.split_str("://").next().unwrap_or_default().as_bstr();
            bail!("transport '{scheme}' not allowed");
        }
        if let Some(proxy) = Proxy::read(config, url, remote, &environment)? {
            bail!(
                "{} asks for a proxy, and rgit can't speak through proxies yet: use git for this repository, or, where it can be \
                 reached without one, name its host in no_proxy",
                proxy.source
            );
        }
        let http = HttpConfig::read(config, url, &environment)?;
        let choice = self.choice(&http, config)?;
        let transport = rgit_transport_auto::choose(&choice)?;
        let options = http.session_options(&rgit_smart_http::Options::default().agent);
        let credentials = self
            .credential_overrides()
            .into_iter()
            .fold(GitCredentials::new(), |credentials, (key, value)| {
                credentials.config(key, value)
            });
        let url = url
            .to_str()
            .context("the remote's URL is not UTF-8, so it can't be an HTTP URL")?;
        let session = Session::new(transport, url, options, Box::new(credentials))?;
        Ok((session, choice))
    }

    fn choice(&self, http: &HttpConfig, config: &gix::config::File) -> Result<Choice> {
        let mut choice = Choice::default();
        choice.name = match self.transport {
            Some(name) => name,
            None => match config.string("rgit.transport") {
                Some(name) => name
                    .to_str_lossy()
                    .parse()
                    .context("in the configuration key rgit.transport")?,
                None => Name::Auto,
            },
        };
        choice.ca_file.clone_from(&http.ssl_ca_info);
        choice.insecure = !http.ssl_verify;
        choice.h2.stream_window = bytes(config, "rgit.h2.streamWindow")?;
        choice.h2.connection_window = bytes(config, "rgit.h2.connectionWindow")?;
        choice.h2.max_frame_size = bytes(config, "rgit.h2.maxFrameSize")?;
        #[cfg(unix)]
        if matches!(choice.name, Name::Auto | Name::Persistent) {
            choice.daemon = Some(daemon(config)?);
        }
        if self.ui.verbose > 0 {
            choice.notice = Some(|reason| ui::say!("No daemon, so that connections are made directly: {reason}"));
        }
        Ok(choice)
    }

    /// `git credential` reads the configuration itself; what was given by `-c` it must be told.
    fn credential_overrides(&self) -> Vec<(String, String)> {
        self.overrides
            .iter()
            .skip(self.inherited)
            .filter_map(|setting| {
                let setting = setting.to_str().ok()?;
                let (key, value) = setting.split_once('=').unwrap_or((setting, "true"));
                let section = key.split('.').next().unwrap_or_default();
                let wanted = section.eq_ignore_ascii_case("credential") || key.eq_ignore_ascii_case("core.askpass");
                wanted.then(|| (key.to_owned(), value.to_owned()))
            })
            .collect()
    }
}

/// Reflogs name a committer; these stand in where none is configured. (gix has a call for this, but it looks up the time zone at
/// once, which costs a walk through the zone files even where no reflog is written.)
const FALLBACK_COMMITTER: [&str; 2] = [
    "gitoxide.committer.nameFallback=no name configured",
    "gitoxide.committer.emailFallback=noEmailAvailable@example.com",
];

fn not_a_repository(directory: &std::path::Path) -> String {
    format!("not a git repository: '{}'", directory.display())
}

/// The daemon that keeps connections warm.
#[cfg(unix)]
fn daemon(config: &gix::config::File) -> Result<DaemonChoice> {
    let place = rgit_transport_auto::daemon::place();
    let program = crate::commands::daemon::program(&place, config)?;
    let mut daemon = DaemonChoice::default();
    daemon.directory = place.directory().to_owned();
    daemon.program = Some((program.path, program.arguments));
    let early_data = config.boolean("rgit.persistent.earlyData");
    daemon.early_data = early_data
        .context("in the configuration key rgit.persistent.earlyData")?
        .unwrap_or(true);
    if let Some(name) = config.string("rgit.persistent.upstream") {
        let name = name.to_str_lossy().parse();
        daemon.upstream = name.context("in the configuration key rgit.persistent.upstream")?;
        if daemon.upstream == Name::Persistent {
            bail!("the configuration key rgit.persistent.upstream is 'persistent': use auto, h1 or h2");
        }
    }
    Ok(daemon)
}

/// Which version of the protocol to ask for (`protocol.version`).
pub(crate) fn protocol_version(config: &gix::config::File) -> Option<u8> {
    config
        .string("protocol.version")
        .and_then(|version| version.to_str().ok()?.parse().ok())
}

/// A size from the configuration, with git's suffixes.
fn bytes(config: &gix::config::File, key: &str) -> Result<Option<u32>> {
    let value = config
        .integer(key)
        .with_context(|| format!("in the configuration key {key}"))?;
    let Some(value) = value else {
        return Ok(None);
    };
    match u32::try_from(value) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(_) => bail!(
            "the configuration key {key} is {value}: it takes 0 to {} bytes",
            u32::MAX
        ),
    }
}
