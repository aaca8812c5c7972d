use anyhow::{Context as _, Result};
use bstr::{BStr, BString, ByteSlice};
use clap::ArgAction;
use rgit_porcelain::{
    push::{self, Lease, Options, PushOutcome},
    remote::Remote,
};

use crate::{context::Context, exit::Outcome, interrupt, ui};

/// Send objects and move refs in another repository.
#[derive(Debug, clap::Args)]
pub(crate) struct Push {
    /// Let refs be replaced that are no ancestors.
    #[arg(short, long)]
    force: bool,
    /// Force, but only where the remote's ref is what is expected: its tracking ref, or EXPECT.
    #[arg(long, value_name = "REF[:EXPECT]", num_args = 0..=1, require_equals = true, default_missing_value = "", action = ArgAction::Append)]
    force_with_lease: Vec<String>,
    /// With a lease by tracking ref: only where its commit went into the local branch.
    #[arg(long)]
    force_if_includes: bool,
    /// Delete the named refs there.
    #[arg(short, long)]
    delete: bool,
    /// All tags, besides what is pushed anyway.
    #[arg(long)]
    tags: bool,
    /// Annotated tags that the pushed commits reach.
    #[arg(long, overrides_with = "no_follow_tags")]
    follow_tags: bool,
    /// Not even where push.followTags says so.
    #[arg(long, overrides_with = "follow_tags")]
    no_follow_tags: bool,
    /// All branches.
    #[arg(long, visible_alias = "branches")]
    all: bool,
    /// All refs, and delete there what isn't here.
    #[arg(long)]
    mirror: bool,
    /// Delete refs there whose local side is gone.
    #[arg(long)]
    prune: bool,
    /// All refs or none.
    #[arg(long)]
    atomic: bool,
    /// Do everything but send.
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Lines for scripts.
    #[arg(long)]
    porcelain: bool,
    /// A word for the server's hooks.
    #[arg(short = 'o', long, value_name = "TEXT", action = ArgAction::Append)]
    push_option: Vec<String>,
    /// Remember the remote's branch as upstream of the pushed one.
    #[arg(short = 'u', long)]
    set_upstream: bool,
    /// Leave out delta bases that the remote has (the default).
    #[arg(long, overrides_with = "no_thin")]
    thin: bool,
    /// Send delta bases along.
    #[arg(long, overrides_with = "thin")]
    no_thin: bool,
    /// Don't run the pre-push hook.
    #[arg(long)]
    no_verify: bool,
    /// A remote's name or a URL.
    repository: Option<String>,
    /// What to push, and where to.
    refspecs: Vec<String>,
}

impl Push {
    pub(crate) fn run(self, context: &Context) -> Result<Outcome> {
        let repo = context.repository()?;
        let config = context.config(Some(&repo))?;
        let options = self.options(&config, context)?;
        options.check()?;
        let remote = Remote::for_push(&repo, self.repository.as_deref().map(BStr::new))?;
        let mut outcome = Outcome::Done;
        for url in remote.push_urls() {
            if self.one(context, &repo, &config, &remote, url, &options)? == Outcome::Refused {
                outcome = Outcome::Refused;
            }
        }
        Ok(outcome)
    }

    fn options(&self, config: &gix::config::File, context: &Context) -> Result<Options> {
        let mut options = Options::configured(config);
        options.refspecs = self.refspecs.iter().map(|spec| BString::from(spec.as_str())).collect();
        options.all = self.all;
        options.mirror = self.mirror;
        options.tags = self.tags;
        options.delete = self.delete;
        options.force = self.force;
        for lease in &self.force_with_lease {
            if lease.is_empty() {
                options.lease_rest = true;
            } else {
                options.leases.push(Lease::parse(lease.as_str().into()));
            }
        }
        options.force_if_includes |= self.force_if_includes;
        options.follow_tags = (options.follow_tags || self.follow_tags) && !self.no_follow_tags;
        options.prune = self.prune;
        options.atomic = self.atomic;
        options.dry_run = self.dry_run;
        options.set_upstream = self.set_upstream;
        if !self.push_option.is_empty() {
            options.push_options = self.push_option.iter().map(|option| option.as_str().into()).collect();
        }
        options.thin = !self.no_thin;
        options.verify = !self.no_verify;
        options.quiet = !context.ui.progress;
        options.agent = Some(rgit_smart_http::Options::default().agent.replace(' ', "-"));
        options.pack = ui::pack_options(config)?;
        Ok(options)
    }

    fn one(
        &self,
        context: &Context,
        repo: &gix::Repository,
        config: &gix::config::File,
        remote: &Remote,
        url: &BString,
        options: &Options,
    ) -> Result<Outcome> {
        let mut session = context.session(url.as_bstr(), remote.name(), config)?;
        let shown = session.url().to_owned();
        if context.ui.verbose > 0 {
            ui::say!("Pushing to {shown}");
        }
        let mut text = ui::remote::RemoteText::new(std::io::stderr(), context.ui.progress);
        let progress = ui::progress::Progress::new(&context.ui);
        let result = push::push(
            repo,
            remote,
            &mut session,
            options,
            &mut progress.handle(),
            &mut |words| text.push(words),
            &interrupt::flag(),
        );
        progress.finish();
        text.finish();
        match result {
            Ok(outcome) => {
                self.print(context, repo, &shown, &outcome)
                    .context("cannot write the result")?;
                Ok(if outcome.is_success() {
                    Outcome::Done
                } else {
                    Outcome::Refused
                })
            }
            Err(err) if err.is_refusal() => {
                ui::push::refusal(&err, &shown);
                Ok(Outcome::Refused)
            }
            Err(err) => Err(err.into()),
        }
    }

    fn print(
        &self,
        context: &Context,
        repo: &gix::Repository,
        url: &str,
        outcome: &PushOutcome,
    ) -> std::io::Result<()> {
        ui::push::statistics(&mut std::io::stderr().lock(), outcome, &context.ui)?;
        if self.porcelain {
            ui::push::porcelain(&mut std::io::stdout().lock(), repo, url, outcome)?;
        } else {
            ui::push::human(&mut std::io::stderr().lock(), repo, url, outcome, &context.ui)?;
        }
        ui::push::aftermath(repo, url, outcome, &context.ui)
    }
}
