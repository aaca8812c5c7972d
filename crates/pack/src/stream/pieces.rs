//! Reading an object piece by piece, so that its size doesn't show in memory: a loose one, or one that lies whole in a pack.
//!
//! Pieces are cut by content alone: deflate cuts where its input does, and what is sent must not depend on where an object lies.

use std::{
    fs::File,
    io::{self, Read},
    ops::Range,
    path::Path,
    sync::Arc,
};

use flate2::{Decompress, FlushDecompress, Status};
use gix_hash::{ObjectId, oid};
use gix_object::Kind;
use gix_pack::data;

use super::deflate::{Content, PIECE};
use crate::Error;

const BUFFER: usize = 64 * 1024;
/// `commit`, a space, 20 digits and a NUL fit.
const LONGEST_HEADER: usize = 32;

/// One object at a time; the buffers and the inflater are kept.
pub(crate) struct Pieces {
    input: Input,
    id: ObjectId,
    inflate: Decompress,
    /// What was read of a file, and how much of it is not inflated yet.
    read: Vec<u8>,
    unread: Range<usize>,
    /// The next piece.
    output: Vec<u8>,
    ready: usize,
    /// Bytes of content from the next piece on.
    left: u64,
    ended: bool,
}

enum Input {
    Nothing,
    File(File),
    /// From there in the pack.
    Mapped(Arc<data::File>, u64),
}

impl Pieces {
    pub(crate) fn new(hash: gix_hash::Kind) -> Self {
        Pieces {
            input: Input::Nothing,
            id: hash.null(),
            inflate: Decompress::new(true),
            read: vec![0; BUFFER],
            unread: 0..0,
            output: vec![0; PIECE],
            ready: 0,
            left: 0,
            ended: false,
        }
    }

    /// Begin with the loose object at `path`; `None` if it isn't there (any more).
    pub(crate) fn open(&mut self, id: &oid, path: &Path) -> Result<Option<(Kind, u64)>, Error> {
        self.input = match File::open(path) {
            Ok(file) => Input::File(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::unreadable(id, error)),
        };
        self.restart(id);
        let filled = self.fill(0, PIECE)?;
        let inflated = &self.output[..filled];
        let end = inflated.iter().take(LONGEST_HEADER).position(|&byte| byte == 0);
        let header = end.and_then(|end| parse_header(&inflated[..end]).map(|header| (end, header)));
        let (end, (kind, size)) = header.ok_or_else(|| Error::corrupt(id, "its loose header can't be parsed"))?;
        self.output.copy_within(end + 1..filled, 0);
        self.begin(filled - end - 1, size)?;
        Ok(Some((kind, size)))
    }

    /// Begin with an object of `size` bytes whose zlib stream is at `offset` of a pack.
    pub(crate) fn open_packed(&mut self, id: &oid, pack: Arc<data::File>, offset: u64, size: u64) -> Result<(), Error> {
        self.input = Input::Mapped(pack, offset);
        self.restart(id);
        self.begin(0, size)
    }

    /// The beginning of the content, before anything was taken.
    pub(crate) fn beginning(&self) -> &[u8] {
        &self.output[..self.ready]
    }

    /// How long the loose file is; `None` for others, and once it was read to its end.
    pub(crate) fn file_length(&self) -> Option<u64> {
        match &self.input {
            Input::File(file) => Some(file.metadata().ok()?.len()),
            _ => None,
        }
    }

    fn restart(&mut self, id: &oid) {
        self.id = id.to_owned();
        self.inflate.reset(true);
        self.unread = 0..0;
        self.ready = 0;
        self.ended = false;
    }

    /// Prepare the first piece, of which `have` bytes are there.
    fn begin(&mut self, have: usize, size: u64) -> Result<(), Error> {
        self.left = size;
        if have as u64 > size {
            return Err(self.wrong_length());
        }
        self.prepare(have)
    }

    /// Fill `output`, in which `have` bytes are; at the end of the content, see that it is the end of the stream, too.
    fn prepare(&mut self, have: usize) -> Result<(), Error> {
        let wanted = usize::try_from(self.left).unwrap_or(PIECE).min(PIECE);
        self.ready = self.fill(have, wanted)?;
        if self.ready < wanted {
            return Err(self.wrong_length());
        }
        if self.left == wanted as u64 {
            // The checksum at the end is looked at on the way.
            let mut more = [0];
            while !self.ended {
                if self.inflate_into(&mut more)? > 0 {
                    return Err(self.wrong_length());
                }
            }
        }
        Ok(())
    }

    fn wrong_length(&self) -> Error {
        Error::corrupt(&self.id, "its content is not as long as its header says")
    }

    /// Inflate behind `have` bytes until there are `wanted`, or no more.
    fn fill(&mut self, have: usize, wanted: usize) -> Result<usize, Error> {
        let mut output = std::mem::take(&mut self.output);
        let mut filled = have;
        let mut result = Ok(());
        while filled < wanted && !self.ended {
            match self.inflate_into(&mut output[filled..wanted]) {
                Ok(made) => filled += made,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        self.output = output;
        result.map(|()| filled)
    }

    fn inflate_into(&mut self, output: &mut [u8]) -> Result<usize, Error> {
        if self.unread.is_empty() {
            self.read_file()?;
        }
        let input = match &self.input {
            Input::Mapped(pack, at) => {
                let end = at.saturating_add(BUFFER as u64).min(pack.pack_end() as u64);
                pack.entry_slice(*at..end).unwrap_or_default()
            }
            _ => &self.read[self.unread.clone()],
        };
        let (taken, made) = (self.inflate.total_in(), self.inflate.total_out());
        let status = self
            .inflate
            .decompress(input, output, FlushDecompress::None)
            .map_err(|error| Error::unreadable(&self.id, error))?;
        let (taken, made) = (self.inflate.total_in() - taken, self.inflate.total_out() - made);
        match &mut self.input {
            Input::Mapped(_, at) => *at += taken,
            _ => self.unread.start += taken as usize,
        }
        self.ended = status == Status::StreamEnd;
        if taken == 0 && made == 0 && !self.ended {
            return Err(Error::corrupt(&self.id, "its zlib stream is cut short"));
        }
        Ok(made as usize)
    }

    fn read_file(&mut self) -> Result<(), Error> {
        let Input::File(file) = &mut self.input else {
            return Ok(());
        };
        loop {
            match file.read(&mut self.read) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::unreadable(&self.id, error)),
                Ok(length) => {
                    self.unread = 0..length;
                    return Ok(());
                }
            }
        }
    }
}

impl Content for Pieces {
    fn next(&mut self) -> Result<(&[u8], bool), Error> {
        if self.ready == 0 && self.left != 0 {
            self.prepare(0)?;
        }
        let length = std::mem::take(&mut self.ready);
        self.left -= length as u64;
        if self.left == 0 {
            self.input = Input::Nothing;
        }
        Ok((&self.output[..length], self.left == 0))
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
        let mut pieces = Pieces::new(gix_hash::Kind::Sha1);
        let (kind, size) = pieces
            .open(gix_hash::Kind::Sha1.null_ref(), path)?
            .expect("the file exists");
        let mut content = Vec::new();
        loop {
            let (piece, last) = pieces.next()?;
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
            Pieces::new(gix_hash::Kind::Sha1).open(gix_hash::Kind::Sha1.null_ref(), Path::new("/nonexistent/x"));
        assert!(matches!(absent, Ok(None)));
    }
}
