// SPDX-License-Identifier: GPL-3.0-or-later
//! A private apt: other suites of the machine's own Debian mirror, without touching the machine's apt.
//!
//! Signatures are verified against Debian's own keyring. The mirror, and the way to it, come from the machine's apt, so
//! that a proxy or a local mirror is used here as well.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::cx::Cx;
use crate::machine::Family;
use crate::run;

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Package lists older than this are fetched anew before a package is looked up.
const LISTS_AGE: Duration = Duration::from_secs(24 * 3600);

/// A version of a package that a suite offers.
#[derive(Debug, PartialEq, Eq)]
pub struct Offer {
    /// Debian's name of the package.
    pub name: String,
    /// Debian's version.
    pub version: String,
    /// The suite.
    pub suite: String,
}

impl Offer {
    /// Reads a line of `apt-cache madison` about a package that is not a source package.
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.strip_suffix(" Packages")?.split('|').map(str::trim);
        let (name, version, source) = (fields.next()?, fields.next()?, fields.next()?);
        let (suite, _) = source.split_whitespace().nth(1)?.split_once('/')?;
        Some(Self {
            name: name.to_owned(),
            version: version.to_owned(),
            suite: suite.to_owned(),
        })
    }
}

/// A private apt, locked for this process while it lives.
pub struct Apt {
    config: PathBuf,
    /// Where `apt-get --download-only` puts packages.
    pub archives: PathBuf,
    lists: PathBuf,
    _lock: File,
}

impl Apt {
    /// Opens the private apt of a family and brings its package lists up to date.
    pub fn open(cx: &Cx, family: Family) -> Result<Self> {
        let dir = cx.cache.join("apt").join(family.codename());
        for sub in [
            "etc/apt.conf.d",
            "etc/preferences.d",
            "etc/sources.list.d",
            "etc/trusted.gpg.d",
        ] {
            fs::create_dir_all(dir.join(sub))
                .with_context(|| format!("cannot make {}", dir.display()))?;
        }
        let (archives, lists) = (dir.join("cache/archives"), dir.join("state/lists"));
        fs::create_dir_all(archives.join("partial"))?;
        fs::create_dir_all(lists.join("partial"))?;
        let lock = File::create(dir.join("lock"))?;
        lock.lock().context("cannot lock the private apt")?;

        let status = match family {
            Family::Bookworm => {
                fs::read("/var/lib/dpkg/status").context("this machine has no dpkg status")?
            }
            Family::Trixie => Vec::new(),
        };
        fs::write(dir.join("state/status"), status)?;
        fs::write(
            dir.join("etc/sources.list.d/debian.sources"),
            sources(family)?,
        )?;
        let config = dir.join("apt.conf");
        fs::write(&config, configuration(&dir)?)?;
        let apt = Self {
            config,
            archives,
            lists,
            _lock: lock,
        };
        if apt.lists_are_old() {
            apt.update()?;
        }
        Ok(apt)
    }

    /// A command of the apt family that sees only the private configuration.
    pub fn command<'a>(&self, program: &str, args: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = run::cmd(program, args);
        command
            .env("APT_CONFIG", &self.config)
            .env("LC_ALL", "C")
            .env("DEBIAN_FRONTEND", "noninteractive");
        command
    }

    /// Fetches the package lists.
    pub fn update(&self) -> Result<()> {
        run::output(&mut self.command("apt-get", ["update", "--error-on=any"]))
            .context("cannot fetch Debian's package lists")?;
        fs::write(self.lists.join("fresh"), [])?;
        Ok(())
    }

    /// Versions of a package that `suite` offers, newest first.
    pub fn versions(&self, package: &str, suite: &str) -> Result<Vec<String>> {
        let offers = self.offers([package])?;
        let of_suite = offers.into_iter().filter(|offer| offer.suite == suite);
        Ok(of_suite.map(|offer| offer.version).collect())
    }

    /// Everything that any suite offers of these packages, newest first.
    pub fn offers<'a>(&self, packages: impl IntoIterator<Item = &'a str>) -> Result<Vec<Offer>> {
        let words = ["madison"].into_iter().chain(packages);
        let text = run::output(&mut self.command("apt-cache", words))?;
        Ok(text.lines().filter_map(Offer::parse).collect())
    }

    /// Downloads one version of a package into `dir` and returns the file.
    pub fn download(&self, package: &str, version: &str, dir: &Path) -> Result<PathBuf> {
        let spec = format!("{package}={version}");
        run::output(
            self.command("apt-get", ["download", &spec])
                .current_dir(dir),
        )
        .with_context(|| format!("cannot download {spec}"))?;
        let prefix = format!("{package}_");
        fs::read_dir(dir)?
            .filter_map(Result::ok)
            .find(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
            .map(|entry| entry.path())
            .with_context(|| format!("apt-get left no file for {spec}"))
    }

    /// Names of the packages that `package` depends on, at any depth.
    pub fn dependencies(&self, package: &str) -> Result<Vec<String>> {
        let args = [
            "depends",
            "--recurse",
            "--no-recommends",
            "--no-suggests",
            "--no-enhances",
            package,
        ];
        let text = run::output(&mut self.command("apt-cache", args))?;
        Ok(text
            .lines()
            .filter(|line| !line.starts_with([' ', '|']))
            .map(str::to_owned)
            .collect())
    }

    fn lists_are_old(&self) -> bool {
        let age = fs::metadata(self.lists.join("fresh"))
            .and_then(|meta| meta.modified())
            .map(|time| time.elapsed());
        !matches!(age, Ok(Ok(age)) if age < LISTS_AGE)
    }
}

/// Base addresses of the machine's own Debian mirror: the archive and its security updates.
pub fn mirrors() -> Result<(String, Option<String>)> {
    let format = [
        "indextargets",
        "--format",
        "$(RELEASE) $(COMPONENT) $(REPO_URI)",
        "Identifier: Packages",
    ];
    let text = run::output(&mut run::cmd("apt-get", format))?;
    let find = |release: &str| {
        text.lines().find_map(|line| {
            let mut words = line.split(' ');
            let wanted = words.next() == Some(release) && words.next() == Some("main");
            words.next().filter(|_| wanted).map(str::to_owned)
        })
    };
    let archive = find("bookworm")
        .context("this machine's apt has no Debian 12 (bookworm) source; is it a Debian 12?")?;
    Ok((archive, find("bookworm-security")))
}

fn sources(family: Family) -> Result<String> {
    let (archive, security) = mirrors()?;
    let name = family.codename();
    let mut text = stanza(&archive, &format!("{name} {name}-updates {name}-backports"));
    if let Some(security) = security {
        text.push_str(&stanza(&security, &format!("{name}-security")));
    }
    Ok(text)
}

fn stanza(address: &str, suites: &str) -> String {
    format!(
        "Types: deb\nURIs: {address}\nSuites: {suites}\nComponents: main\nSigned-By: {KEYRING}\n\n"
    )
}

fn configuration(dir: &Path) -> Result<String> {
    let dir = dir.display();
    let mut text = format!(
        "Dir \"{dir}/\";\nDir::Etc \"{dir}/etc/\";\nDir::Etc::parts \"apt.conf.d/\";\nDir::Etc::TrustedParts \"trusted.gpg.d/\";\n\
         Dir::Etc::netrcparts \"/etc/apt/auth.conf.d\";\nDir::State \"{dir}/state/\";\nDir::State::status \"{dir}/state/status\";\n\
         Dir::Cache \"{dir}/cache/\";\nAPT::Sandbox::User \"root\";\nAPT::Architecture \"amd64\";\nAPT::Architectures \"amd64\";\n\
         APT::Install-Recommends \"false\";\nAcquire::Retries \"3\";\n"
    );
    // Proxies, certificates and time limits of the machine; no options that run hooks.
    for line in run::output(&mut run::cmd("apt-config", ["dump"]))?.lines() {
        if line.starts_with("Acquire::") && !line.ends_with(" \"\";") {
            text.push_str(line);
            text.push('\n');
        }
    }
    text.push_str("Acquire::Languages \"none\";\n");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::Offer;

    #[test]
    fn an_offer_is_read_from_its_line() {
        let line = "   zlib1g | 1:1.3-1 | http://mirror.example/debian trixie-backports/main amd64 Packages";
        let offer = Offer::parse(line).unwrap();
        let read = [&offer.name, &offer.version, &offer.suite];
        assert_eq!(read, ["zlib1g", "1:1.3-1", "trixie-backports"]);
        assert!(Offer::parse(&line.replace("Packages", "Sources")).is_none());
    }
}
