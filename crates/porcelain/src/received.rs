//! What is left to do with a pack that gix has received and bound to refs.

use std::path::Path;

use gix::remote::fetch::{Outcome, Status};

use crate::Error;

/// Let go of the pack's `.keep` file, which gix leaves where no ref was moved (`FETCH_HEAD` binds the objects as far as git cares), and
/// give pack and index the permissions that git gives: gix leaves those of a temporary file, which nobody else may read.
pub(crate) fn settle(received: &mut Outcome) -> Result<(), Error> {
    let Status::Change {
        write_pack_bundle: bundle,
        ..
    } = &mut received.status
    else {
        return Ok(());
    };
    for path in [&bundle.data_path, &bundle.index_path].into_iter().flatten() {
        readable(path).map_err(|source| Error::Write {
            path: path.clone(),
            source,
        })?;
    }
    if let Some(keep) = bundle.keep_path.take() {
        std::fs::remove_file(&keep).map_err(|source| Error::Write { path: keep, source })?;
    }
    Ok(())
}

/// As git: read-only, for whom the directory is readable (which is what the umask or `core.sharedRepository` made of it).
#[cfg(unix)]
fn readable(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let directory = path.parent().unwrap_or(path).metadata()?.permissions().mode();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(directory & 0o444))
}

#[cfg(not(unix))]
fn readable(_path: &Path) -> std::io::Result<()> {
    Ok(())
}
