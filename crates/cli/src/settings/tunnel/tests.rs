//! What flags, a file and the environment come to: in [`layers`] and [`environment`] what is right, in [`mistakes`] files and
//! in [`lines`] command lines that are wrong.

mod environment;
mod layers;
mod lines;
mod mistakes;

use std::path::Path;

use clap::Parser as _;
use haul_net::AddressFamily;

use super::beside::ProxyChainStep;
use super::file::TunnelConfigFile;
use super::wishes::TunnelOptionsLayer;
use super::*;
use crate::args::{CliArgs, CliCommand};
use crate::settings::OptionSource;

/// What flags and a file come to, in a folder of its own.
struct SettingsFixture(tempfile::TempDir);

impl SettingsFixture {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn resolve(&self, line: &str, file: &str) -> Result<TunnelSettings, SettingError> {
        let config = self.write("t.toml", file);
        let words = line.split_whitespace();
        let words = ["haul", "tunnel", "--config", config.as_str()]
            .into_iter()
            .chain(words);
        let CliCommand::Tunnel(args) = CliArgs::try_parse_from(words).unwrap().command else {
            panic!("another command");
        };
        let passwords = PromptedPasswords::default();
        passwords.silence();
        TunnelSettings::resolve_in(&args, &passwords, |_| None)
    }

    /// How a file is wrong, without the folder.
    fn wrong(&self, file: &str) -> String {
        self.wrong_with("", file)
    }

    fn wrong_with(&self, line: &str, file: &str) -> String {
        let error = self.resolve(line, file).unwrap_err();
        let told = match error.hint() {
            Some(advice) => format!("{}\nhint: {advice}", crate::message::chain_text(&error)),
            None => crate::message::chain_text(&error),
        };
        told.replace(self.0.path().to_str().unwrap(), "[DIR]")
    }
}

/// Each tunnel in a line.
fn lines(settings: &TunnelSettings) -> Vec<String> {
    let line = |planned: &PlannedTunnel| {
        let way = planned.way.to(planned.target());
        format!("{} {} {way}", planned.listen, planned.local)
    };
    settings.tunnels.iter().map(line).collect()
}
