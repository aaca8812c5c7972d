//! The command line. Option names are git's; each command's own stand beside its code.

use std::path::PathBuf;

use clap::{ArgAction, Parser, Subcommand, ValueEnum};

#[cfg(unix)]
use crate::commands::daemon;
use crate::commands::{clone, completions, fetch, ls_remote, probe, push};

/// Git over HTTP(S) as fast as the link allows.
#[derive(Debug, Parser)]
#[command(
    name = "rgit",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options before the command, and those that may stand anywhere.
#[derive(Debug, clap::Args)]
pub(crate) struct Global {
    /// Run as if started in this directory; several add up.
    #[arg(short = 'C', value_name = "DIR", action = ArgAction::Append)]
    pub(crate) directory: Vec<PathBuf>,
    /// Set a configuration value for this command only.
    #[arg(short = 'c', value_name = "KEY=VALUE", action = ArgAction::Append)]
    pub(crate) config: Vec<String>,
    /// The repository, instead of the one found from the current directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) git_dir: Option<PathBuf>,
    /// How to talk to the server: auto, h1, h2 or persistent [default: rgit.transport, else auto].
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) transport: Option<String>,
    /// Say more.
    #[arg(short, long, action = ArgAction::Count, global = true)]
    pub(crate) verbose: u8,
    /// Say only what went wrong.
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Show progress even where standard error is no terminal.
    #[arg(long, global = true, overrides_with = "no_progress")]
    pub(crate) progress: bool,
    /// Show no progress.
    #[arg(long, global = true, overrides_with = "progress")]
    pub(crate) no_progress: bool,
    /// When to colour.
    #[arg(long, value_name = "WHEN", default_value = "auto", global = true)]
    pub(crate) color: Color,
}

/// `--color`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Push(push::Push),
    Fetch(fetch::Fetch),
    Clone(clone::Clone),
    LsRemote(ls_remote::LsRemote),
    Probe(probe::Probe),
    #[cfg(unix)]
    Daemon(daemon::DaemonCommand),
    Completions(completions::Completions),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        super::Args::command().debug_assert();
    }
}
