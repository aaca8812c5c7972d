//! Reading a loose object piece by piece, so that its size doesn't show in memory.

use std::{
    fs::File,
    io::{self, Read},
    ops::Range,
    path::Path,
};

use flate2::{Decompress, FlushDecompress, Status};
use gix_hash::{ObjectId, oid};
use gix_object::Kind;

use super::deflate::Content;
use crate::Error;

const BUFFER: usize = 64 * 1024;
/// `commit`, a space, 20 digits and a NUL fit.
const LONGEST_HEADER: usize = 32;

/// One object at a time; the buffers and the inflater are kept.
pub(crate) struct Loose {
    file: Option<File>,
    id: ObjectId,
    inflate: Decompress,
    input: Vec<u8>,
    unread: Range<usize>,
    output: Vec<u8>,
    ready: Range<usize>,
    /// Bytes of content that the header promised and that were not returned yet.
    left: u64,
    ended: bool,
}

impl Loose {
    pub(crate) fn new(hash: gix_hash::Kind) -> Self {
        Loose {
            file: None,
            id: hash.null(),
            inflate: Decompress::new(true),
            input: vec![0; BUFFER],
            unread: 0..0,
            output: vec![0; BUFFER],
            ready: 0..0,
            left: 0,
            ended: false,
        }
    }

    /// Begin with the object at `path`; `None` if it isn't there (any more).
    pub(crate) fn open(&mut self, id: &oid, path: &Path) -> Result<Option<(Kind, u64)>, Error> {
        self.file = match File::open(path) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::unreadable(id, error)),
        };
        self.id = id.to_owned();
        self.inflate.reset(true);
        self.unread = 0..0;
        self.ended = false;
        let filled = self.fill()?;
        let inflated = &self.output[..filled];
        let end = inflated.iter().take(LONGEST_HEADER).position(|&byte| byte == 0);
        let header = end.and_then(|end| parse_header(&inflated[..end]).map(|header| (end, header)));
        let (end, (kind, size)) = header.ok_or_else(|| Error::corrupt(id, "its loose header can't be parsed"))?;
        self.ready = end + 1..filled;
        self.left = size;
        Ok(Some((kind, size)))
    }

    /// The beginning of the content, before anything was taken.
    pub(crate) fn beginning(&self) -> &[u8] {
        &self.output[self.ready.clone()]
    }

    /// How long the file is; 0 once it was read to its end.
    pub(crate) fn file_length(&self) -> u64 {
        let metadata = self.file.as_ref().map(File::metadata);
        metadata.and_then(Result::ok).map_or(0, |metadata| metadata.len())
    }

    fn fill(&mut self) -> Result<usize, Error> {
        let mut filled = 0;
        while filled < self.output.len() && !self.ended {
            if self.unread.is_empty() {
                self.unread = 0..self.read_file()?;
            }
            let (taken, made) = (self.inflate.total_in(), self.inflate.total_out());
            let status = self
                .inflate
                .decompress(
                    &self.input[self.unread.clone()],
                    &mut self.output[filled..],
                    FlushDecompress::None,
                )
                .map_err(|error| Error::unreadable(&self.id, error))?;
            let (taken, made) = (self.inflate.total_in() - taken, self.inflate.total_out() - made);
            self.unread.start += taken as usize;
            filled += made as usize;
            self.ended = status == Status::StreamEnd;
            if taken == 0 && made == 0 && !self.ended && self.unread.is_empty() {
                return Err(Error::corrupt(&self.id, "its loose file is cut short"));
            }
        }
        Ok(filled)
    }

    fn read_file(&mut self) -> Result<usize, Error> {
        let Some(file) = &mut self.file else { return Ok(0) };
        loop {
            match file.read(&mut self.input) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result.map_err(|error| Error::unreadable(&self.id, error)),
            }
        }
    }
}

impl Content for Loose {
    fn next(&mut self) -> Result<(&[u8], bool), Error> {
        if self.ready.is_empty() {
            self.ready = 0..self.fill()?;
        }
        let piece = std::mem::take(&mut self.ready);
        let wrong = || Error::corrupt(&self.id, "its content is not as long as its loose header says");
        self.left = self.left.checked_sub(piece.len() as u64).ok_or_else(wrong)?;
        if self.ended && self.left != 0 {
            return Err(wrong());
        }
        if self.ended {
            self.file = None;
        }
        Ok((&self.output[piece], self.ended))
    }
}

fn parse_header(header: &[u8]) -> Option<(Kind, u64)> {
    let space = header.iter().position(|&byte| byte == b' ')?;
    let kind = Kind::from_bytes(&header[..space]).ok()?;
    let digits = std::str::from_utf8(&header[space + 1..]).ok()?;
    let size = digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| digits.parse())?;
    Some((kind, size.ok()?))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn loose_file(content: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut encoder = flate2::write::ZlibEncoder::new(&mut file, flate2::Compression::fast());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap();
        file
    }

    fn read(path: &Path) -> Result<(Kind, Vec<u8>), Error> {
        let mut loose = Loose::new(gix_hash::Kind::Sha1);
        let (kind, size) = loose
            .open(gix_hash::Kind::Sha1.null_ref(), path)?
            .expect("the file exists");
        let mut content = Vec::new();
        loop {
            let (piece, last) = loose.next()?;
            content.extend_from_slice(piece);
            if last {
                assert_eq!(content.len() as u64, size);
                return Ok((kind, content));
            }
        }
    }

    #[test]
    fn content_of_any_length_comes_whole() {
        for length in [0, 1, BUFFER - 11, BUFFER - 10, BUFFER, 3 * BUFFER + 7] {
            let content: Vec<u8> = (0..length).map(|n| (n * 7 % 251) as u8).collect();
            let file = loose_file(&[format!("blob {length}\0").as_bytes(), &content].concat());
            assert_eq!(read(file.path()).unwrap(), (Kind::Blob, content), "{length}");
        }
    }

    #[test]
    fn damage_is_an_error() {
        for bad in [
            &b"blob 4\0abc"[..],
            b"blob 2\0abc",
            b"blub 3\0abc",
            b"blob -3\0abc",
            b"blob 3",
            b"",
            b"blob +3\0abc",
        ] {
            assert!(read(loose_file(bad).path()).is_err(), "{bad:?}");
        }
        let whole = loose_file(b"blob 100000\0");
        let bytes = std::fs::read(whole.path()).unwrap();
        let cut = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(cut.path(), &bytes[..bytes.len() - 1]).unwrap();
        assert!(read(cut.path()).is_err());
        let absent =
            Loose::new(gix_hash::Kind::Sha1).open(gix_hash::Kind::Sha1.null_ref(), Path::new("/nonexistent/x"));
        assert!(matches!(absent, Ok(None)));
    }
}
