//! What is asked of a push: options as given, completed from the configuration, and the refspecs they amount to.

use bstr::{BStr, BString, ByteSlice};
use gix::config::section::is_trusted;

use super::{
    Error, Lease,
    default::{self, PushDefault},
    local::LocalRefs,
    refspec::{Found, Refspec, Side, find, map},
};
use crate::remote::Remote;

/// What git-push(1) can be asked for. Start from [`Options::default`] or, to honour `push.*`, from [`Options::configured`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Refspecs as typed; `tag` followed by a name is the shorthand for that tag.
    pub refspecs: Vec<BString>,
    /// `--all`, `--branches`: all of `refs/heads/`.
    pub all: bool,
    /// `--mirror`: all of `refs/`, forced, and remote refs that aren't here deleted.
    pub mirror: bool,
    /// `--tags`: all of `refs/tags/`, besides what is pushed anyway.
    pub tags: bool,
    /// `--delete`: the refspecs name remote refs to delete.
    pub delete: bool,
    /// `--force`.
    pub force: bool,
    /// `--force-with-lease=<ref>[:<expect>]`.
    pub leases: Vec<Lease>,
    /// `--force-with-lease`: expect every other ref where its remote-tracking ref is.
    pub lease_rest: bool,
    /// `--force-if-includes`: a lease by remote-tracking ref holds only where its commit went into the local branch.
    pub force_if_includes: bool,
    /// `--follow-tags`: annotated tags that the remote lacks and the pushed commits reach.
    pub follow_tags: bool,
    /// `--prune`: delete remote refs whose local side is gone.
    pub prune: bool,
    /// `--atomic`: all refs or none.
    pub atomic: bool,
    /// `--dry-run`: everything but the POST and its consequences.
    pub dry_run: bool,
    /// `--set-upstream`.
    pub set_upstream: bool,
    /// `push.autoSetupRemote`: `set_upstream` for a branch that has none, where nothing says what to push.
    pub auto_upstream: bool,
    /// `--push-option`.
    pub push_options: Vec<BString>,
    /// `--thin`: leave out delta bases that the remote has.
    pub thin: bool,
    /// `--verify`: run the `pre-push` hook.
    pub verify: bool,
    /// Ask the server to keep its progress to itself.
    pub quiet: bool,
    /// The agent to name in the protocol, such as `git/2.47.0`; `None` names none.
    pub agent: Option<String>,
    /// How the pack is made; `thin` above goes over its own.
    pub pack: rgit_pack::Options,
}

/// What is pushed besides what refspecs say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Selection {
    Refspecs,
    Branches,
    Mirror,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            refspecs: Vec::new(),
            all: false,
            mirror: false,
            tags: false,
            delete: false,
            force: false,
            leases: Vec::new(),
            lease_rest: false,
            force_if_includes: false,
            follow_tags: false,
            prune: false,
            atomic: false,
            dry_run: false,
            set_upstream: false,
            auto_upstream: false,
            push_options: Vec::new(),
            thin: true,
            verify: true,
            quiet: false,
            agent: None,
            pack: rgit_pack::Options::default(),
        }
    }
}

impl Options {
    /// The defaults that `push.followTags`, `push.autoSetupRemote`, `push.useForceIfIncludes` and `push.pushOption` ask for.
    pub fn configured(config: &gix::config::File) -> Options {
        let on = |key: &str| config.boolean_filter(key, is_trusted).ok().flatten().unwrap_or(false);
        let mut push_options = Vec::new();
        for option in config.strings_filter("push.pushOption", is_trusted).unwrap_or_default() {
            if option.is_empty() {
                push_options.clear();
            } else {
                push_options.push(option);
            }
        }
        Options {
            follow_tags: on("push.followTags"),
            auto_upstream: on("push.autoSetupRemote"),
            force_if_includes: on("push.useForceIfIncludes"),
            push_options,
            ..Options::default()
        }
    }

    /// Refuse what git refuses before it looks at any repository, in its words.
    ///
    /// # Errors
    /// [`Error::Usage`].
    pub fn check(&self) -> Result<(), Error> {
        let usage = |text: &str| Err(Error::Usage(text.to_owned()));
        let exclusive = [
            (self.delete, "'--delete'"),
            (self.tags, "'--tags'"),
            (self.all, "'--all/--branches'"),
            (self.mirror, "'--mirror'"),
        ];
        match exclusive
            .iter()
            .filter(|(on, _)| *on)
            .map(|(_, name)| *name)
            .collect::<Vec<_>>()
            .as_slice()
        {
            [] | [_] => {}
            [a, b] => return usage(&format!("options {a} and {b} cannot be used together")),
            [most @ .., last] => {
                return usage(&format!(
                    "options {}, and {last} cannot be used together",
                    most.join(", ")
                ));
            }
        }
        for (on, name) in [(self.all, "--all"), (self.mirror, "--mirror")] {
            if on && !self.refspecs.is_empty() {
                return usage(&format!("{name} can't be combined with refspecs"));
            }
        }
        if self.delete && self.refspecs.is_empty() {
            return usage("--delete doesn't make sense without any refs");
        }
        if self.push_options.iter().any(|option| option.contains(&b'\n')) {
            return usage("push options must not have new line characters");
        }
        Ok(())
    }
}

/// What a push comes down to once options, remote and configuration are put together.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) specs: Vec<Refspec>,
    pub(super) selection: Selection,
    pub(super) force: bool,
    pub(super) set_upstream: bool,
}

impl Request {
    pub(super) fn new(local: &LocalRefs<'_>, remote: &Remote, options: &Options) -> Result<Request, Error> {
        options.check()?;
        let mirror = options.mirror || remote.mirror();
        if mirror && !options.refspecs.is_empty() {
            return Err(Error::Usage("--mirror can't be combined with refspecs".into()));
        }
        let selection = match (mirror, options.all) {
            (true, _) => Selection::Mirror,
            (_, true) => Selection::Branches,
            _ => Selection::Refspecs,
        };
        let mut request = Request {
            specs: Vec::new(),
            selection,
            force: options.force || mirror,
            set_upstream: options.set_upstream,
        };
        let configured = parse_all(remote.push_specs())?;
        if options.tags {
            request.specs.push(parse("refs/tags/*".into())?);
        }
        request.read_arguments(local, options, &configured)?;
        if request.specs.is_empty() && selection != Selection::Branches {
            if !configured.is_empty() {
                request.specs = configured;
            } else if selection == Selection::Refspecs {
                let chosen = default::refspec(local.repo, remote, options.auto_upstream)?;
                request.set_upstream |= chosen.set_upstream;
                request.specs.push(chosen.spec);
            }
        }
        if request.specs.is_empty() {
            request.specs.push(Refspec::matching_branches());
        }
        Ok(request)
    }

    fn read_arguments(
        &mut self,
        local: &LocalRefs<'_>,
        options: &Options,
        configured: &[Refspec],
    ) -> Result<(), Error> {
        let mut arguments = options.refspecs.iter();
        while let Some(argument) = arguments.next() {
            let spec = if argument == "tag" {
                let Some(tag) = arguments.next() else {
                    return Err(Error::Usage("tag shorthand without <tag>".into()));
                };
                let colon = if options.delete { ":" } else { "" };
                parse(BString::from(format!("{colon}refs/tags/{tag}")).as_bstr())?
            } else if options.delete {
                if argument.contains(&b':') || argument.is_empty() {
                    return Err(Error::Usage("--delete only accepts plain target ref names".into()));
                }
                parse(BString::from([b":", argument.as_slice()].concat()).as_bstr())?
            } else if argument.contains(&b':') {
                parse(argument.as_bstr())?
            } else {
                lone_source(local, argument.as_bstr(), configured)?
            };
            self.specs.push(spec);
        }
        Ok(())
    }
}

/// A refspec without a colon: where `remote.<name>.push` maps that ref, or `push.default=upstream` the branch, it goes there.
fn lone_source(local: &LocalRefs<'_>, argument: &BStr, configured: &[Refspec]) -> Result<Refspec, Error> {
    let Found::One(matched) = find(argument, |name| local.find(name))? else {
        return parse(argument);
    };
    if let Some((dst, force)) = map(configured, matched.name.as_bstr()) {
        return Ok(Refspec {
            force,
            ..Refspec::explicit(matched.name, dst)
        });
    }
    let config = local.repo.config_snapshot();
    if PushDefault::read(config.plumbing())? == PushDefault::Upstream
        && let Some(branch) = matched.name.strip_prefix(b"refs/heads/")
        && let [merge] = default::merges(config.plumbing(), branch.as_bstr()).as_slice()
    {
        return Ok(Refspec::explicit(argument, merge.as_bstr()));
    }
    parse(argument)
}

fn parse(text: &BStr) -> Result<Refspec, Error> {
    Refspec::parse(text, Side::Push).ok_or_else(|| Error::InvalidRefspec(text.to_owned()))
}

fn parse_all(texts: &[BString]) -> Result<Vec<Refspec>, Error> {
    texts.iter().map(|text| parse(text.as_bstr())).collect()
}
