mod json;
mod text;

use anyhow::{Context as _, Result};
use bstr::BStr;
use rgit_porcelain::remote::Remote;
use rgit_transport_auto::{
    CostModel,
    probe::{Advice, Decision, Report, Upload, advise, decisions, probe, uploads},
};

use crate::{context::Context, exit::Outcome, ui};

/// Find out what a server offers and what its HTTP/2 windows cost uploads, without sending a request.
#[derive(Debug, clap::Args)]
pub(crate) struct Probe {
    /// Print JSON; the fields are listed in the README.
    #[arg(long)]
    json: bool,
    /// A remote's name or a URL.
    repository: String,
}

/// What was found out, and what follows from it.
struct Findings {
    report: Report,
    model: CostModel,
    uploads: Vec<Upload>,
    decisions: Vec<Decision>,
    advice: Advice,
}

impl Findings {
    fn new(report: Report) -> Self {
        let model = CostModel::default();
        Findings {
            uploads: uploads(&model, report.window(), report.round_trip()),
            decisions: decisions(&model, &report),
            advice: advise(&report),
            model,
            report,
        }
    }
}

impl Probe {
    pub(crate) fn run(self, context: &Context) -> Result<Outcome> {
        let repo = context.repository_if_any()?;
        let config = context.config(repo.as_ref())?;
        let name = Some(BStr::new(&self.repository));
        let remote = match &repo {
            Some(repo) => Remote::for_fetch(repo, name)?,
            None => Remote::resolve(&config, None, name, gix::remote::Direction::Fetch)?,
        };
        // The session refuses what can't be spoken to; it is not used to ask anything.
        let (session, choice) = context.session_and_choice(remote.fetch_url(), remote.name(), &config)?;
        let url = origin_of(session.url())
            .parse::<http::Uri>()
            .with_context(|| format!("'{}' names no server", session.url()))?;
        let findings = Findings::new(probe(&choice, &url)?);
        ui::output(|out| match self.json {
            true => json::write(out, &findings),
            false => text::write(out, &findings),
        })?;
        Ok(Outcome::Done)
    }
}

/// What stands before the path: the rest is none of a probe's business.
fn origin_of(url: &str) -> &str {
    let host_at = url.find("://").map_or(0, |at| at + 3);
    let end = url[host_at..]
        .find(['/', '?', '#'])
        .map_or(url.len(), |at| host_at + at);
    &url[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_origin_is_asked() {
        for (url, origin) in [
            ("https://h/r.git?x", "https://h"),
            ("https://h:1", "https://h:1"),
            ("http://[::1]:80/", "http://[::1]:80"),
            ("https://h?x=/", "https://h"),
        ] {
            assert_eq!(origin_of(url), origin);
        }
    }
}
