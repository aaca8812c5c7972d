//! Push, fetch, clone and ls-remote over gix repositories and any rgit transport.
