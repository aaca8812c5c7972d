mod log;
mod text;

use std::{ffi::OsString, path::PathBuf, time::Duration};

use anyhow::{Context as _, Result};
use clap::Subcommand;
use rgit_transport_auto::daemon::{
    Daemon, Error, Handle, Judge, Program, Settings, SocketPath, Upkeep, factory, place, start, status, stop,
};

use crate::{context::Context, duration, exit::Outcome, ui};

/// The daemon that keeps connections warm between commands (`--transport=persistent`).
#[derive(Debug, clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct DaemonCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Start it, unless one answers already.
    Start,
    /// Let it finish what is under way, and go.
    Stop,
    /// Tell how it is; exits with 1 where none answers.
    Status {
        /// Print JSON; the fields are listed in the README.
        #[arg(long)]
        json: bool,
    },
    /// Be the daemon, in the foreground.
    Run(Run),
}

/// What the daemon is told by whoever starts it, instead of what its configuration says.
#[derive(Debug, clap::Args)]
struct Run {
    /// The socket is standard input, and the daemon leaves the session it was started in.
    #[arg(long, hide = true)]
    listening: bool,
    /// The directory for socket, lock and log.
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Leave after so long without a client [default: rgit.persistent.idleTimeout, else 24h].
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    idle_timeout: Option<Duration>,
    /// Reopen connections for servers used within so long [default: rgit.persistent.reopen, else 5m].
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    reopen: Option<Duration>,
    /// Ask idle connections of HTTP/2 so often whether they are still there [default: rgit.persistent.pingInterval, else 30s].
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    ping_interval: Option<Duration>,
}

impl DaemonCommand {
    pub(crate) fn run(self, context: &Context) -> Result<Outcome> {
        let place = place();
        match self.action {
            Action::Start => {
                let config = context.config(context.repository_if_any()?.as_ref())?;
                let program = program(&place, &config)?;
                let started = start(&place, &program)?;
                if !started && !context.ui.quiet {
                    ui::say!("A daemon runs already.");
                }
                Ok(Outcome::Done)
            }
            Action::Stop => match stop(&place) {
                Err(Error::NotRunning { .. }) => {
                    if !context.ui.quiet {
                        ui::say!("No daemon runs.");
                    }
                    Ok(Outcome::Done)
                }
                other => Ok(other.map(|()| Outcome::Done)?),
            },
            Action::Status { json } => tell(&place, json),
            Action::Run(run) => run.run(context),
        }
    }
}

fn tell(place: &SocketPath, json: bool) -> Result<Outcome> {
    let (status, outcome) = match status(place) {
        Ok(status) => (Some(status), Outcome::Done),
        Err(Error::NotRunning { .. }) => (None, Outcome::Refused),
        Err(err) => return Err(err.into()),
    };
    ui::output(|out| match (status, json) {
        (Some(mut status), true) => {
            status["running"] = true.into();
            writeln!(out, "{status:#}")
        }
        (None, true) => writeln!(out, "{:#}", serde_json::json!({ "running": false })),
        (Some(status), false) => text::write(out, &status, place),
        (None, false) => writeln!(out, "No daemon runs: nobody answers on {}", place.socket().display()),
    })?;
    Ok(outcome)
}

/// How the daemon at `place` is started by whoever needs one.
pub(crate) fn program(place: &SocketPath, config: &gix::config::File) -> Result<Program> {
    let seconds = |duration: Duration| duration.as_secs().to_string();
    let mut arguments: Vec<OsString> = ["daemon", "run", "--listening", "--directory"].map(Into::into).into();
    arguments.push(place.directory().into());
    for (option, key) in [
        ("--idle-timeout", "rgit.persistent.idleTimeout"),
        ("--reopen", "rgit.persistent.reopen"),
        ("--ping-interval", "rgit.persistent.pingInterval"),
    ] {
        if let Some(duration) = duration::configured(config, key)? {
            arguments.extend([option.into(), seconds(duration).into()]);
        }
    }
    Ok(Program {
        path: std::env::current_exe().context("cannot find this program's own file")?,
        arguments,
    })
}

impl Run {
    fn run(self, context: &Context) -> Result<Outcome> {
        let place = self.directory.as_ref().map_or_else(place, SocketPath::within);
        let mut settings = Settings::default();
        settings.program = std::env::current_exe().ok();
        settings.judge = Some(Judge {
            repository: rgit_smart_http::repository_of,
            is_lasting: rgit_smart_http::is_capability_advertisement,
            is_expected: rgit_smart_http::is_git_answer,
        });
        let config = match self.listening {
            // Whoever started it has read the configuration.
            true => None,
            false => Some(context.config(context.repository_if_any()?.as_ref())?),
        };
        let wanted = |given: Option<Duration>, key: &str| match &config {
            Some(config) if given.is_none() => duration::configured(config, key),
            _ => Ok(given),
        };
        if let Some(timeout) = wanted(self.idle_timeout, "rgit.persistent.idleTimeout")? {
            settings.idle_timeout = timeout;
        }
        if let Some(recent) = wanted(self.reopen, "rgit.persistent.reopen")? {
            settings.reopen = recent;
        }
        let mut upkeep = Upkeep::default();
        upkeep.reopen = settings.reopen;
        if let Some(interval) = wanted(self.ping_interval, "rgit.persistent.pingInterval")? {
            upkeep.ping_interval = interval;
        }
        let factory = factory(upkeep);
        let daemon = if self.listening {
            Daemon::detach().context("cannot leave the session that this was started in")?;
            log::to_file(&place.log())?;
            Daemon::from_standard_input(place, factory, settings)
        } else {
            log::to_standard_error();
            match Daemon::activated()? {
                Some(listener) => Daemon::new(listener, place, factory, settings).map(Daemon::leaving_the_socket),
                None => Daemon::new(Daemon::bind(&place)?, place, factory, settings),
            }
        };
        let daemon = daemon.context("cannot take over the socket")?;
        listen(daemon.handle())?;
        daemon.run().context("cannot wait for clients")?;
        Ok(Outcome::Done)
    }
}

/// The first signal lets the daemon finish what it has begun; the second doesn't wait.
fn listen(handle: Handle) -> Result<()> {
    use signal_hook::{
        consts::{SIGHUP, SIGINT, SIGTERM},
        iterator::Signals,
    };
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).context("cannot listen for signals")?;
    std::thread::spawn(move || {
        let mut told = false;
        for signal in signals.forever() {
            if std::mem::replace(&mut told, true) {
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
            handle.leave();
        }
    });
    Ok(())
}
