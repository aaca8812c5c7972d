//! Sans-IO grammar of git-receive-pack: advertisement, commands, push options, report-status, sideband.
