use anyhow::Result;
use clap::CommandFactory;

use crate::{args::Args, exit::Outcome};

/// Print completions for a shell.
#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// Which shell.
    shell: clap_complete::Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Result<Outcome> {
        clap_complete::generate(self.shell, &mut Args::command(), "rgit", &mut std::io::stdout());
        Ok(Outcome::Done)
    }
}
