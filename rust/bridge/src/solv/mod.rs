//! libsolv: a [`Pool`] of packages and a [`Solver`] over it. Only RPM's rules live here; what is asked and what an
//! answer means is decided in `engine::resolve`.

mod ffi;

use anyhow::{Result, bail};
use fn_error_context::context;
use std::cmp::Ordering;
use std::ffi::{CStr, CString, c_char, c_int};
use std::marker::PhantomData;
use std::path::Path;
use std::ptr::NonNull;

/// A package in a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Package(c_int);

/// A repository in a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repo(c_int);

/// A capability that some package requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Capability(c_int);

/// What primary metadata says, or the file lists on top of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Names, versions, capabilities and the common files.
    Primary,
    /// Every file.
    Filelists,
}

/// How [`Pool::select`] matches a word.
#[derive(Debug, Clone, Copy, Default)]
pub struct Match {
    /// `*`, `?` and `[…]` are wildcards.
    pub glob: bool,
    /// The word is a file name; only file names are looked at.
    pub files: bool,
    /// Provided capabilities match as well.
    pub provides: bool,
    /// Packages for other machines match as well.
    pub any_arch: bool,
}

/// A task for the solver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Job {
    /// One of these must be installed.
    Install(Vec<Package>),
    /// These should be brought to the newest version.
    Update(Vec<Package>),
    /// These must go.
    Erase(Vec<Package>),
    /// These stay as they are.
    Lock(Vec<Package>),
}

/// Settings of one solver run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules {
    /// Recommended packages come along.
    pub weak_deps: bool,
    /// An installed package may become older.
    pub downgrade: bool,
    /// An installed package may go to make a solution possible.
    pub uninstall: bool,
}

/// What a rule of a problem is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleKind {
    /// The package cannot be installed here (architecture, or left out by configuration).
    NotInstallable,
    /// Nothing provides a capability.
    NothingProvides,
    /// A package requires what another provides.
    Requires,
    /// Two packages conflict.
    Conflicts,
    /// A package obsoletes another.
    Obsoletes,
    /// Two versions of one package.
    SameName,
    /// What was asked for.
    Job,
    /// Anything else.
    Other,
}

/// One reason why there is no solution.
#[derive(Debug, Clone)]
pub struct Rule {
    /// What it is about.
    pub kind: RuleKind,
    /// The package that has the rule.
    pub source: Option<Package>,
    /// The other package.
    pub target: Option<Package>,
    /// The capability, as text.
    pub capability: Option<String>,
    /// The library's own sentence.
    pub text: String,
}

/// A problem is a set of rules that cannot hold together.
pub type Problem = Vec<Rule>;

/// Packages of any number of repositories.
#[derive(Debug)]
pub struct Pool {
    raw: NonNull<ffi::Pool>,
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: `raw` came from transient_pool_new and is freed once.
        unsafe { ffi::transient_pool_free(self.raw.as_ptr()) }
    }
}

fn c_path(path: &Path) -> Result<CString> {
    use std::os::unix::ffi::OsStrExt;
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// Copies a borrowed C string.
///
/// # Safety
/// `text` is NULL or a C string that lives during the call.
unsafe fn copied(text: *const c_char) -> Option<String> {
    // SAFETY: as promised by the caller.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// Takes over a list that the C side allocated.
fn list(call: impl FnOnce(*mut *mut c_int) -> c_int) -> Vec<c_int> {
    let mut raw = std::ptr::null_mut();
    let count = call(&mut raw);
    if raw.is_null() {
        return Vec::new();
    }
    // SAFETY: the C side promises `count` numbers at `raw`, which is freed right after the copy.
    let out = unsafe { std::slice::from_raw_parts(raw, usize::try_from(count).unwrap_or(0)) }.to_vec();
    // SAFETY: as above.
    unsafe { ffi::transient_solv_free(raw.cast()) };
    out
}

fn count(items: &[c_int]) -> c_int {
    c_int::try_from(items.len()).expect("fewer packages than fit into an int")
}

fn ids(packages: &[Package]) -> Vec<c_int> {
    packages.iter().map(|p| p.0).collect()
}

impl Pool {
    /// An empty pool with RPM's rules for one machine architecture.
    ///
    /// # Errors
    /// When `arch` has a NUL.
    pub fn new(arch: &str) -> Result<Pool> {
        let arch = CString::new(arch)?;
        // SAFETY: `arch` is a C string.
        let raw = unsafe { ffi::transient_pool_new(arch.as_ptr()) };
        Ok(Pool { raw: NonNull::new(raw).ok_or_else(|| anyhow::anyhow!("libsolv made no pool"))? })
    }

    fn ptr(&self) -> *mut ffi::Pool {
        self.raw.as_ptr()
    }

    fn checked(&self, result: c_int) -> Result<c_int> {
        if result < 0 {
            // SAFETY: the pool lives; the message is copied at once.
            let message = unsafe { copied(ffi::transient_solv_error(self.ptr())) };
            bail!("{}", message.filter(|m| !m.is_empty()).unwrap_or_else(|| "libsolv gave no reason".into()));
        }
        Ok(result)
    }

    /// An empty repository. A larger `priority` wins, then a larger `subpriority`.
    ///
    /// # Errors
    /// When `name` has a NUL.
    pub fn add_repo(&mut self, name: &str, priority: i32, subpriority: i32) -> Result<Repo> {
        let name = CString::new(name)?;
        // SAFETY: the pool lives; the name is copied by libsolv.
        Ok(Repo(unsafe { ffi::transient_repo_new(self.ptr(), name.as_ptr(), priority, subpriority) }))
    }

    /// Fills `repo` from the rpmdb below `root` and takes it as what is installed.
    ///
    /// # Errors
    /// When the rpmdb cannot be read.
    #[context("Reading the rpmdb below {}", root.display())]
    pub fn add_rpmdb(&mut self, repo: Repo, root: &Path) -> Result<()> {
        let root = c_path(root)?;
        // SAFETY: the pool lives and `root` is a C string.
        self.checked(unsafe { ffi::transient_repo_add_rpmdb(self.ptr(), repo.0, root.as_ptr()) }).map(drop)
    }

    /// Adds one RPM file.
    ///
    /// # Errors
    /// When it is not a readable RPM.
    #[context("Reading {}", path.display())]
    pub fn add_rpm(&mut self, repo: Repo, path: &Path) -> Result<Package> {
        let path = c_path(path)?;
        // SAFETY: the pool lives and `path` is a C string.
        self.checked(unsafe { ffi::transient_repo_add_rpm(self.ptr(), repo.0, path.as_ptr()) }).map(Package)
    }

    /// Adds XML metadata, compressed as its file name says.
    ///
    /// # Errors
    /// When it cannot be read.
    #[context("Reading metadata {}", path.display())]
    pub fn add_rpmmd(&mut self, repo: Repo, path: &Path, part: Part) -> Result<()> {
        let path = c_path(path)?;
        // SAFETY: the pool lives and `path` is a C string.
        let result = unsafe {
            ffi::transient_repo_add_rpmmd(self.ptr(), repo.0, path.as_ptr(), c_int::from(part == Part::Filelists))
        };
        self.checked(result).map(drop)
    }

    /// Adds a file that [`Pool::write_solv`] wrote.
    ///
    /// # Errors
    /// When it cannot be read.
    #[context("Reading metadata cache {}", path.display())]
    pub fn add_solv(&mut self, repo: Repo, path: &Path, part: Part) -> Result<()> {
        let path = c_path(path)?;
        // SAFETY: the pool lives and `path` is a C string.
        let result = unsafe {
            ffi::transient_repo_add_solv(self.ptr(), repo.0, path.as_ptr(), c_int::from(part == Part::Filelists))
        };
        self.checked(result).map(drop)
    }

    /// Writes what was read last from XML, in libsolv's binary form.
    ///
    /// # Errors
    /// When the file cannot be written.
    #[context("Writing metadata cache {}", path.display())]
    pub fn write_solv(&self, repo: Repo, path: &Path, part: Part) -> Result<()> {
        let path = c_path(path)?;
        // SAFETY: the pool lives and `path` is a C string.
        let result = unsafe {
            ffi::transient_repo_write_solv(self.ptr(), repo.0, path.as_ptr(), c_int::from(part == Part::Filelists))
        };
        self.checked(result).map(drop)
    }

    /// The packages of one repository.
    pub fn packages(&self, repo: Repo) -> Vec<Package> {
        // SAFETY: the pool lives and owns `repo`.
        list(|out| unsafe { ffi::transient_repo_solvables(self.ptr(), repo.0, out) }).into_iter().map(Package).collect()
    }

    /// Leaves these packages, and no others, out of every later question. To be called after the last repository was
    /// filled and before [`Pool::prepare`].
    pub fn exclude(&mut self, packages: &[Package]) {
        let ids = ids(packages);
        // SAFETY: the pool lives and owns the packages.
        unsafe { ffi::transient_pool_exclude(self.ptr(), ids.as_ptr(), count(&ids)) }
    }

    /// Indexes what is provided. To be called after the last repository was filled, before the first question.
    pub fn prepare(&mut self) {
        // SAFETY: the pool lives.
        unsafe { ffi::transient_pool_prepare(self.ptr()) }
    }

    /// Package name.
    pub fn name(&self, p: Package) -> String {
        // SAFETY: the pool lives and owns the package; the text is copied.
        unsafe { copied(ffi::transient_solvable_name(self.ptr(), p.0)) }.unwrap_or_default()
    }

    /// `[EPOCH:]VERSION-RELEASE`.
    pub fn evr(&self, p: Package) -> String {
        // SAFETY: the pool lives and owns the package; the text is copied.
        unsafe { copied(ffi::transient_solvable_evr(self.ptr(), p.0)) }.unwrap_or_default()
    }

    /// Architecture.
    pub fn arch(&self, p: Package) -> String {
        // SAFETY: the pool lives and owns the package; the text is copied.
        unsafe { copied(ffi::transient_solvable_arch(self.ptr(), p.0)) }.unwrap_or_default()
    }

    /// The full name.
    pub fn nevra(&self, p: Package) -> model::Nevra {
        let evr = self.evr(p);
        let (epoch, vr) = evr.split_once(':').unwrap_or(("0", &evr));
        let (version, release) = vr.rsplit_once('-').unwrap_or((vr, ""));
        model::Nevra {
            name: self.name(p),
            epoch: epoch.parse().unwrap_or(0),
            version: version.into(),
            release: release.into(),
            arch: self.arch(p),
        }
    }

    /// Where the file is, relative to its repository.
    pub fn location(&self, p: Package) -> Option<String> {
        // SAFETY: the pool lives and owns the package; the text is copied.
        unsafe { copied(ffi::transient_solvable_location(self.ptr(), p.0)) }
    }

    /// `xml:base`, when metadata gives one.
    pub fn base(&self, p: Package) -> Option<String> {
        // SAFETY: the pool lives and owns the package; the text is copied.
        unsafe { copied(ffi::transient_solvable_base(self.ptr(), p.0)) }
    }

    /// Checksum of the package file, by metadata.
    pub fn checksum(&self, p: Package) -> Option<model::Checksum> {
        let mut algorithm = std::ptr::null();
        // SAFETY: the pool lives and owns the package; both texts are copied.
        let (hex, algorithm) = unsafe {
            let hex = copied(ffi::transient_solvable_checksum(self.ptr(), p.0, &mut algorithm));
            (hex, copied(algorithm))
        };
        Some(model::Checksum { algorithm: algorithm?, hex: hex? })
    }

    /// Bytes when installed.
    pub fn installed_bytes(&self, p: Package) -> u64 {
        // SAFETY: the pool lives and owns the package.
        unsafe { ffi::transient_solvable_installsize(self.ptr(), p.0) }
    }

    /// Bytes of the package file.
    pub fn download_bytes(&self, p: Package) -> u64 {
        // SAFETY: the pool lives and owns the package.
        unsafe { ffi::transient_solvable_downloadsize(self.ptr(), p.0) }
    }

    /// The repository that a package is in.
    pub fn repo(&self, p: Package) -> Repo {
        // SAFETY: the pool lives and owns the package.
        Repo(unsafe { ffi::transient_solvable_repo(self.ptr(), p.0) })
    }

    /// True when the machine can run the package.
    pub fn runs(&self, p: Package) -> bool {
        // SAFETY: the pool lives and owns the package.
        unsafe { ffi::transient_solvable_runs(self.ptr(), p.0) != 0 }
    }

    /// What a package requires.
    pub fn requires(&self, p: Package) -> Vec<Capability> {
        self.capabilities(p, false)
    }

    /// What a package recommends.
    pub fn recommends(&self, p: Package) -> Vec<Capability> {
        self.capabilities(p, true)
    }

    fn capabilities(&self, p: Package, recommends: bool) -> Vec<Capability> {
        // SAFETY: the pool lives and owns the package.
        list(|out| unsafe { ffi::transient_solvable_requires(self.ptr(), p.0, c_int::from(recommends), out) })
            .into_iter()
            .map(Capability)
            .collect()
    }

    /// A capability as people write it.
    pub fn capability(&self, c: Capability) -> String {
        // SAFETY: the pool lives and owns the capability; the text is copied.
        unsafe { copied(ffi::transient_dep_string(self.ptr(), c.0)) }.unwrap_or_default()
    }

    /// The packages that provide a capability. [`Pool::prepare`] comes first.
    pub fn providers(&self, c: Capability) -> Vec<Package> {
        // SAFETY: the pool lives, is prepared, and owns the capability.
        list(|out| unsafe { ffi::transient_dep_providers(self.ptr(), c.0, out) }).into_iter().map(Package).collect()
    }

    /// The packages that a word of the user means; the flag is true when a package *name* matched.
    ///
    /// # Errors
    /// When `word` has a NUL.
    pub fn select(&self, word: &str, how: Match) -> Result<(Vec<Package>, bool)> {
        let word = CString::new(word)?;
        let mut matched = 0;
        // SAFETY: the pool lives, and `word` is a C string.
        let found = list(|out| unsafe {
            let flags = ffi::transient_select_flags(
                c_int::from(how.glob),
                c_int::from(how.files),
                c_int::from(how.provides),
                c_int::from(how.any_arch),
            );
            ffi::transient_select(self.ptr(), word.as_ptr(), flags, &mut matched, out)
        });
        // SAFETY: takes nothing.
        let by_name = matched & unsafe { ffi::transient_select_by_name() } != 0;
        Ok((found.into_iter().map(Package).collect(), by_name))
    }

    /// Solves jobs.
    ///
    /// # Errors
    /// None of its own; `Err` of the inner result are the problems.
    pub fn solve(&mut self, jobs: &[Job], rules: Rules) -> std::result::Result<Vec<Package>, Vec<Problem>> {
        let mut flat = Vec::new();
        for job in jobs {
            let (kind, packages) = match job {
                Job::Install(p) => (ffi::INSTALL, p),
                Job::Update(p) => (ffi::UPDATE, p),
                Job::Erase(p) => (ffi::ERASE, p),
                Job::Lock(p) => (ffi::LOCK, p),
            };
            let ids = ids(packages);
            // SAFETY: the pool lives, is prepared, and owns the packages.
            let set = unsafe { ffi::transient_pool_set(self.ptr(), ids.as_ptr(), count(&ids)) };
            flat.extend([kind, set, 0]);
        }
        let solver = Solver::new(self, rules);
        let problems = solver.solve(&flat);
        if problems == 0 { Ok(solver.steps()) } else { Err((1..=problems).map(|n| solver.problem(n)).collect()) }
    }
}

/// One run; borrows its pool so that it cannot outlive it.
#[derive(Debug)]
struct Solver<'a> {
    raw: NonNull<ffi::Solver>,
    pool: PhantomData<&'a Pool>,
}

impl Drop for Solver<'_> {
    fn drop(&mut self) {
        // SAFETY: `raw` came from transient_solver_new, is freed once, and its pool still lives.
        unsafe { ffi::transient_solver_free(self.raw.as_ptr()) }
    }
}

impl<'a> Solver<'a> {
    fn new(pool: &'a Pool, rules: Rules) -> Self {
        // SAFETY: the pool lives as long as the solver.
        let raw = unsafe {
            ffi::transient_solver_new(
                pool.ptr(),
                c_int::from(rules.weak_deps),
                c_int::from(rules.downgrade),
                c_int::from(rules.uninstall),
            )
        };
        Solver { raw: NonNull::new(raw).expect("libsolv aborts when memory is out"), pool: PhantomData }
    }

    fn solve(&self, jobs: &[c_int]) -> c_int {
        // SAFETY: the solver lives; `jobs` are triples.
        unsafe { ffi::transient_solver_solve(self.raw.as_ptr(), jobs.as_ptr(), count(jobs) / 3) }
    }

    fn steps(&self) -> Vec<Package> {
        // SAFETY: the solver lives and has solved.
        list(|out| unsafe { ffi::transient_solver_steps(self.raw.as_ptr(), out) }).into_iter().map(Package).collect()
    }

    fn problem(&self, number: c_int) -> Problem {
        // SAFETY: the solver lives and has `number` problems or more.
        let flat = list(|out| unsafe { ffi::transient_solver_problem(self.raw.as_ptr(), number, out) });
        flat.chunks_exact(5).map(|rule| self.rule(rule)).collect()
    }

    fn rule(&self, rule: &[c_int]) -> Rule {
        let package = |id: c_int| (id > 0).then_some(Package(id));
        // SAFETY: the solver lives and `rule` has the numbers that it gave; the text is copied.
        let text = unsafe { copied(ffi::transient_solver_rule_string(self.raw.as_ptr(), rule.as_ptr())) };
        // SAFETY: as above.
        let capability = (rule[3] != 0)
            .then(|| unsafe { copied(ffi::transient_solver_dep_string(self.raw.as_ptr(), rule[3])) })
            .flatten();
        Rule {
            kind: match rule[4] {
                1 => RuleKind::NotInstallable,
                2 => RuleKind::NothingProvides,
                3 => RuleKind::Requires,
                4 => RuleKind::Conflicts,
                5 => RuleKind::Obsoletes,
                6 => RuleKind::SameName,
                7 => RuleKind::Job,
                _ => RuleKind::Other,
            },
            source: package(rule[1]),
            target: package(rule[2]),
            capability,
            text: text.unwrap_or_default(),
        }
    }
}

/// Compares two `[EPOCH:]VERSION[-RELEASE]` as RPM does.
pub fn evr_compare(a: &str, b: &str) -> Ordering {
    // A NUL cannot be part of a version; what comes after one is not compared.
    let text = |s: &str| CString::new(s.split('\0').next().unwrap_or_default()).unwrap_or_default();
    let (a, b) = (text(a), text(b));
    // SAFETY: both are C strings.
    unsafe { ffi::transient_evr_compare(a.as_ptr(), b.as_ptr()) }.cmp(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_rpm_does() {
        for (a, b, expected) in [
            ("1.0-1", "1.0-1", Ordering::Equal),
            ("1.0-1", "1.0-2", Ordering::Less),
            ("1.10-1", "1.9-1", Ordering::Greater),
            ("1.0~rc1-1", "1.0-1", Ordering::Less),
            ("1.0^git1-1", "1.0-1", Ordering::Greater),
            ("1:0.1-1", "9-1", Ordering::Greater),
            ("0:1-1", "1-1", Ordering::Equal),
        ] {
            assert_eq!(evr_compare(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let mut pool = Pool::new("x86_64").unwrap();
        let repo = pool.add_repo("r", 0, 0).unwrap();
        let error = format!("{:#}", pool.add_solv(repo, Path::new("/nonexistent/x.solv"), Part::Primary).unwrap_err());
        assert!(error.contains("/nonexistent/x.solv") && error.contains("No such file"), "{error}");
    }
}
