use anyhow::Result;
use clap::CommandFactory;

use crate::{args::Args, exit::Outcome, ui};

/// Print completions for a shell.
#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// Which shell.
    shell: clap_complete::Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Result<Outcome> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Args::command(), "rgit", &mut script);
        ui::output(|out| out.write_all(&script))?;
        Ok(Outcome::Done)
    }
}
