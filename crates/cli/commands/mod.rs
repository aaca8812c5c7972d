//! One file a command: its arguments, and one function that turns them into options, runs, and prints.

pub(crate) mod clone;
pub(crate) mod completions;
#[cfg(unix)]
pub(crate) mod daemon;
pub(crate) mod fetch;
pub(crate) mod ls_remote;
pub(crate) mod probe;
pub(crate) mod push;

use anyhow::Result;

use crate::{
    args::{Args, Command},
    context::Context,
    exit::Outcome,
};

pub(crate) fn run(args: Args) -> Result<Outcome> {
    let context = Context::new(&args.global)?;
    match args.command {
        Command::Push(command) => command.run(&context),
        Command::Fetch(command) => command.run(&context),
        Command::Clone(command) => command.run(&context),
        Command::LsRemote(command) => command.run(&context),
        Command::Probe(command) => command.run(&context),
        #[cfg(unix)]
        Command::Daemon(command) => command.run(&context),
        Command::Completions(command) => command.run(),
    }
}
