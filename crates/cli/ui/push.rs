//! `git push`'s report: `To URL` and one line a ref, on standard error for people, on standard output for scripts.

use std::io::{self, Write};

use rgit_porcelain::push::{
    Error, PushOutcome, Status,
    summary::{self, Abbreviation},
};
use rgit_smart_http::mask_control;

use super::{Settings, say};

/// The form for people. Refs that are up to date show only when asked for more.
pub(crate) fn human(
    out: &mut dyn Write,
    repo: &gix::Repository,
    url: &str,
    outcome: &PushOutcome,
    settings: &Settings,
) -> io::Result<()> {
    if settings.quiet && outcome.is_success() {
        return Ok(());
    }
    let abbreviation = Abbreviation::new(repo);
    let width = summary::width(outcome, &abbreviation);
    let mut headed = false;
    for result in outcome.in_order(settings.verbose > 0) {
        if !headed {
            writeln!(out, "To {url}")?;
            headed = true;
        }
        for line in summary::lines(result, &abbreviation) {
            let refused = line.flag == '!';
            // Names that are there and not here come from the remote.
            let text = mask_control(&line.human(width));
            if refused {
                writeln!(out, "{}", settings.red(&text))?;
            } else {
                writeln!(out, "{text}")?;
            }
        }
    }
    Ok(())
}

/// The form for scripts: tab-separated, full names, and `Done` once the server has been heard. Over HTTP git says so even where refs
/// were refused; the exit code tells.
pub(crate) fn porcelain(
    out: &mut dyn Write,
    repo: &gix::Repository,
    url: &str,
    outcome: &PushOutcome,
) -> io::Result<()> {
    let abbreviation = Abbreviation::new(repo);
    let mut headed = false;
    for result in outcome.in_order(true) {
        if !headed {
            writeln!(out, "To {url}")?;
            headed = true;
        }
        for line in summary::lines(result, &abbreviation) {
            out.write_all(&line.porcelain())?;
            out.write_all(b"\n")?;
        }
    }
    writeln!(out, "Done")?;
    out.flush()
}

/// What the pack was made of: git's line where progress is shown, and for `-v` one of our own, with the bytes and the time.
///
/// Times are those of threads together, except for counting, planning and writing, which wait for nobody.
pub(crate) fn statistics(out: &mut dyn Write, outcome: &PushOutcome, settings: &Settings) -> io::Result<()> {
    let Some(pack) = &outcome.pack else { return Ok(()) };
    let deltas = pack.deltas as u64 + pack.fresh_deltas;
    if settings.progress {
        let reused = (pack.copied + pack.deltas) as u64 + pack.kept;
        writeln!(
            out,
            "Total {} (delta {deltas}), reused {reused} (delta {}), pack-reused 0 (from 0)",
            pack.objects, pack.deltas
        )?;
    }
    if settings.verbose > 0 {
        let seconds = |time: std::time::Duration| format!("{:.3} s", time.as_secs_f64());
        writeln!(
            out,
            "Pack: {} objects, {} fresh deltas, {} thin bases; {} bytes in, {} out; counting {}, planning {}, reading {}, \
             deltas {}, deflating {}, writing {}",
            pack.objects,
            pack.fresh_deltas,
            pack.thin as u64 + pack.fresh_thin,
            pack.bytes_deflated + pack.bytes_copied,
            pack.bytes_out,
            seconds(outcome.counting),
            seconds(pack.planning),
            seconds(pack.reading),
            seconds(pack.searching),
            seconds(pack.deflating),
            seconds(pack.writing),
        )?;
    }
    Ok(())
}

/// What stands behind the lines: that all was there already, why the pack wasn't taken, what could not be recorded, what to do.
pub(crate) fn aftermath(
    repo: &gix::Repository,
    url: &str,
    outcome: &PushOutcome,
    settings: &Settings,
) -> io::Result<()> {
    let mut err = io::stderr().lock();
    if let Err(reason) = &outcome.unpack {
        writeln!(err, "error: remote unpack failed: {}", mask_control(reason))?;
    }
    for (name, why) in &outcome.untracked {
        let why = mask_lines(&why.to_string());
        writeln!(err, "error: cannot move {}: {why}", mask_control(name))?;
    }
    if let Some(why) = &outcome.unrecorded {
        writeln!(err, "error: cannot record the upstream branch: {why}")?;
    }
    if !settings.quiet {
        for upstream in &outcome.upstreams {
            let verb = if outcome.dry_run {
                "Would set upstream of"
            } else {
                "branch"
            };
            let (branch, short) = (&upstream.branch, upstream.merge_short());
            if outcome.dry_run {
                writeln!(io::stdout(), "{verb} '{branch}' to '{short}' of '{}'", upstream.remote)?;
            } else {
                writeln!(
                    io::stdout(),
                    "{verb} '{branch}' set up to track '{}/{short}'.",
                    upstream.remote
                )?;
            }
        }
    }
    if outcome.is_success() {
        if outcome.is_up_to_date()
            && !settings.quiet
            && outcome.refs.iter().all(|found| found.status == Status::UpToDate)
        {
            writeln!(err, "Everything up-to-date")?;
        }
        return Ok(());
    }
    writeln!(
        err,
        "{}",
        settings.red(&format!("error: failed to push some refs to '{url}'"))
    )?;
    for line in summary::advice(repo, outcome).into_iter().flat_map(str::lines) {
        writeln!(err, "hint: {line}")?;
    }
    Ok(())
}

/// A push that ended before anything was sent, in a way that git counts as refused.
pub(crate) fn refusal(err: &Error, url: &str) {
    match err {
        Error::Unmatched(complaints) => {
            for complaint in complaints {
                say!("error: {}", mask_lines(&complaint.text));
                for line in complaint.hint.iter().flat_map(|hint| hint.lines()) {
                    say!("hint: {}", mask_control(line.as_bytes()));
                }
            }
        }
        other => say!("error: {}", mask_lines(&other.to_string())),
    }
    say!("error: failed to push some refs to '{url}'");
}

fn mask_lines(text: &str) -> String {
    text.lines()
        .map(|line| mask_control(line.as_bytes()))
        .collect::<Vec<_>>()
        .join("\n")
}
