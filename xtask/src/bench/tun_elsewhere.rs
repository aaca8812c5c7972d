//! Where there are no network namespaces, there is no link between two of them.

use std::{convert::Infallible, net::Ipv4Addr};

use anyhow::bail;

use super::matrix::Road;

pub(super) const SERVER: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// None can be had.
#[derive(Debug)]
pub(super) struct Tun(Infallible);

pub(super) fn missing() -> Option<String> {
    Some("network namespaces are Linux'".to_owned())
}

impl Tun {
    pub(super) fn start(_: Road) -> anyhow::Result<Tun> {
        bail!("no kernel link: network namespaces are Linux'")
    }

    pub(super) fn on_server<T: Send>(&self, _: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
        match self.0 {}
    }

    pub(super) fn on_client<T: Send>(&self, _: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
        match self.0 {}
    }

    pub(super) fn carried(&self) -> (u64, u64) {
        match self.0 {}
    }
}
