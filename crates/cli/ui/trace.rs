//! `RGIT_LOG` filters what the rooms below report by `tracing`, as `RUST_LOG` would; without it nothing is set up.

pub(crate) fn init() {
    let Ok(filter) = std::env::var("RGIT_LOG") else { return };
    let Ok(filter) = tracing_subscriber::EnvFilter::try_new(&filter) else {
        super::say!("warning: RGIT_LOG is no filter that can be read: {filter}");
        return;
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
}
