//! What must hold for any bytes whatsoever: nothing panics, and no split of the bytes changes the result. Shared by the
//! property tests and the fuzz targets.
use rgit_proto::{
    Advertisement, AdvertisementParser, Band, DEFAULT_LIMIT, Error, MAX_DATA, RefOutcome, ReportParser, ReportStatus,
    Sideband, is_pushable,
};

const SERVICE: &str = "git-receive-pack";

/// `bytes` in pieces of `sizes`, over and over; zero makes an empty piece. Without sizes, in one piece.
fn pieces<'a>(bytes: &'a [u8], sizes: &[u8]) -> Vec<&'a [u8]> {
    let mut rest = bytes;
    let mut pieces = Vec::new();
    if sizes.iter().all(|size| *size == 0) {
        return vec![bytes];
    }
    for size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, tail) = rest.split_at(usize::from(*size).min(rest.len()));
        pieces.push(piece);
        rest = tail;
    }
    pieces
}

/// The first byte says how many of the next are sizes of pieces; the others are the input proper.
#[allow(
    dead_code,
    reason = "only the fuzz targets take sizes and input from one string of bytes"
)]
pub(crate) fn sizes_and_input(data: &[u8]) -> (&[u8], &[u8]) {
    match data {
        [] => (&[], &[]),
        [count, rest @ ..] => rest.split_at(usize::from(count % 16).min(rest.len())),
    }
}

fn check_error(err: &Error) {
    let text = err.to_string();
    assert!(text.chars().count() < 2 * Error::REMOTE_TEXT, "an error is bounded");
    assert!(
        !text.chars().any(char::is_control),
        "an error is fit to be shown: {text:?}"
    );
}

fn advertisement_in(pieces: &[&[u8]]) -> Result<Advertisement, Error> {
    let mut parser = AdvertisementParser::new(SERVICE).limit(DEFAULT_LIMIT);
    for piece in pieces {
        parser.push(piece)?;
    }
    parser.finish()
}

pub(crate) fn advertisement(bytes: &[u8], sizes: &[u8]) -> Result<Advertisement, Error> {
    let whole = Advertisement::parse(bytes, SERVICE);
    assert_eq!(advertisement_in(&pieces(bytes, sizes)), whole);
    match &whole {
        Err(err) => check_error(err),
        Ok(seen) => {
            assert!(seen.refs.is_sorted_by(|left, right| left.name < right.name));
            for found in &seen.refs {
                assert!(is_pushable(&found.name));
                assert_eq!(found.id.kind(), seen.object_format);
                assert_eq!(seen.find(found.name.as_ref()), Some(&found.id));
            }
            assert!(
                seen.have
                    .iter()
                    .chain(&seen.shallow)
                    .all(|id| id.kind() == seen.object_format)
            );
        }
    }
    whole
}

fn report_in(pieces: &[&[u8]]) -> (Option<ReportStatus>, Result<ReportStatus, Error>) {
    let mut parser = ReportParser::new();
    for piece in pieces {
        if let Err(err) = parser.push(piece) {
            return (parser.so_far().cloned(), Err(err));
        }
    }
    (parser.so_far().cloned(), parser.finish())
}

pub(crate) fn report(bytes: &[u8], sizes: &[u8]) -> Result<ReportStatus, Error> {
    let whole = report_in(&[bytes]);
    assert_eq!(report_in(&pieces(bytes, sizes)), whole);
    let (so_far, result) = whole;
    match &result {
        Err(err) => check_error(err),
        Ok(report) => assert_eq!(so_far.as_ref(), Some(report)),
    }
    for status in so_far.iter().flat_map(|report| &report.refs) {
        assert_eq!(so_far.as_ref().unwrap().for_update(status.name.as_ref()), Some(status));
        if let RefOutcome::Ok { rewrites } = &status.outcome {
            assert!(rewrites.len() <= bytes.len() / 10, "each takes an option line");
        }
    }
    result
}

/// A band's number and its contents.
pub(crate) type Event = (u8, Vec<u8>);

fn sideband_in(pieces: &[&[u8]]) -> (Vec<Event>, Result<(), Error>) {
    let mut sideband = Sideband::new();
    let mut events = Vec::new();
    for piece in pieces {
        let pushed = sideband.push(piece, &mut |band| {
            events.push(match band {
                Band::Data(data) => (1, data.to_vec()),
                Band::Progress(text) => (2, text.to_vec()),
                Band::Error(text) => (3, text.to_vec()),
                _ => unreachable!("there are three bands"),
            });
            Ok(())
        });
        if let Err(err) = pushed {
            return (events, Err(err));
        }
    }
    (events, sideband.finish())
}

pub(crate) fn sideband(bytes: &[u8], sizes: &[u8]) -> (Vec<Event>, Result<(), Error>) {
    let whole = sideband_in(&[bytes]);
    assert_eq!(sideband_in(&pieces(bytes, sizes)), whole);
    let (events, result) = &whole;
    if let Err(err) = result {
        check_error(err);
    }
    assert!(
        events
            .iter()
            .all(|(band, data)| data.len() < MAX_DATA && (*band == 3 || !data.is_empty()))
    );
    whole
}
