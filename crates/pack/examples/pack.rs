//! Writes to standard output the pack that a push would send: `pack REPO [options] [--not REV…] -- REV…`.
//!
//! Options: `--thin`, `--ref-deltas`, `--threads N`, `--level N`, `--memory BYTES`, `--window N`, `--depth N`, `--everything`.
//! Figures go to standard error.
#![allow(clippy::print_stderr)]

use std::{
    error::Error,
    io::{Read, Write},
    sync::{Arc, atomic::AtomicBool},
    time::Instant,
};

use rgit_pack::{ObjectSet, Options, PackSource, Search};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let repository = arguments
        .next()
        .ok_or("usage: pack REPO [options] [--not REV...] -- REV...")?;
    let mut options = Options::default();
    let (mut wanted, mut remote) = (Vec::new(), Vec::new());
    let mut target = &mut wanted;
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or("an option lacks its value");
        match argument.as_str() {
            "--thin" => options.thin = true,
            "--ref-deltas" => options.offset_deltas = false,
            "--threads" => options.threads = Some(value()?.parse()?),
            "--level" => options.compression = value()?.parse()?,
            "--memory" => options.memory = value()?.parse()?,
            "--window" => options.window = value()?.parse()?,
            "--depth" => options.depth = value()?.parse()?,
            "--everything" => options.search = Search::Everything,
            "--not" => target = &mut remote,
            "--" => target = &mut wanted,
            revision => target.push(revision.to_owned()),
        }
    }

    let start = Instant::now();
    let repo = gix::open(repository)?;
    let resolve = |names: &[String]| -> Result<Vec<_>, Box<dyn Error>> {
        names
            .iter()
            .map(|name| Ok(repo.rev_parse_single(name.as_str())?.detach()))
            .collect()
    };
    let (wanted, remote) = (resolve(&wanted)?, resolve(&remote)?);
    let shallow: Vec<_> = match repo.shallow_commits()? {
        Some(commits) => commits.iter().copied().collect(),
        None => Vec::new(),
    };
    let opened = start.elapsed();

    let odb = repo.objects.clone().into_inner();
    let interrupt = Arc::new(AtomicBool::new(false));
    let counted = Default::default();
    let objects = ObjectSet::find(&odb, &wanted, &remote, &shallow, &counted, &interrupt)?;
    let found = start.elapsed();
    let source = PackSource::new(odb, Arc::new(objects), options, interrupt)?;
    let planned = start.elapsed();

    let mut reader = source.reader()?;
    let mut out = std::io::stdout().lock();
    let mut buffer = vec![0; 128 * 1024];
    let mut first = None;
    let mut anonymous = 0;
    let mut reads = 0u64;
    loop {
        let length = reader.read(&mut buffer)?;
        if length == 0 {
            break;
        }
        first.get_or_insert_with(|| start.elapsed());
        out.write_all(&buffer[..length])?;
        reads += 1;
        if reads % 64 == 1 {
            anonymous = anonymous.max(rss_anon());
        }
    }
    anonymous = anonymous.max(rss_anon());
    out.flush()?;
    eprintln!(
        "opened {opened:.2?}, counted {found:.2?}, planned {planned:.2?}, first bytes {:.2?}, done {:.2?}; RssAnon {} kB",
        first.unwrap_or_default(),
        start.elapsed(),
        anonymous
    );
    eprintln!("{:#?}", source.statistics());
    Ok(())
}

/// In kB; 0 where the system doesn't tell.
fn rss_anon() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok())
        .unwrap_or(0)
}
