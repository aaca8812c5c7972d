use std::path::PathBuf;

use anyhow::{Context as _, Result};
use bstr::{BStr, BString};
use rgit_porcelain::{
    clone::{Options, clone, directory_for},
    remote::Remote,
};

use super::fetch::DepthArgs;
use crate::{
    context::{Context, protocol_version},
    exit::Outcome,
    interrupt, ui,
};

/// Copy a repository into a new directory.
#[derive(Debug, clap::Args)]
pub(crate) struct Clone {
    /// No working tree.
    #[arg(long)]
    bare: bool,
    /// As --bare, and keep every ref as it is there.
    #[arg(long)]
    mirror: bool,
    /// Don't write the working tree.
    #[arg(short = 'n', long)]
    no_checkout: bool,
    /// Check out this branch or tag instead of the remote's HEAD.
    #[arg(short, long, value_name = "NAME")]
    branch: Option<String>,
    /// Name the remote so, instead of 'origin'.
    #[arg(short, long, value_name = "NAME")]
    origin: Option<String>,
    #[command(flatten)]
    depth: DepthArgs,
    /// Only the branch that is checked out.
    #[arg(long, overrides_with = "no_single_branch")]
    single_branch: bool,
    /// Every branch, even with --depth.
    #[arg(long, overrides_with = "single_branch")]
    no_single_branch: bool,
    /// Fetch no tags, now and later.
    #[arg(long)]
    no_tags: bool,
    /// The repository's URL.
    url: String,
    /// Where to put it.
    directory: Option<PathBuf>,
}

impl Clone {
    pub(crate) fn run(self, context: &Context) -> Result<Outcome> {
        let bare = self.bare || self.mirror;
        let given = BStr::new(&self.url);
        let config = context.config(None)?;
        let remote = Remote::resolve(&config, None, Some(given), gix::remote::Direction::Fetch)?;
        let session = context.session(remote.fetch_url(), &config)?;
        let directory = match &self.directory {
            Some(directory) => directory.clone(),
            None => directory_for(given, bare)
                .with_context(|| format!("no directory name can be taken from '{}': give one", session.url()))?,
        };

        let mut options = Options::default();
        options.bare = self.bare;
        options.mirror = self.mirror;
        options.no_checkout = self.no_checkout;
        options.branch = self.branch.map(BString::from);
        options.origin = self.origin.map(BString::from);
        options.depth = self.depth.depth()?;
        options.single_branch = match (self.single_branch, self.no_single_branch) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        };
        options.no_tags = self.no_tags;
        options.config = context.overrides().to_vec();
        options.protocol = protocol_version(&config);

        if !context.ui.quiet {
            let kind = if bare { "bare repository " } else { "" };
            eprintln!("Cloning into {kind}'{}'...", directory.display());
        }
        let progress = ui::progress::Progress::new(&context.ui);
        interrupt::remove_if_killed((!directory.exists()).then(|| directory.clone()));
        let result = clone(
            given,
            &directory,
            session,
            &options,
            progress.handle(),
            Some(ui::remote::fetch_listener(&context.ui)),
            &interrupt::flag(),
        );
        progress.finish();
        interrupt::remove_if_killed(None);
        let cloned = result?;
        if cloned.pack.is_none() {
            eprintln!("warning: You appear to have cloned an empty repository.");
        }
        for path in &cloned.collisions {
            eprintln!("warning: '{path}' collides with another path on this file system");
        }
        for (path, reason) in &cloned.checkout_errors {
            eprintln!("error: unable to write '{path}': {reason}");
        }
        if let (Some(id), false) = (cloned.detached, context.ui.quiet) {
            eprintln!("Note: switching to '{id}', a detached HEAD.");
        }
        Ok(if cloned.checkout_errors.is_empty() {
            Outcome::Done
        } else {
            Outcome::Refused
        })
    }
}
