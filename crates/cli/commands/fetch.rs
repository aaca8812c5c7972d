use anyhow::{Context as _, Result, bail};
use bstr::{BStr, BString, ByteSlice};
use rgit_porcelain::{
    fetch::{Depth, Options, fetch},
    remote::Remote,
};

use crate::{
    context::{Context, protocol_version},
    exit::Outcome,
    interrupt, ui,
};

/// Get objects and refs from another repository.
#[derive(Debug, clap::Args)]
pub(crate) struct Fetch {
    /// Fetch from every remote.
    #[arg(long, conflicts_with_all = ["repository", "refspecs"])]
    all: bool,
    /// Delete tracking refs that are gone on the remote.
    #[arg(short, long)]
    prune: bool,
    /// Fetch every tag.
    #[arg(short, long)]
    tags: bool,
    /// Fetch no tags.
    #[arg(short = 'n', long, conflicts_with = "tags")]
    no_tags: bool,
    #[command(flatten)]
    depth: DepthArgs,
    /// So many commits more than now.
    #[arg(long, value_name = "N", conflicts_with = "depth")]
    deepen: Option<u32>,
    /// The whole history.
    #[arg(long, conflicts_with_all = ["depth", "deepen"])]
    unshallow: bool,
    /// Let refs be replaced that are no ancestors.
    #[arg(short, long)]
    force: bool,
    /// Only say what would be done.
    #[arg(long)]
    dry_run: bool,
    /// A remote's name or a URL.
    repository: Option<String>,
    /// What to fetch, instead of what is configured.
    refspecs: Vec<String>,
}

/// Options about the depth of history that clone and fetch share.
#[derive(Debug, clap::Args)]
pub(crate) struct DepthArgs {
    /// Only so many commits of each history.
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    depth: Option<String>,
    /// Only commits after this time.
    #[arg(long, value_name = "TIME", conflicts_with = "depth")]
    shallow_since: Option<String>,
    /// Nothing that is reachable from this branch or tag of the remote.
    #[arg(long, value_name = "REF", conflicts_with_all = ["depth", "shallow_since"])]
    shallow_exclude: Vec<String>,
}

impl DepthArgs {
    pub(crate) fn depth(&self) -> Result<Depth> {
        Ok(if let Some(text) = &self.depth {
            let commits = text
                .parse()
                .map_err(|_| anyhow::anyhow!("depth {text} is not a positive number"))?;
            Depth::Commits(commits)
        } else if let Some(text) = &self.shallow_since {
            let time = gix::date::parse(text, Some(gix::date::Zoned::now()))
                .map_err(|_| anyhow::anyhow!("'{text}' is not a time that is understood here"))?;
            Depth::Since(time.seconds)
        } else if !self.shallow_exclude.is_empty() {
            Depth::Exclude(self.shallow_exclude.iter().map(|name| name.as_str().into()).collect())
        } else {
            Depth::Unchanged
        })
    }
}

impl Fetch {
    pub(crate) fn run(self, context: &Context) -> Result<Outcome> {
        let repo = context.repository()?;
        if self.unshallow && !repo.is_shallow()? {
            bail!("--unshallow on a complete repository does not make sense");
        }
        if !self.all {
            return self.one(context, &repo, self.repository.as_deref().map(BStr::new), false);
        }
        let config = context.config(Some(&repo))?;
        // In the order of the configuration, as git goes through them.
        let mut names: Vec<BString> = Vec::new();
        for section in config.sections_by_name("remote").into_iter().flatten() {
            if let Some(name) = section.header().subsection_name()
                && !names.iter().any(|known| known == name)
                && !is_skipped(&config, name)
            {
                names.push(name.to_owned());
            }
        }
        if let [name] = names.as_slice() {
            return self.one(context, &repo, Some(name.as_bstr()), false);
        }
        let mut outcome = Outcome::Done;
        for (index, name) in names.iter().enumerate() {
            if !context.ui.quiet {
                ui::output(|out| writeln!(out, "Fetching {name}"))?;
            }
            match self.one(context, &repo, Some(name.as_bstr()), index > 0) {
                Ok(Outcome::Done) => continue,
                Ok(_) => {}
                Err(_) if interrupt::is_set() => return Err(anyhow::anyhow!("interrupted")),
                // The other remotes are not to miss out, as with git.
                Err(err) => ui::error::print(&err),
            }
            ui::say!("error: could not fetch {name}");
            outcome = Outcome::Refused;
        }
        Ok(outcome)
    }

    fn one(&self, context: &Context, repo: &gix::Repository, name: Option<&BStr>, append: bool) -> Result<Outcome> {
        let config = context.config(Some(repo))?;
        let url = Remote::for_fetch(repo, name)?.fetch_url().to_owned();
        let source = repo
            .find_fetch_remote(name)
            .map_err(|err| ui::error::chain(&err).context("cannot use this remote"))?;
        let remote_name = source.name().map(|name| name.as_bstr().to_string());

        let mut options = Options::default();
        options.refspecs = self.refspecs.iter().map(|spec| spec.as_str().into()).collect();
        options.tags = match (self.tags, self.no_tags) {
            (true, _) => Some(gix::remote::fetch::Tags::All),
            (_, true) => Some(gix::remote::fetch::Tags::None),
            _ => None,
        };
        options.prune = self.prune || prune_configured(&config, remote_name.as_deref());
        options.force = self.force;
        options.dry_run = self.dry_run;
        options.append = append;
        options.action = reflog_action();
        options.depth = match (self.deepen, self.unshallow) {
            (Some(commits), _) => Depth::Deepen(commits),
            (None, true) => Depth::Complete,
            (None, false) => self.depth.depth()?,
        };
        options.protocol = protocol_version(&config);

        let peer = context.peer(url.as_bstr(), remote_name.as_deref().map(BStr::new), &config)?;
        let progress = ui::progress::Progress::new(&context.ui);
        let result = fetch(
            source,
            peer,
            &options,
            progress.handle(),
            Some(ui::remote::fetch_listener(&context.ui)),
            &interrupt::flag(),
        );
        progress.finish();
        let fetched = result?;
        ui::fetch::print(&fetched, repo, remote_name.as_deref(), &context.ui).context("cannot write the result")?;
        Ok(if fetched.has_rejected() {
            Outcome::Refused
        } else {
            Outcome::Done
        })
    }
}

/// `remote.<name>.skipFetchAll`, and its older name.
fn is_skipped(config: &gix::config::File, remote: &BStr) -> bool {
    ["skipFetchAll", "skipDefaultUpdate"].iter().any(|key| {
        config
            .boolean_by("remote", Some(remote), key)
            .ok()
            .flatten()
            .unwrap_or(false)
    })
}

/// What reflogs say of this run: `GIT_REFLOG_ACTION`, else the command line as git writes it there.
fn reflog_action() -> BString {
    if let Some(action) = std::env::var_os("GIT_REFLOG_ACTION") {
        return gix::path::os_string_into_bstring(action).unwrap_or_default();
    }
    let words: Vec<String> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .skip_while(|word| word != "fetch")
        .map(|word| without_secrets(&word))
        .collect();
    words.join(" ").into()
}

/// A URL without user and password.
fn without_secrets(word: &str) -> String {
    match word.split_once("://") {
        Some((scheme, rest)) => {
            let end = rest.find('/').unwrap_or(rest.len());
            let host = rest[..end].rfind('@').map_or(0, |at| at + 1);
            format!("{scheme}://{}", &rest[host..])
        }
        None => word.to_owned(),
    }
}

fn prune_configured(config: &gix::config::File, remote: Option<&str>) -> bool {
    let own = remote.and_then(|name| config.boolean(format!("remote.{name}.prune").as_str()).ok().flatten());
    own.or_else(|| config.boolean("fetch.prune").ok().flatten())
        .unwrap_or(false)
}
