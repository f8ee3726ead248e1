//! The pool of one run with what is known of it: which packages are base, which are layered, what repositories there
//! are. Loading happens here; deciding does not.

use super::config::{Config, Main, RepoConfig, read_main};
use super::metadata::{self, Source};
use super::vars::{Vars, basearch, version_id};
use super::{Input, subject};
use crate::admit;
use crate::glob::glob_matches;
use crate::names::printable;
use anyhow::{Result, anyhow};
use bridge::solv::{Match, Package, Pool, Repo};
use model::{Code, Failure, LayeredPackage, Nevra, PackageArg, Progress};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// See the module.
#[derive(Debug)]
pub(super) struct Session<'a> {
    /// Everything.
    pub pool: Pool,
    /// The host's architecture.
    pub arch: &'a str,
    /// File lists are loaded.
    pub filelists: bool,
    /// `[main]`.
    pub main: Main,
    /// Enabled repositories by their number in the pool.
    pub repositories: Vec<(Repo, RepoConfig)>,
    /// The base.
    pub base: HashSet<Package>,
    /// The layer, with what is recorded of each.
    pub layered: BTreeMap<Package, &'a LayeredPackage>,
    /// Local files of the request.
    pub local: Vec<(PathBuf, Package)>,
    /// Names that configuration leaves out.
    pub excluded: BTreeSet<String>,
}

impl<'a> Session<'a> {
    /// Loads the rpmdb, and the repositories when `repositories` is set.
    pub fn open(input: &'a Input<'a>, how: How<'_>) -> Result<Session<'a>> {
        let (layered, arch) = (input.layered, input.arch.as_str());
        let mut pool = Pool::new(arch)?;
        let installed = pool.add_repo("@System", 0, 0)?;
        pool.add_rpmdb(installed, &input.root)?;
        let records: BTreeMap<&Nevra, &LayeredPackage> = layered.iter().map(|l| (&l.nevra, l)).collect();
        let mut session = Session {
            arch,
            filelists: how.filelists,
            main: read_main(&input.root, &input.options.setopts)?,
            repositories: Vec::new(),
            base: HashSet::new(),
            layered: BTreeMap::new(),
            local: Vec::new(),
            excluded: BTreeSet::new(),
            pool,
        };
        for p in session.pool.packages(installed) {
            match records.get(&session.pool.nevra(p)) {
                Some(record) => drop(session.layered.insert(p, record)),
                None => drop(session.base.insert(p)),
            }
        }
        if how.repositories {
            let out = session.add_repositories(input, how)?;
            session.add_local(input)?;
            if !out.is_empty() {
                session.pool.exclude(&out);
            }
        }
        session.pool.prepare();
        Ok(session)
    }

    fn add_repositories(&mut self, input: &Input<'_>, how: How<'_>) -> Result<Vec<Package>> {
        let vars = self.vars(input)?;
        let config = Config::read(&input.root, &self.main, &vars, &input.options)?;
        let mut out = Vec::new();
        for repository in config.repositories.into_iter().filter(|r| r.enabled) {
            let source = Source {
                root: &input.root,
                cache: &input.cache,
                cache_only: input.options.cache_only,
                refresh: how.refresh,
                filelists: how.filelists,
                progress: how.progress,
            };
            if let Some(repo) = metadata::load(&mut self.pool, &repository, source)? {
                out.extend(self.left_out(repo, &repository));
                self.repositories.push((repo, repository));
            }
        }
        Ok(out)
    }

    fn vars(&mut self, input: &Input<'_>) -> Result<Vars> {
        let mut vars = Vars::read(&input.root, &self.main.varsdir);
        // Not `vars`, which panics where any variable, and be it PWD, is not UTF-8.
        let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
        for (name, value) in std::env::vars_os().filter_map(text) {
            let own = name.strip_prefix("DNF_VAR_").map(str::to_owned);
            let numbered = (name.len() == 4 && name.starts_with("DNF") && name.ends_with(|c: char| c.is_ascii_digit()))
                .then(|| name.clone());
            if let Some(name) = own.or(numbered) {
                vars.0.insert(name, value);
            }
        }
        vars.0.insert("arch".into(), self.arch.into());
        vars.0.insert("basearch".into(), basearch(self.arch).into());
        let release = match &input.options.releasever {
            Some(release) => Some(release.clone()),
            None if vars.0.contains_key("releasever") => None,
            None => self.releasever(&input.root)?,
        };
        if let Some(release) = release {
            let (major, minor) = release.split_once('.').unwrap_or((&release, ""));
            vars.0.insert("releasever_major".into(), major.into());
            vars.0.insert("releasever_minor".into(), minor.into());
            vars.0.insert("releasever".into(), release);
        }
        Ok(vars)
    }

    /// The version of the package that says which system this is; else what os-release says.
    fn releasever(&mut self, root: &Path) -> Result<Option<String>> {
        self.pool.prepare();
        for provide in ["system-release", "redhat-release"] {
            let (found, _) = self.pool.select(provide, Match { provides: true, ..Match::default() })?;
            if let Some(&p) = found.first() {
                return Ok(Some(self.pool.nevra(p).version));
            }
        }
        let texts = ["etc/os-release", "usr/lib/os-release"].map(|f| std::fs::read_to_string(root.join(f)));
        Ok(texts.into_iter().flatten().find_map(|t| version_id(&t)))
    }

    /// What excludepkgs names and includepkgs does not.
    fn left_out(&mut self, repo: Repo, config: &RepoConfig) -> Vec<Package> {
        let mut out = Vec::new();
        if config.exclude.is_empty() && config.include.is_empty() {
            return out;
        }
        let matches = |patterns: &[String], name: &str, p: Package| {
            patterns.iter().any(|pattern| {
                glob_matches(pattern, name)
                    || (pattern.contains(['-', '.']) && {
                        let n = self.pool.nevra(p);
                        let forms = [
                            format!("{}.{}", n.name, n.arch),
                            format!("{}-{}", n.name, n.version),
                            format!("{}-{}-{}", n.name, n.version, n.release),
                            n.to_string(),
                        ];
                        forms.iter().any(|f| glob_matches(pattern, f))
                    })
            })
        };
        for p in self.pool.packages(repo) {
            let name = self.pool.name(p);
            let wanted = config.include.is_empty() || matches(&config.include, &name, p);
            if !wanted || matches(&config.exclude, &name, p) {
                out.push(p);
                self.excluded.insert(name);
            }
        }
        out
    }

    /// Adds the local files of the request.
    fn add_local(&mut self, input: &Input<'_>) -> Result<()> {
        let repo = self.pool.add_repo("@commandline", 0, 0)?;
        for arg in &input.request.install {
            let PackageArg::LocalFile(path) = arg else { continue };
            let p = self.pool.add_rpm(repo, path).map_err(|e| {
                // The innermost error is libsolv's own, which begins with the path.
                let text = printable(e.root_cause().to_string().as_bytes());
                admit::no_package(path, &anyhow!("{}", text.rsplit_once(": ").map_or(&*text, |(_, why)| why)))
            })?;
            if matches!(self.pool.nevra(p).arch.as_str(), "src" | "nosrc") {
                let message = format!("{} is refused: it is a source package", self.pool.nevra(p));
                return Err(Failure::new(Code::Refused, message).into());
            }
            if !self.pool.runs(p) {
                return Err(subject::cannot_run(self, p).into());
            }
            self.local.push((path.clone(), p));
        }
        Ok(())
    }

    /// True for a package of the base.
    pub fn is_base(&self, p: Package) -> bool {
        self.base.contains(&p)
    }

    /// A base package of this name.
    pub fn base_named(&self, name: &str) -> Option<Package> {
        self.base.iter().copied().find(|&p| self.pool.name(p) == name)
    }

    /// True when the package is neither base nor layered.
    pub fn is_new(&self, p: Package) -> bool {
        !self.base.contains(&p) && !self.layered.contains_key(&p)
    }

    /// Every package name that can be installed.
    pub fn names(&self) -> BTreeSet<String> {
        self.repositories.iter().flat_map(|(r, _)| self.pool.packages(*r)).map(|p| self.pool.name(p)).collect()
    }
}

/// What to load.
#[derive(Clone, Copy)]
pub(super) struct How<'a> {
    /// Repositories and local files as well.
    pub repositories: bool,
    /// With file lists.
    pub filelists: bool,
    /// Look at the repositories even if metadata is fresh.
    pub refresh: bool,
    /// Shows and stops.
    pub progress: &'a dyn Progress,
}
