//! One push, straight through: see the [module's front page](super) for the walk.

use std::{
    io::{Cursor, Read},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use bstr::ByteSlice;
use gix::{Count as _, DynNestedProgress, ObjectId, Progress as _, progress::BoxedDynNestedProgress};
use rgit_pack::{ObjectSet, PackSource};
use rgit_proto::{
    Advertisement, AdvertisementParser, Band, ClientCapabilities, ReportParser, ReportStatus, Sideband, Wanted,
};
use rgit_smart_http::{Service, Session};
use rgit_transport::Body;

use super::{
    Error, Options, PushOutcome, PushPlan,
    attributes::DeltaAttribute,
    hook,
    local::LocalRefs,
    matching,
    outcome::{self, RefResult},
    plan::Advertised,
    request::Request,
    tracking, upstream,
};
use crate::remote::Remote;

/// Takes what the server says to people (band 2), in pieces cut anywhere, control characters and all.
pub type Remarks<'a> = dyn FnMut(&[u8]) + 'a;

/// How much of an answer is taken at a time.
const CHUNK: usize = 64 * 1024;

/// How much of an answer that has already ended is read, so that its connection can be used again.
const LEFTOVER: u64 = 64 * 1024;

/// Push from `repo` to the repository that `session` is with, one of [`Remote::push_urls`].
///
/// Which remote is told by `remote`, since refspecs, tracking refs and messages go by its name. `progress` gets children for
/// counting, compressing and writing; `remarks` gets the server's own words. The push stops between two steps, two objects or two
/// reads once `interrupt` is set.
///
/// # Errors
/// When there is no outcome to tell. Refused refs are none: see [`PushOutcome::is_success`].
pub fn push(
    repo: &gix::Repository,
    remote: &Remote,
    session: &mut Session,
    options: &Options,
    progress: &mut dyn DynNestedProgress,
    remarks: &mut Remarks<'_>,
    interrupt: &Arc<AtomicBool>,
) -> Result<PushOutcome, Error> {
    let local = LocalRefs::new(repo);
    let request = Request::new(&local, remote, options)?;
    matching::check_sources(&local, &request.specs)?;

    let advertisement = discover(session, interrupt)?;
    same_format(repo, &advertisement)?;
    let advertised = Advertised {
        refs: advertisement.refs.iter().map(|found| (found.name.as_bstr(), found.id)),
        deletes: advertisement.capabilities.contains("delete-refs"),
    };
    let plan = PushPlan::new(&local, remote, &request, options, advertised)?;
    if options.verify {
        hook::run(repo, remote, session.url(), &plan)?;
    }
    check(interrupt)?;

    let sent = if options.dry_run || plan.sent().next().is_none() {
        Sent::default()
    } else {
        send(
            repo,
            session,
            &advertisement,
            &plan,
            options,
            progress,
            remarks,
            interrupt,
        )?
    };
    let results = outcome::results(plan, sent.report.as_ref());
    conclude(repo, &local, remote, &request, options, results, sent)
}

/// What sending came to.
#[derive(Default)]
struct Sent {
    posted: bool,
    report: Option<ReportStatus>,
    pack: Option<rgit_pack::Statistics>,
    counting: Duration,
}

fn conclude(
    repo: &gix::Repository,
    local: &LocalRefs<'_>,
    remote: &Remote,
    request: &Request,
    options: &Options,
    results: Vec<RefResult>,
    sent: Sent,
) -> Result<PushOutcome, Error> {
    let mut outcome = PushOutcome {
        refs: results,
        unpack: sent.report.map_or(Ok(()), |report| report.unpack),
        dry_run: options.dry_run,
        posted: sent.posted,
        pack: sent.pack,
        counting: sent.counting,
        tracked: Vec::new(),
        untracked: Vec::new(),
        upstreams: Vec::new(),
        unrecorded: None,
        head: repo.head_name().ok().flatten().map(|name| name.as_bstr().to_owned()),
    };
    // From here on the remote has moved: what fails locally is told, but the outcome must not be lost over it.
    if request.set_upstream {
        let found = upstream::find(local, remote, &outcome.refs).and_then(|upstreams| {
            if !options.dry_run {
                upstream::record(repo, &upstreams)?;
            }
            Ok(upstreams)
        });
        match found {
            Ok(upstreams) => outcome.upstreams = upstreams,
            Err(err) => outcome.unrecorded = Some(err),
        }
    }
    if !options.dry_run {
        let moved = tracking::update(repo, remote, &outcome.refs);
        outcome.tracked = moved.tracked;
        outcome.untracked = moved.failed;
    }
    Ok(outcome)
}

fn discover(session: &mut Session, interrupt: &AtomicBool) -> Result<Advertisement, Error> {
    let service = Service::ReceivePack;
    // receive-pack knows no version 2, and git asks for none.
    let mut discovery = session.discover(service, None)?;
    let url = session.url();
    let mut parser = AdvertisementParser::new(service.as_str());
    let mut chunk = vec![0; CHUNK];
    while !parser.is_done() {
        check(interrupt)?;
        match read(&mut discovery, &mut chunk).map_err(|source| Error::Advertisement {
            url: url.to_owned(),
            source,
        })? {
            [] => break,
            bytes => parser.push(bytes)?,
        }
    }
    drain(discovery);
    Ok(parser.finish()?)
}

/// Refuse, before any id is compared, a remote whose object names are of another kind.
fn same_format(repo: &gix::Repository, advertisement: &Advertisement) -> Result<(), Error> {
    let local = repo.object_hash();
    ClientCapabilities::negotiate(&advertisement.capabilities, &Wanted::new(local))?;
    if advertisement.object_format != local {
        return Err(Error::Protocol(rgit_proto::Error::ObjectFormat {
            local,
            remote: advertisement.object_format.to_string(),
        }));
    }
    Ok(())
}

#[expect(
    clippy::too_many_arguments,
    reason = "a step of a straight walk: a struct would only rename them"
)]
fn send(
    repo: &gix::Repository,
    session: &mut Session,
    advertisement: &Advertisement,
    plan: &PushPlan,
    options: &Options,
    progress: &mut dyn DynNestedProgress,
    remarks: &mut Remarks<'_>,
    interrupt: &Arc<AtomicBool>,
) -> Result<Sent, Error> {
    let mut wanted = Wanted::new(repo.object_hash());
    wanted.quiet = options.quiet;
    wanted.atomic = plan.atomic;
    wanted.push_options = !options.push_options.is_empty();
    wanted.agent = options.agent.clone();
    let capabilities = ClientCapabilities::negotiate(&advertisement.capabilities, &wanted)?;
    let shallow: Vec<ObjectId> = repo
        .shallow_commits()
        .map_err(Error::repository("reading the shallow boundary"))?
        .iter()
        .flat_map(|commits| commits.iter().copied())
        .collect();
    let updates = plan.updates();
    let commands = rgit_proto::Request {
        updates: &updates,
        capabilities: capabilities.clone(),
        push_options: &options.push_options,
        shallow: &shallow,
    };
    let head: Arc<[u8]> = commands.encode()?.into();

    let packing = if commands.needs_pack() {
        let wanted: Vec<ObjectId> = plan
            .sent()
            .filter(|planned| !planned.is_deletion())
            .map(|planned| planned.new)
            .collect();
        Some(pack(
            repo,
            advertisement,
            &capabilities,
            &wanted,
            &shallow,
            options,
            progress,
            interrupt,
        )?)
    } else {
        None
    };
    let body = match &packing {
        None => Body::full(head.to_vec()),
        Some(Packing { source, .. }) => Body::replay(None, move || {
            Ok(Cursor::new(head.clone()).chain(source.reader().map_err(std::io::Error::from)?))
        }),
    };
    check(interrupt)?;
    let reply = session.post(Service::ReceivePack, None, body).map_err(|err| {
        // The pack's reader ended the exchange because it was told to.
        if interrupt.load(Ordering::Relaxed) {
            Error::Interrupted
        } else {
            err.into()
        }
    })?;
    let report = hear(reply, session.url(), &capabilities, remarks, interrupt)?;
    Ok(Sent {
        posted: true,
        report,
        counting: packing.as_ref().map_or(Duration::ZERO, |packing| packing.counted),
        pack: packing.map(|packing| packing.source.statistics()),
    })
}

/// A pack about to be sent, and what shows how far it is: stages vanish from the display when they are dropped.
struct Packing {
    source: PackSource,
    /// How long it took to find out what to send.
    counted: Duration,
    _stages: [BoxedDynNestedProgress; 4],
}

#[expect(clippy::too_many_arguments, reason = "as above")]
fn pack(
    repo: &gix::Repository,
    advertisement: &Advertisement,
    capabilities: &ClientCapabilities,
    wanted: &[ObjectId],
    shallow: &[ObjectId],
    options: &Options,
    progress: &mut dyn DynNestedProgress,
    interrupt: &Arc<AtomicBool>,
) -> Result<Packing, Error> {
    let objects_unit = || gix::progress::count("objects");
    let theirs: Vec<ObjectId> = advertisement
        .refs
        .iter()
        .map(|found| found.id)
        .chain(advertisement.have.iter().copied())
        .collect();
    let odb = repo.objects.clone().into_inner();
    let stage = |progress: &mut dyn DynNestedProgress, name: &str, id: &[u8; 4], max: Option<usize>, unit| {
        let mut child = progress.add_child_with_id(name.into(), *id);
        child.init(max, unit);
        child
    };
    let counting = stage(progress, "Counting objects", b"RGPC", None, objects_unit());
    let began = Instant::now();
    let attribute = DeltaAttribute::new(repo)?;
    let is_unset = attribute
        .as_ref()
        .map(|attribute| |path: &[u8]| attribute.is_unset(path));
    let objects = ObjectSet::find_with_attributes(
        &odb,
        wanted,
        &theirs,
        shallow,
        &counting.counter(),
        interrupt,
        is_unset.as_ref().map(|is_unset| is_unset as &rgit_pack::DeltaUnset<'_>),
    )?;
    let counted = began.elapsed();
    let total = objects.len();

    let mut how = options.pack.clone();
    how.thin = options.thin && !capabilities.no_thin;
    how.offset_deltas = capabilities.ofs_delta;
    let source = PackSource::new(odb, Arc::new(objects), how, interrupt.clone())?;
    let deflated = source.statistics().deflated;
    let compressing = stage(progress, "Compressing objects", b"RGPZ", Some(deflated), objects_unit());
    let mut writing = stage(progress, "Writing objects", b"RGPW", Some(total), objects_unit());
    let bytes = stage(&mut writing, "Bytes", b"RGPB", None, gix::progress::bytes());
    let stages = rgit_pack::Stages::new(compressing.counter(), writing.counter(), bytes.counter());
    Ok(Packing {
        source: source.watched(stages),
        counted,
        _stages: [counting, compressing, writing, bytes],
    })
}

/// Read the answer: the server's remarks as they come, then its report, if it gives one.
fn hear(
    mut reply: impl Read,
    url: &str,
    capabilities: &ClientCapabilities,
    remarks: &mut Remarks<'_>,
    interrupt: &AtomicBool,
) -> Result<Option<ReportStatus>, Error> {
    let mut sideband = capabilities.side_band_64k.then(Sideband::new);
    let mut report = ReportParser::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        check(interrupt)?;
        let bytes = read(&mut reply, &mut chunk).map_err(|source| Error::Answer {
            url: url.to_owned(),
            source,
        })?;
        if bytes.is_empty() {
            break;
        }
        match &mut sideband {
            None if capabilities.report_status => report.push(bytes)?,
            None => {}
            Some(sideband) => sideband.push(bytes, &mut |band| {
                match band {
                    Band::Data(data) if capabilities.report_status => report.push(data)?,
                    Band::Progress(text) => remarks(text),
                    // Band 3 comes back as the error of `finish`.
                    _ => {}
                }
                Ok(())
            })?,
        }
        if sideband.as_ref().is_some_and(Sideband::is_done) {
            drain(reply);
            break;
        }
    }
    if let Some(sideband) = sideband {
        sideband.finish()?;
    }
    Ok(if capabilities.report_status {
        Some(report.finish()?)
    } else {
        None
    })
}

/// One read, tried again where a signal cut it short.
fn read<'a>(reader: &mut impl Read, chunk: &'a mut [u8]) -> std::io::Result<&'a [u8]> {
    loop {
        match reader.read(chunk) {
            Ok(length) => return Ok(chunk.get(..length).unwrap_or_default()),
            Err(err) if err.kind() == std::io::ErrorKind::Interrupted => {}
            Err(err) => return Err(err),
        }
    }
}

/// What is lost here, a connection to use again, is no reason to fail.
fn drain(reader: impl Read) {
    std::io::copy(&mut reader.take(LEFTOVER), &mut std::io::sink()).ok();
}

fn check(interrupt: &AtomicBool) -> Result<(), Error> {
    if interrupt.load(Ordering::Relaxed) {
        return Err(Error::Interrupted);
    }
    Ok(())
}
