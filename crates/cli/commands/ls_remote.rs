use std::io::Write;

use anyhow::{Result, bail};
use bstr::{BStr, BString, ByteSlice};
use clap::ArgAction;
use rgit_porcelain::{
    ls_remote::{Options, RemoteRef, ls_remote},
    remote::Remote,
};

use crate::{
    context::{Context, protocol_version},
    exit::Outcome,
    ui,
};

/// List the refs of a remote repository.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct LsRemote {
    /// Only branches.
    #[arg(short = 'h', long, visible_alias = "heads", short_alias = 'b')]
    branches: bool,
    /// Only tags.
    #[arg(short, long)]
    tags: bool,
    /// Neither peeled tags nor pseudo-refs like HEAD.
    #[arg(long)]
    refs: bool,
    /// Show what symbolic refs point to.
    #[arg(long)]
    symref: bool,
    /// Exit with 2 when nothing matches.
    #[arg(long)]
    exit_code: bool,
    /// Print the remote's URL, after rewriting, and stop.
    #[arg(long)]
    get_url: bool,
    /// Sort by this key: refname or version:refname, with '-' in front for the reverse.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    sort: Option<String>,
    /// Print help.
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
    /// A remote's name or a URL.
    repository: Option<String>,
    /// Show only refs that end in one of these patterns.
    patterns: Vec<String>,
}

impl LsRemote {
    pub(crate) fn run(self, context: &Context) -> Result<Outcome> {
        let repo = context.repository_if_any()?;
        let config = context.config(repo.as_ref())?;
        let name = self.repository.as_deref().map(BStr::new);
        let remote = match &repo {
            Some(repo) => Remote::for_fetch(repo, name)?,
            None => Remote::resolve(&config, None, name, gix::remote::Direction::Fetch)?,
        };
        if self.get_url {
            ui::output(|out| writeln!(out, "{}", remote.fetch_url()))?;
            return Ok(Outcome::Done);
        }
        let peer = context.peer(remote.fetch_url(), remote.name(), &config)?;
        if name.is_none() && !context.ui.quiet {
            ui::say!("From {}", peer.url());
        }
        let mut options = Options::default();
        options.branches = self.branches;
        options.tags = self.tags;
        options.refs_only = self.refs;
        options.patterns = self
            .patterns
            .iter()
            .map(|pattern| BString::from(pattern.as_str()))
            .collect();
        options.protocol = protocol_version(&config);
        let mut refs = ls_remote(peer, &options)?;
        if let Some(key) = &self.sort {
            sort(&mut refs, key)?;
        }
        ui::output(|out| print(out, &refs, self.symref))?;
        Ok(if refs.is_empty() && self.exit_code {
            Outcome::NoMatch
        } else {
            Outcome::Done
        })
    }
}

fn print(out: &mut dyn Write, refs: &[RemoteRef], symref: bool) -> std::io::Result<()> {
    for entry in refs {
        if symref && let Some(target) = &entry.symbolic {
            out.write_all(b"ref: ")?;
            out.write_all(target)?;
            out.write_all(b"\t")?;
            out.write_all(&entry.name)?;
            out.write_all(b"\n")?;
        }
        write!(out, "{}\t", entry.id)?;
        out.write_all(&entry.name)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

fn sort(refs: &mut [RemoteRef], key: &str) -> Result<()> {
    let (reverse, key) = key.strip_prefix('-').map_or((false, key), |key| (true, key));
    match key {
        "refname" => refs.sort_by(|a, b| a.name.cmp(&b.name)),
        "version:refname" | "v:refname" => refs.sort_by_cached_key(|entry| version_key(entry.name.as_bstr())),
        _ => bail!("--sort={key} is not known here: use refname or version:refname"),
    }
    if reverse {
        refs.reverse();
    }
    Ok(())
}

/// Digits compare as numbers, everything else as bytes.
fn version_key(name: &BStr) -> Vec<(Vec<u8>, u128)> {
    let mut key = Vec::new();
    let mut rest = name.as_bytes();
    while !rest.is_empty() {
        let text = rest.iter().position(u8::is_ascii_digit).unwrap_or(rest.len());
        let (text, after) = rest.split_at(text);
        let digits = after
            .iter()
            .position(|byte| !byte.is_ascii_digit())
            .unwrap_or(after.len());
        let (digits, after) = after.split_at(digits);
        // Longer runs of digits than fit are compared as the largest number.
        let number = digits.to_str().ok().and_then(|digits| {
            if digits.is_empty() {
                Some(0)
            } else {
                digits.parse().ok()
            }
        });
        key.push((text.to_vec(), number.unwrap_or(u128::MAX)));
        rest = after;
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_sort_by_their_numbers() {
        let mut names = ["v1.10", "v1.2", "v1.9.1", "v1.9"];
        names.sort_by_key(|name| version_key((*name).into()));
        assert_eq!(names, ["v1.2", "v1.9", "v1.9.1", "v1.10"]);
    }
}
