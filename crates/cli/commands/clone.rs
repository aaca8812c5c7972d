use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use bstr::{BStr, BString, ByteSlice};
use rgit_porcelain::{
    clone::{Options, clone, directory_for},
    remote::Remote,
};
use rgit_smart_http::mask_control;

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
        // A path is to be found from anywhere later; a URL stays as it is.
        let kept = match Path::new(&self.url).exists() {
            true => gix::path::into_bstr(std::env::current_dir()?.join(&self.url))?.into_owned(),
            false => given.to_owned(),
        };
        let url = if remote.fetch_url() == given {
            kept.as_bstr()
        } else {
            remote.fetch_url()
        };
        let peer = context.peer(url, None, &config)?;
        let directory = match &self.directory {
            Some(directory) => directory.clone(),
            None => directory_for(given, bare)
                .with_context(|| format!("no directory name can be taken from '{}': give one", peer.url()))?,
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
            ui::say!("Cloning into {kind}'{}'...", directory.display());
        }
        let progress = ui::progress::Progress::new(&context.ui);
        // An occupied one is refused, and must stay as it is.
        let free = std::fs::read_dir(&directory).map_or(!directory.exists(), |mut entries| entries.next().is_none());
        interrupt::remove_if_killed(free.then(|| directory.clone()));
        let result = clone(
            kept.as_bstr(),
            &directory,
            peer,
            &options,
            progress.handle(),
            Some(ui::remote::fetch_listener(&context.ui)),
            &interrupt::flag(),
        );
        progress.finish();
        interrupt::remove_if_killed(None);
        let cloned = result?;
        if cloned.pack.is_none() {
            ui::say!("warning: You appear to have cloned an empty repository.");
        }
        for path in &cloned.collisions {
            ui::say!(
                "warning: '{}' collides with another path on this file system",
                mask_control(path)
            );
        }
        for (path, reason) in &cloned.checkout_errors {
            ui::say!(
                "error: unable to write '{}': {}",
                mask_control(path),
                mask_control(reason.as_bytes())
            );
        }
        let advised = config.boolean("advice.detachedHead").ok().flatten() != Some(false);
        if let Some(id) = cloned.detached.filter(|_| advised && !bare && !context.ui.quiet) {
            ui::say!("Note: switching to '{id}', a detached HEAD.");
        }
        if cloned.headless && !bare {
            ui::say!("warning: remote HEAD refers to nonexistent ref, unable to checkout");
        }
        let failure = match cloned.checkout_failure {
            Some(err) => anyhow::Error::from(err),
            None if cloned.checkout_errors.is_empty() => return Ok(Outcome::Done),
            None => anyhow::anyhow!("unable to checkout working tree"),
        };
        ui::say!(
            "warning: Clone succeeded, but checkout failed.\nYou can inspect what was checked out with 'git status'\nand retry with \
             'git restore --source=HEAD :/'"
        );
        Err(failure)
    }
}
