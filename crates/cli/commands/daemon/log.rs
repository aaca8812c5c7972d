//! What the daemon has to say, in a file that doesn't grow without end.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Mutex,
};

use anyhow::{Context as _, Result};
use tracing_subscriber::EnvFilter;

/// Bytes at which a new file is begun. The one before it is kept, so that there are twice as many at most.
const LIMIT: u64 = 1024 * 1024;

/// One line for each thing that its owner may want to know.
const FILTER: &str = "info";

pub(super) fn to_file(path: &Path) -> Result<()> {
    let log = Log::open(path).with_context(|| format!("cannot write {}", path.display()))?;
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(FILTER))
        .with_ansi(false)
        .with_writer(Mutex::new(log));
    // Somebody who set RGIT_LOG reads standard error already.
    subscriber.try_init().ok();
    Ok(())
}

pub(super) fn to_standard_error() {
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(FILTER))
        .with_writer(io::stderr);
    subscriber.try_init().ok();
}

struct Log {
    path: PathBuf,
    file: File,
    length: u64,
}

impl Log {
    fn open(path: &Path) -> io::Result<Log> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        Ok(Log {
            length: file.metadata()?.len(),
            path: path.to_owned(),
            file,
        })
    }
}

impl Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.length > 0 && self.length + line.len() as u64 > LIMIT {
            std::fs::rename(&self.path, self.path.with_extension("log.old"))?;
            *self = Log::open(&self.path)?;
        }
        let written = self.file.write(line)?;
        self.length += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::MetadataExt};

    #[test]
    fn a_log_is_bounded_and_its_owners_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("daemon.log");
        let line = [b'x'; 1000];
        for _ in 0..2 {
            let mut log = Log::open(&path).unwrap();
            for _ in 0..3000 {
                log.write_all(&line).unwrap();
            }
        }
        let files: Vec<_> = fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap())
            .collect();
        assert_eq!(files.len(), 2);
        for file in files {
            assert!(file.len() <= LIMIT && file.len() > LIMIT / 2, "{}", file.len());
            assert_eq!(file.mode() & 0o777, 0o600);
        }
    }
}
