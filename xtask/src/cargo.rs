//! Cargo as a child of a task, and where the workspace is.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// The directory of the workspace's manifest.
pub(crate) fn workspace() -> PathBuf {
    // The manifest of this crate lies one folder below, and cargo builds xtask anew when the checkout moves.
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_owned()
}

/// Cargo in the workspace's directory, as if started by hand.
///
/// `cargo run` leaves CARGO_PKG_* and the like in our environment. Build scripts that watch those (ring's does) would be
/// run again, and all that stands on them built again, each time a task and a person take turns with cargo.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace());
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(is_of_the_outer_cargo) {
            command.env_remove(name);
        }
    }
    command
}

fn is_of_the_outer_cargo(name: &str) -> bool {
    [
        "CARGO_PKG_",
        "CARGO_MANIFEST_",
        "CARGO_BIN_",
        "CARGO_CRATE_",
        "CARGO_PRIMARY_",
        "CARGO_TARGET_TMPDIR",
    ]
    .iter()
    .any(|prefix| name.starts_with(prefix))
        || name == "OUT_DIR"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_has_a_manifest_that_names_xtask() {
        let manifest = std::fs::read_to_string(workspace().join("Cargo.toml")).expect("the workspace's manifest");
        assert!(manifest.contains("\"xtask\""), "{manifest}");
    }

    #[test]
    fn settings_of_the_user_stay_and_the_outer_package_goes() {
        assert!(is_of_the_outer_cargo("CARGO_PKG_NAME") && is_of_the_outer_cargo("CARGO_MANIFEST_DIR"));
        for kept in [
            "CARGO_HOME",
            "CARGO_TARGET_DIR",
            "CARGO_BUILD_JOBS",
            "CARGO_NET_OFFLINE",
            "RUSTFLAGS",
        ] {
            assert!(!is_of_the_outer_cargo(kept), "{kept}");
        }
    }
}
